"""A model source of many splits, whose rows are a function of their number: nothing is stored, all can be read again.

Its position is one number however many splits are done, since splits are handed out in order and an epoch's are
all read before its checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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
from holdfast.model.schema import Table
from holdfast.spec.options import option
from holdfast.testing.model_log import log_table


@dataclass(frozen=True)
class TableOptions:
    """Of the model table."""

    table: str = option("Its name.", default="t", identity=True)
    splits: int = option("How many splits it has.", default=10, minimum=0, identity=True)
    rows_per_split: int = option("Rows in each split.", default=3, minimum=0, identity=True)


class SplitSource(SourceBase):
    """Reads the model table, split by split."""

    def __init__(self, options: TableOptions) -> None:
        self.options = options

    def tables(self) -> Sequence[Table]:
        return [log_table(self.options.table)]

    def start(self) -> Position:
        return self._position(0)

    def plan(self, position: Position, budget: Budget) -> ReadPlan | None:
        if is_done(position):
            return ReadPlan((), position)
        next_split = _next_split(position)
        fitting = budget.rows_max // max(self.options.rows_per_split, 1)
        fitting = min(fitting, budget.bytes_max // max(self._bytes_per_split(), 1))
        taken = max(1, min(fitting, budget.tasks_max))
        end = min(next_split + taken, self.options.splits)
        tasks = [ReadTask({"split": split}, self.options.table) for split in range(next_split, end)]
        rows = len(tasks) * self.options.rows_per_split
        return ReadPlan(tuple(tasks), self._position(end), rows_estimate=rows)

    def read(self, task: ReadTask, budget: Budget) -> Iterator[TableBatch]:
        split = task.payload["split"]
        assert isinstance(split, int)
        ids = pa.array(split_ids(self.options, split), pa.int64())
        texts = pa.array([split_text(id_) for id_ in ids.to_pylist()], pa.string())
        yield TableBatch(self.options.table, pa.record_batch({"id": ids, "text": texts}))

    def probe(self, position: Position) -> Probe:
        left = self.options.splits - _next_split(position)
        return Probe(True, f"{left} of {self.options.splits} splits are left to read")

    def describe(self, position: Position) -> str:
        return f"{_next_split(position)} of {self.options.splits} splits are done"

    def _position(self, next_split: int) -> Position:
        if next_split >= self.options.splits:
            return {"next": next_split, "done": True}
        return {"next": next_split}

    def _bytes_per_split(self) -> int:
        return self.options.rows_per_split * 20


def split_ids(options: TableOptions, split: int) -> range:
    """The keys of one split."""
    first = split * options.rows_per_split
    return range(first, first + options.rows_per_split)


def split_text(id_: int) -> str:
    return f"row {id_}"


def _next_split(position: Position) -> int:
    found = position["next"]
    assert isinstance(found, int)
    return found


def _create(options: TableOptions, context: Context) -> SplitSource:
    return SplitSource(options)


SOURCE = Connector(
    name="ModelTable",
    role="source",
    options=TableOptions,
    create=_create,
    doc="A bounded table of any number of splits. For tests of the engine.",
)
