"""Facts to the words people see. Nothing here is stored, so none of it can be stale or stuck."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from holdfast.decide.jobs import find_failure
from holdfast.decide.pipelines import is_stalled, judge_pipeline, wants_alone
from holdfast.decide.placement import NoRoom, place
from holdfast.decide.world import World
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
    FINISHED = "FINISHED"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class PipelineShown:
    """One pipeline as people see it."""

    pipeline_id: int
    status: PipelineStatus
    attempt: int
    worker_id: str | None
    reason: str


def derive_pipeline(world: World, job: Job, pipeline_id: int, now_ms: int) -> PipelineShown:
    """`world` may hold all jobs."""
    attempts = world.attempts_of(job, pipeline_id)
    number = attempts[-1].key.number if attempts else 0
    verdict = judge_pipeline(world, job, pipeline_id, now_ms)

    def shown(status: PipelineStatus, reason: str = "") -> PipelineShown:
        worker_id = None if verdict.open is None else verdict.open.worker_id
        return PipelineShown(pipeline_id, status, number, worker_id, reason)

    if verdict.finished:
        return shown(PipelineStatus.FINISHED)
    if verdict.given_up is not None:
        return shown(PipelineStatus.FAILED, verdict.given_up)
    if verdict.open is not None:
        if verdict.open.started_at_ms is None:
            return shown(PipelineStatus.SCHEDULED, "its worker has not reported it yet")
        if is_stalled(world, job, verdict.open, now_ms):
            return shown(PipelineStatus.STALLED, "its checkpoints do not advance")
        return shown(PipelineStatus.RUNNING)
    if now_ms < verdict.due_at_ms:
        wait = (verdict.due_at_ms - now_ms) / 1000
        reason = f"{attempts[-1].reason}; the next attempt begins in {wait:.0f} s"
        return shown(PipelineStatus.RESTARTING, reason)
    open_attempts = [attempt for attempt in world.attempts if attempt.is_open]
    alone = wants_alone(world, job, now_ms)
    placed = place(world, job, open_attempts=open_attempts, wants_alone=alone, now_ms=now_ms)
    return shown(PipelineStatus.PENDING, placed.reason if isinstance(placed, NoRoom) else "")


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
    pipelines = job.submitted.pipeline_ids
    verdicts = {id_: judge_pipeline(world, job, id_, now_ms) for id_ in pipelines}
    if find_failure(verdicts) is not None:
        return JobStatus.FAILING
    if any(
        verdict.open and verdict.open.started_at_ms is not None for verdict in verdicts.values()
    ):
        return JobStatus.RUNNING
    if any(verdict.open for verdict in verdicts.values()):
        return JobStatus.SCHEDULED
    return JobStatus.PENDING
