"""What is read of the store: one consistent picture for deciding, and the API's queries."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Engine, Row, Select, Table, and_, bindparam, func, select

from holdfast.decide.world import Cleanup, JobKey
from holdfast.model.attempts import Attempt
from holdfast.model.jobs import Job, Outcome, SubmittedJob
from holdfast.model.json import JsonObject
from holdfast.model.lease import Lease
from holdfast.store.connection import reading
from holdfast.store.rows import attempt_from_row, job_from_row, job_of, submitted_from_row
from holdfast.store.schema import attempts, cleanups, events, jobs, leader, metrics, workers


@dataclass(frozen=True, slots=True)
class Stored:
    """Everything a decision needs of the store."""

    lease: Lease | None
    jobs: Sequence[Job]
    """Without an outcome, in order of their ids."""
    attempts: Sequence[Attempt]
    """Of those jobs."""
    cleanups: Sequence[Cleanup]
    expired: Sequence[tuple[str, int]]

    @property
    def term(self) -> int | None:
        return None if self.lease is None else self.lease.term


PARSED_AT_ONCE_MAX = 500
_SAME_JOB = and_(jobs.c.job_id == attempts.c.job_id, jobs.c.generation == attempts.c.generation)
_FACTS = [column for column in jobs.c if column.name != "submitted"]
_LIVE = select(*_FACTS).where(jobs.c.outcome.is_(None))
_LIVE_BY_ID = _LIVE.order_by(jobs.c.job_id)
_TRIED = select(attempts).join(jobs, _SAME_JOB).where(jobs.c.outcome.is_(None))
# Asked with each heartbeat of each worker: built once.
_HOSTED = (
    select(attempts.c.job_id, attempts.c.generation)
    .where(attempts.c.worker_id == bindparam("worker_id"), attempts.c.ended_how.is_(None))
    .distinct()
    .subquery()
)
_LIVE_THERE = _LIVE.join(
    _HOSTED, and_(jobs.c.job_id == _HOSTED.c.job_id, jobs.c.generation == _HOSTED.c.generation)
).order_by(jobs.c.job_id)
_TRIED_THERE = select(attempts).join(
    _HOSTED,
    and_(attempts.c.job_id == _HOSTED.c.job_id, attempts.c.generation == _HOSTED.c.generation),
)
_CLEANUPS = select(cleanups)
_NEWEST_JOB = (
    select(jobs)
    .where(jobs.c.job_id == bindparam("job_id"))
    .order_by(jobs.c.generation.desc())
    .limit(1)
)
SAME_SUBMISSION = select(jobs).where(
    jobs.c.job_id == bindparam("job_id"), jobs.c.submission == bindparam("submission")
)
_ATTEMPTS = (
    select(attempts)
    .where(
        attempts.c.job_id == bindparam("job_id"), attempts.c.generation == bindparam("generation")
    )
    .order_by(attempts.c.pipeline_id, attempts.c.number)
)


class Reads:
    """All queries. Stand-bys use them too."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._submitted: dict[tuple[str, int, str, int], SubmittedJob] = {}
        """What was submitted never changes: of jobs that live it is read once."""

    def lease(self) -> Lease | None:
        with reading(self._engine) as tx:
            return _lease(tx)

    def observe(self, *, expired_before_ms: int, known: Stored | None = None) -> Stored:
        """Costs what lives, not what is kept of the past. `known`: what was read in the same term, when no lifecycle
        has changed since.
        """
        with reading(self._engine) as tx:
            lease = _lease(tx)
            if known is None or known.term != (lease and lease.term):
                live: Sequence[Job] = self._live_jobs(tx, _LIVE_BY_ID, forget=True)
                tried: Sequence[Attempt] = [attempt_from_row(row) for row in tx.execute(_TRIED)]
            else:
                live, tried = known.jobs, known.attempts
            return Stored(
                lease,
                live,
                tried,
                [Cleanup(*row) for row in tx.execute(_CLEANUPS)],
                _expired(tx, expired_before_ms),
            )

    def observe_worker(self, worker_id: str) -> Stored:
        """What a decision needs that concerns one worker: the jobs that have an open attempt there, whole."""
        of_worker = {"worker_id": worker_id}
        with reading(self._engine) as tx:
            there = self._live_jobs(tx, _LIVE_THERE, of_worker)
            keys = {(found.id, found.generation) for found in there}
            rows = tx.execute(_TRIED_THERE, of_worker) if there else ()
            found = [attempt_from_row(row) for row in rows]
            own = [a for a in found if (a.key.job_id, a.key.generation) in keys]
            return Stored(_lease(tx), there, own, [], [])

    def _live_jobs(
        self,
        tx: Connection,
        query: Select[Any],
        values: Mapping[str, Any] | None = None,
        *,
        forget: bool = False,
    ) -> list[Job]:
        """`forget`: the query gives all that live, so what is known of others can go."""
        rows = list(tx.execute(query, values))
        names = [(row.job_id, row.generation, row.submission, row.submitted_at_ms) for row in rows]
        known = self._submitted
        new = [name for name in names if name not in known]
        parsed = dict(_read_submitted(tx, new)) if new else {}
        found = [
            job_of(row, known.get(name) or parsed[name])
            for row, name in zip(rows, names, strict=True)
        ]
        if forget and (new or len(known) != len(names)):
            wanted = zip(names, (job.submitted for job in found), strict=True)
            self._submitted = dict(wanted)
        elif new:
            self._submitted = {**known, **parsed}
        return found

    def jobs(
        self, *, outcome: Outcome | None, live: bool, skip: int = 0, most: int = 1_000_000
    ) -> list[Job]:
        """Live ones in order of submission, ended ones newest first."""
        query = select(jobs)
        if live:
            query = query.where(jobs.c.outcome.is_(None)).order_by(jobs.c.submitted_at_ms)
        else:
            # An ended job has an instant of its end, and by that there is an index.
            query = query.where(jobs.c.ended_at_ms.is_not(None)).order_by(jobs.c.ended_at_ms.desc())
        if outcome is not None:
            query = query.where(jobs.c.outcome == outcome.value)
        with reading(self._engine) as tx:
            return [job_from_row(row) for row in tx.execute(query.offset(skip).limit(most))]

    def job(self, job_id: str) -> Job | None:
        """The newest generation."""
        with reading(self._engine) as tx:
            row = tx.execute(_NEWEST_JOB, {"job_id": job_id}).first()
            return None if row is None else job_from_row(row)

    def is_submitted(self, job_id: str, submission: str) -> bool:
        """Whether any generation came by this submission."""
        of_job = {"job_id": job_id, "submission": submission}
        with reading(self._engine) as tx:
            return tx.execute(SAME_SUBMISSION, of_job).first() is not None

    def job_generation(self, job_id: str, generation: int) -> Job | None:
        query = select(jobs).where(jobs.c.job_id == job_id, jobs.c.generation == generation)
        with reading(self._engine) as tx:
            row = tx.execute(query).first()
            return None if row is None else job_from_row(row)

    def attempts(self, job_id: str, generation: int) -> list[Attempt]:
        of_job = {"job_id": job_id, "generation": generation}
        with reading(self._engine) as tx:
            return [attempt_from_row(row) for row in tx.execute(_ATTEMPTS, of_job)]

    def attempts_of(self, keys: Sequence[JobKey]) -> list[Attempt]:
        """Of several jobs at once."""
        with reading(self._engine) as tx:
            return [attempt_from_row(row) for row in _rows_of(tx, attempts, keys)]

    def metrics_of(self, keys: Sequence[JobKey]) -> dict[JobKey, dict[int, JsonObject]]:
        """The newest reports of several jobs at once."""
        found: dict[JobKey, dict[int, JsonObject]] = {}
        with reading(self._engine) as tx:
            for row in _rows_of(tx, metrics, keys):
                of_job = found.setdefault((row.job_id, row.generation), {})
                of_job[row.pipeline_id] = json.loads(row.observed)
        return found

    def hosted(self) -> dict[str, int]:
        """How many open attempts each worker has."""
        counted = func.count().label("attempts")
        query = select(attempts.c.worker_id, counted).group_by(attempts.c.worker_id)
        with reading(self._engine) as tx:
            found = tx.execute(query.where(attempts.c.ended_how.is_(None)))
            return {row.worker_id: row.attempts for row in found}

    def open_attempts(self) -> list[Attempt]:
        """Of all jobs."""
        query = select(attempts).where(attempts.c.ended_how.is_(None))
        with reading(self._engine) as tx:
            return [attempt_from_row(row) for row in tx.execute(query)]

    def metrics(self, job_id: str, generation: int) -> dict[int, JsonObject]:
        """The newest report of each pipeline."""
        query = select(metrics.c.pipeline_id, metrics.c.observed).where(
            metrics.c.job_id == job_id, metrics.c.generation == generation
        )
        with reading(self._engine) as tx:
            return {row.pipeline_id: json.loads(row.observed) for row in tx.execute(query)}

    def events(self, job_id: str, *, most: int = 200) -> list[tuple[int, str]]:
        """Newest first."""
        query = select(events.c.at_ms, events.c.said).where(events.c.job_id == job_id)
        with reading(self._engine) as tx:
            found = tx.execute(query.order_by(events.c.id.desc()).limit(most))
            return [(row.at_ms, row.said) for row in found]

    def workers(self) -> list[tuple[JsonObject, int]]:
        query = select(workers.c.heartbeat, workers.c.heard_at_ms).order_by(workers.c.worker_id)
        with reading(self._engine) as tx:
            return [(json.loads(row.heartbeat), row.heard_at_ms) for row in tx.execute(query)]

    def count_outcomes(self) -> dict[str, int]:
        query = select(jobs.c.outcome, func.count()).group_by(jobs.c.outcome)
        with reading(self._engine) as tx:
            return {outcome or "": count for outcome, count in tx.execute(query)}

    def count_pending(self) -> int:
        """Jobs that live and have not begun anywhere yet."""
        begun = (
            select(attempts.c.job_id)
            .where(_SAME_JOB, attempts.c.started_at_ms.is_not(None))
            .correlate(jobs)
        )
        query = select(func.count()).select_from(jobs)
        with reading(self._engine) as tx:
            found = tx.execute(query.where(jobs.c.outcome.is_(None), ~begun.exists()))
            return int(found.scalar_one())

    def cleanups(self) -> list[Cleanup]:
        with reading(self._engine) as tx:
            return [Cleanup(*row) for row in tx.execute(_CLEANUPS)]


def _read_submitted(
    tx: Connection, wanted: Sequence[tuple[str, int, str, int]]
) -> Iterator[tuple[tuple[str, int, str, int], SubmittedJob]]:
    names = set(wanted)
    query = select(jobs).where(jobs.c.outcome.is_(None))
    if len(names) <= PARSED_AT_ONCE_MAX:
        query = query.where(jobs.c.job_id.in_(sorted({name[0] for name in names})))
    for row in tx.execute(query):
        name = (row.job_id, row.generation, row.submission, row.submitted_at_ms)
        if name in names:
            yield name, submitted_from_row(row)


def _rows_of(tx: Connection, table: Table, keys: Sequence[JobKey]) -> list[Row[Any]]:
    """By id alone: SQLite finds pairs by looking at every row."""
    wanted = set(keys)
    query = select(table).where(table.c.job_id.in_(sorted({job_id for job_id, _ in wanted})))
    found = tx.execute(query) if wanted else ()
    return [row for row in found if (row.job_id, row.generation) in wanted]


_LEASE = select(leader).where(leader.c.id == 1)
_ENDED_AND_CLEANED = (
    select(jobs.c.job_id, jobs.c.generation)
    .outerjoin(
        cleanups,
        and_(jobs.c.job_id == cleanups.c.job_id, jobs.c.generation == cleanups.c.generation),
    )
    .where(cleanups.c.job_id.is_(None), jobs.c.ended_at_ms < bindparam("before_ms"))
    .limit(100)
)


def _lease(tx: Connection) -> Lease | None:
    row = tx.execute(_LEASE).first()
    return None if row is None else Lease(row.term, row.holder, row.url, row.expires_at_ms)


def _expired(tx: Connection, before_ms: int) -> list[tuple[str, int]]:
    """Ended long ago, and not a tombstone any more."""
    found = tx.execute(_ENDED_AND_CLEANED, {"before_ms": before_ms})
    return [(row.job_id, row.generation) for row in found]
