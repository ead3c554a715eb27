"""Attempts as the state store knows them: facts only, each written once. Statuses are derived elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class EndedHow(Enum):
    """Why an attempt is over."""

    FINISHED = "finished"
    """All sources done, all published."""
    STOPPED = "stopped"
    """It was asked to end after its epoch, and did."""
    CANCELED = "canceled"
    FAILED = "failed"
    """It reported an error that another attempt may not meet."""
    FAILED_FOR_GOOD = "failed-for-good"
    """It reported an error that every attempt would meet."""
    LOST = "lost"
    """Its worker fell silent, or does not know it any more."""
    HELD_UP = "held-up"
    """Checkpoint storage did not do what it was asked: the job can do nothing about that."""
    REPLACED = "replaced"
    """It ran and got nowhere; policy ended it."""


@dataclass(frozen=True, slots=True, order=True)
class AttemptKey:
    """Names one attempt for ever."""

    job_id: str
    generation: int
    pipeline_id: int
    number: int

    def __str__(self) -> str:
        return f"{self.job_id}/{self.pipeline_id}#{self.number} of generation {self.generation}"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try at running one pipeline on one worker."""

    key: AttemptKey
    worker_id: str
    planned_at_ms: int
    alone: bool = False
    """It was given a worker to itself, since workers had died that hosted its job."""
    started_at_ms: int | None = None
    """When its worker was first seen to run it."""
    ended_at_ms: int | None = None
    ended_how: EndedHow | None = None
    reason: str = ""
    advanced: bool = False
    """Before it ended, an epoch of its own was committed: whatever ended it, it could run."""

    @property
    def is_open(self) -> bool:
        return self.ended_how is None
