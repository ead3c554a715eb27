"""Reads lines of text from a server's socket."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from holdfast.connectors.base import (
    Budget,
    Connector,
    Context,
    Position,
    Probe,
    ReadPlan,
    ReadTask,
    SourceBase,
    TableBatch,
    is_done,
)
from holdfast.connectors.closing import CloseSignal, Pending, start_call
from holdfast.model.errors import Terminal, Transient
from holdfast.model.jobs import JobMode
from holdfast.model.json import JsonObject
from holdfast.model.schema import Column, Table
from holdfast.outside.clock import Clock
from holdfast.spec.options import option

CHUNK_BYTES = 65_536
LINE_BYTES_MAX = 64 * 1024 * 1024
CONNECT_TIMEOUT_S = 30.0
LINES_PER_BATCH_MAX = 65_536
KEEPALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}
"""Asked after so many seconds of silence, then so often, and given up after so many questions."""
_SCHEMA = pa.schema([pa.field("value", pa.string())])


@dataclass(frozen=True)
class Options:
    """What a Socket can be told."""

    host: str = option("The server.", identity=True)
    port: int = option("Its port.", identity=True, minimum=1, maximum=65_535)


class LineTooLong(Terminal):
    """What comes is not made of lines."""

    code = "line-too-long"


class NotConnected(Transient):
    """The server cannot be reached, or has gone."""

    code = "not-connected"


class Lines:
    """An open connection and what came that was not yet taken: a chunk beside the line that has begun, at most."""

    def __init__(self, connection: socket.socket, name: str) -> None:
        self._connection = connection
        self._name = name
        self._begun: list[bytes] = []
        self._begun_size = 0
        self._ready: list[bytes] = []
        self._closing = False
        self.ended = False

    def take(self, lines_max: int, bytes_max: int, wait_ms: float) -> list[bytes]:
        """Some lines, waiting for the first; none when there were none in time."""
        if not self._ready and not self.ended:
            self._receive(wait_ms)
        taken, size = 0, 0
        while taken < min(lines_max, len(self._ready)) and size < bytes_max:
            size += len(self._ready[taken])
            taken += 1
        lines, self._ready = self._ready[:taken], self._ready[taken:]
        return lines

    @property
    def is_empty(self) -> bool:
        return self.ended and not self._ready

    def close(self) -> None:
        """Ends a blocked `take` of another thread, too."""
        self._closing = True
        with suppress(OSError):  # the server may have been first
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()

    def _receive(self, wait_ms: float) -> None:
        self._connection.settimeout(max(wait_ms / 1000, 0.001))
        try:
            chunk = self._connection.recv(CHUNK_BYTES)
        except TimeoutError:
            return
        except OSError as error:
            if not self._closing:
                raise NotConnected(
                    f"Cannot go on reading from {self._name}: the connection broke ({error.strerror or error}). What"
                    " the server had sent and not finished sending is lost; look whether it is up."
                ) from error
            chunk = b""
        if not chunk:
            self.ended = True
            self._ready = [b"".join(self._begun)] if self._begun else []
            return
        self._split(chunk)

    def _split(self, chunk: bytes) -> None:
        """Whole lines are ready; the begun one waits in pieces, which are joined once."""
        first, *others = chunk.split(b"\n")
        if others:
            self._ready = [b"".join([*self._begun, first]), *others[:-1]]
            self._begun, self._begun_size = [], 0
        rest = others[-1] if others else first
        if rest:
            self._begun.append(rest)
            self._begun_size += len(rest)
        if self._begun_size > LINE_BYTES_MAX:
            raise LineTooLong(
                f"Cannot read from {self._name}: {LINE_BYTES_MAX // 1024**2} MB came without a line end."
                " Look whether the server sends lines of text."
            )


class SocketSource(SourceBase):
    """Holds one connection, in the driver."""

    replayable = False

    def __init__(self, options: Options, context: Context) -> None:
        self.bounded = context.mode is JobMode.BATCH
        self._options = options
        self._clock: Clock = context.clock
        self._table = Table(context.name_in_plan or "socket", (Column("value", pa.string()),))
        self._closed = CloseSignal()
        self._lines: Lines | None = None
        self._connecting: Pending[Lines] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """A connection belongs to this process."""
        return {**self.__dict__, "_lines": None, "_connecting": None}

    def tables(self) -> Sequence[Table]:
        return [self._table]

    def start(self) -> Position:
        return {"lines": 0}

    def plan(self, position: Position, budget: Budget) -> ReadPlan | None:
        if is_done(position):
            return ReadPlan((), position, 0)
        return ReadPlan((ReadTask({"lines": _count(position)}, self._table.path),), None)

    def read(self, task: ReadTask, budget: Budget) -> Iterator[TableBatch]:
        deadline_ms = self._clock.elapsed_ms() + budget.duration_ms
        count, rows, size = _count(task.payload), 0, 0
        while rows < budget.rows_max and size < budget.bytes_max and not self._closed.is_set():
            left_ms = deadline_ms - self._clock.elapsed_ms()
            lines = self._open_lines(left_ms)
            if lines is None:
                return
            rows_max = min(budget.rows_max - rows, LINES_PER_BATCH_MAX)
            taken = lines.take(rows_max, budget.bytes_max - size, left_ms)
            rows, size = rows + len(taken), size + sum(map(len, taken))
            ended = lines.is_empty and not self._closed.is_set()
            if taken or ended:
                done = ended and self.bounded
                yield self._batch(
                    taken, {"lines": count + rows, **({"done": True} if done else {})}
                )
            if ended:
                self._hang_up()
            if ended or left_ms <= 0:
                return

    def position_after(self, position: Position, reached: Sequence[JsonObject | None]) -> Position:
        return next((found for found in reversed(reached) if found is not None), position)

    def probe(self, position: Position) -> Probe:
        said = (
            "a socket keeps nothing: lines sent while the job was down are gone; reads what comes"
        )
        return Probe(True, said)

    def describe(self, position: Position) -> str:
        return f"{'done, ' if is_done(position) else ''}{_count(position)} lines read"

    def close(self) -> None:
        self._closed.set()
        if self._connecting is not None:
            self._connecting.answered.set()
        if self._lines is not None:
            self._lines.close()

    def _open_lines(self, wait_ms: float) -> Lines | None:
        """The connection; None when there is none in time. A failed attempt to connect raises."""
        if self._lines is not None:
            return self._lines
        if self._connecting is None:
            self._connecting = start_call(self._connect)
        connecting = self._connecting
        self._clock.wait(max(0.0, wait_ms), connecting.answered)
        if self._closed.is_set() or not connecting.answered.is_set():
            return None
        self._connecting = None
        self._lines = connecting.take()
        return self._lines

    def _connect(self) -> Lines:
        host, port = self._options.host, self._options.port
        try:
            connection = socket.create_connection((host, port), timeout=CONNECT_TIMEOUT_S)
        except OSError as error:
            raise NotConnected(
                f"Cannot connect to {host}:{port}: {error.strerror or error}."
                " Look whether the server is up and listens there."
            ) from error
        _notice_silence(connection)
        return Lines(connection, f"{host}:{port}")

    def _hang_up(self) -> None:
        """The server has closed. A stream connects anew at its next read."""
        if self._lines is not None:
            self._lines.close()
            self._lines = None

    def _batch(self, lines: list[bytes], reached: JsonObject) -> TableBatch:
        texts = [line.removesuffix(b"\r").decode(errors="replace") for line in lines]
        batch = pa.record_batch([pa.array(texts, pa.string())], schema=_SCHEMA)
        return TableBatch(self._table.path, batch, reached)


def _notice_silence(connection: socket.socket) -> None:
    """A server that has vanished, or a network that forgot the connection, ends a read within two minutes: without
    this a stream would wait for lines for ever, and look well.
    """
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _count(position: JsonObject) -> int:
    found = position.get("lines")
    return found if isinstance(found, int) else 0


SOURCE = Connector(
    name="Socket",
    role="source",
    options=Options,
    create=SocketSource,
    doc="""Connects to a server and reads lines of text, one row with the column `value` each. A line ends with a line
feed (a carriage return before it is dropped); bytes that are no UTF-8 are replaced; an empty line is an empty value.

In BATCH it ends when the server closes the connection; in STREAMING it connects again.

**Not replayable**: a socket keeps nothing. Lines that were received and are not in a checkpoint when the job ends by
a failure are lost, and so is what the server sends while nobody is connected. For trying things out, and for data
whose loss does not matter.

One connection, whatever the parallelism. Memory holds one chunk of 64 KB and the epoch's lines; the server is slowed
down while an epoch is written.""",
)
