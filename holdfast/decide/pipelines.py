"""What is to be done about one pipeline, from the facts about its attempts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from holdfast.decide.attempts import (
    BACKOFF_MAX_MS,
    HEALTHY_STRETCH_MS,
    Failure,
    GiveUp,
    Retry,
    decide_after_failure,
)
from holdfast.decide.isolation import count_deaths
from holdfast.decide.world import World, is_finished, waited_ms
from holdfast.model.attempts import Attempt, EndedHow
from holdfast.model.jobs import Goal, Job, StallPolicy
from holdfast.model.workers import Wish

INTERRUPTED_WAIT_MS = 500
INTERRUPTED_WAIT_MAX_MS = 3_000
HELD_UP_WAIT_MAX_MS = 15_000
_FAILED = (EndedHow.FAILED, EndedHow.REPLACED)
_INTERRUPTED = (EndedHow.LOST, EndedHow.CANCELED)


@dataclass(frozen=True, slots=True)
class Verdict:
    """`open` runs or shall run; else `due_at_ms` says when the next attempt may start, `given_up` that none will."""

    finished: bool = False
    finished_why: str = ""
    open: Attempt | None = None
    due_at_ms: int = 0
    given_up: str | None = None
    given_up_at_ms: int = 0

    def is_due(self, now_ms: int) -> bool:
        """No wait is that long: an instant so far ahead is of a clock that was set back since."""
        return not 0 < self.due_at_ms - now_ms <= BACKOFF_MAX_MS


def judge_pipeline(world: World, job: Job, pipeline_id: int) -> Verdict:
    attempts = world.attempts_of(job, pipeline_id)
    if not attempts:
        return Verdict()
    newest = attempts[-1]
    if newest.is_open:
        return Verdict(open=newest)
    if is_finished(attempts):
        why = next(a.reason for a in attempts if a.ended_how is EndedHow.FINISHED)
        return Verdict(finished=True, finished_why=why)
    ended_at_ms = newest.ended_at_ms or 0
    if newest.ended_how is EndedHow.FAILED_FOR_GOOD:
        return Verdict(given_up=newest.reason, given_up_at_ms=ended_at_ms)
    if newest.ended_how in _FAILED:
        return _after_failure(world, job, attempts, newest)
    if newest.ended_how is EndedHow.HELD_UP:
        return _after_hold_up(attempts, newest)
    if newest.ended_how in _INTERRUPTED:
        return _after_interruption(world, attempts, newest)
    return Verdict()


def _after_failure(world: World, job: Job, attempts: Sequence[Attempt], newest: Attempt) -> Verdict:
    verdict = decide_after_failure(
        _failures(attempts),
        can_help=True,
        retry_times=job.submitted.retry_times,
        retry_interval_ms=job.submitted.retry_interval_ms,
        healthy_ms=world.limits.healthy_stretch_ms,
    )
    match verdict:
        case Retry(wait_ms):
            return Verdict(due_at_ms=(newest.ended_at_ms or 0) + wait_ms)
        case GiveUp(reason):
            reason = f"{newest.reason} ({reason})"
            return Verdict(given_up=reason, given_up_at_ms=newest.ended_at_ms or 0)


def _failures(attempts: Sequence[Attempt]) -> list[Failure]:
    found, advanced = [], False
    for attempt in attempts:
        advanced = advanced or attempt.advanced
        if attempt.ended_how in _FAILED:
            found.append(Failure(attempt.ended_at_ms or 0, advanced))
            advanced = False
    return found


def _after_interruption(world: World, attempts: Sequence[Attempt], newest: Attempt) -> Verdict:
    """Not the pipeline's failure, so no budget is spent. But what is interrupted again and again waits a little: two
    clusters that fight for one job would otherwise do nothing else.
    """
    ended_at_ms = newest.ended_at_ms or 0
    deaths = count_deaths(world.limits, attempts)
    if deaths >= world.limits.crashes_alone_max:
        reason = f"{deaths} workers died under it, one after the other, while it was on trial there"
        return Verdict(given_up=reason, given_up_at_ms=ended_at_ms)
    again = len(_recent(attempts, ended_at_ms, _INTERRUPTED)) - 2
    wait_ms = 0 if again < 0 else INTERRUPTED_WAIT_MS * 2 ** min(again, 10)
    return Verdict(due_at_ms=ended_at_ms + min(wait_ms, INTERRUPTED_WAIT_MAX_MS))


def _after_hold_up(attempts: Sequence[Attempt], newest: Attempt) -> Verdict:
    """Storage that is away fails every job there is, and may be away for hours: none of them pays for it."""
    in_a_row = sum(1 for _ in takewhile(lambda a: a.ended_how is EndedHow.HELD_UP, attempts[::-1]))
    wait_ms = min(INTERRUPTED_WAIT_MS * 2 ** min(in_a_row - 1, 10), HELD_UP_WAIT_MAX_MS)
    return Verdict(due_at_ms=(newest.ended_at_ms or 0) + wait_ms)


def derive_wish(
    world: World, job: Job, attempt: Attempt, *, failing_since_ms: int | None, now_ms: int
) -> Wish:
    """What its worker is told about an open attempt."""
    deadline_ms = world.limits.stop_deadline_ms
    match job.goal:
        case Goal.CANCEL | Goal.FORCE:
            return Wish.CANCEL
        case Goal.SAVEPOINT:
            return Wish.CANCEL if waited_ms(job.goal_at_ms, now_ms) > deadline_ms else Wish.STOP
        case Goal.RUN if failing_since_ms is not None:
            return Wish.CANCEL if waited_ms(failing_since_ms, now_ms) > deadline_ms else Wish.STOP
        case Goal.RUN:
            worker = world.workers.get(attempt.worker_id)
            draining = worker is not None and worker.heartbeat.draining
            return Wish.STOP if draining else Wish.RUN


def is_stalled(world: World, job: Job, attempt: Attempt, now_ms: int) -> bool:
    """It runs, and its tip has not moved for two intervals; or it has not come to its claim at all. A job that wants no
    checkpoint before its end has no interval to be judged by.
    """
    started_at_ms, interval_ms = attempt.started_at_ms, job.submitted.checkpoint_interval_ms
    if started_at_ms is None or not attempt.is_open or job.goal is not Goal.RUN or not interval_ms:
        return False
    since_ms = world.tip_since_ms.get(attempt.key)
    allowed_ms = 2 * interval_ms + world.limits.stall_grace_ms
    if since_ms is None:
        since_ms = max(started_at_ms, world.leading_since_ms)
        allowed_ms = max(allowed_ms, world.limits.start_grace_ms)
    return now_ms - since_ms > allowed_ms


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
