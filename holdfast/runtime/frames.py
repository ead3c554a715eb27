"""The transformed path: sources as DataFrames, transforms as Spark plans, sinks behind them.

Small epochs: Arrow in, one JVM job, Arrow out, staged in the driver. Large ones: one Spark job for all sinks and
tables, with sources kept by Spark where several plans read them, so that a source is never read twice.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from holdfast.connectors.base import Budget, ReadPlan, ReadTask, Sink, StageScope, TableBatch
from holdfast.model.checkpoints import Count
from holdfast.model.jobs import Role
from holdfast.model.schema import KIND_COLUMN, Table
from holdfast.runtime.carried import carrying_errors
from holdfast.runtime.local_rows import read_rows
from holdfast.runtime.open_pipeline import OpenPipeline
from holdfast.runtime.passing import (
    ROW_COLUMN,
    Passing,
    Shelf,
    find_leaf,
    find_passing,
    join_again,
    name_of_leaf,
    over_less,
    send_less,
)
from holdfast.runtime.session import SparkHost
from holdfast.runtime.task import MeteredRead, Read, SinkPart, TaskDone, stage_in
from holdfast.transforms.base import TableFrame
from holdfast.transforms.tables import batch_for_spark, table_of_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS_PER_BATCH_MAX = 65_536
ScopeOf = Callable[[str, int], StageScope]
Ran = tuple[list[TaskDone], list[SinkPart]]
_Meter = tuple[Any, Any]
"""Two of Spark's accumulators: rows and bytes."""
_InArrow = Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]
_Split = tuple[pa.RecordBatch, pa.RecordBatch]
"""Of the same rows what goes to Spark and what goes past it."""


@dataclass(frozen=True, slots=True)
class _Flow:
    """One table on its way into one sink."""

    sink: str
    table: Table
    frame: DataFrame
    passing: Passing | None = None
    """What goes past `frame`, which then lacks it."""


@dataclass(frozen=True)
class _Reading:
    """One table of a source, read in Python on executors."""

    source: Any
    table: Table
    tasks: Sequence[ReadTask]
    budget: Budget
    meter: _Meter

    @property
    def schema(self) -> pa.Schema:
        return _arrow_schema(self.table, self.source.emits_kinds)

    def frame(self, spark: SparkSession) -> DataFrame:
        return self._read(spark, self.schema, None)

    def less(self, spark: SparkSession, passing: Passing) -> DataFrame:
        """Only what Spark computes with."""
        fields = [self.schema.field(at) for at in passing.computed_with]
        schema = pa.schema([*fields, pa.field(ROW_COLUMN, pa.int64(), nullable=False)])
        return self._read(spark, schema, passing)

    def _read(self, spark: SparkSession, schema: pa.Schema, passing: Passing | None) -> DataFrame:
        count = len(self.tasks)
        ids = spark.range(0, count, 1, count)
        return ids.mapInArrow(_reader_of(self, passing), _spark_schema(schema))


_Readings = dict[int, tuple[_Reading, "DataFrame"]]
"""By the names of their frames."""


class Frames:
    """The transforms of one pipeline, applied anew to each epoch's frames (they are lazy and cost little)."""

    def __init__(self, pipeline: OpenPipeline, host: SparkHost, read: Read) -> None:
        self._pipeline = pipeline
        self._host = host
        self._read = read
        self._delivered: dict[str, list[Table]] = {}
        self._applying = threading.Lock()
        """Two epochs may be under way. A transform is applied to one after the other: it has views by name."""

    def learn_tables(self, delivered: Mapping[str, Sequence[Table]]) -> dict[str, list[Table]]:
        """The tables at each sink, learnt by planning over empty frames."""
        self._delivered = {at: list(tables) for at, tables in delivered.items()}
        spark = self._host.session()
        empty = {
            at: [
                self._frame(spark, at, table, _empty(table, self._pipeline.sources[at].emits_kinds))
                for table in tables
            ]
            for at, tables in self._delivered.items()
        }
        found: dict[str, list[Table]] = {v.location: [] for v in self._pipeline.spec.of(Role.SINK)}
        for flow in self._flows(empty):
            found[flow.sink].append(flow.table)
        return found

    def run_small(self, plans: Mapping[str, ReadPlan], budget: Budget, scope: ScopeOf) -> Ran:
        """Read here, transform in the JVM, stage here."""
        spark = self._host.session()
        read: list[TaskDone] = []
        inputs: dict[str, list[TableFrame]] = {}
        for at, plan in plans.items():
            rows = self._read_here(at, plan, budget, read)
            inputs[at] = [
                self._frame(spark, at, table, rows[table.path])
                for table in self._delivered[at]
                if table.path in rows
            ]
        by_sink: dict[str, list[TableBatch]] = {}
        for flow in self._flows(inputs):
            out = _conform(read_rows(flow.frame), flow.table)
            batches = out.to_batches(max_chunksize=ROWS_PER_BATCH_MAX)
            by_sink.setdefault(flow.sink, []).extend(
                TableBatch(flow.table.path, batch) for batch in batches if batch.num_rows
            )
        parts = [
            stage_in((at, self._pipeline.sinks[at], scope(at, 0)), iter(batches))
            for at, batches in by_sink.items()
        ]
        return read, parts

    def run_large(self, plans: Mapping[str, ReadPlan], budget: Budget, scope: ScopeOf) -> Ran:
        """Read, transform and stage on executors, in one Spark job."""
        spark = self._host.session()
        count = spark.sparkContext.accumulator
        meters = {at: (count(0), count(0)) for at in plans}
        readings: _Readings = {}
        inputs = {
            at: self._read_there(spark, at, plan, budget, meters[at], readings)
            for at, plan in plans.items()
        }
        tables_count = sum(len(frames) for frames in inputs.values())
        flows = self._flows(inputs)
        kept = self._keep_shared(inputs) if len(flows) > tables_count else []
        # What several plans read is kept by Spark, and so goes its way.
        flows = (
            self._flows(inputs) if kept else [self._past_spark(spark, f, readings) for f in flows]
        )
        try:
            parts = self._stage_there(flows, scope)
        finally:
            for frame in kept:
                frame.unpersist()
        read = [
            TaskDone(at, None, Count(rows.value, size.value), ())
            for at, (rows, size) in meters.items()
        ]
        return read, parts

    def _flows(self, sources: Mapping[str, Sequence[TableFrame]]) -> list[_Flow]:
        """Apply the transforms in the graph's order; what arrives at the sinks."""
        with self._applying:
            return self._apply(sources)

    def _apply(self, sources: Mapping[str, Sequence[TableFrame]]) -> list[_Flow]:
        at_vertex: dict[str, list[TableFrame]] = {at: list(f) for at, f in sources.items()}
        flows: list[_Flow] = []
        for vertex in self._pipeline.spec.vertices:
            if vertex.role is Role.SOURCE:
                at_vertex.setdefault(vertex.location, [])
                continue
            inputs = [frame for at in vertex.inputs for frame in at_vertex[at]]
            if vertex.role is Role.SINK:
                flows += [_Flow(vertex.location, f.table, f.frame) for f in inputs]
                continue
            outputs = self._pipeline.transforms[vertex.location].apply(inputs) if inputs else []
            at_vertex[vertex.location] = [
                TableFrame(table_of_frame(o.frame, o.table), o.frame, vertex.output)
                for o in outputs
            ]
        return flows

    def _frame(self, spark: SparkSession, at: str, table: Table, rows: pa.Table) -> TableFrame:
        frame = spark.createDataFrame(rows, schema=_spark_schema(rows.schema))
        return TableFrame(table, frame, self._output_of(at))

    def _read_here(
        self, at: str, plan: ReadPlan, budget: Budget, done: list[TaskDone]
    ) -> dict[str, pa.Table]:
        source = self._pipeline.sources[at]
        batches: dict[str, list[pa.RecordBatch]] = {}
        for task in plan.tasks:
            reading = MeteredRead(self._read(source, task, budget))
            for found in reading:
                batches.setdefault(found.table, []).append(found.batch)
            done.append(TaskDone(at, reading.reached, reading.count, ()))
        tables = {table.path: table for table in self._delivered[at]}
        return {
            path: pa.Table.from_batches(
                [_with_kinds(batch, source.emits_kinds) for batch in found],
                _arrow_schema(tables[path], source.emits_kinds),
            )
            for path, found in batches.items()
        }

    def _read_there(
        self,
        spark: SparkSession,
        at: str,
        plan: ReadPlan,
        budget: Budget,
        meter: _Meter,
        readings: _Readings,
    ) -> list[TableFrame]:
        source: Any = self._pipeline.sources[at]
        frames = []
        for table in self._delivered[at]:
            tasks = [task for task in plan.tasks if task.table == table.path]
            if not tasks:
                continue
            if hasattr(source, "frame"):
                rows = source.frame(spark, table.path, tasks)
                schema = _spark_schema(_arrow_schema(table, source.emits_kinds))
                frame = rows.mapInArrow(_counter_of(table, meter), schema)
            else:
                reading = _Reading(source, table, tasks, budget, meter)
                frame = reading.frame(spark)
                readings[name_of_leaf(frame)] = reading, frame
            frames.append(TableFrame(table, frame, self._output_of(at)))
        return frames

    def _past_spark(self, spark: SparkSession, flow: _Flow, readings: _Readings) -> _Flow:
        """The flow without the columns that its transforms do not touch, where there are such."""
        from py4j.protocol import Py4JError

        try:
            return self._lessened(spark, flow, readings)
        except Py4JError:  # a Spark whose inside is another: all columns go its way
            return flow

    def _lessened(self, spark: SparkSession, flow: _Flow, readings: _Readings) -> _Flow:
        sink = self._pipeline.sinks[flow.sink]
        found = None if hasattr(sink, "stage_frame") else find_leaf(flow.frame)
        if found is None or found not in readings:
            return flow
        reading, leaf = readings[found]
        passing = find_passing(flow.frame, leaf)
        if passing is None:
            return flow
        passing = replace(passing, as_runs=_go_as_runs(reading, sink, flow.table, passing))
        frame = over_less(flow.frame, leaf, passing, reading.less(spark, passing))
        return replace(flow, frame=frame, passing=passing)

    def _keep_shared(self, inputs: dict[str, list[TableFrame]]) -> list[DataFrame]:
        """Several plans read these frames: Spark keeps the rows, so that they are read once."""
        from pyspark import StorageLevel

        kept = []
        for at, frames in inputs.items():
            held = [
                TableFrame(f.table, f.frame.persist(StorageLevel.MEMORY_AND_DISK), f.output)
                for f in frames
            ]
            inputs[at] = held
            kept += [f.frame for f in held]
        return kept

    def _stage_there(self, flows: Sequence[_Flow], scope: ScopeOf) -> list[SinkPart]:
        jobs = [
            flow.frame.mapInArrow(
                _stager_of(self._pipeline.sinks[flow.sink], scope(flow.sink, index << 20), flow),
                "result string",
            )
            for index, flow in enumerate(flows)
            if not hasattr(self._pipeline.sinks[flow.sink], "stage_frame")
        ]
        parts = [
            self._stage_by_spark(flow, scope(flow.sink, index << 20))
            for index, flow in enumerate(flows)
            if hasattr(self._pipeline.sinks[flow.sink], "stage_frame")
        ]
        if jobs:
            rows = reduce(lambda one, other: one.unionAll(other), jobs).collect()
            parts += [_part_from(json.loads(row.result)) for row in rows]
        return parts

    def _stage_by_spark(self, flow: _Flow, scope: StageScope) -> SinkPart:
        """A sink that writes from the JVM is handed the frame."""
        sink: Any = self._pipeline.sinks[flow.sink]
        count = self._host.session().sparkContext.accumulator
        meter: _Meter = (count(0), count(0))
        schema = flow.frame.schema
        frame = flow.frame.mapInArrow(_counter_of(flow.table, meter), schema)
        part = sink.stage_frame(scope, flow.table, frame)
        found = Count(meter[0].value, meter[1].value)
        return SinkPart(flow.sink, part, found, {flow.table.path: found.rows})

    def _output_of(self, at: str) -> str:
        return next(v.output for v in self._pipeline.spec.vertices if v.location == at)


def _go_as_runs(reading: _Reading, sink: Any, table: Table, passing: Passing) -> bool:
    """Whether source and sink code all columns alike that go past Spark."""
    if not hasattr(reading.source, "run_format") or not hasattr(sink, "accepts_runs"):
        return False
    format_ = reading.source.run_format(reading.table.path, passing.computed_with)
    return format_ is not None and sink.accepts_runs(format_, table, passing.handed_on)


def _reader_of(reading: _Reading, passing: Passing | None) -> _InArrow:
    source, tasks, budget, meter = reading.source, reading.tasks, reading.budget, reading.meter

    def read(task: ReadTask) -> Iterator[_Split]:
        if passing is not None and passing.as_runs:
            yield from source.read_runs(task, passing.computed_with, passing.runs)
            return
        for found in source.read(task, budget):
            batch = _with_kinds(found.batch, source.emits_kinds)
            if passing is None:
                yield batch, batch.select([])
            else:
                yield batch.select(passing.computed_with), batch.select(passing.put_aside)

    def send(ids: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        shelf = None if passing is None else Shelf()
        with carrying_errors():
            for batch in ids:
                for index in batch.column(0).to_pylist():
                    rows = _metered(read(tasks[index]), meter)
                    sent = send_less(rows, shelf) if shelf else (wanted for wanted, _ in rows)
                    yield from map(batch_for_spark, sent)

    return send


def _metered(rows: Iterator[_Split], meter: _Meter) -> Iterator[_Split]:
    rows_count = bytes_count = 0
    for wanted, rest in rows:
        rows_count += max(wanted.num_rows, rest.num_rows)
        bytes_count += wanted.nbytes + rest.nbytes
        yield wanted, rest
    meter[0].add(rows_count)
    meter[1].add(bytes_count)


def _counter_of(
    table: Table, meter: _Meter
) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    """For rows that come from the JVM and go back there: counted, in the types of the table."""

    def count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found = _conform_batch(batch, table)
            meter[0].add(found.num_rows)
            meter[1].add(found.nbytes)
            yield batch_for_spark(found)

    return count


def _stager_of(sink: Sink, scope: StageScope, flow: _Flow) -> _InArrow:
    table, passing = flow.table, flow.passing
    kinds = passing is not None and KIND_COLUMN in passing.names

    def stage(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        own = replace(
            scope,
            task=scope.task + context.partitionId(),
            try_id=str(context.taskAttemptId()),
        )
        some = (batch for batch in batches if batch.num_rows)
        whole = (
            (_conform_batch(batch, table) for batch in some)
            if passing is None
            else join_again(some, passing, _arrow_schema(table, kinds), Shelf())
        )
        rows = (TableBatch(table.path, batch) for batch in whole)
        with carrying_errors():
            done = stage_in((own.location, sink, own), rows)
        told = [done.location, done.part, done.count.rows, done.count.bytes, done.rows_by_table]
        yield pa.record_batch({"result": [json.dumps(told)]})

    return stage


def _part_from(told: Any) -> SinkPart:
    location, part, rows, size, rows_by_table = told
    return SinkPart(location, part, Count(rows, size), rows_by_table)


def _arrow_schema(table: Table, emits_kinds: bool) -> pa.Schema:
    schema = table.arrow_schema
    return schema.append(pa.field(KIND_COLUMN, pa.int8())) if emits_kinds else schema


def _spark_schema(schema: pa.Schema) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


def _empty(table: Table, emits_kinds: bool) -> pa.Table:
    return _arrow_schema(table, emits_kinds).empty_table()


def _with_kinds(batch: pa.RecordBatch, emits_kinds: bool) -> pa.RecordBatch:
    """Every batch of a source that emits kinds has the column, also those with inserts only."""
    if not emits_kinds or KIND_COLUMN in batch.schema.names:
        return batch
    inserts = pa.repeat(pa.scalar(0, pa.int8()), batch.num_rows)
    return batch.append_column(pa.field(KIND_COLUMN, pa.int8()), inserts)


def _conform(rows: pa.Table, table: Table) -> pa.Table:
    """Arrow as Spark gives it, in the types of the table."""
    return rows.cast(_arrow_schema(table, KIND_COLUMN in rows.schema.names))


def _conform_batch(batch: pa.RecordBatch, table: Table) -> pa.RecordBatch:
    wanted = _arrow_schema(table, KIND_COLUMN in batch.schema.names)
    return batch if batch.schema.equals(wanted) else batch.cast(wanted)
