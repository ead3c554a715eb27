"""The stream of a PostgreSQL COPY: whole messages, many at a time, each behind its head of five bytes.

libpq hands out one message after the other, and in Python this takes most of the time of a read. Where nothing encrypts
the connection we read and write its socket ourselves: between two statements libpq holds nothing back, so the stream is
whole, and a connection whose stream was not read to its end is closed. A stream that is read from one server can be
written to another as it is.
"""

from __future__ import annotations

import os
import selectors
import socket
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from holdfast.model.errors import HoldfastError

HEAD_SIZE = 5
WAIT_SECONDS = 0.5
"""How long one wait for the server lasts before the connection is looked at again."""
_ROOM = 256 << 10
_HEAD = struct.Struct(">cI")
_DATA, _ERROR, _READY, _COPY_IN, _DONE = b"d", b"E", b"Z", b"G", b"C"


@dataclass(frozen=True)
class Frames:
    """Whole messages with rows. The first of a stream has COPY's own header in front, the last is its trailer."""

    data: bytes
    starts: list[int]
    """Where the content of each begins, behind its head."""


def copied(connection: Any, sql: str, *, rows_max: int, bytes_max: int) -> Iterator[Frames]:
    """What COPY TO STDOUT sends. The connection is closed if it is not read to the end."""
    read = _read_socket if _is_plain(connection) else _read_libpq
    ended = False
    try:
        yield from read(connection, f"COPY ({sql}) TO STDOUT (FORMAT binary)", rows_max, bytes_max)
        ended = True
    finally:
        if not ended:
            connection.close()


def write_frames(connection: Any, sql: str, chunks: Iterable[bytes]) -> int:
    """Run COPY FROM STDIN with chunks of whole messages; how many rows came."""
    statement = f"{sql} FROM STDIN (FORMAT binary)"
    if _is_plain(connection):
        return _write_socket(connection, statement, chunks)
    return _write_libpq(connection, statement, (c for chunk in chunks for c in _contents(chunk)))


def write_contents(connection: Any, sql: str, contents: Iterable[Any], *, form: str) -> int:
    """The same with what is yet without messages, in buffers that may end anywhere within a row."""
    statement = f"{sql} FROM STDIN (FORMAT {form})"
    if _is_plain(connection):
        return _write_socket(connection, statement, _messages_of(contents))
    return _write_libpq(connection, statement, map(memoryview, contents))


def _messages_of(contents: Iterable[Any]) -> Iterator[Any]:
    for content in contents:
        whole = memoryview(content)
        for low in range(0, len(whole), _ROOM):
            piece = whole[low : low + _ROOM]
            yield _HEAD.pack(_DATA, len(piece) + 4)
            yield piece


def _is_plain(connection: Any) -> bool:
    """We ask for no encryption by GSSAPI where the job does not."""
    if connection.pgconn.ssl_in_use:
        return False
    settings = {option.keyword: option.val for option in connection.pgconn.info}
    return bool(settings.get(b"gssencmode") == b"disable")


def _contents(chunk: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(chunk):
        _, size = _HEAD.unpack_from(chunk, at)
        yield chunk[at + HEAD_SIZE : at + 1 + size]
        at += 1 + size


# ---------------------------------------------------------------------------------------------- the socket


class _Wire:
    """The socket of a connection, which stays libpq's: it does not block, and is not closed here."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._socket = socket.socket(fileno=os.dup(connection.pgconn.socket))
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._socket, selectors.EVENT_READ)

    def __enter__(self) -> _Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self._selector.close()
        self._socket.close()

    def send(self, data: bytes) -> None:
        left = memoryview(data)
        while len(left):
            try:
                left = left[self._socket.send(left) :]
            except BlockingIOError:
                self._wait(selectors.EVENT_WRITE)

    def receive(self, into: memoryview) -> int:
        """Some bytes, one at least."""
        while True:
            try:
                size = self._socket.recv_into(into)
            except BlockingIOError:
                self._wait(selectors.EVENT_READ)
                continue
            if size == 0:
                raise _lost("server closed the connection unexpectedly")
            return size

    def _wait(self, event: int) -> None:
        """Not for long: another thread may have closed the connection."""
        self._selector.modify(self._socket, event)
        self._selector.select(WAIT_SECONDS)
        if self._connection.closed:
            raise _lost("the connection is closed")


@dataclass
class _Received:
    """What came and was not handed on."""

    buffer: bytearray = field(default_factory=lambda: bytearray(2 * _ROOM))
    size: int = 0
    at: int = 0
    """Up to here there are whole messages with rows."""
    starts: list[int] = field(default_factory=list)

    def room(self) -> memoryview:
        if len(self.buffer) - self.size < _ROOM:
            self.buffer.extend(bytes(len(self.buffer)))
        return memoryview(self.buffer)[self.size :]

    def walk(self) -> None:
        """Find the messages that have come whole since the last time: the one loop over rows."""
        buffer, at, size = self.buffer, self.at, self.size
        unpack, found = _HEAD.unpack_from, self.starts.append
        while at + HEAD_SIZE <= size:
            kind, length = unpack(buffer, at)
            if kind != _DATA or at + 1 + length > size:
                break
            found(at + HEAD_SIZE)
            at += 1 + length
        self.at = at

    def is_at_another(self) -> bool:
        """Whether a message without rows stands next."""
        return self.at < self.size and self.buffer[self.at : self.at + 1] != _DATA

    def take_rows(self) -> Frames:
        found = Frames(bytes(memoryview(self.buffer)[: self.at]), self.starts)
        self._drop(self.at)
        self.starts = []
        return found

    def take_another(self) -> tuple[bytes, bytes] | None:
        """A message without rows, once it is whole and the rows before it are taken."""
        if self.at or not self.is_at_another() or self.size < HEAD_SIZE:
            return None
        kind, length = _HEAD.unpack_from(self.buffer)
        if 1 + length > self.size:
            return None
        content = bytes(self.buffer[HEAD_SIZE : 1 + length])
        self._drop(1 + length)
        return kind, content

    def _drop(self, count: int) -> None:
        self.buffer[: self.size - count] = self.buffer[count : self.size]
        self.size -= count
        self.at = 0


def _read_socket(connection: Any, sql: str, rows_max: int, bytes_max: int) -> Iterator[Frames]:
    received = _Received()
    with _Wire(connection) as wire:
        wire.send(_query(sql))
        while True:
            received.walk()
            is_much = received.at >= bytes_max or len(received.starts) >= rows_max
            if received.starts and (is_much or received.is_at_another()):
                yield received.take_rows()
            another = received.take_another()
            if another is None:
                received.size += wire.receive(received.room())
            elif another[0] == _ERROR:
                raise _error_of(another[1])
            elif another[0] == _READY:
                return


def _write_socket(connection: Any, sql: str, chunks: Iterable[Any]) -> int:
    """The server says what went wrong only when all is sent, and drops the rest itself."""
    received = _Received()
    is_heard = False
    try:
        with _Wire(connection) as wire:
            wire.send(_query(sql))
            _hear(wire, received, _COPY_IN)
            try:
                for chunk in chunks:
                    wire.send(chunk)
            except HoldfastError:
                wire.send(_HEAD.pack(b"f", 5) + b"\0")
                _hear(wire, received, _READY)
                is_heard = True
                raise
            wire.send(_HEAD.pack(b"c", 4))
            done = _hear(wire, received, _DONE)
            _hear(wire, received, _READY)
            is_heard = True
    finally:
        if not is_heard:
            connection.close()
    return int(done.rstrip(b"\0").split()[-1])


def _hear(wire: _Wire, received: _Received, awaited: bytes) -> bytes:
    """Up to the awaited message. An error instead of it is raised; when all is over, there is nothing to raise."""
    while True:
        another = received.take_another()
        if another is None:
            received.size += wire.receive(received.room())
        elif another[0] == awaited:
            return another[1]
        elif another[0] == _ERROR and awaited != _READY:
            raise _error_of(another[1])


def _query(sql: str) -> bytes:
    text = sql.encode() + b"\0"
    return _HEAD.pack(b"Q", len(text) + 4) + text


def _error_of(content: bytes) -> Exception:
    """As psycopg would raise it: by its code."""
    import psycopg

    fields = {part[:1]: part[1:].decode(errors="replace") for part in content.split(b"\0") if part}
    state = fields.get(b"C", "XX000")
    words = [fields.get(b"M", "no reason was given"), fields.get(b"D", ""), fields.get(b"H", "")]
    try:
        kind: type[psycopg.Error] = psycopg.errors.lookup(state)
    except KeyError:
        kind = type("Error", (psycopg.DatabaseError,), {"sqlstate": state})
    return kind("\n".join(word for word in words if word))


def _lost(said: str) -> Exception:
    import psycopg

    return psycopg.OperationalError(said)


# ------------------------------------------------------------------------------------------ through libpq


def _read_libpq(connection: Any, sql: str, rows_max: int, bytes_max: int) -> Iterator[Frames]:
    import psycopg
    from psycopg.pq import ExecStatus

    pgconn = connection.pgconn
    pgconn.send_query(sql.encode())
    with selectors.DefaultSelector() as selector:
        selector.register(pgconn.socket, selectors.EVENT_READ)
        while pgconn.flush():
            selector.select(WAIT_SECONDS)
        result = _next_result(pgconn, selector)
        if result is None or result.status != ExecStatus.COPY_OUT:
            raise psycopg.errors.error_from_result(result)
        yield from _framed(_messages(pgconn, selector), rows_max, bytes_max)
        result = _next_result(pgconn, selector)
        if result is None or result.status != ExecStatus.COMMAND_OK:
            raise psycopg.errors.error_from_result(result)
        while _next_result(pgconn, selector) is not None:
            pass


def _messages(pgconn: Any, selector: Any) -> Iterator[Any]:
    while True:
        size, message = pgconn.get_copy_data(1)
        if size > 0:
            yield message
        elif size < 0:
            return
        elif selector.select(WAIT_SECONDS):
            pgconn.consume_input()


def _write_libpq(connection: Any, sql: str, contents: Iterable[Any]) -> int:
    with connection.cursor() as cursor:
        with cursor.copy(sql.encode()) as copy:
            for content in contents:
                copy.write(content)
        return int(cursor.rowcount)


def _framed(messages: Iterator[Any], rows_max: int, bytes_max: int) -> Iterator[Frames]:
    pieces: list[Any] = []
    starts: list[int] = []
    at = 0
    for message in messages:
        pieces += (_HEAD.pack(_DATA, len(message) + 4), message)
        starts.append(at + HEAD_SIZE)
        at += HEAD_SIZE + len(message)
        if at >= bytes_max or len(starts) >= rows_max:
            yield Frames(b"".join(pieces), starts)
            pieces, starts, at = [], [], 0
    if starts:
        yield Frames(b"".join(pieces), starts)


def _next_result(pgconn: Any, selector: Any) -> Any:
    while pgconn.is_busy():
        if selector.select(WAIT_SECONDS):
            pgconn.consume_input()
    return pgconn.get_result()
