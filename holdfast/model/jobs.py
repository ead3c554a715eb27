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
