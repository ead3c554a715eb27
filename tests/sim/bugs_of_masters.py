"""Planted in the control plane: decisions, the state store's writes, leading, cleaning up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Engine, delete, insert, select, update

from holdfast.decide import attempts as decide_attempts
from holdfast.decide import jobs as decide_jobs
from holdfast.decide import status as decide_status
from holdfast.decide.actions import Action, CleanUp, EndAttempt, RecordOutcome
from holdfast.decide.attempts import Failure
from holdfast.decide.pipelines import derive_wish
from holdfast.decide.placement import Room
from holdfast.decide.world import World
from holdfast.master import act as master_act
from holdfast.master import cleaning
from holdfast.master.act import Acting, act
from holdfast.master.cleaning import clean_up_storage
from holdfast.master.master import Master
from holdfast.model.attempts import Attempt, EndedHow
from holdfast.model.errors import HoldfastError
from holdfast.model.jobs import Ending, Goal, Job, SubmittedJob
from holdfast.model.lease import Lease
from holdfast.model.workers import Wish, Worker
from holdfast.store import commits as store_commits
from holdfast.store import connection as store_connection
from holdfast.store.commits import Commits
from holdfast.store.connection import CrashPoint, writing
from holdfast.store.schema import cleanups, jobs
from tests.sim.planting import Bug, Patch, a_bug

DECIDE_JOB = decide_jobs.decide_job
DERIVE_WISH = derive_wish
END_ATTEMPT = master_act.end_attempt
IS_LOST = World.is_lost
RECORD_OUTCOME = Commits.record_outcome
ROOM, PLACE = Room.__init__, Room.place
SUBMIT_JOB = Commits.submit_job
TAKE_LEASE = Commits.take_lease


# ----------------------------------------------------------------------------------- leading and writing


def _take_over_all_there_is(self: Commits, **given: Any) -> Lease | None:
    """What is not cleaned up yet is still in the map of running jobs."""
    lease = TAKE_LEASE(self, **given)
    if lease is not None:
        with writing(self._engine, "take over jobs", lease.term, self._point) as tx:
            for row in list(tx.execute(select(cleanups))):
                own = (jobs.c.job_id == row.job_id, jobs.c.generation == row.generation)
                tx.execute(update(jobs).where(*own).values(outcome=None, ended_at_ms=None))
            tx.execute(delete(cleanups))
    return lease


@contextmanager
def _check_the_term_at_the_start(
    engine: Engine, doing: str, term: int | None, crash_point: CrashPoint
) -> Iterator[Connection]:
    if term is not None:
        with engine.connect() as connection:
            store_connection._check_term(connection, doing, term, lock=False)
    with writing(engine, doing, None, crash_point) as tx:
        yield tx


def _never_check_the_term(*given: Any, **more: Any) -> None:
    return None


def _expect_all_to_be_known(self: World, worker_id: str, now_ms: int) -> bool:
    return worker_id not in self.workers or IS_LOST(self, worker_id, now_ms)


def _measure_by_the_wall_clock(self: Master) -> int:
    return self.clock.now_ms()


# --------------------------------------------------------------------------------- outcomes and cleanups


def _clean_up_at_once(action: RecordOutcome, given: Acting) -> None:
    """No need to write down what is done right away."""
    ending = given.ending(action.outcome, action.reason)
    given.commits.record_outcome(given.term, action.job_id, action.generation, ending)
    with given.commits._writing("drop cleanup", given.term) as tx:
        own = (cleanups.c.job_id == action.job_id, cleanups.c.generation == action.generation)
        tx.execute(delete(cleanups).where(*own))
    job = given.reads.job_generation(action.job_id, action.generation)
    with suppress(HoldfastError):
        if job is not None:
            clean_up_storage(job, given.files)


def _record_in_two_transactions(
    self: Commits, term: int, job_id: str, generation: int, ending: Ending
) -> None:
    own = {"job_id": job_id, "generation": generation}
    with self._writing("record outcome", term) as tx:
        tx.execute(
            update(jobs)
            .where(*(jobs.c[name] == value for name, value in own.items()))
            .values(
                outcome=ending.outcome.value,
                reason=ending.reason,
                savepoint=ending.savepoint,
                ended_at_ms=ending.at_ms,
            )
        )
    due = {"due_at_ms": ending.cleanup_due_at_ms, "tries": 0, "last_error": ""}
    with self._writing("record cleanup", term) as tx:
        tx.execute(insert(cleanups).values(**own, **due))


def _take_all_for_ones_own(*given: Any) -> bool:
    return True


def _clean_up_or_fail(action: CleanUp, given: Acting) -> None:
    job = given.reads.job_generation(action.job_id, action.generation)
    if job is not None:
        clean_up_storage(job, given.files)
    given.commits.finish_cleanup(given.term, action.job_id, action.generation)


def _stop_at_the_first_failure(self: Master, actions: Sequence[Action], acting: Acting) -> None:
    for action in actions:
        act(action, acting)


# -------------------------------------------------------------------------------------- jobs and wishes


def _save_what_runs(world: World, job: Job, room: Room, now_ms: int) -> Sequence[Action]:
    """Its tips are in storage whether it runs or not."""
    verdicts = decide_jobs.judge_pipelines(world, job)
    begun = all(verdict.open or verdict.finished for verdict in verdicts.values())
    if job.goal is Goal.SAVEPOINT and begun:
        return decide_jobs._decide_savepoint(world, job, verdicts)
    return DECIDE_JOB(world, job, room, now_ms)


def _wish_the_latest(
    self: Commits, term: int, job_id: str, generation: int, goal: Goal, *, at_ms: int
) -> bool:
    with self._writing("set goal", term) as tx:
        tx.execute(
            update(jobs)
            .where(jobs.c.job_id == job_id, jobs.c.generation == generation)
            .where(jobs.c.outcome.is_(None))
            .values(goal=goal.name, goal_at_ms=at_ms)
        )
    return True


def _submit_each_time(self: Commits, term: int, job: SubmittedJob, *, is_restore: bool) -> Job:
    """Whoever calls twice wants it twice."""
    named = replace(job, submission=f"{job.submission} at {job.submitted_at_ms}")
    stored = SUBMIT_JOB(self, term, named, is_restore=is_restore)
    with self._writing("name submission", term) as tx:
        own = (jobs.c.job_id == stored.id, jobs.c.generation == stored.generation)
        tx.execute(update(jobs).where(*own).values(submission=job.submission))
    return replace(stored, submitted=replace(stored.submitted, submission=job.submission))


def _refuse_nothing(*given: Any, **more: Any) -> None:
    return None


def _wait_for_everybody(*given: Any) -> bool:
    return False


def _wish_it_politely(world: World, job: Job, attempt: Attempt, **given: Any) -> Wish:
    wish = DERIVE_WISH(world, job, attempt, **given)
    return Wish.STOP if wish is Wish.CANCEL and job.goal is Goal.SAVEPOINT else wish


def _see_no_stall(*given: Any) -> bool:
    return False


def _count_all_failures(failures: Sequence[Failure], healthy_ms: int) -> int:
    return len(failures)


def _count_none(failures: Sequence[Failure], healthy_ms: int) -> int:
    return 1


# ------------------------------------------------------------------------------------------------- slots

_taken: dict[tuple[int, int], dict[str, int]] = {}
"""Of each term of each world: how many slots of each worker are taken."""


def _count_up(self: Room, world: World, *given: Any) -> None:
    ROOM(self, world, *given)
    if len(_taken) > 50:
        _taken.clear()
    self._hosted = _taken.setdefault((world.term, world.leading_since_ms), {})


def _count_down(action: EndAttempt, given: Acting) -> None:
    """A worker that is lost has taken its slots along."""
    END_ATTEMPT(action, given)
    attempt = next(
        a
        for a in given.reads.attempts(action.key.job_id, action.key.generation)
        if a.key == action.key
    )
    for (term, _), counts in _taken.items():
        if term == given.term and action.how is not EndedHow.LOST:
            counts[attempt.worker_id] = counts.get(attempt.worker_id, 0) - 1


def _find_a_slot(self: Room, worker: Worker) -> bool:
    return True


BUGS: dict[str, Bug] = {
    "no terminal check on takeover": a_bug(
        "After a failover jobs that had ended run again.",
        Commits, "take_lease", _take_over_all_there_is,
    ),
    "lease checked at the start of a write only": a_bug(
        "A master that slept in the midst of a write has written over its successor.",
        store_commits, "writing", _check_the_term_at_the_start,
    ),
    "no term on writes": a_bug(
        "Two masters lead, and both write.",
        store_connection, "_check_term", _never_check_the_term,
    ),
    "a new leader waits for nobody": a_bug(
        "A failover restarts all pipelines.",
        World, "is_lost", _expect_all_to_be_known,
    ),
    "silence by the wall clock": a_bug(
        "When the clock was set, all workers were taken for lost.",
        Master, "now_ms", _measure_by_the_wall_clock,
    ),
    "cleanup in memory only": a_bug(
        "What a job left is never removed when the master dies, or storage fails, at its end.",
        master_act, "record_outcome", _clean_up_at_once,
    ),
    "outcome and cleanup in two transactions": a_bug(
        "What a job left is never removed when the master dies between the two.",
        Commits, "record_outcome", _record_in_two_transactions,
    ),
    "cleanup without generation check": a_bug(
        "The cleanup of an ended job removes checkpoints of the one that was submitted since.",
        cleaning, "_belongs_to", _take_all_for_ones_own,
    ),
    "one failure stops the rest": Bug(
        "One file that cannot be removed, and nothing else is cleaned up.",
        (
            Patch(Master, "_act", _stop_at_the_first_failure),
            Patch(master_act, "clean_up", _clean_up_or_fail),
        ),
    ),
    "savepoint of what runs": a_bug(
        "A savepoint lacks what was committed while it was made.",
        decide_jobs, "decide_job", _save_what_runs,
    ),
    "the latest wish counts": a_bug(
        "A job that was canceled runs on: somebody asked for a savepoint after that.",
        Commits, "set_goal", _wish_the_latest,
    ),
    "a repeated request is another job": a_bug(
        "The answer was lost, the client tried again, and the job ran twice.",
        Commits, "submit_job", _submit_each_time,
    ),
    "a live job is submitted again": a_bug(
        "Two generations of one job run side by side.",
        Commits, "_refuse_if_there", _refuse_nothing,
    ),
    "no deadline of a stop": Bug(
        "A stop hangs for as long as a source does.",
        (
            Patch(decide_jobs, "_is_overdue", _wait_for_everybody),
            Patch(decide_jobs, "derive_wish", _wish_it_politely),
        ),
    ),
    "a stall is not seen": a_bug(
        "RUNNING, says the status; nothing has moved for hours.",
        decide_status, "is_stalled", _see_no_stall,
    ),
    "retry budget never refilled": a_bug(
        "A job that ran for weeks died of its fourth hiccup.",
        decide_attempts, "_count_in_a_row", _count_all_failures,
    ),
    "retry budget never spent": a_bug(
        "A job that cannot work is tried for ever.",
        decide_attempts, "_count_in_a_row", _count_none,
    ),
    "slot counters": Bug(
        "Slots leak: jobs wait for room that is there, or share what is not.",
        (
            Patch(Room, "__init__", _count_up),
            Patch(master_act, "end_attempt", _count_down),
        ),
    ),
    "slots are not looked at": a_bug(
        "A worker of two slots runs three pipelines.",
        Room, "_has_slot", _find_a_slot,
    ),
}  # fmt: skip
