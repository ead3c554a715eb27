"""What workers tell and are told. A heartbeat carries all that a worker knows, and its answer all that it shall do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from holdfast.model.attempts import AttemptKey, EndedHow
from holdfast.model.json import JsonObject


@dataclass(frozen=True, slots=True)
class ObservedAttempt:
    """An attempt as its worker sees it. One that has ended is told until the answer no longer names it."""

    key: AttemptKey
    tip: int = 0
    """Number of the newest checkpoint it knows; 0 before its claim."""
    tip_at_ms: int = 0
    sources_done: tuple[str, ...] = ()
    counts: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Rows and bytes since the generation began, by task location."""
    fraction: float | None = None
    restored: JsonObject | None = None
    """The restore report of its claim."""
    ended_how: EndedHow | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Everything a worker knows, every time."""

    worker_id: str
    """Of this process; never reused."""
    host: str
    """Machine and process, for people."""
    sent_at_ms: int
    """By the worker's own clock; comes back in the answer."""
    slots: int | None
    """None: dynamic, as many as are asked for."""
    tags: Mapping[str, str]
    draining: bool
    attempts: tuple[ObservedAttempt, ...]
    term: int = 0
    """Of the newest answer it had obeyed when it sent this; 0: of none."""


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker as the leader sees it."""

    heartbeat: Heartbeat
    heard_at_ms: int
    """By the leader's clock."""

    @property
    def id(self) -> str:
        return self.heartbeat.worker_id


class Wish(Enum):
    """What is wanted of one attempt."""

    RUN = "run"
    STOP = "stop"
    """End after the epoch, leaving a checkpoint."""
    CANCEL = "cancel"
    """End at once."""


@dataclass(frozen=True, slots=True)
class DesiredAttempt:
    """One attempt that a worker shall have. With all that it takes to run it."""

    key: AttemptKey
    wish: Wish
    submission: str
    job_text: str
    """Empty where the worker's own report shows that it has it."""
    job_format: str
    job_name: str
    variables: Mapping[str, str]
    restore: JsonObject
    """The request to use until the pipeline has a checkpoint of its own in this generation."""
    claimed: bool = False
    """An earlier attempt of this generation has committed something: there is a chain, wherever this worker looks."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Everything a worker shall do. An attempt that is not named here shall not run."""

    term: int
    """A worker refuses an answer of an older term than it has seen."""
    sent_at_ms: int
    """Of the heartbeat that is answered: the worker's lease runs from there."""
    lease_ms: int
    attempts: tuple[DesiredAttempt, ...]
    tags: Mapping[str, str] | None = None
    """Its tags from now on, where somebody has asked for others."""
    drain: bool = False
    """Whether somebody has asked it to end in peace."""
