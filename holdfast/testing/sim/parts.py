"""What simulated jobs read and write: sources whose rows follow from their number, a sink in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from holdfast.connectors.base import (
    Budget,
    Connector,
    Context,
    Guarantee,
    Position,
    Probe,
    ReadPlan,
    ReadTask,
    SourceBase,
    StageScope,
    TableBatch,
    Token,
)
from holdfast.model.errors import SinkRejected, Transient
from holdfast.model.json import Json
from holdfast.model.schema import Table
from holdfast.spec.options import option
from holdfast.testing.model_log import log_table
from holdfast.testing.model_sink import ModelSink, Part
from holdfast.testing.sim.engine import Engine
from holdfast.testing.sim.faults import Faults

HANG_LOOK_MS = 100.0


@dataclass(frozen=True)
class TickOptions:
    """Of the ticking source."""

    table: str = option("Its name.", default="t", identity=True)
    rows: int = option("How many rows it has; 0: it never ends.", default=0, identity=True)
    every_ms: int = option("A row comes so often.", default=100)


class Judge(Protocol):
    """Sees what sources and sinks are told, at the moment they are."""

    def published(self, job_id: str, at: str, token: Token) -> None: ...

    def acked(self, job_id: str, at: str, position: Position) -> None: ...

    def discarded(self, job_id: str, at: str, part: Part) -> None: ...


@dataclass
class Surroundings:
    """Outside of all processes: what sinks hold, and what befalls sources."""

    engine: Engine
    faults: Faults
    sinks: dict[tuple[str, str], SinkMemory] = field(default_factory=dict)
    hangs_until_ms: dict[str, float] = field(default_factory=dict)
    """Of each job: its sources give nothing until then."""
    failing: Counter[str] = field(default_factory=Counter)
    """How often the sources of each job will fail from now on."""


class TickSource(SourceBase):
    """A row each so many milliseconds of virtual time, from a start that is the same for all."""

    def __init__(
        self, options: TickOptions, context: Context, around: Surroundings, judge: Judge
    ) -> None:
        self.options = options
        self.bounded = options.rows > 0
        self._context = context
        self._around = around
        self._judge = judge
        self._closed = False

    def tables(self) -> Sequence[Table]:
        return [log_table(self.options.table)]

    def start(self) -> Position:
        return {"next": 0}

    def latest(self) -> Position:
        return {"next": self._there()}

    def plan(self, position: Position, budget: Budget) -> ReadPlan | None:
        first = int(str(position["next"]))
        until = min(self._there(), first + budget.rows_max)
        end: Position = {"next": until}
        if self.options.rows and until >= self.options.rows:
            end["done"] = True
        if until <= first:
            return ReadPlan((), end) if end.get("done") else None
        task = ReadTask({"first": first, "until": until}, self.options.table)
        return ReadPlan((task,), end, rows_estimate=until - first)

    def read(self, task: ReadTask, budget: Budget) -> Iterator[TableBatch]:
        faults = self._around.faults
        if faults.happens("source fails", faults.weather.source_fails):
            raise Transient("Cannot read: the source's connection was lost.")
        if self._around.failing[self._context.job_id] > 0:
            self._around.failing[self._context.job_id] -= 1
            faults.counts["source fails"] += 1
            raise Transient("Cannot read: the source is out of order.")
        ids = range(int(str(task.payload["first"])), int(str(task.payload["until"])))
        if self._hangs() and self._wait_in_vain():
            # A driver whose connection is closed may take that for the end.
            faults.counts["read cut short"] += 1
            ids = ids[: len(ids) // 2]
        batch = pa.record_batch(
            [pa.array(ids, pa.int64()), pa.array(["a row"] * len(ids))], names=["id", "text"]
        )
        yield TableBatch(self.options.table, batch)

    def _hangs(self) -> bool:
        until_ms = self._around.hangs_until_ms.get(self._context.job_id, 0.0)
        return self._around.engine.now_ms < until_ms

    def _wait_in_vain(self) -> bool:
        """Whether it is closed before it goes on, and does not say so."""
        engine = self._around.engine
        while self._hangs():
            self._around.faults.counts["source hangs"] += 1
            engine.sleep(HANG_LOOK_MS)
            if self._closed and engine.random.random() < 0.5:
                raise Transient("Cannot read: the source was closed.")
            if self._closed:
                return True
        return False

    def close(self) -> None:
        self._closed = True

    def ack(self, position: Position) -> None:
        self._judge.acked(self._context.job_id, self._context.location, position)

    def probe(self, position: Position) -> Probe:
        return Probe(True, "its rows can be made again")

    def _there(self) -> int:
        there = int(self._around.engine.now_ms // self.options.every_ms) + 1
        return min(there, self.options.rows) if self.options.rows else there


@dataclass
class SinkMemory:
    """What a sink of one job holds, across all processes."""

    staged: dict[Part, list[Json]] = field(default_factory=dict)
    visible: dict[Part, list[Json]] = field(default_factory=dict)
    gone: set[Part] = field(default_factory=set)
    violations: list[str] = field(default_factory=list)

    def ids(self, table: str) -> list[int]:
        """In the order in which they were read."""
        return [
            int(str(row[2]))
            for part in sorted(self.visible)
            for row in self.visible[part]
            if isinstance(row, list) and row[0] == table
        ]


class MemoryStore:
    """As `SinkStore`, in memory."""

    def __init__(self, memory: SinkMemory, on_discard: Callable[[Part], None]) -> None:
        self.memory = memory
        self._on_discard = on_discard

    def list_parts(self, kind: str) -> list[Part]:
        found: Mapping[Part, object] | set[Part] = getattr(self.memory, kind)
        return sorted(found)

    def record(self, call: str, **facts: Json) -> None:
        return None

    def judge_scope(self, scope: StageScope, part: Part) -> None:
        if part in self.memory.staged or part in self.memory.visible:
            self._blame(f"{part.name} was staged twice")

    def write_staged(self, part: Part, rows: list[Json]) -> None:
        self.memory.staged[part] = rows

    def show(self, part: Part) -> None:
        rows = self.memory.staged.pop(part, None)
        if rows is not None:
            self.memory.visible[part] = rows
        elif part not in self.memory.visible:
            if part not in self.memory.gone:
                self._blame(f"{part.name} was published and never staged")
            raise SinkRejected(f"Cannot publish {part.name}: it is not there.")

    def bury(self, kind: str, part: Part) -> None:
        if kind == "staged":
            self._on_discard(part)
        self.memory.gone.add(part)
        self.remove(kind, part)

    def remove(self, kind: str, part: Part) -> None:
        getattr(self.memory, kind).pop(part, None)

    def _blame(self, said: str) -> None:
        self.memory.violations.append(said)


@dataclass(frozen=True)
class SimSinkOptions:
    """Of the sink in memory."""

    folder: str = option("Its name.", default="sink", identity=True)
    rewindable: bool = option("Whether it takes back.", default=True)
    overlaps: bool = option("Whether epochs may overlap.", default=False)


def sim_connectors(around: Surroundings, judge: Judge) -> list[Connector]:
    def make_source(options: TickOptions, context: Context) -> TickSource:
        return TickSource(options, context, around, judge)

    def make_sink(options: SimSinkOptions, context: Context) -> ModelSink:
        sink = ModelSink(options, context)  # type: ignore[arg-type]
        memory = around.sinks.setdefault((context.job_id, context.location), SinkMemory())
        sink.store = MemoryStore(  # type: ignore[assignment]
            memory, lambda part: judge.discarded(context.job_id, context.location, part)
        )
        sink.on_publish = lambda token: judge.published(context.job_id, context.location, token)
        return sink

    return [
        Connector("Tick", "source", TickOptions, make_source, "Rows that come with time."),
        Connector(
            "Memory",
            "sink",
            SimSinkOptions,
            make_sink,
            "A two-phase sink in memory.",
            guarantee=lambda options: (Guarantee.EXACTLY_ONCE, ""),
        ),
    ]
