"""All that a decision may look at: what is stored, and what workers report. One frozen picture per tick."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from holdfast.decide.attempts import HEALTHY_STRETCH_MS
from holdfast.model.attempts import Attempt, AttemptKey, EndedHow
from holdfast.model.jobs import Job
from holdfast.model.workers import ObservedAttempt, Worker

JobKey = tuple[str, int]
"""Id and generation."""


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
    """So many lost attempts in a healthy stretch that had committed nothing, or twice as many that had, and a job gets
    a worker of its own."""
    crashes_alone_max: int = 3
    """So many more in a row there that committed nothing, and it has failed."""
    alone_ms: int = 20_000
    """So long is nobody put beside a job that is suspected; longer, where the last workers took longer to die."""
    stall_grace_ms: int = 2_000
    healthy_stretch_ms: int = HEALTHY_STRETCH_MS
    """After so long without a failure, in which something was committed, a pipeline's budget of retries is whole."""
    start_grace_ms: int = 60_000
    """An attempt may take so long to its claim: Spark may have to start, and old output to be discarded."""


@dataclass(frozen=True, slots=True)
class Cleanup:
    """What a recorded outcome left to do."""

    job_id: str
    generation: int
    due_at_ms: int
    tries: int = 0
    last_error: str = ""


@dataclass(frozen=True)
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
    """When this leader saw each attempt's tip move last, by its own clock. Of those that have claimed."""
    limits: Limits = Limits()

    def attempts_of(self, job: Job, pipeline_id: int) -> Sequence[Attempt]:
        """Oldest first."""
        return self._by_pipeline.get((job.id, job.generation, pipeline_id), ())

    def tried_until(self, attempt: Attempt) -> Sequence[Attempt]:
        """The attempts of its pipeline, oldest first, this one last. Alone, where this is a picture of others."""
        key = attempt.key
        tried = self._by_pipeline.get((key.job_id, key.generation, key.pipeline_id), (attempt,))
        return [other for other in tried if other.key.number <= key.number]

    @cached_property
    def _by_pipeline(self) -> Mapping[tuple[str, int, int], Sequence[Attempt]]:
        """Cut once, so that a pass over many jobs costs no more than there is."""
        found: dict[tuple[str, int, int], list[Attempt]] = {}
        for attempt in self.attempts:
            key = attempt.key
            found.setdefault((key.job_id, key.generation, key.pipeline_id), []).append(attempt)
        for tried in found.values():
            if len(tried) > 1:
                tried.sort(key=lambda attempt: attempt.key.number)
        return found

    def is_heard(self, worker_id: str, now_ms: int) -> bool:
        """Whether it has reported within its lease."""
        worker = self.workers.get(worker_id)
        return worker is not None and now_ms - worker.heard_at_ms <= self.limits.worker_lease_ms

    def is_lost(self, worker_id: str, now_ms: int) -> bool:
        """Whether its lease must have ended by now. A new leader gives everyone a whole lease to report."""
        worker = self.workers.get(worker_id)
        since_ms = self.leading_since_ms if worker is None else worker.heard_at_ms
        return now_ms - since_ms > self.limits.worker_lease_ms

    def is_answered(self, worker_id: str) -> bool:
        """Whether its newest report was sent after an answer of this leader. Another may have been on its way for long,
        from before attempts began that run there now: what it does not name may be there.
        """
        worker = self.workers.get(worker_id)
        return worker is not None and worker.heartbeat.term == self.term

    def observed(self, attempt: Attempt) -> ObservedAttempt | None:
        """As its own worker tells it. What another worker says of it is no news of it."""
        told = self._seen.get(attempt.worker_id)
        return None if told is None else told.get(attempt.key)

    @cached_property
    def _seen(self) -> Mapping[str, Mapping[AttemptKey, ObservedAttempt]]:
        return {
            id_: {seen.key: seen for seen in worker.heartbeat.attempts}
            for id_, worker in self.workers.items()
        }


def has_advanced(seen: ObservedAttempt | None) -> bool:
    """Whether an epoch of its own was committed since its claim."""
    if seen is None or seen.restored is None:
        return False
    claim = seen.restored.get("checkpointId")
    return isinstance(claim, int) and seen.tip > claim


def waited_ms(since_ms: int, now_ms: int) -> int:
    """An instant that lies far ahead was written by a clock that has been set back, or by another's: to wait for it
    could be for ever.
    """
    return abs(now_ms - since_ms)


def is_finished(attempts: Sequence[Attempt]) -> bool:
    return any(attempt.ended_how is EndedHow.FINISHED for attempt in attempts)
