"""Reads made rows: plans ranges of row numbers, and makes them where they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from holdfast.connectors.base import (
    Budget,
    Context,
    Position,
    Probe,
    ReadPlan,
    ReadTask,
    SourceBase,
    TableBatch,
    is_done,
)
from holdfast.connectors.fake.generate import Place, make_column
from holdfast.connectors.fake.options import Options, TableOptions
from holdfast.connectors.fake.schema import FakeSchema
from holdfast.connectors.json_columns import batch_of
from holdfast.model.jobs import JobMode
from holdfast.model.json import Json, JsonObject
from holdfast.model.schema import KIND_COLUMN, RowKind, Table

BATCH_ROWS_MAX = 65_536
BATCH_BYTES_MAX = 16 * 1024 * 1024
TASK_ROWS_MIN = 65_536
"""A task of fewer rows costs more to send out than to do."""
STREAM_INTERVAL_MS = 1_000
_SAMPLE_ROWS = 32


@dataclass(frozen=True, slots=True)
class FakeTable:
    """One table: its rows have numbers from 0 on, and splits are ranges of those numbers."""

    table: Table
    options: TableOptions
    rows_per_reader: int
    split_rows: int
    readers: int
    interval_ms: int

    @property
    def splits_per_reader(self) -> int:
        return -(-self.rows_per_reader // self.split_rows) if self.rows_per_reader else 0

    @property
    def rows_total(self) -> int:
        """Of one round: all, in batch."""
        return self.rows_per_reader * self.readers

    @property
    def splits_total(self) -> int:
        return self.splits_per_reader * self.readers

    def row_at(self, split: int, row: int) -> int:
        """The number of a row, from its place in a split."""
        if not self.rows_per_reader:
            return 0
        reader, own = divmod(split, self.splits_per_reader)
        return reader * self.rows_per_reader + own * self.split_rows + row

    def place_of(self, number: int) -> tuple[int, int]:
        """Split and row of the row with this number; the split behind, at a split's end."""
        if not self.rows_per_reader:
            return 0, 0
        reader, within = divmod(number, self.rows_per_reader)
        own, row = divmod(within, self.split_rows)
        return reader * self.splits_per_reader + own, row


class FakeSource(SourceBase):
    """Makes rows. Keeps nothing but the pace at which splits come due."""

    replayable = True

    def __init__(self, options: Options, context: Context) -> None:
        self.bounded = context.mode is JobMode.BATCH
        self._clock = context.clock
        self._prefix = context.location
        made = [_table_from(table, context) for table in options.each_table()]
        self._tables = {table.table.path: table for table in made}
        self.emits_kinds = any(_has_kinds(table.options) for table in made)
        self._row_bytes: dict[str, int] = {}
        self._released: dict[str, int] = {}
        self._next_release_ms: dict[str, float] = {}

    def tables(self) -> Sequence[Table]:
        return [table.table for table in self._tables.values()]

    def start(self) -> Position:
        return {"tables": {path: {"split": 0, "row": 0} for path in self._tables}}

    def latest(self) -> Position:
        """A batch has everything there at once; of a stream nothing is there yet."""
        if not self.bounded:
            return self.start()
        return self._position({path: table.rows_total for path, table in self._tables.items()})

    def plan(self, position: Position, budget: Budget) -> ReadPlan | None:
        reached = self._numbers(position)
        waiting = {path: self._waiting(path, at) for path, at in reached.items()}
        taken = self._take(reached, {path: n for path, n in waiting.items() if n}, budget)
        tasks: list[ReadTask] = []
        for path, rows in taken.items():
            tasks += _tasks(path, reached[path], rows, budget.tasks_max // max(1, len(taken)))
        if not tasks and not self._is_finished(reached):
            return None
        end = {path: at + taken.get(path, 0) for path, at in reached.items()}
        return ReadPlan(tuple(tasks), self._position(end), sum(taken.values()))

    def read(self, task: ReadTask, budget: Budget) -> Iterator[TableBatch]:
        path, at, rows = _task_range(task)
        table = self._tables[path]
        step = max(1, min(BATCH_ROWS_MAX, BATCH_BYTES_MAX // self._bytes_of(table)))
        for start in range(at, at + rows, step):
            yield TableBatch(path, self._make(table, start, min(step, at + rows - start)))

    def probe(self, position: Position) -> Probe:
        kept = position.get("tables")
        gone = sorted(set(kept) - set(self._tables)) if isinstance(kept, dict) else []
        said = f"made rows can be made again; goes on at {self.describe(position)}"
        return Probe(True, f"{said}; no longer there: {', '.join(gone)}" if gone else said)

    def describe(self, position: Position) -> str:
        if is_done(position):
            return "done"
        numbers = self._numbers(position)
        shown = [self._describe_table(path, at) for path, at in numbers.items()]
        more = f" and {len(shown) - 5} more tables" if len(shown) > 5 else ""
        return "; ".join(shown[:5]) + more

    def fraction(self, position: Position) -> float | None:
        rows = sum(table.rows_total for table in self._tables.values())
        if not self.bounded or not rows:
            return super().fraction(position)
        return 1.0 if is_done(position) else sum(self._numbers(position).values()) / rows

    def _describe_table(self, path: str, number: int) -> str:
        table = self._tables[path]
        split, row = table.place_of(number)
        of_all = f" of {table.splits_total}" if self.bounded else ""
        if self.bounded and number >= table.rows_total:
            return f"{path}: all {table.splits_total} splits read"
        return f"{path}: split {split}{of_all}, row {row}"

    def _numbers(self, position: Position) -> dict[str, int]:
        """The next row of each table. A table that is new since the position was kept begins."""
        kept = position.get("tables")
        found = {}
        for path, table in self._tables.items():
            at = kept.get(path) if isinstance(kept, dict) else None
            place = at if isinstance(at, dict) else {}
            found[path] = table.row_at(_whole(place.get("split")), _whole(place.get("row")))
        return found

    def _position(self, numbers: dict[str, int]) -> Position:
        tables: JsonObject = {}
        for path, number in numbers.items():
            split, row = self._tables[path].place_of(number)
            tables[path] = {"split": split, "row": row}
        position: Position = {"tables": tables}
        if self._is_finished(numbers):
            position["done"] = True
        return position

    def _is_finished(self, numbers: dict[str, int]) -> bool:
        return self.bounded and all(
            number >= self._tables[path].rows_total for path, number in numbers.items()
        )

    def _waiting(self, path: str, number: int) -> int:
        """How many rows may be read now: all there will be, or the splits that have come due."""
        table = self._tables[path]
        if not table.rows_per_reader:
            return 0
        ahead = table.rows_total - number if self.bounded else table.rows_total
        if table.interval_ms == 0:
            return max(0, ahead)
        return max(0, min(self._release(path, number) - number, ahead))

    def _release(self, path: str, number: int) -> int:
        """Each interval one split of each reader comes due; the first at once."""
        table, now = self._tables[path], self._clock.elapsed_ms()
        due_ms = self._next_release_ms.get(path, now)
        released = max(number, self._released.get(path, number))
        if now >= due_ms:
            ticks = 1 + int((now - due_ms) // table.interval_ms)
            split, _ = table.place_of(released)
            released = table.row_at(split + ticks * table.readers, 0)
            due_ms += ticks * table.interval_ms
        self._released[path], self._next_release_ms[path] = released, due_ms
        return released

    def _take(
        self, reached: dict[str, int], waiting: dict[str, int], budget: Budget
    ) -> dict[str, int]:
        """Rows of each table for this epoch: the least advanced tables first, the budget shared evenly."""
        first = sorted(waiting, key=lambda path: self._tables[path].place_of(reached[path])[0])
        chosen = first[: max(1, budget.tasks_max)]
        rank = {path: (waiting[path], -at) for at, path in enumerate(chosen)}
        rows_left, bytes_left = budget.rows_max, budget.bytes_max
        taken: dict[str, int] = {}
        for at, path in enumerate(sorted(chosen, key=lambda path: rank[path])):
            sharing = len(chosen) - at
            size = self._bytes_of(self._tables[path])
            rows = min(waiting[path], rows_left // sharing, bytes_left // sharing // size)
            rows = rows or (1 if not taken and at == len(chosen) - 1 else 0)
            if rows:
                taken[path] = rows
                rows_left, bytes_left = rows_left - rows, bytes_left - rows * size
        return taken

    def _bytes_of(self, table: FakeTable) -> int:
        """A row's size in memory, from a small sample."""
        path = table.table.path
        if path not in self._row_bytes:
            rows = min(_SAMPLE_ROWS, max(1, table.rows_total))
            sample = self._make(table, 0, rows) if table.rows_total else None
            size = sample.nbytes // rows if sample is not None else 1
            self._row_bytes[path] = max(1, size)
        return self._row_bytes[path]

    def _make(self, table: FakeTable, start: int, rows: int) -> pa.RecordBatch:
        if table.options.rows is not None:
            return _listed(table, start, rows)
        found, schema = table.table, table.options.schema
        assert schema is not None
        prefix = f"{table.options.seed}/{self._prefix}/{found.path}"
        arrays = [
            make_column(
                column,
                table.options,
                Place(f"{prefix}/{column.name}", start, rows),
                schema.vectors.get(column.name),
            )
            for column in found.columns
        ]
        return pa.record_batch(arrays, schema=found.arrow_schema)


def _table_from(options: TableOptions, context: Context) -> FakeTable:
    schema = options.schema
    assert isinstance(schema, FakeSchema), "check_options asks for it"
    table = schema.table
    if not table.path:
        table = table.renamed(context.name_in_plan or "fake")
    rows = options.row_num if options.rows is None else len(options.rows)
    batch = context.mode is JobMode.BATCH
    interval = options.split_read_interval
    if interval is None:
        interval = 0 if batch else STREAM_INTERVAL_MS
    return FakeTable(
        table=table,
        options=options,
        rows_per_reader=rows,
        split_rows=max(1, -(-rows // options.split_num)),
        readers=context.parallelism if options.rows is None else 1,
        interval_ms=interval,
    )


def _has_kinds(options: TableOptions) -> bool:
    return any(_kind_of(row) is not RowKind.INSERT for row in options.rows or [])


def _kind_of(row: JsonObject) -> RowKind:
    return RowKind.parse(str(row.get("kind") or "INSERT"))


def _listed(table: FakeTable, start: int, rows: int) -> pa.RecordBatch:
    """Rows of the job file, from the first again behind the last."""
    listed = table.options.rows or []
    batch = batch_of([row["fields"] for row in listed], table.table.arrow_schema)
    if _has_kinds(table.options):
        kinds = pa.array([_kind_of(row).value for row in listed], pa.int8())
        batch = batch.append_column(pa.field(KIND_COLUMN, pa.int8()), kinds)
    return batch.take(pa.array(np.arange(start, start + rows) % len(listed)))


def _tasks(path: str, start: int, rows: int, tasks_max: int) -> list[ReadTask]:
    """A range cut into pieces that are worth a task each."""
    pieces = max(1, min(tasks_max, rows // TASK_ROWS_MIN))
    cuts = [start + rows * piece // pieces for piece in range(pieces + 1)]
    return [
        ReadTask({"table": path, "start": begin, "rows": end - begin}, path)
        for begin, end in pairwise(cuts)
    ]


def _task_range(task: ReadTask) -> tuple[str, int, int]:
    return (
        str(task.payload["table"]),
        _whole(task.payload["start"]),
        _whole(task.payload["rows"]),
    )


def _whole(found: Json) -> int:
    return found if isinstance(found, int) else 0
