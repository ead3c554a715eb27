"""Everything the leader can do: one durable change each, but for `WriteSavepoint` and `CleanUp`, which are effects
followed by one.
"""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.model.attempts import AttemptKey, EndedHow
from holdfast.model.jobs import Outcome


@dataclass(frozen=True, slots=True)
class PlanAttempt:
    """Intent before effect: its worker learns of it by the next answer."""

    key: AttemptKey
    worker_id: str
    alone: bool


@dataclass(frozen=True, slots=True)
class StartAttempt:
    """Its worker was seen to run it."""

    key: AttemptKey


@dataclass(frozen=True, slots=True)
class NoteAdvance:
    """It has committed an epoch of its own: should its worker die together with this master, the next one knows."""

    key: AttemptKey


@dataclass(frozen=True, slots=True)
class EndAttempt:
    key: AttemptKey
    how: EndedHow
    reason: str
    advanced: bool = False
    """It had committed an epoch of its own."""


@dataclass(frozen=True, slots=True)
class RecordOutcome:
    """Final. The cleanup is recorded with it."""

    job_id: str
    generation: int
    outcome: Outcome
    reason: str


@dataclass(frozen=True, slots=True)
class WriteSavepoint:
    """All pipelines stand still: copy their tips, then record SAVEPOINT_DONE."""

    job_id: str
    generation: int
    pipeline_ids: tuple[int, ...]
    at_ms: int
    """Names the savepoint, so that writing it twice is the same as once."""
    reason: str = ""
    """What people should know about it."""
    advanced: tuple[int, ...] = ()
    """Pipelines that are known to have committed something."""


@dataclass(frozen=True, slots=True)
class CleanUp:
    """A tombstone's time has come."""

    job_id: str
    generation: int
    tries: int = 0
    """That have failed."""


@dataclass(frozen=True, slots=True)
class ForgetJob:
    """Its history is past its time."""

    job_id: str
    generation: int


Action = (
    PlanAttempt
    | StartAttempt
    | NoteAdvance
    | EndAttempt
    | RecordOutcome
    | WriteSavepoint
    | CleanUp
    | ForgetJob
)
