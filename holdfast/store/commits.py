"""EVERY durable change of lifecycle state: one function, one transaction, one check of the term.

Each names what it expects to find, and doing it twice is the same as once: after a lost answer the next tick reads
again and repeats what is still due.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    bindparam,
    delete,
    func,
    insert,
    literal,
    or_,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from holdfast.model.attempts import AttemptKey, EndedHow
from holdfast.model.errors import Terminal
from holdfast.model.jobs import Ending, Goal, Job, SubmittedJob
from holdfast.model.json import JsonObject
from holdfast.model.lease import Lease
from holdfast.store.connection import CrashPoint, Deposed, writing
from holdfast.store.reads import SAME_SUBMISSION
from holdfast.store.rows import job_from_row, storable, submitted_to_text, to_text
from holdfast.store.schema import attempts, cleanups, events, jobs, leader, metrics, workers

EVENTS_PER_JOB_MAX = 200
_STRENGTH = {Goal.RUN: 0, Goal.SAVEPOINT: 1, Goal.CANCEL: 2, Goal.FORCE: 3}
ATTEMPTS_PER_PIPELINE_MAX = 1_000
"""Of a job that lives for years and is interrupted daily; older ones say nothing about what is due."""
# Built once: to build a statement costs more than to run it.
_RENEW = (
    update(leader)
    .where(leader.c.id == 1, leader.c.term == bindparam("own_term"))
    .values(expires_at_ms=bindparam("until_ms"))
)

_NEWEST_JOB = (
    select(jobs)
    .where(jobs.c.job_id == bindparam("job_id"))
    .order_by(jobs.c.generation.desc())
    .limit(1)
)
_GENERATION = select(jobs).where(
    jobs.c.job_id == bindparam("job_id"), jobs.c.generation == bindparam("generation")
)
_IS_LIVE = select(jobs.c.job_id).where(
    jobs.c.job_id == bindparam("job_id"),
    jobs.c.generation == bindparam("generation"),
    jobs.c.outcome.is_(None),
)
_NUMBERS = select(
    func.coalesce(func.max(attempts.c.number), 0).label("newest"),
    (func.count() - func.count(attempts.c.ended_how)).label("open_count"),
).where(
    attempts.c.job_id == bindparam("job_id"),
    attempts.c.generation == bindparam("generation"),
    attempts.c.pipeline_id == bindparam("pipeline_id"),
)
_PLAN, _SUBMIT, _NOTE = insert(attempts), insert(jobs), insert(events)
_OLDEST_KEPT = (
    select(events.c.id)
    .where(events.c.job_id == bindparam("job_id"), events.c.generation == bindparam("generation"))
    .order_by(events.c.id.desc())
    .offset(EVENTS_PER_JOB_MAX - 1)
    .limit(1)
)


def _overwriting(dialect: Any) -> tuple[Any, Any]:
    """Statements that write the newest report of a pipeline and of a worker over the one before, many at once."""
    report = dialect.insert(metrics)
    report = report.on_conflict_do_update(
        index_elements=list(metrics.primary_key.columns),
        set_={"observed": report.excluded.observed, "at_ms": report.excluded.at_ms},
    )
    heard = dialect.insert(workers)
    heard = heard.on_conflict_do_update(
        index_elements=[workers.c.worker_id],
        set_={"heartbeat": heard.excluded.heartbeat, "heard_at_ms": heard.excluded.heard_at_ms},
    )
    return report, heard


_OVERWRITE = {"sqlite": _overwriting(sqlite), "postgresql": _overwriting(postgresql)}
_FIRST_LEADER = {
    name: dialect.insert(leader).on_conflict_do_nothing().execution_options(preserve_rowcount=True)
    for name, dialect in (("sqlite", sqlite), ("postgresql", postgresql))
}


class JobIsThere(Terminal):
    """A job id was submitted that is live, or a tombstone."""

    code = "job-is-there"


class NoSuchJob(Terminal):
    """A job id that the store does not know."""

    code = "no-such-job"


class Commits:
    """One object for one master. Nothing here decides."""

    def __init__(self, engine: Engine, crash_point: CrashPoint) -> None:
        self._engine = engine
        self._point = crash_point
        self._tries = itertools.count(1)
        self.tried = 0
        """Grows with each change of a lifecycle that was tried here, done or not: while this master leads nobody else
        makes any, so what was read before is still true when it has not grown since.
        """

    @contextmanager
    def _writing(self, doing: str, term: int | None) -> Iterator[Connection]:
        try:
            with self._overwriting(doing, term) as tx:
                yield tx
        finally:
            self.tried = next(self._tries)

    def _overwriting(self, doing: str, term: int | None) -> AbstractContextManager[Connection]:
        """Of what no lifecycle depends on."""
        return writing(self._engine, doing, term, self._point)

    # -------------------------------------------------------------------------------------------- leading

    def take_lease(
        self, *, seen_term: int, holder: str, url: str, expires_at_ms: int, above: int = 0
    ) -> Lease | None:
        """Lead with the next term, and one above `above`, unless another took it since `seen_term` was read."""
        lease = Lease(max(seen_term, above) + 1, holder, url, expires_at_ms)
        values = {"term": lease.term, "holder": holder, "url": url, "expires_at_ms": expires_at_ms}
        with self._writing("take lease", None) as tx:
            if seen_term == 0:
                first = _FIRST_LEADER[self._engine.dialect.name].values(id=1, **values)
                if tx.execute(first).rowcount == 1:
                    return lease
            taken = tx.execute(update(leader).where(leader.c.term == seen_term).values(**values))
            return lease if taken.rowcount == 1 else None

    def renew_lease(self, term: int, *, expires_at_ms: int) -> None:
        """Raises Deposed when another leads."""
        self._write_lease("renew lease", term, expires_at_ms)

    def give_up_lease(self, term: int) -> None:
        """A master that ends in peace does not let others wait."""
        self._write_lease("give up lease", term, 0)

    def _write_lease(self, doing: str, term: int, expires_at_ms: int) -> None:
        """Check and write are one statement: a shared lock that is made exclusive later could wait in a ring."""
        with self._overwriting(doing, None) as tx:
            values = {"own_term": term, "until_ms": expires_at_ms}
            if tx.execute(_RENEW, values).rowcount == 0:
                found = tx.execute(select(leader.c.term)).scalar()
                raise Deposed(doing=doing, term=term, found=found or 0)

    # -------------------------------------------------------------------------------------------- jobs

    def submit_job(self, term: int, job: SubmittedJob, *, is_restore: bool) -> Job:
        """The next generation of a job id. The same submission again is the same generation, however late it comes."""
        with self._writing("submit job", term) as tx:
            asked = {"job_id": job.job_id, "submission": job.submission}
            same = tx.execute(SAME_SUBMISSION, asked).first()
            if same is not None:
                return job_from_row(same)
            newest = tx.execute(_NEWEST_JOB, {"job_id": job.job_id}).first()
            if newest is not None:
                self._refuse_if_there(tx, job_from_row(newest), is_restore=is_restore)
            generation = 1 if newest is None else newest.generation + 1
            key = {"job_id": job.job_id, "generation": generation}
            row = {
                **key,
                "submission": job.submission,
                "submitted": submitted_to_text(job),
                "submitted_at_ms": job.submitted_at_ms,
                "goal": Goal.RUN.name,
                "goal_at_ms": job.submitted_at_ms,
                "reason": "",
            }
            tx.execute(_SUBMIT, row)
            return job_from_row(tx.execute(_GENERATION, key).one())

    def _refuse_if_there(self, tx: Connection, job: Job, *, is_restore: bool) -> None:
        if job.outcome is None:
            raise JobIsThere(
                f"Cannot submit job {job.id}: it is live (goal: {job.goal.value}). Stop it first, or"
                " submit under another id."
            )
        tombstone = tx.execute(
            select(cleanups.c.due_at_ms).where(
                cleanups.c.job_id == job.id, cleanups.c.generation == job.generation
            )
        ).first()
        if tombstone is not None and not is_restore:
            raise JobIsThere(
                f"Cannot submit job {job.id} afresh: it ended {job.outcome.value} and is not cleaned"
                " up yet. Wait for its cleanup delay, or submit it with a restore."
            )

    def set_goal(self, term: int, job_id: str, generation: int, goal: Goal, *, at_ms: int) -> bool:
        """A goal only gets stronger, and an ended job has none. Tells whether it changed."""
        weaker = [g.name for g, strength in _STRENGTH.items() if strength < _STRENGTH[goal]]
        with self._writing("set goal", term) as tx:
            moved = tx.execute(
                update(jobs)
                .where(
                    jobs.c.job_id == job_id,
                    jobs.c.generation == generation,
                    jobs.c.outcome.is_(None),
                    jobs.c.goal.in_(weaker),
                )
                .values(goal=goal.name, goal_at_ms=at_ms)
            )
            if moved.rowcount == 1:
                _note(tx, (job_id, generation), f"Asked to {goal.value}", at_ms)
            return moved.rowcount == 1

    def record_outcome(self, term: int, job_id: str, generation: int, ending: Ending) -> None:
        """The outcome and what it leaves to do, in one transaction: there is no window between to die in."""
        with self._writing("record outcome", term) as tx:
            ended = tx.execute(
                update(jobs)
                .where(
                    jobs.c.job_id == job_id,
                    jobs.c.generation == generation,
                    jobs.c.outcome.is_(None),
                )
                .values(
                    outcome=ending.outcome.value,
                    reason=storable(ending.reason),
                    savepoint=ending.savepoint,
                    ended_at_ms=ending.at_ms,
                )
            )
            if ended.rowcount == 1:
                tx.execute(
                    insert(cleanups).values(
                        job_id=job_id,
                        generation=generation,
                        due_at_ms=ending.cleanup_due_at_ms,
                        tries=0,
                        last_error="",
                    )
                )
                said = f"Ended {ending.outcome.value}{_because(ending.reason)}"
                _note(tx, (job_id, generation), said, ending.at_ms)

    def finish_cleanup(self, term: int, job_id: str, generation: int) -> None:
        with self._writing("finish cleanup", term) as tx:
            own = (cleanups.c.job_id == job_id, cleanups.c.generation == generation)
            tx.execute(delete(cleanups).where(*own))

    def postpone_cleanup(
        self, term: int, job_id: str, generation: int, error: str, *, due_at_ms: int
    ) -> None:
        """`due_at_ms`: by the clock of who leads now, whoever wrote the instant before."""
        with self._writing("postpone cleanup", term) as tx:
            tx.execute(
                update(cleanups)
                .where(cleanups.c.job_id == job_id, cleanups.c.generation == generation)
                .values(tries=cleanups.c.tries + 1, last_error=storable(error), due_at_ms=due_at_ms)
            )

    def forget_job(self, term: int, job_id: str, generation: int) -> None:
        """An ended generation leaves the history, with all that belongs to it."""
        with self._writing("forget job", term) as tx:
            ended = (
                jobs.c.job_id == job_id,
                jobs.c.generation == generation,
                jobs.c.outcome.is_not(None),
            )
            if tx.execute(delete(jobs).where(*ended)).rowcount == 0:
                return
            for table in (attempts, metrics, events, cleanups):
                own = (table.c.job_id == job_id, table.c.generation == generation)
                tx.execute(delete(table).where(*own))

    # -------------------------------------------------------------------------------------------- attempts

    def plan_attempt(
        self, term: int, key: AttemptKey, *, worker_id: str, alone: bool, at_ms: int
    ) -> None:
        """Only the next number, only of a live job, only while no other attempt of the pipeline is open."""
        with self._writing("plan attempt", term) as tx:
            of_job = {"job_id": key.job_id, "generation": key.generation}
            of_pipeline = {**of_job, "pipeline_id": key.pipeline_id}
            live = tx.execute(_IS_LIVE, of_job).first()
            newest, open_count = tx.execute(_NUMBERS, of_pipeline).one()
            if live is None or open_count or newest != key.number - 1:
                return
            row = {
                **of_pipeline,
                "number": key.number,
                "worker_id": worker_id,
                "planned_at_ms": at_ms,
                "alone": alone,
                "reason": "",
            }
            tx.execute(_PLAN, row)
            oldest_kept = key.number - ATTEMPTS_PER_PIPELINE_MAX + 1
            if oldest_kept > 1:
                own = [attempts.c[name] == value for name, value in of_pipeline.items()]
                tx.execute(delete(attempts).where(*own, attempts.c.number < oldest_kept))

    def start_attempt(self, term: int, key: AttemptKey, *, at_ms: int) -> None:
        with self._writing("start attempt", term) as tx:
            fresh = (*_is(key), attempts.c.started_at_ms.is_(None), attempts.c.ended_how.is_(None))
            tx.execute(update(attempts).where(*fresh).values(started_at_ms=at_ms))

    def note_advance(self, term: int, key: AttemptKey) -> None:
        with self._writing("note advance", term) as tx:
            tx.execute(update(attempts).where(*_is(key)).values(advanced=True))

    def end_attempt(
        self,
        term: int,
        key: AttemptKey,
        how: EndedHow,
        *,
        reason: str,
        at_ms: int,
        advanced: bool = False,
    ) -> None:
        """Once; who comes later changes nothing."""
        with self._writing("end attempt", term) as tx:
            ended = tx.execute(
                update(attempts)
                .where(*_is(key), attempts.c.ended_how.is_(None))
                .values(
                    ended_how=how.value,
                    reason=storable(reason),
                    ended_at_ms=at_ms,
                    advanced=or_(attempts.c.advanced, literal(advanced)),
                )
            )
            if ended.rowcount == 1:
                said = f"Attempt {key.number} of pipeline {key.pipeline_id} {how.value}"
                _note(tx, (key.job_id, key.generation), said + _because(reason), at_ms)

    # -------------------------------------------------------------------------------------------- write-behind

    def write_reports(
        self,
        term: int,
        reports: Sequence[tuple[str, int, int, JsonObject]],
        heard: Sequence[tuple[str, JsonObject, int]],
        *,
        at_ms: int,
    ) -> None:
        """The newest report of each pipeline and worker, over the one before. `heard` are all workers there are.

        In order of their keys: two that write the same rows then wait for each other and never in a ring.
        """
        over_metrics, over_workers = _OVERWRITE[self._engine.dialect.name]
        seen = [
            {
                "job_id": job_id,
                "generation": generation,
                "pipeline_id": pipeline_id,
                "observed": to_text(observed),
                "at_ms": at_ms,
            }
            for job_id, generation, pipeline_id, observed in sorted(reports, key=lambda r: r[:3])
        ]
        known = [
            {"worker_id": id_, "heartbeat": to_text(told), "heard_at_ms": heard_at_ms}
            for id_, told, heard_at_ms in sorted(heard, key=lambda h: h[0])
        ]
        with self._overwriting("write reports", term) as tx:
            if seen:
                tx.execute(over_metrics, seen)
            if known:
                tx.execute(over_workers, known)
            tx.execute(delete(workers).where(workers.c.worker_id.not_in([h[0] for h in heard])))

    def record_event(
        self, term: int, job_id: str, generation: int, said: str, *, at_ms: int
    ) -> None:
        with self._writing("record event", term) as tx:
            _note(tx, (job_id, generation), said, at_ms)


def _note(tx: Connection, job: tuple[str, int], said: str, at_ms: int) -> None:
    """A line for people; the oldest of a job make room."""
    of_job = {"job_id": job[0], "generation": job[1]}
    tx.execute(_NOTE, {**of_job, "at_ms": at_ms, "said": storable(said)})
    oldest_kept = tx.execute(_OLDEST_KEPT, of_job).scalar()
    if oldest_kept is not None:
        own = (events.c.job_id == job[0], events.c.generation == job[1])
        tx.execute(delete(events).where(*own, events.c.id < oldest_kept))


def _because(reason: str) -> str:
    return f": {reason}" if reason else ""


def _is(key: AttemptKey) -> tuple[ColumnElement[bool], ...]:
    return (
        attempts.c.job_id == key.job_id,
        attempts.c.generation == key.generation,
        attempts.c.pipeline_id == key.pipeline_id,
        attempts.c.number == key.number,
    )
