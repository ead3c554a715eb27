"""A session with a MySQL or MariaDB server: pymysql logs in, and rows go past it in bulk.

Results are read by the binary protocol of prepared statements, whose numbers need no parsing, as whole stretches of
bytes with the places of their rows. LOAD DATA takes its bytes from an iterator instead of a file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pymysql
from pymysql import err
from pymysql.constants import CLIENT, COMMAND, FIELD_TYPE, FLAG
from pymysql.protocol import FieldDescriptorPacket, OKPacketWrapper

from holdfast.connectors.jdbc.dialects.values import PAD

BATCH_BYTES = 2 << 20
RECEIVE_BYTES = 1 << 18
LOAD_BYTES = 1 << 20
BINARY_CHARSET = 63
_PACKET_MAX = 0xFFFFFF
_ERROR, _END = 0xFF, 0xFE
_SERVER_LOST = 2013
_CLOSE_STATEMENT = 0x19


@dataclass(frozen=True, slots=True)
class WireColumn:
    """How one column of a result comes over the wire."""

    name: str
    code: int
    length: int
    scale: int
    flags: int
    charset: int

    @property
    def unsigned(self) -> bool:
        return bool(self.flags & FLAG.UNSIGNED)

    @property
    def nullable(self) -> bool:
        return not self.flags & FLAG.NOT_NULL

    @property
    def is_binary(self) -> bool:
        return self.charset == BINARY_CHARSET


@dataclass(frozen=True, slots=True)
class Stretch:
    """The bytes of many rows, and where each row begins."""

    buffer: bytes
    starts: list[int]


@dataclass(frozen=True, slots=True)
class Loaded:
    """What LOAD DATA did."""

    rows: int
    warnings: int
    said: str


@dataclass
class Session:
    """A connection in autocommit, with what was asked about the server once."""

    raw: Any
    bools: bool = True
    """Whether `tinyint(1)` is a boolean."""
    zero_dates_as_null: bool = False
    can_load: bool = True
    """Whether the server takes LOAD DATA LOCAL."""
    packet_max: int = 1 << 20
    locks: list[str] = field(default_factory=list)
    """Held until the transaction ends."""

    def close(self) -> None:
        """End it, whatever state it is in."""
        try:
            self.raw.close()
        except err.Error:
            self.raw._force_close()

    def query(self, sql: str | bytes) -> tuple[int, list[tuple[Any, ...]]]:
        """Run one statement: how many rows it touched, and those it gave."""
        with self.raw.cursor() as cursor:
            touched = cursor.execute(sql)
            return int(touched), list(cursor.fetchall()) if cursor.description else []

    def columns_of(self, sql: str) -> list[WireColumn]:
        """The shape of a query's result; nothing is run."""
        statement, columns = self._prepare(sql)
        self._close_statement(statement)
        return columns

    def read(self, sql: str, rows_max: int) -> tuple[list[WireColumn], Iterator[Stretch]]:
        """The result of a query. The session is of use again when all of it was taken."""
        statement, _ = self._prepare(sql)
        self.raw._execute_command(COMMAND.COM_STMT_EXECUTE, struct.pack("<IBI", statement, 0, 1))
        count = self.raw._read_packet().read_length_encoded_integer()
        return self._column_packets(count), self._stretches(statement, rows_max)

    def load(self, sql: str, chunks: Iterator[memoryview]) -> Loaded:
        """LOAD DATA LOCAL from bytes. If they fail to come, the session ends and the server undoes the statement."""
        self.raw._execute_command(COMMAND.COM_QUERY, sql)
        packet = self.raw._read_packet()
        assert packet.is_load_local_packet(), "the server asked for the bytes"
        step = max(1 << 10, min(LOAD_BYTES, self.packet_max - (1 << 10)))
        try:
            for chunk in chunks:
                for low in range(0, len(chunk), step):
                    self.raw.write_packet(bytes(chunk[low : low + step]))
        except BaseException:
            self.raw._force_close()
            raise
        self.raw.write_packet(b"")
        done = OKPacketWrapper(self.raw._read_packet())
        said = bytes(done.message).decode("utf-8", "replace")
        return Loaded(int(done.affected_rows), int(done.warning_count), said)

    def _prepare(self, sql: str) -> tuple[int, list[WireColumn]]:
        self.raw._execute_command(COMMAND.COM_STMT_PREPARE, sql)
        _, statement, columns_count, marks_count = self.raw._read_packet().read_struct("<BIHH")
        self._column_packets(marks_count)
        return int(statement), self._column_packets(columns_count)

    def _close_statement(self, statement: int) -> None:
        """The server does not answer to it."""
        self.raw._execute_command(_CLOSE_STATEMENT, struct.pack("<I", statement))

    def _column_packets(self, count: int) -> list[WireColumn]:
        if not count:
            return []
        packets = [self.raw._read_packet(FieldDescriptorPacket) for _ in range(count)]
        self.raw._read_packet()
        return [
            WireColumn(p.name, p.type_code, p.length, p.scale, p.flags, p.charsetnr)
            for p in packets
        ]

    def _stretches(self, statement: int, rows_max: int) -> Iterator[Stretch]:
        incoming = bytearray()
        starts: list[int] = []
        at, ended = 0, False
        while not ended:
            incoming += self._receive()
            at = _walk(incoming, at, starts)
            ended = bool(starts) and at == len(incoming) and _is_last(incoming, starts[-1])
            if ended:
                self._end(bytes(incoming[starts.pop() :]))
            if starts and (ended or at >= BATCH_BYTES or len(starts) >= rows_max):
                yield Stretch(bytes(incoming[:at]) + PAD, starts)
                incoming, starts, at = incoming[at:], [], 0
        self._close_statement(statement)

    def _receive(self) -> bytes:
        try:
            found: bytes = self.raw._rfile.read1(RECEIVE_BYTES)
        except (OSError, ValueError) as error:
            self.raw._force_close()
            raise err.OperationalError(_SERVER_LOST, f"the connection was lost: {error}") from error
        if not found:
            self.raw._force_close()
            raise err.OperationalError(_SERVER_LOST, "the server closed the connection")
        return found

    def _end(self, packet: bytes) -> None:
        if packet[0] == _ERROR:
            err.raise_mysql_exception(packet)


def _walk(incoming: bytearray, at: int, starts: list[int]) -> int:
    """Note where each whole packet begins; where the first one begins that is not whole yet."""
    header = struct.Struct("<I").unpack_from
    end = len(incoming)
    while at + 4 <= end:
        size = header(incoming, at)[0] & _PACKET_MAX
        if size == _PACKET_MAX:
            joined = _join_parts(incoming, at)
            if joined is None:
                return at
            size, end = joined, len(incoming)
        following = at + 4 + size
        if following > end:
            return at
        starts.append(at + 4)
        at = following
    return at


def _join_parts(incoming: bytearray, at: int) -> int | None:
    """A row of 16 MB and more comes in parts: take out the headers between them, when all are there."""
    inner = []
    size, header = 0, at
    while True:
        if header + 4 > len(incoming):
            return None
        part = int.from_bytes(incoming[header : header + 3], "little")
        size += part
        header += 4 + part
        if header > len(incoming):
            return None
        if part < _PACKET_MAX:
            break
        inner.append(header)
    for place in reversed(inner):
        del incoming[place : place + 4]
    return size


def _is_last(incoming: bytearray, start: int) -> bool:
    """A row begins with 0; an error and the end of the result do not."""
    return incoming[start] in (_ERROR, _END)


def log_in(**settings: Any) -> Session:
    """An open session. Rows that a statement finds count as touched, changed or not."""
    raw = pymysql.connect(
        autocommit=True,
        local_infile=True,
        charset="utf8mb4",
        client_flag=CLIENT.FOUND_ROWS,
        **settings,
    )
    return Session(raw)


__all__ = ["FIELD_TYPE", "FLAG", "Session", "Stretch", "WireColumn", "log_in"]
