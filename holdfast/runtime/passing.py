"""Columns that no transform touches go past Spark.

To turn a value from Arrow into Spark's rows and back takes longer than to read it. Where a plan is nothing but a
projection and filters over what a Python worker reads, rows keep their order, and a column that is only handed on,
renamed or not, need not go that way: the reader puts it aside, sends Spark what it computes with and a number for
each row, and the stager takes up by these numbers what the filters left. Both are Python processes of one Spark task;
what is put aside lies in the folder of their executor, which Spark removes with it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from holdfast.connectors.base import Run, run_field

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROW_COLUMN = "__row"
ROWS_PER_PIECE_MAX = 1 << 20
"""A row's number is that of its piece and its place there."""
_PLACE_BITS = 20
PASSING_MIN = 2
"""Fewer columns are not worth the number that each row carries."""


@dataclass(frozen=True)
class Passing:
    """What of one table goes past Spark on its way into one sink. Columns are told by their places in the source."""

    names: tuple[str, ...]
    """Of all columns at the sink."""
    handed_on: tuple[int | None, ...]
    """For each column at the sink the one that it is; None where Spark computes it."""
    computed_with: tuple[int, ...]
    """What Spark needs for that."""
    as_runs: bool = False
    """Whether source and sink code what is handed on alike: then it goes as bytes, neighbours together."""

    @property
    def put_aside(self) -> list[int]:
        """The columns, where they do not go as runs."""
        return sorted({at for at in self.handed_on if at is not None})

    @property
    def runs(self) -> list[Run]:
        """Neighbours at the sink that are neighbours at the source."""
        return [run for run in self._parts() if run is not None]

    def schema(self, table: pa.Schema) -> pa.Schema:
        """How the rows arrive at the sink, of which all columns have the types of `table`."""
        wanted = [table.field(name) for name in self.names]
        if not self.as_runs:
            return pa.schema(wanted)
        computed = iter(f for f, at in zip(wanted, self.handed_on, strict=True) if at is None)
        return pa.schema(
            [next(computed) if part is None else run_field(part) for part in self._parts()]
        )

    def places(self) -> list[int | None]:
        """For each column that arrives its place in what was put aside; None where Spark computed it."""
        if self.as_runs:
            numbers = count()
            return [None if part is None else next(numbers) for part in self._parts()]
        kept_at = {at: place for place, at in enumerate(self.put_aside)}
        return [None if at is None else kept_at[at] for at in self.handed_on]

    def _parts(self) -> list[Run | None]:
        parts: list[Run | None] = []
        for at in self.handed_on:
            last = parts[-1] if parts else None
            if at is None:
                parts.append(None)
            elif last is not None and at == last.first + last.count:
                parts[-1] = Run(last.first, last.count + 1)
            else:
                parts.append(Run(at, 1))
        return parts


# ------------------------------------------------------------------------------------------------ plans


@dataclass(frozen=True)
class _Plan:
    """A projection and filters over a leaf, as Spark's optimizer left them."""

    items: list[Any]
    filters: list[Any]
    """The outermost first."""
    leaf: Any


def name_of_leaf(leaf: DataFrame) -> int:
    """A number that no other frame has."""
    return int(_logical(leaf).output().head().exprId().id())


def find_leaf(frame: DataFrame) -> int | None:
    """The name of the only frame that this one is made of by a projection and filters, where there is such a one."""
    plan = _plan_of(frame)
    return None if plan is None else int(plan.leaf.output().head().exprId().id())


def find_passing(frame: DataFrame, leaf: DataFrame) -> Passing | None:
    """What may go past Spark between `leaf` and `frame`; None where rows may change places, or it is not worth it."""
    plan = _plan_of(frame)
    if plan is None:
        return None
    places = {attribute.exprId().id(): at for at, attribute in enumerate(_attributes(leaf))}
    if [attribute.exprId().id() for attribute in _listed(plan.leaf.output())] != list(places):
        return None
    handed_on = tuple(_place_of(item, places) for item in plan.items)
    needing = [item for item, at in zip(plan.items, handed_on, strict=True) if at is None]
    used = {
        reference.exprId().id()
        for expression in (*needing, *(node.condition() for node in plan.filters))
        for reference in _listed(expression.references().toSeq())
    }
    if not used <= places.keys() or sum(at is not None for at in handed_on) < PASSING_MIN:
        return None
    names = tuple(item.name() for item in plan.items)
    return Passing(names, handed_on, tuple(sorted(places[one] for one in used)))


def over_less(frame: DataFrame, leaf: DataFrame, passing: Passing, less: DataFrame) -> DataFrame:
    """The plan of `frame` with `less` in the place of `leaf`: only what is computed, and the number of each row."""
    from pyspark.sql.classic.column import _to_seq
    from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame

    session: Any = frame.sparkSession
    jvm, context = session._jvm, session.sparkContext
    plans = jvm.org.apache.spark.sql.catalyst.plans.logical
    plan = _plan_of(frame)
    assert plan is not None
    *sent, row = _attributes(less)
    whole = _attributes(leaf)
    named = [
        _under_the_name_of(jvm, attribute, whole[at], _to_seq(context, []))
        for attribute, at in zip(sent, passing.computed_with, strict=True)
    ]
    node = plans.Project(_to_seq(context, [*named, row]), _logical(less))
    for found in reversed(plan.filters):
        node = plans.Filter(found.condition(), node)
    items = zip(plan.items, passing.handed_on, strict=True)
    computed = [item for item, at in items if at is None]
    node = plans.Project(_to_seq(context, [*computed, row]), node)
    rows = jvm.org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, node)
    return ClassicFrame(rows, frame.sparkSession)


def _plan_of(frame: DataFrame) -> _Plan | None:
    inside: Any = frame
    node = inside._jdf.queryExecution().optimizedPlan()
    items = None
    if node.nodeName() == "Project":
        items = _listed(node.projectList())
        node = node.child()
    filters = []
    while node.nodeName() == "Filter":
        filters.append(node)
        node = node.child()
    if node.nodeName() != "MapInArrow":
        return None
    return _Plan(_listed(node.output()) if items is None else items, filters, node)


def _place_of(item: Any, places: dict[int, int]) -> int | None:
    """Of the column that it hands on, under its own name or another."""
    handed = item.child() if item.nodeName() == "Alias" else item
    return places.get(handed.exprId().id()) if handed.nodeName() == "AttributeReference" else None


def _under_the_name_of(jvm: Any, attribute: Any, other: Any, nothing: Any) -> Any:
    """The attribute, known to the plan above as `other`."""
    expressions = jvm.org.apache.spark.sql.catalyst.expressions
    return expressions.Alias(
        attribute, other.name(), other.exprId(), nothing, jvm.scala.Option.empty(), nothing
    )


def _logical(frame: DataFrame) -> Any:
    inside: Any = frame
    return inside._jdf.queryExecution().analyzed()


def _attributes(frame: DataFrame) -> list[Any]:
    return _listed(_logical(frame).output())


def _listed(seq: Any) -> list[Any]:
    return [seq.apply(at) for at in range(seq.size())]


# -------------------------------------------------------------------------------------------- executors


class Shelf:
    """Where one process of a Spark task puts pieces for another: each is taken once, in order, and removed."""

    def __init__(self) -> None:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        self._folder = Path(os.environ["SPARK_LOCAL_DIRS"].split(",")[0])
        self._prefix = f"holdfast-{context.taskAttemptId()}-"
        self._number = -1
        self._taken: pa.RecordBatch | None = None

    def put(self, piece: pa.RecordBatch) -> pa.Array:
        """Put it aside; the numbers of its rows."""
        assert piece.num_rows <= ROWS_PER_PIECE_MAX
        self._number += 1
        with (
            pa.OSFile(str(self._path(self._number)), "wb") as file,
            pa.ipc.new_stream(file, piece.schema) as stream,
        ):
            stream.write_batch(piece)
        first = self._number << _PLACE_BITS
        return _array(np.arange(first, first + piece.num_rows, dtype=np.int64))

    def take(self, rows: np.ndarray[Any, Any]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """What was put aside of these rows, whose numbers grow from call to call: how many of them, and their piece."""
        numbers = rows >> _PLACE_BITS
        ends = np.flatnonzero(np.diff(numbers)) + 1
        for some in np.split(rows, ends):
            piece = self._piece(int(some[0]) >> _PLACE_BITS)
            places = some & (ROWS_PER_PIECE_MAX - 1)
            first, last = int(places[0]), int(places[-1])
            if last - first + 1 == len(places):
                yield len(places), piece.slice(first, len(places))
            else:
                yield len(places), piece.take(_array(places))

    def clear(self) -> None:
        """Remove what nobody took: no row of it got past the filters."""
        self._taken = None
        for left in self._folder.glob(f"{self._prefix}*"):
            left.unlink(missing_ok=True)

    def _piece(self, number: int) -> pa.RecordBatch:
        if number == self._number:
            assert self._taken is not None
            return self._taken
        while self._number < number:
            if self._number >= 0:
                self._path(self._number).unlink(missing_ok=True)
            self._number += 1
        with pa.memory_map(str(self._path(number))) as file:
            self._taken = pa.ipc.open_stream(file).read_next_batch()
        return self._taken

    def _path(self, number: int) -> Path:
        return self._folder / f"{self._prefix}{number}"


def send_less(
    rows: Iterable[tuple[pa.RecordBatch, pa.RecordBatch]], shelf: Shelf
) -> Iterator[pa.RecordBatch]:
    """Of each batch what Spark computes with, and the rows' numbers. What goes past it is put aside."""
    for wanted, rest in rows:
        for low in range(0, rest.num_rows, ROWS_PER_PIECE_MAX):
            numbers = shelf.put(rest.slice(low, ROWS_PER_PIECE_MAX))
            sent = wanted.slice(low, ROWS_PER_PIECE_MAX)
            yield pa.RecordBatch.from_arrays(
                [*sent.columns, numbers], [*sent.schema.names, ROW_COLUMN]
            )


def join_again(
    batches: Iterable[pa.RecordBatch], passing: Passing, table: pa.Schema, shelf: Shelf
) -> Iterator[pa.RecordBatch]:
    """What Spark computed and what was put aside, as whole rows in the types of `table`."""
    schema, places = passing.schema(table), passing.places()
    try:
        for batch in batches:
            low = 0
            for count_, piece in shelf.take(_numbers(batch.column(batch.num_columns - 1))):
                computed = iter(batch.slice(low, count_).columns)
                columns = [next(computed) if at is None else piece.column(at) for at in places]
                typed = [
                    column if column.type == field.type else column.cast(field.type)
                    for column, field in zip(columns, schema, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(typed, schema=schema)
                low += count_
    finally:
        shelf.clear()


def _numbers(rows: pa.Array) -> np.ndarray[Any, Any]:
    """Not by way of `to_numpy`, which would import pandas."""
    return np.frombuffer(rows.buffers()[1], np.int64)[rows.offset : rows.offset + len(rows)]


def _array(numbers: np.ndarray[Any, Any]) -> pa.Array:
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])
