"""All that a decision may look at: what is stored, and what workers report. One frozen picture per tick."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.model.attempts import Attempt, AttemptKey, EndedHow
from holdfast.model.jobs import Job
from holdfast.model.workers import ObservedAttempt, Worker


@dataclass(frozen=True, slots=True)
class Limits:
    """Every limit has a name."""

    worker_lease_ms: int = 3_500
    """A worker that got no answer for so long stops its writes by itself; only then may they be given away."""
    stop_deadline_ms: int = 30_000
    """After it, a stop becomes a cancel, and a cancel no longer waits for anyone."""
    cleanup_delay_ms: int = 60_000
    history_expire_ms: int = 1_440 * 60_000
    crashes_to_isolate: int = 2
    """So many lost attempts in a healthy stretch, and a job gets a worker of its own."""
    crashes_alone_max: int = 3
    """So many more there, and it has failed."""
    stall_grace_ms: int = 2_000


@dataclass(frozen=True, slots=True)
class Cleanup:
    """What a recorded outcome left to do."""

    job_id: str
    generation: int
    due_at_ms: int
    tries: int = 0
    last_error: str = ""


@dataclass(frozen=True, slots=True)
class World:
    """`jobs` are those without an outcome; `attempts` are all of their generations."""

    term: int
    leading_since_ms: int
    jobs: Sequence[Job]
    attempts: Sequence[Attempt]
    workers: Mapping[str, Worker]
    cleanups: Sequence[Cleanup] = ()
    expired: Sequence[tuple[str, int]] = ()
    """Ended jobs (id, generation) whose history is past its time."""
    tip_since_ms: Mapping[AttemptKey, int] = field(default_factory=dict)
    """When this leader saw each attempt's tip move last, by its own clock."""
    limits: Limits = Limits()

    def attempts_of(self, job: Job, pipeline_id: int) -> list[Attempt]:
        """Oldest first."""
        found = [
            attempt
            for attempt in self.attempts
            if attempt.key.job_id == job.id
            and attempt.key.generation == job.generation
            and attempt.key.pipeline_id == pipeline_id
        ]
        return sorted(found, key=lambda attempt: attempt.key.number)

    def is_heard(self, worker_id: str, now_ms: int) -> bool:
        """Whether it has reported within its lease."""
        worker = self.workers.get(worker_id)
        return worker is not None and now_ms - worker.heard_at_ms <= self.limits.worker_lease_ms

    def is_lost(self, worker_id: str, now_ms: int) -> bool:
        """Whether its lease must have ended by now. A new leader gives everyone a whole lease to report."""
        worker = self.workers.get(worker_id)
        heard_at_ms = self.leading_since_ms if worker is None else worker.heard_at_ms
        since_ms = max(heard_at_ms, self.leading_since_ms)
        return now_ms - since_ms > self.limits.worker_lease_ms

    def observed(self, attempt: Attempt) -> ObservedAttempt | None:
        worker = self.workers.get(attempt.worker_id)
        if worker is None:
            return None
        return next((o for o in worker.heartbeat.attempts if o.key == attempt.key), None)


def is_finished(attempts: Sequence[Attempt]) -> bool:
    return any(attempt.ended_how is EndedHow.FINISHED for attempt in attempts)


def find_open(attempts: Sequence[Attempt]) -> Attempt | None:
    return next((attempt for attempt in attempts if attempt.is_open), None)
