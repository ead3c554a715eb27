"""Facts to the words people see. Nothing here is stored, so none of it can be stale or stuck."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from holdfast.decide.pipelines import Verdict, is_stalled, judge_pipeline
from holdfast.decide.placement import NoRoom, Room
from holdfast.decide.world import World
from holdfast.model.attempts import Attempt
from holdfast.model.jobs import Goal, Job


class JobStatus(Enum):
    CREATED = "CREATED"
    PENDING = "PENDING"
    SCHEDULED = "SCHEDULED"
    RUNNING = "RUNNING"
    FAILING = "FAILING"
    DOING_SAVEPOINT = "DOING_SAVEPOINT"
    CANCELING = "CANCELING"
    FINISHED = "FINISHED"
    FAILED = "FAILED"
    CANCELED = "CANCELED"
    SAVEPOINT_DONE = "SAVEPOINT_DONE"
    UNKNOWABLE = "UNKNOWABLE"


class PipelineStatus(Enum):
    PENDING = "PENDING"
    SCHEDULED = "SCHEDULED"
    RUNNING = "RUNNING"
    STALLED = "STALLED"
    RESTARTING = "RESTARTING"
    CANCELING = "CANCELING"
    FINISHED = "FINISHED"
    FAILED = "FAILED"
    CANCELED = "CANCELED"


@dataclass(frozen=True, slots=True)
class PipelineShown:
    """One pipeline as people see it."""

    pipeline_id: int
    status: PipelineStatus
    attempt: int
    worker_id: str | None
    reason: str


_RUNS = (PipelineStatus.RUNNING, PipelineStatus.STALLED, PipelineStatus.RESTARTING)


def derive_pipeline(
    world: World,
    job: Job,
    pipeline_id: int,
    now_ms: int,
    room: Callable[[], Room] | None = None,
) -> PipelineShown:
    """`room`: what is free, where the world does not hold all attempts; asked for when somebody waits."""
    attempts = world.attempts_of(job, pipeline_id)
    verdict = judge_pipeline(world, job, pipeline_id)
    status, reason = _derive_pipeline(world, job, verdict, attempts, now_ms)
    if status is PipelineStatus.PENDING:
        free = _room_of(world, now_ms) if room is None else room()
        reason = _why_pending(free, job)
    number = attempts[-1].key.number if attempts else 0
    worker_id = None if verdict.open is None else verdict.open.worker_id
    return PipelineShown(pipeline_id, status, number, worker_id, reason)


def _derive_pipeline(
    world: World, job: Job, verdict: Verdict, attempts: Sequence[Attempt], now_ms: int
) -> tuple[PipelineStatus, str]:
    if verdict.finished:
        return PipelineStatus.FINISHED, ""
    if verdict.given_up is not None:
        return PipelineStatus.FAILED, verdict.given_up
    if job.outcome is not None:
        return PipelineStatus.CANCELED, attempts[-1].reason if attempts else ""
    if verdict.open is not None:
        return _derive_open(world, job, verdict.open, now_ms)
    if job.goal is not Goal.RUN:
        return PipelineStatus.CANCELED, ""
    if not verdict.is_due(now_ms):
        wait = (verdict.due_at_ms - now_ms) / 1000
        why = attempts[-1].reason or "interrupted"
        reason = f"{why}; the next attempt begins in {wait:.0f} s"
        return PipelineStatus.RESTARTING, reason
    return PipelineStatus.PENDING, ""


def _derive_open(
    world: World, job: Job, attempt: Attempt, now_ms: int
) -> tuple[PipelineStatus, str]:
    if job.goal is not Goal.RUN:
        return PipelineStatus.CANCELING, f"asked to {job.goal.value}"
    if attempt.started_at_ms is None:
        return PipelineStatus.SCHEDULED, "its worker has not reported it yet"
    if is_stalled(world, job, attempt, now_ms):
        return PipelineStatus.STALLED, "its checkpoints do not advance"
    return PipelineStatus.RUNNING, ""


def _room_of(world: World, now_ms: int) -> Room:
    return Room(world, [attempt for attempt in world.attempts if attempt.is_open], now_ms)


def _why_pending(room: Room, job: Job) -> str:
    placed = room.ask(job)
    return placed.reason if isinstance(placed, NoRoom) else "it is about to be placed"


def derive_status(world: World, job: Job, now_ms: int) -> JobStatus:
    """A pure function of goal, attempts and outcome: it cannot contradict the pipelines."""
    if job.outcome is not None:
        return JobStatus(job.outcome.value)
    match job.goal:
        case Goal.SAVEPOINT:
            return JobStatus.DOING_SAVEPOINT
        case Goal.CANCEL | Goal.FORCE:
            return JobStatus.CANCELING
        case Goal.RUN:
            return _derive_running(world, job, now_ms)


def _derive_running(world: World, job: Job, now_ms: int) -> JobStatus:
    """RUNNING as soon as a pipeline does, and while one that did waits for its next attempt."""
    shown = []
    for id_ in job.submitted.pipeline_ids:
        verdict = judge_pipeline(world, job, id_)
        attempts = world.attempts_of(job, id_)
        shown.append(_derive_pipeline(world, job, verdict, attempts, now_ms)[0])
    if PipelineStatus.FAILED in shown:
        return JobStatus.FAILING
    if any(status in _RUNS for status in shown):
        return JobStatus.RUNNING
    if PipelineStatus.SCHEDULED in shown:
        return JobStatus.SCHEDULED
    if PipelineStatus.PENDING in shown:
        return JobStatus.PENDING
    # All have finished, and the outcome is about to be recorded.
    return JobStatus.RUNNING
