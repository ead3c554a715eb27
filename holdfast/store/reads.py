"""What is read of the store: one consistent picture for deciding, and the API's queries."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, Engine, and_, func, select

from holdfast.decide.world import Cleanup
from holdfast.model.attempts import Attempt
from holdfast.model.jobs import Job, Outcome
from holdfast.model.json import JsonObject
from holdfast.model.lease import Lease
from holdfast.store.connection import reading
from holdfast.store.rows import attempt_from_row, job_from_row
from holdfast.store.schema import attempts, cleanups, events, jobs, leader, metrics, workers


@dataclass(frozen=True, slots=True)
class Stored:
    """Everything a decision needs of the store."""

    lease: Lease | None
    jobs: Sequence[Job]
    """Without an outcome."""
    attempts: Sequence[Attempt]
    """Of those jobs."""
    cleanups: Sequence[Cleanup]
    expired: Sequence[tuple[str, int]]


class Reads:
    """All queries. Stand-bys use them too."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def lease(self) -> Lease | None:
        with reading(self._engine) as tx:
            return _lease(tx)

    def observe(self, *, expired_before_ms: int) -> Stored:
        """Costs what lives, not what is kept of the past."""
        with reading(self._engine) as tx:
            live = select(jobs).where(jobs.c.outcome.is_(None)).order_by(jobs.c.job_id)
            joined = and_(
                jobs.c.job_id == attempts.c.job_id, jobs.c.generation == attempts.c.generation
            )
            tried = select(attempts).join(jobs, joined).where(jobs.c.outcome.is_(None))
            return Stored(
                _lease(tx),
                [job_from_row(row) for row in tx.execute(live)],
                [attempt_from_row(row) for row in tx.execute(tried)],
                [Cleanup(*row) for row in tx.execute(select(cleanups))],
                _expired(tx, expired_before_ms),
            )

    def jobs(
        self, *, outcome: Outcome | None, live: bool, skip: int = 0, most: int = 1_000_000
    ) -> list[Job]:
        """Live ones in order of submission, ended ones newest first."""
        query = select(jobs)
        if live:
            query = query.where(jobs.c.outcome.is_(None)).order_by(jobs.c.submitted_at_ms)
        else:
            query = query.where(jobs.c.outcome.is_not(None)).order_by(jobs.c.ended_at_ms.desc())
        if outcome is not None:
            query = query.where(jobs.c.outcome == outcome.value)
        with reading(self._engine) as tx:
            return [job_from_row(row) for row in tx.execute(query.offset(skip).limit(most))]

    def job(self, job_id: str) -> Job | None:
        """The newest generation."""
        query = select(jobs).where(jobs.c.job_id == job_id).order_by(jobs.c.generation.desc())
        with reading(self._engine) as tx:
            row = tx.execute(query.limit(1)).first()
            return None if row is None else job_from_row(row)

    def job_generation(self, job_id: str, generation: int) -> Job | None:
        query = select(jobs).where(jobs.c.job_id == job_id, jobs.c.generation == generation)
        with reading(self._engine) as tx:
            row = tx.execute(query).first()
            return None if row is None else job_from_row(row)

    def attempts(self, job_id: str, generation: int) -> list[Attempt]:
        query = (
            select(attempts)
            .where(attempts.c.job_id == job_id, attempts.c.generation == generation)
            .order_by(attempts.c.pipeline_id, attempts.c.number)
        )
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

    def cleanups(self) -> list[Cleanup]:
        with reading(self._engine) as tx:
            return [Cleanup(*row) for row in tx.execute(select(cleanups))]


def _lease(tx: Connection) -> Lease | None:
    row = tx.execute(select(leader).where(leader.c.id == 1)).first()
    return None if row is None else Lease(row.term, row.holder, row.url, row.expires_at_ms)


def _expired(tx: Connection, before_ms: int) -> list[tuple[str, int]]:
    """Ended long ago, and not a tombstone any more."""
    joined = and_(jobs.c.job_id == cleanups.c.job_id, jobs.c.generation == cleanups.c.generation)
    query = (
        select(jobs.c.job_id, jobs.c.generation)
        .outerjoin(cleanups, joined)
        .where(jobs.c.ended_at_ms < before_ms, cleanups.c.job_id.is_(None))
        .limit(100)
    )
    return [(row.job_id, row.generation) for row in tx.execute(query)]
