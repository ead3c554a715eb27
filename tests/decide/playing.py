"""A cluster in a few lines: does what `decide` says to plain lists, so that rules can be seen over time.

No store, no messages, no threads: what can go wrong with those is the simulator's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

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
from holdfast.decide.jobs import decide, derive_desired
from holdfast.decide.world import World
from holdfast.model.attempts import Attempt, AttemptKey, EndedHow
from holdfast.model.jobs import Goal, Job, Outcome
from holdfast.model.workers import ObservedAttempt, Wish, Worker
from holdfast.testing.builders import a_heartbeat, an_observed

STEP_MS = 500
BORN_AGAIN_MS = 1_000


@dataclass
class Host:
    """A place where a worker lives, dies and is started again under another id."""

    name: str
    slots: int | None = None
    lives: int = 1
    back_at_ms: int = 0
    draining: bool = False
    hosted: dict[AttemptKey, tuple[int, EndedHow | None]] = field(default_factory=dict)
    """When each began, and how it ended."""

    @property
    def worker_id(self) -> str:
        return f"{self.name}-{self.lives}"


class Play:
    """`jobs` are submitted at 0."""

    def __init__(self, *jobs: Job, workers: Sequence[str], slots: int | None = None) -> None:
        self.now_ms = 0
        self.jobs = {job.id: job for job in jobs}
        self.attempts: dict[AttemptKey, Attempt] = {}
        self.hosts = [Host(name, slots) for name in workers]
        self.workers: dict[str, Worker] = {}
        self.tips: dict[AttemptKey, int] = {}
        self.told: list[Action] = []
        self._kills_after_ms: dict[str, int] = {}
        self._commits_every_ms: dict[str, int] = {}

    # ------------------------------------------------------------------------------------------ what fate does

    def kills_worker(self, job_id: str, *, after_ms: int) -> None:
        """Whatever worker hosts it dies so long after it began. It commits nothing."""
        self._kills_after_ms[job_id] = after_ms

    def commits_every_ms(self, job_id: str, every_ms: int) -> None:
        self._commits_every_ms[job_id] = every_ms

    def kill_all_workers(self) -> None:
        for host in self.hosts:
            self._kill(host)

    def kill_worker(self, at: int) -> None:
        self._kill(self.hosts[at])

    def end(self, job_id: str, pipeline_id: int, how: EndedHow) -> None:
        """Its running attempt ends by itself."""
        for host in self._alive():
            for key, (began_ms, ended) in host.hosted.items():
                if (key.job_id, key.pipeline_id) == (job_id, pipeline_id) and ended is None:
                    host.hosted[key] = (began_ms, how)

    def ask(self, job_id: str, goal: Goal) -> None:
        job = self.jobs[job_id]
        strength = list(Goal)
        if job.outcome is None and strength.index(goal) > strength.index(job.goal):
            self.jobs[job_id] = replace(job, goal=goal, goal_at_ms=self.now_ms)

    def _kill(self, host: Host) -> None:
        host.lives += 1
        host.hosted.clear()
        host.draining = False
        host.back_at_ms = self.now_ms + BORN_AGAIN_MS

    # ------------------------------------------------------------------------------------------ what is seen

    def outcome(self, job_id: str) -> Outcome | None:
        return self.jobs[job_id].outcome

    def reason(self, job_id: str) -> str:
        return self.jobs[job_id].reason

    def is_running(self, job_id: str) -> bool:
        return any(
            attempt.is_open and attempt.started_at_ms is not None and key.job_id == job_id
            for key, attempt in self.attempts.items()
        )

    def world(self) -> World:
        live = [job for job in self.jobs.values() if job.outcome is None]
        keys = {job.id for job in live}
        return World(
            term=1,
            leading_since_ms=0,
            jobs=live,
            attempts=[a for key, a in self.attempts.items() if key.job_id in keys],
            workers=dict(self.workers),
            tip_since_ms=dict(self.tips),
        )

    # ------------------------------------------------------------------------------------------ time

    def run_until_ms(self, until_ms: int) -> None:
        while self.now_ms < until_ms:
            self.step()

    def step(self) -> None:
        self.now_ms += STEP_MS
        for host in self._alive():
            self._live(host)
        for host in self._alive():
            self._beat(host)
        for action in decide(self.world(), self.now_ms):
            self.told.append(action)
            self._do(action)

    def _alive(self) -> list[Host]:
        return [host for host in self.hosts if self.now_ms >= host.back_at_ms]

    def _live(self, host: Host) -> None:
        for key, (began_ms, ended) in list(host.hosted.items()):
            after_ms = self._kills_after_ms.get(key.job_id)
            if after_ms is not None and ended is None and self.now_ms - began_ms >= after_ms:
                self._kill(host)
                return

    def _beat(self, host: Host) -> None:
        """Report, and obey the answer at once."""
        seen = [self._observe(key, *known) for key, known in sorted(host.hosted.items())]
        heartbeat = a_heartbeat(
            host.worker_id, *seen, slots=host.slots, draining=host.draining, sent_at_ms=self.now_ms
        )
        self.workers[host.worker_id] = Worker(heartbeat, self.now_ms)
        desired = {d.key: d for d in derive_desired(self.world(), host.worker_id, self.now_ms)}
        for key, wanted in desired.items():
            began_ms, ended = host.hosted.get(key, (self.now_ms, None))
            if ended is None and wanted.wish is not Wish.RUN:
                ended = EndedHow.STOPPED if wanted.wish is Wish.STOP else EndedHow.CANCELED
            host.hosted[key] = (began_ms, ended)
        for key in [key for key in host.hosted if key not in desired]:
            del host.hosted[key]

    def _observe(self, key: AttemptKey, began_ms: int, ended: EndedHow | None) -> ObservedAttempt:
        every_ms = self._commits_every_ms.get(key.job_id, 1_000)
        committed = (self.now_ms - began_ms) // every_ms
        if key.job_id in self._kills_after_ms:
            committed = 0
        self.tips[key] = began_ms + committed * every_ms
        reason = "" if ended is None else f"it {ended.value}"
        attempt = self.attempts[key]
        return an_observed(attempt, claim=1, tip=1 + committed, ended_how=ended, reason=reason)

    def _do(self, action: Action) -> None:
        now_ms = self.now_ms
        match action:
            case PlanAttempt(key, worker_id, alone):
                assert key not in self.attempts, f"{key} was planned before"
                self.attempts[key] = Attempt(key, worker_id, now_ms, alone)
            case StartAttempt(key):
                self.attempts[key] = replace(self.attempts[key], started_at_ms=now_ms)
            case NoteAdvance(key):
                self.attempts[key] = replace(self.attempts[key], advanced=True)
            case EndAttempt(key, how, reason, advanced):
                assert self.attempts[key].is_open, f"{key} had ended before"
                self.attempts[key] = replace(
                    self.attempts[key],
                    ended_how=how,
                    ended_at_ms=now_ms,
                    reason=reason,
                    advanced=advanced,
                )
            case RecordOutcome(job_id, _, outcome, reason):
                self._close(job_id, outcome, reason)
            case WriteSavepoint(job_id, _, _, _, reason):
                self._close(job_id, Outcome.SAVEPOINT_DONE, reason)
            case CleanUp() | ForgetJob():
                raise AssertionError("nothing was left to clean up")

    def _close(self, job_id: str, outcome: Outcome, reason: str) -> None:
        job = self.jobs[job_id]
        assert job.outcome is None, f"{job_id} had ended before"
        self.jobs[job_id] = replace(job, outcome=outcome, reason=reason, ended_at_ms=self.now_ms)
