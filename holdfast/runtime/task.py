"""One task of an epoch: read a piece of a source and stage it in every sink that reads it, in one go.

The same code runs in the driver for small epochs and on executors for large ones. Rows go from the source's Arrow
batches straight to the sinks' writers; where both ends speak one wire format, the bytes go untouched.
"""

from __future__ import annotations

import pickle
import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from holdfast.connectors.base import Budget, Bytes, ReadTask, Sink, Source, StageScope, TableBatch
from holdfast.model.checkpoints import Count
from holdfast.model.json import JsonObject

CONNECTORS_KEPT_MAX = 4
"""In each process that runs tasks."""
BATCHES_WAITING_MAX = 2
"""Between a source and each of several sinks: what bounds the memory of a fan-out."""


@dataclass(frozen=True, slots=True)
class SinkPart:
    """What one task left in one sink."""

    location: str
    part: JsonObject | None
    count: Count
    rows_by_table: dict[str, int]


@dataclass(frozen=True)
class TaskWork:
    """A task with all it needs. Picklable: a process that has had its connectors before uses them again."""

    source_location: str
    source: Source
    task: ReadTask
    budget: Budget
    sinks: tuple[tuple[str, Sink, StageScope], ...]

    def __reduce__(self) -> tuple[Any, ...]:
        sinks = tuple((at, pickle.dumps(sink), scope) for at, sink, scope in self.sinks)
        return _unpacked, (
            self.source_location, pickle.dumps(self.source), self.task, self.budget, sinks
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class TaskDone:
    """What came of a task."""

    source_location: str
    reached: JsonObject | None
    count: Count
    parts: tuple[SinkPart, ...]


def _unpacked(
    location: str,
    source: bytes,
    task: ReadTask,
    budget: Budget,
    sinks: tuple[tuple[str, bytes, StageScope], ...],
) -> TaskWork:
    known = tuple((at, _connector(sink), scope) for at, sink, scope in sinks)
    return TaskWork(location, _connector(source), task, budget, known)


@lru_cache(maxsize=CONNECTORS_KEPT_MAX)
def _connector(packed: bytes) -> Any:
    """What it opened for one task serves the next: a connection takes longer to open than many tasks."""
    return pickle.loads(packed)


Read = Callable[[Source, ReadTask, Budget], Iterator[TableBatch]]


def plain_read(source: Source, task: ReadTask, budget: Budget) -> Iterator[TableBatch]:
    """On executors, where Spark ends what hangs."""
    return source.read(task, budget)


def run_task(work: TaskWork, read: Read = plain_read) -> TaskDone:
    """Read and stage."""
    native = _byte_path(work)
    if native is not None:
        return native
    reading = MeteredRead(read(work.source, work.task, work.budget))
    parts = _stage_in_all(work, reading)
    for _ in reading:
        pass
    return TaskDone(work.source_location, reading.reached, reading.count, tuple(parts))


def stage_in(target: tuple[str, Sink, StageScope], batches: Iterator[TableBatch]) -> SinkPart:
    """Stage batches in one sink and say what it left."""
    location, sink, scope = target
    metered = MeteredRead(batches)
    part = sink.stage(scope, iter(metered))
    return SinkPart(location, part, metered.count, metered.rows_by_table)


class MeteredRead:
    """Batches on their way, counted; remembers the last position that was reached."""

    def __init__(self, batches: Iterator[TableBatch]) -> None:
        self._batches = batches
        self.count = Count()
        self.rows_by_table: dict[str, int] = {}
        self.reached: JsonObject | None = None

    def __iter__(self) -> Iterator[TableBatch]:
        for found in self._batches:
            rows = found.batch.num_rows
            self.count = self.count.plus(Count(rows, found.batch.nbytes))
            self.rows_by_table[found.table] = self.rows_by_table.get(found.table, 0) + rows
            if found.reached is not None:
                self.reached = found.reached
            if rows:
                yield found


def _byte_path(work: TaskWork) -> TaskDone | None:
    """The native hand-over, where source and the only sink agree on a format."""
    source: Any = work.source
    table = work.task.table
    if len(work.sinks) != 1 or table is None or not hasattr(source, "read_bytes"):
        return None
    location, found, scope = work.sinks[0]
    sink: Any = found
    format_ = source.byte_format(table)
    if (
        format_ is None
        or not hasattr(sink, "accepts")
        or not sink.accepts(format_, scope.tables[table])
    ):
        return None
    counted = _CountedBytes(source.read_bytes(work.task))
    part: JsonObject | None = sink.stage_bytes(scope, table, iter(counted))
    rows = 0 if part is None else int(str(part["rows"]))
    count = Count(rows, counted.size)
    done = SinkPart(location, part if rows else None, count, {table: rows})
    return TaskDone(work.source_location, None, count, (done,))


class _CountedBytes:
    def __init__(self, chunks: Iterator[Bytes]) -> None:
        self._chunks = chunks
        self.size = 0

    def __iter__(self) -> Iterator[Bytes]:
        for chunk in self._chunks:
            self.size += len(chunk)
            yield chunk


@dataclass
class _Lane:
    """One sink of a fan-out, in a thread of its own."""

    target: tuple[str, Sink, StageScope]
    waiting: queue.Queue[TableBatch | None] = field(
        default_factory=lambda: queue.Queue(BATCHES_WAITING_MAX)
    )
    done: SinkPart | None = None
    failed: BaseException | None = None
    ended: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        try:
            self.done = stage_in(self.target, iter(self.waiting.get, None))
        except BaseException as error:  # noqa: BLE001 - handed to the reading thread, which raises it
            self.failed = error
        finally:
            self.ended.set()

    def offer(self, batch: TableBatch | None) -> None:
        """Hand over, unless the sink has ended: then its failure must not leave the reader waiting."""
        while not self.ended.is_set():
            try:
                return self.waiting.put(batch, timeout=0.1)
            except queue.Full:
                continue


def _stage_in_all(work: TaskWork, reading: MeteredRead) -> list[SinkPart]:
    """Every sink gets every batch; the slowest sets the pace. Arrow batches are shared, not copied."""
    if len(work.sinks) == 1:
        return [stage_in(work.sinks[0], iter(reading))]
    lanes = [_Lane(target) for target in work.sinks]
    threads = [threading.Thread(target=lane.run, daemon=True) for lane in lanes]
    for thread in threads:
        thread.start()
    try:
        for batch in reading:
            if any(lane.failed for lane in lanes):
                break
            for lane in lanes:
                lane.offer(batch)
    finally:
        for lane in lanes:
            lane.offer(None)
        for thread in threads:
            thread.join()
    for lane in lanes:
        if lane.failed is not None:
            raise lane.failed
    return [lane.done for lane in lanes if lane.done is not None]
