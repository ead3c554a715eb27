"""The heart of the control plane: what is stored and what workers report, to what is done next. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from holdfast.decide.actions import (
    Action,
    CleanUp,
    EndAttempt,
    ForgetJob,
    PlanAttempt,
    RecordOutcome,
    StartAttempt,
    WriteSavepoint,
)
from holdfast.decide.pipelines import (
    Verdict,
    derive_wish,
    is_stalled,
    judge_pipeline,
    stall_ends,
    wants_alone,
)
from holdfast.decide.placement import NoRoom, Placed, place
from holdfast.decide.world import World
from holdfast.model.attempts import Attempt, AttemptKey, EndedHow
from holdfast.model.jobs import Goal, Job, Outcome
from holdfast.model.workers import DesiredAttempt

CLEANUP_BACKOFF_MS = 5_000


def decide(world: World, now_ms: int) -> list[Action]:
    """Every due action, in an order that depends on nothing but the world."""
    found: list[Action] = []
    index = _Index(world)
    for job in sorted(index.jobs, key=lambda j: (j.id, j.generation)):
        found += decide_job(index.narrow(job), job, index.open_attempts + planned(found), now_ms)
    found += _decide_cleanups(world, now_ms)
    found += [ForgetJob(*key) for key in sorted(world.expired)]
    return found


def planned(actions: Sequence[Action]) -> list[Attempt]:
    """The attempts that this very pass has planned: they take slots already."""
    return [
        Attempt(a.key, a.worker_id, 0, alone=a.alone) for a in actions if isinstance(a, PlanAttempt)
    ]


class _Index:
    """A world of many jobs, cut by job once, so that a pass costs no more than there is."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.jobs = world.jobs
        self.open_attempts = [a for a in world.attempts if a.is_open]
        self._by_job: dict[tuple[str, int], list[Attempt]] = {}
        for attempt in world.attempts:
            key = (attempt.key.job_id, attempt.key.generation)
            self._by_job.setdefault(key, []).append(attempt)

    def narrow(self, job: Job) -> World:
        own = self._by_job.get((job.id, job.generation), [])
        return replace(self._world, jobs=(job,), attempts=own)


def decide_job(
    world: World, job: Job, open_attempts: Sequence[Attempt], now_ms: int
) -> list[Action]:
    """`world` holds this job's attempts; `open_attempts` are everybody's."""
    observed = [
        action
        for pipeline_id in job.submitted.pipeline_ids
        for attempt in world.attempts_of(job, pipeline_id)
        if attempt.is_open
        for action in decide_open_attempt(world, job, attempt, now_ms)
    ]
    if observed:
        return observed
    verdicts = {
        pipeline_id: judge_pipeline(world, job, pipeline_id, now_ms)
        for pipeline_id in job.submitted.pipeline_ids
    }
    still_open = any(verdict.open for verdict in verdicts.values())
    if all(verdict.finished for verdict in verdicts.values()):
        return [RecordOutcome(job.id, job.generation, Outcome.FINISHED, "")]
    match job.goal:
        case Goal.RUN:
            return _decide_running(world, job, verdicts, open_attempts, now_ms)
        case _ if still_open:
            return []
        case Goal.SAVEPOINT:
            return _decide_savepoint(world, job)
        case Goal.CANCEL | Goal.FORCE:
            return [RecordOutcome(job.id, job.generation, Outcome.CANCELED, "")]


def decide_open_attempt(world: World, job: Job, attempt: Attempt, now_ms: int) -> list[Action]:
    """What its worker's silence or report means."""
    if job.goal is Goal.FORCE:
        return [EndAttempt(attempt.key, EndedHow.CANCELED, "by force")]
    seen = world.observed(attempt)
    if seen is not None and seen.ended_how is not None:
        return [EndAttempt(attempt.key, seen.ended_how, seen.reason)]
    if world.is_lost(attempt.worker_id, now_ms):
        reason = f"worker {attempt.worker_id} fell silent"
        return [EndAttempt(attempt.key, EndedHow.LOST, reason)]
    if job.goal is not Goal.RUN and _is_overdue(world, job, now_ms):
        reason = "it did not end in time; nothing it does counts any more"
        return [EndAttempt(attempt.key, EndedHow.CANCELED, reason)]
    if seen is None:
        known = attempt.started_at_ms is not None and attempt.worker_id in world.workers
        reason = f"worker {attempt.worker_id} does not know it any more"
        return [EndAttempt(attempt.key, EndedHow.LOST, reason)] if known else []
    if attempt.started_at_ms is None:
        return [StartAttempt(attempt.key)]
    ends = stall_ends(job) if is_stalled(world, job, attempt, now_ms) else None
    return [EndAttempt(attempt.key, ends, "its checkpoints did not advance")] if ends else []


def _is_overdue(world: World, job: Job, now_ms: int) -> bool:
    """A cancel waits one deadline, a savepoint two: its stop becomes a cancel after the first."""
    deadlines = 2 if job.goal is Goal.SAVEPOINT else 1
    return now_ms - job.goal_at_ms > deadlines * world.limits.stop_deadline_ms


def _decide_running(
    world: World,
    job: Job,
    verdicts: dict[int, Verdict],
    open_attempts: Sequence[Attempt],
    now_ms: int,
) -> list[Action]:
    failed = find_failure(verdicts)
    if failed is not None:
        if any(verdict.open for verdict in verdicts.values()):
            return []
        return [RecordOutcome(job.id, job.generation, Outcome.FAILED, failed)]
    found: list[Action] = []
    for pipeline_id, verdict in sorted(verdicts.items()):
        if verdict.finished or verdict.open or now_ms < verdict.due_at_ms:
            continue
        taken = [*open_attempts, *planned(found)]
        alone = wants_alone(world, job, now_ms)
        placed = place(world, job, open_attempts=taken, wants_alone=alone, now_ms=now_ms)
        match placed:
            case Placed(worker_id, is_alone):
                number = 1 + max(
                    (a.key.number for a in world.attempts_of(job, pipeline_id)), default=0
                )
                key = AttemptKey(job.id, job.generation, pipeline_id, number)
                found.append(PlanAttempt(key, worker_id, is_alone))
            case NoRoom():
                pass
    return found


def find_failure(verdicts: dict[int, Verdict]) -> str | None:
    """Why the job has failed, if a pipeline was given up."""
    for pipeline_id, verdict in sorted(verdicts.items()):
        if verdict.given_up is not None:
            return f"pipeline {pipeline_id}: {verdict.given_up}"
    return None


def _decide_savepoint(world: World, job: Job) -> list[Action]:
    if not any(a.started_at_ms is not None for a in world.attempts):
        reason = "it had not started: there is nothing to keep"
        return [RecordOutcome(job.id, job.generation, Outcome.CANCELED, reason)]
    pipelines = job.submitted.pipeline_ids
    return [WriteSavepoint(job.id, job.generation, pipelines, job.goal_at_ms)]


def _decide_cleanups(world: World, now_ms: int) -> Iterator[Action]:
    """One that cannot be done waits longer each time and stands in nobody's way."""
    for cleanup in sorted(world.cleanups, key=lambda c: (c.job_id, c.generation)):
        if now_ms >= cleanup.due_at_ms + min(cleanup.tries, 60) * CLEANUP_BACKOFF_MS:
            yield CleanUp(cleanup.job_id, cleanup.generation)


def derive_desired(world: World, worker_id: str, now_ms: int) -> tuple[DesiredAttempt, ...]:
    """All open attempts of a worker, with what is wished of each. Derived anew for every answer."""
    index = _Index(world)
    jobs = {(job.id, job.generation): job for job in world.jobs}
    found = []
    for attempt in sorted(index.open_attempts, key=lambda a: a.key):
        job = jobs.get((attempt.key.job_id, attempt.key.generation))
        if attempt.worker_id != worker_id or job is None:
            continue
        own = index.narrow(job)
        verdicts = {
            id_: judge_pipeline(own, job, id_, now_ms) for id_ in job.submitted.pipeline_ids
        }
        failing = find_failure(verdicts) is not None
        wish = derive_wish(own, job, attempt, failing=failing, now_ms=now_ms)
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
            )
        )
    return tuple(found)
