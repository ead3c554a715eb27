"""Jobs and their pipelines, as a job file described them: parsed, wired, immutable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from holdfast.model.json import Json, JsonObject


class JobMode(Enum):
    BATCH = "BATCH"
    STREAMING = "STREAMING"


class StallPolicy(Enum):
    """What is done about a pipeline that runs and gets nowhere."""

    WARN = "warn"
    RESTART = "restart"
    FAIL = "fail"


class Role(Enum):
    SOURCE = "source"
    TRANSFORM = "transform"
    SINK = "sink"


@dataclass(frozen=True, slots=True)
class Vertex:
    """One source, transform or sink of a pipeline."""

    role: Role
    kind: str
    """The declared name: `Jdbc`, `Sql`."""
    location: str
    """Stable: role, index among its role in the file, kind: `source-0-jdbc`."""
    options: Any
    """The kind's parsed options dataclass."""
    inputs: tuple[str, ...]
    """Locations of the vertices it reads from."""
    output: str
    """Its `plugin_output`, or its location where none was given. A sink's is its location."""
    parallelism: int
    line: int
    fingerprint: JsonObject = field(default_factory=dict)
    """What a restore compares: kind, identity options; never a secret."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """One connected part of a job's graph, checkpointed and restarted as one. Numbered from 1."""

    id: int
    vertices: tuple[Vertex, ...]
    """Each behind those it reads from."""

    def of(self, role: Role) -> list[Vertex]:
        return [vertex for vertex in self.vertices if vertex.role is role]


@dataclass(frozen=True, slots=True)
class Env:
    """The `env` block."""

    job_id: str | None
    job_name: str
    mode: JobMode
    parallelism: int
    checkpoint_interval_ms: int | None
    """None: not given. 0: only at the end."""
    checkpoint_timeout_ms: int
    stall_policy: StallPolicy
    batch_interval_ms: int | None
    retry_times: int
    retry_interval_ms: int
    rows_per_second_max: float | None
    bytes_per_second_max: float | None
    jars: tuple[str, ...]
    spark: Mapping[str, str]
    """`spark.*` settings, passed on."""
    restore: str | None
    on_missing: str
    on_incompatible: str
    retain_after_cancel: bool
    extra: Mapping[str, Json] = field(default_factory=dict)
    """Accepted for compatibility and of no effect here (`custom_parameters`, `tag_filter`, `flink.*`)."""


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A whole job, ready to be run."""

    env: Env
    pipelines: tuple[Pipeline, ...]


class Goal(Enum):
    """What somebody wants of a job. The newest and strongest wish stands; it never goes back to RUN."""

    RUN = "run"
    SAVEPOINT = "stop with savepoint"
    CANCEL = "cancel"
    FORCE = "cancel without waiting for anyone"


class Outcome(Enum):
    """How a generation of a job ended. Final."""

    FINISHED = "FINISHED"
    FAILED = "FAILED"
    CANCELED = "CANCELED"
    SAVEPOINT_DONE = "SAVEPOINT_DONE"
    UNKNOWABLE = "UNKNOWABLE"


@dataclass(frozen=True, slots=True)
class Ending:
    """Everything that is recorded when a generation ends."""

    outcome: Outcome
    reason: str
    savepoint: str | None
    at_ms: int
    cleanup_due_at_ms: int


class ScheduleStrategy(Enum):
    """What becomes of a job for which there is no room."""

    REJECT = "REJECT"
    WAIT = "WAIT"


@dataclass(frozen=True, slots=True)
class SubmittedJob:
    """One generation of a job as it was submitted. Never changes."""

    job_id: str
    generation: int
    submission: str
    """Made by the submitter: the same again is the same submission, so that it may be retried."""
    name: str
    text: str
    format: str
    variables: Mapping[str, str]
    restore: JsonObject
    mode: JobMode
    pipeline_ids: tuple[int, ...]
    retry_times: int
    retry_interval_ms: int
    checkpoint_interval_ms: int
    stall_policy: StallPolicy
    tag_filter: Mapping[str, str]
    submitted_at_ms: int
    graph: JsonObject = field(default_factory=dict)
    """For people: vertices and edges."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job's row: what was submitted, what is wanted now, and how it ended."""

    submitted: SubmittedJob
    goal: Goal = Goal.RUN
    goal_at_ms: int = 0
    outcome: Outcome | None = None
    ended_at_ms: int | None = None
    reason: str = ""
    savepoint: str | None = None

    @property
    def id(self) -> str:
        return self.submitted.job_id

    @property
    def generation(self) -> int:
        return self.submitted.generation
