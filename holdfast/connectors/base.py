"""The contract of connectors: what the epoch loop asks of a source and of a sink, and what they promise.

A source is asked for a plan from its position, the plan's tasks are read (here or on executors), and the
position after the read is the one actually reached. A sink stages rows so that nothing is visible, and makes
them visible when told that the checkpoint which names its token exists. Both are plain picklable objects built
from their options: no open connection is kept in a field (open lazily, per process).

Who calls what, in which order, is the epoch loop's business (`runtime/epoch.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import pyarrow as pa

from holdfast.model.jobs import JobMode
from holdfast.model.json import Json, JsonObject
from holdfast.model.schema import Table
from holdfast.outside.clock import Clock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Position = JsonObject
"""Where a source stands. Small JSON that only the source understands, but for `"done": true`, which every
bounded source sets when it has nothing left and will never have."""


class Guarantee(Enum):
    """What a sink promises about each row, whatever is killed whenever."""

    EXACTLY_ONCE = "exactly-once"
    EFFECTIVELY_ONCE = "effectively-once by key"
    AT_LEAST_ONCE = "at-least-once"
    NONE = "no guarantee"


def no_spark() -> SparkSession:
    raise AssertionError("nothing here runs on Spark")


@dataclass(frozen=True, slots=True)
class Context:
    """Where a connector finds itself: handed to the factories below."""

    job_id: str
    pipeline_id: int
    location: str
    """The stable task location, e.g. `source-0-jdbc`."""
    mode: JobMode
    parallelism: int
    clock: Clock
    name_in_plan: str = ""
    """`plugin_output` of a source, for messages."""
    spark: Callable[[], SparkSession] = no_spark
    """This process's session, started at first need. In the driver only, for systems that Spark alone speaks to."""


# ---------------------------------------------------------------------------------------------- source


@dataclass(frozen=True, slots=True)
class Budget:
    """How much one epoch may read. A read ends at the first limit it meets, between two transactions."""

    rows_max: int
    bytes_max: int
    duration_ms: float
    """No call blocks longer than this, whatever it waits for."""
    tasks_max: int
    """How many tasks one plan may have (each task may be as big as a split)."""


@dataclass(frozen=True, slots=True)
class ReadTask:
    """A piece of one epoch's read that can be done alone, on any executor. Picklable."""

    payload: JsonObject
    """The source's own words for it."""
    table: str | None = None
    """The path of the one table it reads; None when it reads several."""


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """What a source would read next. `end` is None when it is known only after the read."""

    tasks: tuple[ReadTask, ...]
    end: Position | None
    rows_estimate: int | None = None
    """None: not known. Small plans (10,000 rows or less) are read in the driver, without a Spark job."""


@dataclass(frozen=True, slots=True)
class TableBatch:
    """Some rows of one table. `reached`: where the read stands after them, when the plan could not tell."""

    table: str
    batch: pa.RecordBatch
    """The table's columns, in its order, and `KIND_COLUMN` (int8) behind them if not all are inserts."""
    reached: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class Probe:
    """Can a kept position still be read? Answered by looking, without reading rows."""

    readable: bool
    said: str
    """In words for the restore report: what was looked at, what was found, what will be read again."""


class Source(Protocol):
    """The reading half of a connector. All methods run in the driver, but for `read`."""

    bounded: bool
    """Whether it ends by itself in the job's mode."""
    replayable: bool
    """Whether a range that was read can be read again with the same rows."""
    emits_kinds: bool
    """Whether its batches carry `KIND_COLUMN`."""

    def tables(self) -> Sequence[Table]:
        """The tables it will deliver. Asked once per attempt, before any read. May connect."""
        ...

    def start(self) -> Position:
        """The position of a fresh job. Asked once per generation; its answer goes into the first checkpoint."""
        ...

    def latest(self) -> Position:
        """The position that skips everything that is there now (`on-missing = latest`)."""
        ...

    def plan(self, position: Position, budget: Budget) -> ReadPlan | None:
        """What to read next from `position`; None when there is nothing now. Cheap; no rows are read.

        A bounded source that has nothing left returns a plan without tasks whose end says `done`.
        """
        ...

    def read(self, task: ReadTask, budget: Budget) -> Iterator[TableBatch]:
        """Read one task: on an executor or in the driver. Deterministic where `replayable`."""
        ...

    def position_after(self, position: Position, reached: Sequence[JsonObject | None]) -> Position:
        """For plans without `end`: the position after reading, from the last `reached` of every task."""
        ...

    def probe(self, position: Position) -> Probe:
        """Whether `position` can still be read."""
        ...

    def describe(self, position: Position) -> str:
        """The position in words, for `holdfast checkpoints`."""
        ...

    def fraction(self, position: Position) -> float | None:
        """How much of a bounded source lies before `position`, 0 to 1; None when nobody knows. Costs nothing."""
        ...

    def ack(self, position: Position) -> None:
        """All before `position` is in a checkpoint and published: the system may forget it."""
        ...

    def close(self) -> None:
        """Let go of connections. May be called from another thread, to end a blocked call."""
        ...


class SourceBase:
    """The answers most sources give. Inherit and override; nothing here has state."""

    bounded = True
    replayable = True
    emits_kinds = False

    def latest(self) -> Position:
        return self.start()

    def start(self) -> Position:
        return {}

    def position_after(self, position: Position, reached: Sequence[JsonObject | None]) -> Position:
        raise AssertionError("this source knows the end of each plan beforehand")

    def probe(self, position: Position) -> Probe:
        return Probe(True, "nothing to look at")

    def describe(self, position: Position) -> str:
        return "done" if is_done(position) else str(position)

    def fraction(self, position: Position) -> float | None:
        return 1.0 if is_done(position) else None

    def ack(self, position: Position) -> None:
        return None

    def close(self) -> None:
        return None


class FrameSource(Protocol):
    """A source that Spark reads in the JVM (any JDBC driver): it gives a DataFrame for a plan's tasks.

    Its `read` is called in the driver alone, for small epochs, and it never travels to executors.
    """

    def frame(self, spark: SparkSession, table: str, tasks: Sequence[ReadTask]) -> DataFrame:
        """Rows of one table, with its columns in their order; types that cast to the table's."""
        ...


def is_done(position: Position) -> bool:
    return position.get("done") is True


# ------------------------------------------------------------------------------------------------ sink

Token = JsonObject
"""What staging one epoch left behind: `{"lineage": l, "attempt": a, "epoch": n, "parts": [...]}`, a part per task that
had rows. Built by the loop from what `stage` returned; stored in the checkpoint; handed to `publish`."""


@dataclass(frozen=True, slots=True)
class StageScope:
    """Whose rows are being staged. All of it must be found again by (job, lineage, location, attempt, epoch)."""

    job_id: str
    pipeline_id: int
    location: str
    attempt: int
    epoch: int
    """The number of the checkpoint that will decide over these rows. Grows for ever within a job."""
    task: int
    tables: Mapping[str, Table]
    """The tables that reach this sink, by path, as they are after the transforms."""
    try_id: str = ""
    """Unique for each execution of the task: two tries of one task must not meet in one file."""
    lineage: str = ""
    """Attempts and epochs are numbered within a lineage. It is another one after checkpoint storage was wiped: then
    epoch 2 comes again, and what a sink remembers of the other lineage's epoch 2 says nothing about it."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A new attempt has claimed the chain: what older attempts staged may go, but for what `keep` names."""

    job_id: str
    pipeline_id: int
    location: str
    attempt: int
    keep: Token | None
    """The tip's token: it may still have to be published. After a savepoint it may be of another lineage."""
    lineage: str = ""
    """Only what this lineage staged is older or newer; what another one left is not this claim's to judge."""


class Sink(Protocol):
    """The writing half of a connector. All methods run in the driver, but for `stage`."""

    guarantee: Guarantee
    condition: str
    """On which condition the guarantee holds, in words; empty for none."""
    commits_cheaply: bool
    """False where each commit makes files or snapshots: epochs then come at `checkpoint.interval`."""
    rewindable: bool
    """Whether `rewind` can take back what later epochs published."""
    overlaps: bool
    """Whether an epoch may be staged while the one before it is not committed yet: rows that only insert do not
    mind their order, where staging writes nothing that another epoch's staging reads."""

    def prepare(self, tables: Sequence[Table]) -> None:
        """Apply the save modes. Once per generation, before its first epoch; may be repeated until that commits."""
        ...

    def stage(self, scope: StageScope, batches: Iterator[TableBatch]) -> JsonObject | None:
        """Write one task's rows so that nothing is visible; say what was written, or None for no rows.

        On an executor or in the driver. Rows come in order. A sink that cannot stage writes at once, and its
        guarantee says so. Memory is bounded by one batch and its own buffers, never by the task.
        """
        ...

    def publish(self, token: Token) -> None:
        """Make the token's rows visible. Idempotent, also when two do it at once, also much later."""
        ...

    def discard(self, claim: Claim) -> None:
        """Remove what attempts older than the claim's have staged, never a newer one's, never `keep`."""
        ...

    def rewind(self, claim: Claim, epoch: int) -> None:
        """Take back what epochs after `epoch` and up to the claim published. Only where `rewindable`."""
        ...

    def close(self) -> None: ...


class SinkBase:
    """The answers of a sink that cannot stage."""

    guarantee = Guarantee.AT_LEAST_ONCE
    condition = ""
    commits_cheaply = True
    rewindable = False
    overlaps = False

    def prepare(self, tables: Sequence[Table]) -> None:
        return None

    def publish(self, token: Token) -> None:
        return None

    def discard(self, claim: Claim) -> None:
        return None

    def rewind(self, claim: Claim, epoch: int) -> None:
        raise AssertionError("this sink does not rewind")

    def close(self) -> None:
        return None


def token_parts(token: Token) -> list[JsonObject]:
    """The parts of a token, as `stage` returned them."""
    parts = token["parts"]
    assert isinstance(parts, list)
    return [part for part in parts if isinstance(part, dict)]


def token_epoch(token: Token) -> int:
    epoch = token["epoch"]
    assert isinstance(epoch, int)
    return epoch


def token_lineage(token: Token) -> str:
    """Whose epoch it is: what a sink remembers as published is keyed by this as well."""
    return str(token.get("lineage") or "")


def token_attempt(token: Token) -> int:
    attempt = token["attempt"]
    assert isinstance(attempt, int)
    return attempt


# ------------------------------------------------------------------------------------- native hand-over


Bytes: TypeAlias = bytes | memoryview


@dataclass(frozen=True, slots=True)
class ByteFormat:
    """A wire format and what else must agree on both sides: how each column of a table is coded."""

    name: str
    types: tuple[str, ...]


class ByteSource(Protocol):
    """A source that can hand its rows over in a wire format (`postgres-copy-messages`), untouched."""

    def byte_format(self, table: str) -> ByteFormat | None: ...

    def read_bytes(self, task: ReadTask) -> Iterator[Bytes]: ...


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbouring columns of a table, told by their places."""

    first: int
    count: int


_RUN = b"holdfast.run"


def run_field(run: Run) -> pa.Field:
    """Of a batch in which a run is one column of bytes, as the wire has it."""
    return pa.field(
        f"columns {run.first} to {run.first + run.count - 1}",
        pa.binary(),
        nullable=False,
        metadata={_RUN: str(run.count)},
    )


def columns_in(field: pa.Field) -> int | None:
    """How many columns of the table a field of bytes stands for; None for a column like any other."""
    count = (field.metadata or {}).get(_RUN)
    return None if count is None else int(count)


class RunSource(ByteSource, Protocol):
    """A source that can also hand some columns over untouched, and others to compute with."""

    def run_format(self, table: str, wanted: Sequence[int]) -> ByteFormat | None:
        """Its `byte_format`, if the wanted columns can be had beside runs."""
        ...

    def read_runs(
        self, task: ReadTask, wanted: Sequence[int], runs: Sequence[Run]
    ) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
        """Of the same rows: the wanted columns, and the runs as `run_field` has them."""
        ...


class FinishingSink(Protocol):
    """A sink that has a word to say about the whole job (row counts): asked after the completed point."""

    def finish(self, totals: Mapping[str, int]) -> None:
        """`totals`: rows committed per table. Raises SinkRejected when the job must not be called finished."""
        ...


class TargetedSink(Protocol):
    """A sink that knows only with its targets whether epochs may overlap, where `overlaps` says no."""

    def overlaps_over(self, tables: Sequence[Table]) -> bool:
        """Asked once per attempt, behind `prepare`, of the tables that reach it."""
        ...


class FrameSink(Protocol):
    """A sink that Spark writes in the JVM. Its `stage` is called in the driver alone, for small epochs."""

    def stage_frame(self, scope: StageScope, table: Table, frame: DataFrame) -> JsonObject | None:
        """As `stage`, for all rows of one table. The part has `"rows"`: how many there were."""
        ...


class ByteSink(Protocol):
    """A sink that takes that format. Used only where no transform stands between and the names agree."""

    def accepts(self, format_: ByteFormat, table: Table) -> bool: ...

    def stage_bytes(
        self, scope: StageScope, table: str, chunks: Iterator[Bytes]
    ) -> JsonObject | None:
        """As `stage`. The part has `"rows"`: how many came."""
        ...


class RunSink(ByteSink, Protocol):
    """A sink whose `stage` takes batches with runs."""

    def accepts_runs(
        self, format_: ByteFormat, table: Table, handed_on: Sequence[int | None]
    ) -> bool:
        """Whether each column can be written: as it comes from that place of the format, or (None) as Arrow has it."""
        ...


# ----------------------------------------------------------------------------------------- declaration


@dataclass(frozen=True, slots=True)
class Connector:
    """What the core knows of a connector. The last thing in its module, named `SOURCE` or `SINK`."""

    name: str
    role: str
    """`source` or `sink`."""
    options: type[Any]
    """A frozen dataclass of `spec.options.option` fields."""
    create: Callable[[Any, Context], Any]
    """From parsed options to a `Source` or a `Sink`."""
    doc: str
    """What it follows and what it guarantees, on which condition. Becomes the head of its page."""
    check: Callable[[Any, JobMode], Sequence[str]] = field(default=lambda options, mode: ())
    """Problems that no single option shows (`fields` and `exclude` both given). Connects to nothing."""
    guarantee: Callable[[Any], tuple[Guarantee, str]] | None = None
    """For sinks: what these options promise and on which condition, told without connecting."""


__all__ = [
    "Budget",
    "ByteFormat",
    "ByteSink",
    "ByteSource",
    "Bytes",
    "Claim",
    "Connector",
    "Context",
    "FinishingSink",
    "FrameSink",
    "FrameSource",
    "Guarantee",
    "JobMode",
    "Json",
    "Position",
    "Probe",
    "ReadPlan",
    "ReadTask",
    "Run",
    "RunSink",
    "RunSource",
    "Sink",
    "SinkBase",
    "Source",
    "SourceBase",
    "StageScope",
    "TableBatch",
    "TargetedSink",
    "Token",
    "columns_in",
    "is_done",
    "run_field",
    "token_attempt",
    "token_epoch",
    "token_lineage",
    "token_parts",
]
