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
from typing import Any, TypeAlias

import numpy as np

from holdfast.connectors.jdbc.dialects.values import PAD
from holdfast.model.errors import HoldfastError

Buffer: TypeAlias = bytes | bytearray | memoryview

HEAD_SIZE = 5
WAIT_SECONDS = 0.5
"""How long one wait for the server lasts before the connection is looked at again."""
MOMENT_SECONDS = 0.005
"""A server that says nothing for so long has said all, or is slow: what came is looked at."""
_ROOM = 256 << 10
_HEAD = struct.Struct(">cI")
_LEAST = HEAD_SIZE + 2
"""Bytes of the shortest message: that of a trailer, or of a row without fields."""
_LAST_WORD = b"Z\0\0\0\5"
_MORE = (b"D", b"H", b"W")
"""Behind its message an error may have a detail, a hint, and where it happened."""
_DATA, _ERROR, _READY, _COPY_IN, _DONE = b"d", b"E", b"Z", b"G", b"C"


@dataclass(frozen=True)
class Frames:
    """Whole messages with rows. The first of a stream has COPY's own header in front, the last is its trailer."""

    data: bytes
    """With `PAD` behind them."""
    starts: np.ndarray[Any, Any]
    """Where the content of each begins, behind its head."""

    @property
    def messages(self) -> memoryview:
        return memoryview(self.data)[: len(self.data) - len(PAD)]


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


def write_frames(connection: Any, sql: str, chunks: Iterable[Buffer]) -> int:
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


def _contents(chunk: Buffer) -> Iterator[Buffer]:
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

    def receive(self, into: memoryview, *, for_a_moment: bool = False) -> int:
        """Some bytes, one at least; none only where nothing came for a moment and no more was asked for."""
        while True:
            try:
                size = self._socket.recv_into(into)
            except BlockingIOError:
                if not self._wait(selectors.EVENT_READ, for_a_moment=for_a_moment):
                    return 0
                continue
            if size == 0:
                raise _lost("server closed the connection unexpectedly")
            return size

    def _wait(self, event: int, *, for_a_moment: bool = False) -> bool:
        """Not for long: another thread may have closed the connection."""
        self._selector.modify(self._socket, event)
        found = self._selector.select(MOMENT_SECONDS if for_a_moment else WAIT_SECONDS)
        if self._connection.closed:
            raise _lost("the connection is closed")
        return bool(found) or not for_a_moment


@dataclass
class _Received:
    """What came and was not handed on."""

    buffer: bytearray = field(default_factory=lambda: bytearray(2 * _ROOM))
    size: int = 0
    at: int = 0
    """Up to here there are whole messages with rows."""
    rows: int = 0
    _starts: list[np.ndarray[Any, Any]] = field(default_factory=list)

    def room(self) -> memoryview:
        if len(self.buffer) - self.size < _ROOM:
            self.buffer.extend(bytes(len(self.buffer)))
        return memoryview(self.buffer)[self.size :]

    def is_worth_a_walk(self) -> bool:
        """Much has come, or the server's last word."""
        return self.size - self.at >= _ROOM or self._ends_with_last_word()

    def _ends_with_last_word(self) -> bool:
        return self.buffer[max(self.size - 6, 0) : self.size].startswith(_LAST_WORD)

    def walk(self) -> None:
        """Find the messages that have come whole since the last time."""
        with memoryview(self.buffer) as whole:
            data = whole[: self.size]
            while self._is_row(data):
                starts, self.at = follow_messages(data, self.at)
                if not len(starts):
                    return
                self._starts.append(starts)
                self.rows += len(starts)

    def _is_row(self, data: memoryview) -> bool:
        return self.at + HEAD_SIZE <= self.size and data[self.at] == _DATA[0]

    def is_at_another(self) -> bool:
        """Whether a message without rows stands next."""
        return self.at < self.size and self.buffer[self.at] != _DATA[0]

    def take_rows(self) -> Frames:
        with memoryview(self.buffer) as whole:
            data = b"".join((whole[: self.at], PAD))
        found = Frames(data, np.concatenate(self._starts))
        self._drop(self.at)
        self._starts, self.rows = [], 0
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


def follow_messages(data: Buffer, at: int) -> tuple[np.ndarray[Any, Any], int]:
    """Where the contents of the whole messages from `at` on begin that have as many fields as the first one, and where
    the next message stands. None if the first is not whole.

    Each message says where the next begins, so they would have to be followed one by one. Yet all of one COPY have the
    same number of fields behind their heads: every place that looks like such a head is found at once, and nearly all
    of them are heads. Where one is not, the message before it says which is.
    """
    size = len(data)
    none = np.empty(0, np.int64)
    if size - at < _LEAST:
        return none, at
    _, length = _HEAD.unpack_from(data, at)
    if at + 1 + length > size:
        return none, at
    heads = _look_like(data, at)
    following = heads + 1 + np.ndarray((size - 4,), ">u4", data, strides=(1,))[heads + 1]
    whole = _chain(heads, following)
    whole = whole[: np.searchsorted(following[whole], size, side="right")]
    return heads[whole] + HEAD_SIZE, int(following[whole[-1]])


def _look_like(data: Buffer, at: int) -> Any:
    """Where a head like that at `at` may stand: its letter, and the number of fields behind it."""
    each = np.frombuffer(data, np.uint8)
    high, low = each[at + HEAD_SIZE], each[at + HEAD_SIZE + 1]
    # One byte after the other: numpy compares them sixteen at a time, and few are left for the rest.
    found = np.flatnonzero(each[at + HEAD_SIZE + 1 :] == low) + at
    found = found[each[found] == _DATA[0]]
    return found[each[found + HEAD_SIZE] == high]


def _chain(heads: np.ndarray[Any, Any], following: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Which of them are heads: the first is, and so is whatever one of them is followed by."""
    is_next = np.empty(len(heads), bool)
    is_next[-1] = False
    np.equal(following[:-1], heads[1:], out=is_next[:-1])
    stops = np.flatnonzero(~is_next)
    pieces, first = [], 0
    while True:
        stop = int(stops[np.searchsorted(stops, first)])
        pieces.append(np.arange(first, stop + 1))
        first = int(np.searchsorted(heads, following[stop]))
        if first >= len(heads) or heads[first] != following[stop]:
            return np.concatenate(pieces)


def _read_socket(connection: Any, sql: str, rows_max: int, bytes_max: int) -> Iterator[Frames]:
    received = _Received()
    with _Wire(connection) as wire:
        wire.send(_query(sql))
        is_quiet = False
        while True:
            if is_quiet or received.is_worth_a_walk():
                received.walk()
            is_much = received.at >= bytes_max or received.rows >= rows_max
            if received.rows and (is_much or received.is_at_another()):
                yield received.take_rows()
            another = received.take_another()
            if another is None:
                count = wire.receive(received.room(), for_a_moment=not is_quiet)
                is_quiet = count == 0
                received.size += count
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
    words = [fields.get(b"M", "no reason was given"), *(fields.get(key, "") for key in _MORE)]
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
            yield Frames(b"".join([*pieces, PAD]), np.array(starts))
            pieces, starts, at = [], [], 0
    if starts:
        yield Frames(b"".join([*pieces, PAD]), np.array(starts))


def _next_result(pgconn: Any, selector: Any) -> Any:
    while pgconn.is_busy():
        if selector.select(WAIT_SECONDS):
            pgconn.consume_input()
    return pgconn.get_result()
