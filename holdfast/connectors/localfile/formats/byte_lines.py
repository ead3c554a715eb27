"""Bytes of a text file by lines: a file in pieces that meet at line borders, blocks of whole lines, a header apart."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.connectors.localfile.formats.contract import BLOCK_BYTES, ByteStream, Piece

_BOM = b"\xef\xbb\xbf"


class LineBytes:
    """A readable stream over one piece. A line belongs to the piece that holds its first byte."""

    def __init__(self, stream: ByteStream, piece: Piece, line_end: bytes = b"\n") -> None:
        self._stream = stream
        self._line_end = line_end
        self._held = b""
        self._at = piece.start
        """The place in the file of the first held byte."""
        self._until = piece.until
        self._end: int | None = None
        """Where the piece ends, once the line end there was seen."""
        self._drained = False
        self.closed = False
        if piece.start:
            self._at = max(0, piece.start - len(line_end))
            stream.seek(self._at)
            self.skip_line()
        elif self._peek(len(_BOM)) == _BOM:
            self._take(len(_BOM))

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes of this piece; none at its end."""
        if size < 0:
            return b"".join(iter(lambda: self.read(BLOCK_BYTES), b""))
        self._fill(size)
        return self._take(min(size, self._left()))

    def read_line(self) -> bytes:
        """The next line with its end; empty at the end of the piece."""
        if self.is_empty():
            return b""
        looked = 0
        while True:
            found = self._held.find(self._line_end, looked)
            if found >= 0:
                return self._take(found + len(self._line_end))
            looked = max(0, len(self._held) - len(self._line_end))
            if not self._more():
                return self._take(len(self._held))

    def skip_line(self) -> None:
        self.read_line()

    def is_empty(self) -> bool:
        return not self._peek(1) or self._left() == 0

    def close(self) -> None:
        self.closed = True

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def _peek(self, size: int) -> bytes:
        self._fill(size)
        return self._held[:size]

    def _fill(self, size: int) -> None:
        while len(self._held) < size and self._more():
            pass

    def _more(self) -> bool:
        if self._drained:
            return False
        found = self._stream.read(BLOCK_BYTES)
        self._drained = not found
        self._held = self._held + found if self._held else found
        return bool(found)

    def _left(self) -> int:
        """How many of the held bytes belong to this piece: up to the end of the line that begins before `until`."""
        if self._until is None:
            return len(self._held)
        while self._end is None:
            if self._at >= self._until:
                return 0
            last = self._until - len(self._line_end) - self._at
            if last >= len(self._held) and self._held:
                return len(self._held)
            found = self._held.find(self._line_end, max(0, last))
            if found >= 0:
                self._end = self._at + found + len(self._line_end)
            elif not self._more():
                self._end = self._at + len(self._held)
        return min(len(self._held), self._end - self._at)

    def _take(self, size: int) -> bytes:
        taken, self._held = self._held[:size], self._held[size:]
        self._at += len(taken)
        return taken


def line_blocks(lines: LineBytes, line_end: bytes = b"\n") -> Iterator[bytes]:
    """Blocks of whole lines, of about BLOCK_BYTES; the last one may lack its line end."""
    held = b""
    while True:
        found = lines.read(BLOCK_BYTES)
        if not found:
            break
        held += found
        end = held.rfind(line_end)
        if end >= 0:
            end += len(line_end)
            yield held[:end]
            held = held[end:]
    if held:
        yield held
