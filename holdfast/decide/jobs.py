"""The heart of the control plane: what is stored and what workers report, to what is done next. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from holdfast.decide.actions import (
    Action,
    CleanUp,
    EndAttempt,
    ForgetJob,
    NoteAdvance,
    PlanAttempt,
    RecordOutcome,
    StartAttempt,
    WriteSavepoint,
)
from holdfast.decide.isolation import key_of
from holdfast.decide.pipelines import (
    Verdict,
    derive_wish,
    is_stalled,
    judge_pipeline,
    stall_ends,
)
from holdfast.decide.placement import NoRoom, Placed, Room
from holdfast.decide.world import World, has_advanced, waited_ms
from holdfast.model.attempts import Attempt, AttemptKey, EndedHow
from holdfast.model.jobs import Goal, Job, Outcome
from holdfast.model.workers import DesiredAttempt, ObservedAttempt

CLEANUP_BACKOFF_MS = 5_000
CLEANUP_WAITS_MAX = 60


def decide(world: World, now_ms: int) -> list[Action]:
    """Every due action, in an order that depends on nothing but the world."""
    found: list[Action] = []
    room = Room(world, [a for a in world.attempts if a.is_open], now_ms)
    for job in sorted(world.jobs, key=lambda j: (-room.suspects.get(key_of(j), 0), key_of(j))):
        # Who is suspected comes first: an empty worker shows soonest whether it is that job.
        found += decide_job(world, job, room, now_ms)
    found += _decide_cleanups(world, now_ms)
    found += [ForgetJob(*key) for key in sorted(world.expired)]
    return found


def decide_job(world: World, job: Job, room: Room, now_ms: int) -> Sequence[Action]:
    """`room` is what all jobs share."""
    verdicts = judge_pipelines(world, job)
    failing_since_ms = find_failing_since(verdicts)
    observed: list[Action] = []
    for verdict in verdicts.values():
        if verdict.open is not None:
            action = decide_open_attempt(world, job, verdict.open, failing_since_ms, now_ms)
            if action is not None:
                observed.append(action)
    if observed:
        return observed
    if all(verdict.finished for verdict in verdicts.values()):
        return [RecordOutcome(job.id, job.generation, Outcome.FINISHED, _why_finished(verdicts))]
    match job.goal:
        case Goal.RUN:
            return _decide_running(world, job, verdicts, room, now_ms)
        case _ if any(verdict.open for verdict in verdicts.values()):
            return []
        case Goal.SAVEPOINT:
            return _decide_savepoint(world, job, verdicts)
        case Goal.CANCEL | Goal.FORCE:
            return [RecordOutcome(job.id, job.generation, Outcome.CANCELED, "")]


def judge_pipelines(world: World, job: Job) -> dict[int, Verdict]:
    """Of all pipelines of a job, by their ids."""
    return {id_: judge_pipeline(world, job, id_) for id_ in job.submitted.pipeline_ids}


def decide_open_attempt(
    world: World, job: Job, attempt: Attempt, failing_since_ms: int | None, now_ms: int
) -> Action | None:
    """What its worker's silence or report means."""
    seen = world.observed(attempt)
    ended = _derive_end(world, job, attempt, seen, failing_since_ms, now_ms)
    if ended is not None:
        advanced = attempt.advanced or has_advanced(seen)
        return EndAttempt(attempt.key, *ended, advanced=advanced)
    if seen is not None and attempt.started_at_ms is None:
        return StartAttempt(attempt.key)
    if has_advanced(seen) and not attempt.advanced:
        return NoteAdvance(attempt.key)
    return None


def _derive_end(
    world: World,
    job: Job,
    attempt: Attempt,
    seen: ObservedAttempt | None,
    failing_since_ms: int | None,
    now_ms: int,
) -> tuple[EndedHow, str] | None:
    """How and why an open attempt is over, if it is. The first that holds."""
    if job.goal is Goal.FORCE:
        return EndedHow.CANCELED, "by force"
    if seen is not None and seen.ended_how is not None:
        return seen.ended_how, seen.reason
    if world.is_lost(attempt.worker_id, now_ms):
        return EndedHow.LOST, f"worker {attempt.worker_id} fell silent"
    if _is_overdue(world, job, failing_since_ms, now_ms):
        return EndedHow.CANCELED, "it did not end in time; nothing it does counts any more"
    if seen is None:
        known = attempt.started_at_ms is not None and world.is_answered(attempt.worker_id)
        reason = f"worker {attempt.worker_id} does not know it any more"
        return (EndedHow.LOST, reason) if known else None
    if is_stalled(world, job, attempt, now_ms) and (ends := stall_ends(job)) is not None:
        return ends, "its checkpoints did not advance"
    return None


def _is_overdue(world: World, job: Job, failing_since_ms: int | None, now_ms: int) -> bool:
    """A cancel waits one deadline. What is first asked to stop waits two: it is canceled after the first."""
    deadline_ms = world.limits.stop_deadline_ms
    match job.goal:
        case Goal.CANCEL | Goal.FORCE:
            return waited_ms(job.goal_at_ms, now_ms) > deadline_ms
        case Goal.SAVEPOINT:
            return waited_ms(job.goal_at_ms, now_ms) > 2 * deadline_ms
        case Goal.RUN:
            if failing_since_ms is None:
                return False
            return waited_ms(failing_since_ms, now_ms) > 2 * deadline_ms


def _decide_running(
    world: World, job: Job, verdicts: Mapping[int, Verdict], room: Room, now_ms: int
) -> Sequence[Action]:
    if all(verdict.open for verdict in verdicts.values()):
        return ()
    failed = find_failure(verdicts)
    if failed is not None:
        if any(verdict.open for verdict in verdicts.values()):
            return ()
        return [RecordOutcome(job.id, job.generation, Outcome.FAILED, failed)]
    found: list[Action] = []
    for pipeline_id, verdict in sorted(verdicts.items()):
        if verdict.finished or verdict.open or not verdict.is_due(now_ms):
            continue
        placed = room.place(job)
        match placed:
            case Placed(worker_id, is_alone):
                attempts = world.attempts_of(job, pipeline_id)
                number = 1 + (attempts[-1].key.number if attempts else 0)
                key = AttemptKey(job.id, job.generation, pipeline_id, number)
                found.append(PlanAttempt(key, worker_id, is_alone))
            case NoRoom():
                pass
    return found


def find_failure(verdicts: Mapping[int, Verdict]) -> str | None:
    """Why the job has failed, if a pipeline was given up."""
    for pipeline_id, verdict in sorted(verdicts.items()):
        if verdict.given_up is not None:
            return f"pipeline {pipeline_id}: {verdict.given_up}"
    return None


def find_failing_since(verdicts: Mapping[int, Verdict]) -> int | None:
    """When the first pipeline was given up: the others are asked to end, and not for ever."""
    given_up = [v.given_up_at_ms for v in verdicts.values() if v.given_up is not None]
    return min(given_up) if given_up else None


def _why_finished(verdicts: Mapping[int, Verdict]) -> str:
    """Something is to be said of a job only if it holds for all its pipelines: that they had nothing left to do."""
    said = {verdict.finished_why for verdict in verdicts.values()}
    return said.pop() if len(said) == 1 else ""


def _decide_savepoint(world: World, job: Job, verdicts: Mapping[int, Verdict]) -> Sequence[Action]:
    pipelines = job.submitted.pipeline_ids
    tried = [attempt for id_ in pipelines for attempt in world.attempts_of(job, id_)]
    if not any(attempt.started_at_ms is not None for attempt in tried):
        reason = "it had not started: there is nothing to keep"
        return [RecordOutcome(job.id, job.generation, Outcome.CANCELED, reason)]
    failed = find_failure(verdicts)
    reason = "" if failed is None else f"it had failed ({failed}); its tips are kept"
    advanced = tuple(sorted({a.key.pipeline_id for a in tried if a.advanced}))
    return [
        WriteSavepoint(job.id, job.generation, pipelines, job.goal_at_ms, reason, advanced=advanced)
    ]


def _decide_cleanups(world: World, now_ms: int) -> Iterator[Action]:
    """One that cannot be done waits longer each time and stands in nobody's way."""
    for cleanup in sorted(world.cleanups, key=lambda c: (c.job_id, c.generation)):
        longest_ms = world.limits.cleanup_delay_ms + cleanup_wait_ms(cleanup.tries)
        ahead_ms = cleanup.due_at_ms - now_ms
        if ahead_ms <= 0 or ahead_ms > longest_ms:
            yield CleanUp(cleanup.job_id, cleanup.generation, cleanup.tries)


def cleanup_wait_ms(tries: int) -> int:
    """After so many that failed."""
    return min(tries, CLEANUP_WAITS_MAX) * CLEANUP_BACKOFF_MS


def derive_desired(world: World, worker_id: str, now_ms: int) -> tuple[DesiredAttempt, ...]:
    """All open attempts of a worker, with what is wished of each. Derived anew for every answer."""
    jobs = {(job.id, job.generation): job for job in world.jobs}
    mine = [a for a in world.attempts if a.is_open and a.worker_id == worker_id]
    found = []
    for attempt in sorted(mine, key=lambda a: a.key):
        job = jobs.get((attempt.key.job_id, attempt.key.generation))
        if job is None:
            continue
        failing_since_ms = find_failing_since(judge_pipelines(world, job))
        wish = derive_wish(world, job, attempt, failing_since_ms=failing_since_ms, now_ms=now_ms)
        submitted = job.submitted
        is_known = world.observed(attempt) is not None
        found.append(
            DesiredAttempt(
                key=attempt.key,
                wish=wish,
                submission=submitted.submission,
                job_text="" if is_known else submitted.text,
                job_format=submitted.format,
                job_name=submitted.name,
                variables=submitted.variables,
                restore=submitted.restore,
                claimed=any(a.advanced for a in world.tried_until(attempt)[:-1]),
            )
        )
    return tuple(found)
