"""A model source that is a transaction log: what CDC and queues demand of the contract, without a server.

The log is a file, so that other processes may write and read it. A position is known only after the read, a budget
never tears a transaction, `ack` lets the log purge what lies before, a purged position is gone, and a poll of a quiet
log hangs until there is news, the budget's time is up or `close` is called.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

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
from holdfast.model.errors import PositionGone
from holdfast.model.json import JsonObject
from holdfast.model.schema import KIND_COLUMN, Column, RowKind, Table
from holdfast.outside.clock import Clock
from holdfast.spec.options import option

POLL_MS = 20.0
"""How often a hanging poll looks at the file."""


@dataclass(frozen=True, slots=True)
class LogRow:
    """One change of one row."""

    table: str
    kind: RowKind
    id: int
    text: str


Transaction = Sequence[LogRow]


class ModelLog:
    """The file: one line for each transaction, and beside it how much of its head was purged."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._purged = path.with_name(f"{path.name}.purged")

    def append(self, transaction: Transaction) -> None:
        rows = [[row.table, row.kind.value, row.id, row.text] for row in transaction]
        with open(self.path, "ab") as file:
            file.write(json.dumps(rows).encode() + b"\n")

    def read_from(self, at: int) -> Iterator[tuple[Transaction, int]]:
        """Whole transactions from byte `at`, each with where the next one begins."""
        if not self.path.exists():
            return
        with open(self.path, "rb") as file:
            file.seek(at)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                at += len(line)
                found = json.loads(line)
                yield [LogRow(t, RowKind(kind), id_, text) for t, kind, id_, text in found], at

    def end(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    def rows(self) -> list[LogRow]:
        """Every row that was ever written, purged or not: what sinks are compared with."""
        return [row for transaction, _ in self.read_from(0) for row in transaction]

    def first(self) -> int:
        """What lies before this byte was purged."""
        return int(self._purged.read_text()) if self._purged.exists() else 0

    def purge(self, before: int) -> None:
        if before > self.first():
            written = self._purged.with_name(f"{self._purged.name}.{os.getpid()}")
            written.write_text(str(before))
            os.replace(written, self._purged)


@dataclass(frozen=True)
class LogOptions:
    """Of the model log."""

    path: str = option("The log's file.", identity=True)
    tables: list[str] = option("The tables it has.", default=["a", "b"])
    bounded: bool = option("End at what is there at the start.", default=False)
    long_poll: bool = option("Hang in a read while there is nothing.", default=False)
    ack_purges: bool = option("Purge what was acked.", default=True)


class LogSource(SourceBase):
    """Reads a `ModelLog`."""

    replayable = True
    emits_kinds = True

    def __init__(self, options: LogOptions, clock: Clock) -> None:
        self.bounded = options.bounded
        self.options = options
        self.log = ModelLog(Path(options.path))
        self.on_ack: Callable[[Position], None] | None = None
        """Told of every ack, in the process that made this object: for a test to judge it."""
        self._clock = clock
        self._closing = threading.Event()

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "on_ack": None, "_closing": None}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update({**state, "_closing": threading.Event()})

    def tables(self) -> Sequence[Table]:
        return [log_table(name) for name in self.options.tables]

    def start(self) -> Position:
        return self._position(self.log.first(), self.log.end() if self.bounded else None)

    def latest(self) -> Position:
        return self._position(self.log.end(), self.log.end() if self.bounded else None)

    def plan(self, position: Position, budget: Budget) -> ReadPlan | None:
        if is_done(position):
            return ReadPlan((), position)
        at, until = _read_position(position)
        if until is not None and at >= until:
            return ReadPlan((), self._position(at, until))
        self._check_kept(at)
        if at >= self.log.end() and not self.options.long_poll:
            return None
        return ReadPlan((ReadTask({"at": at, "until": until}),), end=None)

    def read(self, task: ReadTask, budget: Budget) -> Iterator[TableBatch]:
        at, until = _read_position(task.payload)
        deadline_ms = self._clock.elapsed_ms() + budget.duration_ms
        self._check_kept(at)
        self._wait_for_news(at, deadline_ms)
        rows_read = bytes_read = 0
        for transaction, next_at in self.log.read_from(at):
            if until is not None and next_at > until:
                return
            batches = transaction_batches(transaction, {"at": next_at})
            yield from batches
            rows_read += len(transaction)
            bytes_read += sum(found.batch.nbytes for found in batches)
            if rows_read >= budget.rows_max or bytes_read >= budget.bytes_max:
                return
            if self._clock.elapsed_ms() >= deadline_ms:
                return

    def position_after(self, position: Position, reached: Sequence[JsonObject | None]) -> Position:
        at, until = _read_position(position)
        known = [_read_position(found)[0] for found in reached if found is not None]
        return self._position(known[-1] if known else at, until)

    def probe(self, position: Position) -> Probe:
        at, _ = _read_position(position)
        first = self.log.first()
        if at < first and not is_done(position):
            return Probe(False, f"the log begins at byte {first} and the position is at {at}")
        return Probe(True, f"the log has {self.log.end() - at} bytes after the position")

    def describe(self, position: Position) -> str:
        at, _ = _read_position(position)
        return f"byte {at} of the log" + (", done" if is_done(position) else "")

    def ack(self, position: Position) -> None:
        if self.on_ack is not None:
            self.on_ack(position)
        if self.options.ack_purges:
            self.log.purge(_read_position(position)[0])

    def close(self) -> None:
        self._closing.set()

    def _wait_for_news(self, at: int, deadline_ms: float) -> None:
        while self.options.long_poll and at >= self.log.end():
            remaining_ms = deadline_ms - self._clock.elapsed_ms()
            if remaining_ms <= 0 or self._clock.wait(min(POLL_MS, remaining_ms), self._closing):
                return

    def _check_kept(self, at: int) -> None:
        first = self.log.first()
        if at < first:
            raise PositionGone(
                f"Cannot read the log {self.log.path} from byte {at}: it was purged up to byte"
                f" {first}. Restore with on-missing = fresh or latest."
            )

    def _position(self, at: int, until: int | None) -> Position:
        if until is None:
            return {"at": at}
        found: Position = {"at": at, "until": until}
        if at >= until:
            found["done"] = True
        return found


def _read_position(found: JsonObject) -> tuple[int, int | None]:
    at, until = found["at"], found.get("until")
    assert isinstance(at, int)
    assert until is None or isinstance(until, int)
    return at, until


def log_table(name: str) -> Table:
    """The shape that all model tables have."""
    columns = (Column("id", pa.int64(), nullable=False), Column("text", pa.string()))
    return Table(name, columns, primary_key=("id",))


def transaction_batches(transaction: Transaction, reached: JsonObject) -> list[TableBatch]:
    """Runs of rows of one table, in order; only the last one says `reached`: before it, all would be torn."""
    batches = []
    for table, rows in groupby(transaction, key=lambda row: row.table):
        listed = list(rows)
        columns = {
            "id": pa.array([row.id for row in listed], pa.int64()),
            "text": pa.array([row.text for row in listed], pa.string()),
            KIND_COLUMN: pa.array([row.kind.value for row in listed], pa.int8()),
        }
        batches.append((table, pa.record_batch(columns)))
    last = len(batches) - 1
    return [
        TableBatch(table, batch, reached if index == last else None)
        for index, (table, batch) in enumerate(batches)
    ]


def _create(options: LogOptions, context: Context) -> LogSource:
    return LogSource(options, context.clock)


SOURCE = Connector(
    name="ModelLog",
    role="source",
    options=LogOptions,
    create=_create,
    doc="A transaction log in a file. For tests of the engine and as an example for connectors of logs.",
)
