"""What is to be done about one pipeline, from the facts about its attempts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.decide.attempts import (
    HEALTHY_STRETCH_MS,
    GiveUp,
    Retry,
    decide_after_failure,
)
from holdfast.decide.world import World, find_open, is_finished
from holdfast.model.attempts import Attempt, EndedHow
from holdfast.model.jobs import Goal, Job, StallPolicy
from holdfast.model.workers import Wish

_COUNTED = (EndedHow.FAILED, EndedHow.REPLACED)


@dataclass(frozen=True, slots=True)
class Verdict:
    """`open` runs or shall run; else `due_at_ms` says when the next attempt may start, `given_up` that none will."""

    finished: bool = False
    open: Attempt | None = None
    due_at_ms: int = 0
    given_up: str | None = None


def judge_pipeline(world: World, job: Job, pipeline_id: int, now_ms: int) -> Verdict:
    attempts = world.attempts_of(job, pipeline_id)
    if is_finished(attempts):
        return Verdict(finished=True)
    found = find_open(attempts)
    if found is not None:
        return Verdict(open=found)
    if not attempts:
        return Verdict()
    newest = attempts[-1]
    if newest.ended_how is EndedHow.FAILED_FOR_GOOD:
        return Verdict(given_up=newest.reason)
    crashes = _recent(attempts, now_ms, (EndedHow.LOST,))
    alone = [attempt for attempt in crashes if attempt.alone]
    if len(alone) >= world.limits.crashes_alone_max:
        reason = f"{len(alone)} workers that hosted nothing else died under it"
        return Verdict(given_up=reason)
    return _after_failures(job, attempts, newest)


def _after_failures(job: Job, attempts: Sequence[Attempt], newest: Attempt) -> Verdict:
    failures = [a for a in attempts if a.ended_how in _COUNTED]
    if newest.ended_how not in _COUNTED:
        return Verdict()
    verdict = decide_after_failure(
        [a.ended_at_ms or 0 for a in failures],
        can_help=True,
        retry_times=job.submitted.retry_times,
        retry_interval_ms=job.submitted.retry_interval_ms,
    )
    match verdict:
        case Retry(wait_ms):
            return Verdict(due_at_ms=(newest.ended_at_ms or 0) + wait_ms)
        case GiveUp(reason):
            return Verdict(given_up=f"{newest.reason} ({reason})")


def wants_alone(world: World, job: Job, now_ms: int) -> bool:
    """Workers have died under this job again and again."""
    crashes = [
        attempt
        for pipeline_id in job.submitted.pipeline_ids
        for attempt in _recent(world.attempts_of(job, pipeline_id), now_ms, (EndedHow.LOST,))
    ]
    return len(crashes) >= world.limits.crashes_to_isolate


def derive_wish(world: World, job: Job, attempt: Attempt, *, failing: bool, now_ms: int) -> Wish:
    """What its worker is told about an open attempt."""
    late = now_ms - job.goal_at_ms > world.limits.stop_deadline_ms
    match job.goal:
        case Goal.CANCEL | Goal.FORCE:
            return Wish.CANCEL
        case Goal.SAVEPOINT:
            return Wish.CANCEL if late else Wish.STOP
        case Goal.RUN:
            worker = world.workers.get(attempt.worker_id)
            draining = worker is not None and worker.heartbeat.draining
            return Wish.STOP if failing or draining else Wish.RUN


def is_stalled(world: World, job: Job, attempt: Attempt, now_ms: int) -> bool:
    """It runs, and its tip has not moved for two intervals."""
    if attempt.started_at_ms is None or not attempt.is_open or job.goal is not Goal.RUN:
        return False
    since_ms = world.tip_since_ms.get(attempt.key)
    if since_ms is None:
        return False
    allowed_ms = 2 * job.submitted.checkpoint_interval_ms + world.limits.stall_grace_ms
    return now_ms - max(since_ms, attempt.started_at_ms) > allowed_ms


def stall_ends(job: Job) -> EndedHow | None:
    """What policy makes of a stalled attempt; None: it is only told."""
    match job.submitted.stall_policy:
        case StallPolicy.WARN:
            return None
        case StallPolicy.RESTART:
            return EndedHow.REPLACED
        case StallPolicy.FAIL:
            return EndedHow.FAILED_FOR_GOOD


def _recent(attempts: Sequence[Attempt], now_ms: int, how: Sequence[EndedHow]) -> list[Attempt]:
    return [
        attempt
        for attempt in attempts
        if attempt.ended_how in how and now_ms - (attempt.ended_at_ms or 0) < HEALTHY_STRETCH_MS
    ]
