"""A cluster whose fate is written down and not drawn: who dies exactly where, what is cut off, what people ask.

The same masters, workers, chain and store as in the schedules that seeds draw, and the same judges at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from holdfast.connectors.base import Context
from holdfast.decide.status import JobStatus, PipelineShown, derive_pipeline, derive_status
from holdfast.decide.world import Limits
from holdfast.master.master import Master
from holdfast.master.submitting import Submission, ask, submit
from holdfast.model.attempts import Attempt
from holdfast.model.checkpoints import Checkpoint, CheckpointKind
from holdfast.model.errors import HoldfastError
from holdfast.model.jobs import Goal, Job, Outcome, ScheduleStrategy
from holdfast.testing.sim.cluster import Cluster, _parse_once
from holdfast.testing.sim.engine import Process
from holdfast.testing.sim.faults import FAIR, Weather
from holdfast.testing.sim.judge import judge_end, judge_look
from holdfast.testing.sim.plan import LIMITS, JobPlan, Plan

T = TypeVar("T")
LOOK_MS = 100.0
ASKED_MS = 10_000.0
"""Whoever asks a leader has an answer by then."""
REST_MS = 120_000.0
CALM_MS = 2_500.0
AWAY = Weather(file_fails=1.0, file_read_fails=1.0)
"""The checkpoint storage does nothing for anybody."""


def stream(*tables: str, **facts: Any) -> JobPlan:
    """An endless job."""
    return JobPlan(dict.fromkeys(tables or ("t",), 0), **facts)


def batch(rows: int, *tables: str, **facts: Any) -> JobPlan:
    return JobPlan(dict.fromkeys(tables or ("t",), rows), **facts)


@dataclass
class _Watched:
    """What is to be done when a process comes to a point for the nth time; 0: each time."""

    process: str
    point: str
    nth: int
    do: Callable[[], None]
    seen: int = field(default=0)


class Scene:
    """A cluster, and what befalls it. Names may be patterns: `worker-*`, `before create orders/*`."""

    def __init__(
        self,
        jobs: Mapping[str, JobPlan],
        *,
        masters: int = 1,
        workers: int = 1,
        slots: int | None = None,
        limits: Limits = LIMITS,
        seed: int = 1,
    ) -> None:
        self.plan = Plan(seed, jobs, (), masters, workers, slots, limits=limits)
        self.cluster = Cluster(seed, masters=masters, workers=workers, limits=limits, slots=slots)
        self.engine = self.cluster.engine
        self.faults = self.cluster.faults
        self.points: list[str] = []
        """Each point that was passed, as `process: point`."""
        self._watched: list[_Watched] = []
        self._submissions = 0
        self.faults.on_point = self._at_point

    def close(self) -> None:
        """Nothing of it runs any more."""
        for process in self.cluster.processes():
            self.engine.kill(process)
        self.cluster.sql.close()

    # ------------------------------------------------------------------------------------------- fate

    def when(self, process: str, point: str, do: Callable[[], None], *, nth: int = 1) -> None:
        """`do` happens inside the process, at that point."""
        self._watched.append(_Watched(process, point, nth, do))

    def kill_at(self, process: str, point: str, *, nth: int = 1) -> None:
        """The process dies exactly there."""

        def kill() -> None:
            current = self.engine.current
            if current is not None:
                self.engine.tell(f"{current.name} dies {point}")
                self.engine.kill(current)

        self.when(process, point, kill, nth=nth)

    def fail_at(self, process: str, point: str, error: Exception, *, nth: int = 1) -> None:
        def fail() -> None:
            raise error

        self.when(process, point, fail, nth=nth)

    def _at_point(self, process: Process, point: str) -> None:
        self.points.append(f"{process.name}: {point}")
        for watched in self._watched:
            if not fnmatchcase(process.name, watched.process) or not fnmatchcase(
                point, watched.point
            ):
                continue
            watched.seen += 1
            if watched.nth in (0, watched.seen):
                watched.do()

    def kill(self, *names: str) -> None:
        for name in names:
            self.engine.kill(self.cluster.process(name))

    def kill_all(self) -> None:
        self.kill(*self.cluster.masters, *self.cluster.workers)

    def start_fallen(self) -> None:
        self.cluster.start_fallen()

    def pause(self, name: str, duration_ms: float) -> None:
        self.engine.pause(self.cluster.process(name), duration_ms)

    def hang(self, job_id: str, duration_ms: float) -> None:
        """Its sources give nothing for so long."""
        self.cluster.around.hangs_until_ms[job_id] = self.engine.now_ms + duration_ms
        self.engine.tell(f"the sources of {job_id} hang for {duration_ms:.0f} ms")

    def change_sources(self, **parts: object) -> None:
        """Those that are built from now on have other methods."""
        own = self.cluster.catalog.own
        (key,) = [key for key in own if key[1] == "Tick"]
        connector = own[key]

        def create(options: object, context: Context) -> object:
            made = connector.create(options, context)
            for name, part in parts.items():
                setattr(made, name, part)
            return made

        own[key] = replace(connector, create=create)  # type: ignore[index]

    def weather(self, weather: Weather = FAIR) -> None:
        self.faults.weather = weather

    def cut(self, worker: str, master: str) -> None:
        self.faults.cut.add((worker, master))
        self.engine.tell(f"{worker} cannot reach {master}")

    # ------------------------------------------------------------------------------------------- time

    def run_for(self, duration_ms: float) -> None:
        until_ms = self.engine.now_ms + duration_ms
        while self.engine.now_ms < until_ms:
            self.engine.run_until(min(self.engine.now_ms + LOOK_MS, until_ms))
            self.cluster.seen.look(self.cluster.reads.all_jobs())

    def run_until(self, what: str, holds: Callable[[], bool], most_ms: float = 30_000.0) -> float:
        """How long it took."""
        began_ms = self.engine.now_ms
        while not holds():
            assert self.engine.now_ms < began_ms + most_ms, (
                f"{what} not within {most_ms:.0f} ms\n{self.told()}"
            )
            self.run_for(LOOK_MS)
        return self.engine.now_ms - began_ms

    def rest(self, *failed: str) -> None:
        """Fair weather, everything that is down comes up, and all is judged. `failed`: jobs that shall have, once."""
        self._watched.clear()
        self.faults.cut.clear()
        self.cluster.heal()
        healed_ms = self.engine.now_ms
        self.run_until("rest", lambda: self._is_quiet(healed_ms), REST_MS)
        wrong = [*self.cluster.seen.wrong, *judge_end(self.cluster, self.plan)]
        left = [said for said in wrong if not self._is_due(said, failed)]
        assert left == [], f"{left}\n{self.told()}"
        for job_id in failed:
            ended = {job.outcome for job in self.cluster.reads.all_jobs() if job.id == job_id}
            assert Outcome.FAILED in ended, self.told()

    def _is_quiet(self, healed_ms: float) -> bool:
        live = [job for job in self.cluster.reads.all_jobs() if job.outcome is None]
        if self.engine.now_ms < healed_ms + CALM_MS or self.cluster.reads.cleanups():
            return False
        endless = all(job.goal is Goal.RUN and self.plan.jobs[job.id].is_endless for job in live)
        return endless and not (live and judge_look(self.cluster, self.plan, healed_ms))

    def _is_due(self, said: str, failed: tuple[str, ...]) -> bool:
        return "Outcome.FAILED" in said and said.split(" ")[0] in failed

    # ----------------------------------------------------------------------------------------- people

    def leader(self) -> Master:
        self.run_until("a leader", lambda: self.cluster.leader() is not None)
        found = self.cluster.leader()
        assert found is not None
        return found.master

    def ask_leader(self, do: Callable[[Master], T]) -> T:
        """In a thread of the leader, as its API would; raises what it raises. Who dies over it is asked again."""
        while True:
            answer = self._call_leader(do)
            if answer:
                return answer[0]

    def _call_leader(self, do: Callable[[Master], T]) -> list[T]:
        """Nothing, if it died over it."""
        self.leader()
        found = self.cluster.leader()
        assert found is not None
        answers: list[T] = []
        errors: list[HoldfastError] = []

        def call() -> None:
            try:
                answers.append(do(found.master))
            except HoldfastError as error:
                errors.append(error)

        def is_over() -> bool:
            return bool(answers or errors or not found.process.alive)

        self.engine.spawn(found.process, call)
        self.run_until("an answer", is_over, ASKED_MS)
        if errors:
            raise errors[0]
        return answers

    def submit(
        self,
        job_id: str,
        restore: str | None = None,
        *,
        on_missing: str | None = None,
        submission: str | None = None,
        strategy: ScheduleStrategy = ScheduleStrategy.WAIT,
    ) -> Job:
        given = self.submission(job_id, restore, on_missing=on_missing, submission=submission)
        job = self.ask_leader(
            lambda m: submit(m, given, self.cluster.catalog, strategy, _parse_once)
        )
        self.engine.tell(f"{job_id} is submitted" + (f" ({restore})" if restore else ""))
        return job

    def submission(
        self,
        job_id: str,
        restore: str | None = None,
        *,
        on_missing: str | None = None,
        submission: str | None = None,
    ) -> Submission:
        """A job as somebody hands it in."""
        self._submissions += 1
        given = Submission(
            self.plan.jobs[job_id].text(),
            format="json",
            job_id=job_id,
            restore=restore,
            on_missing=on_missing,
            submission=submission or f"{job_id}@{self._submissions}",
        )
        self.cluster.seen.asked_restore(given)
        return given

    def submit_all(self) -> None:
        """All at once."""
        given = [self.submission(job_id) for job_id in self.plan.jobs]
        catalog = self.cluster.catalog
        self.ask_leader(
            lambda m: [submit(m, g, catalog, ScheduleStrategy.WAIT, _parse_once) for g in given]
        )

    def ask(self, job_id: str, goal: Goal) -> None:
        self.ask_leader(lambda master: ask(master, job_id, goal))
        self.engine.tell(f"{job_id} is asked to {goal.value}")

    def ask_all(self, goal: Goal) -> None:
        """At once."""
        self.ask_leader(lambda master: [ask(master, job_id, goal) for job_id in self.plan.jobs])

    # ------------------------------------------------------------------------------------------- seeing

    def job(self, job_id: str) -> Job:
        found = self.cluster.reads.job(job_id)
        assert found is not None
        return found

    def status(self, job_id: str) -> JobStatus:
        """As it is shown. Without a leader nobody can tell of a live job."""
        job = self.job(job_id)
        if job.outcome is not None:
            return JobStatus(job.outcome.value)
        leader = self.leader()
        return derive_status(leader.observe(), self.job(job_id), leader.now_ms())

    def shown(self, job_id: str, pipeline_id: int = 1) -> PipelineShown:
        leader = self.leader()
        return derive_pipeline(leader.observe(), self.job(job_id), pipeline_id, leader.now_ms())

    def until_status(self, job_id: str, status: JobStatus, most_ms: float = 30_000.0) -> float:
        what = f"{job_id} {status.value}"
        return self.run_until(what, lambda: self.status(job_id) is status, most_ms)

    def attempts(self, job_id: str) -> list[Attempt]:
        """Of the newest generation."""
        return self.cluster.reads.attempts(job_id, self.job(job_id).generation)

    def ends(self, job_id: str) -> list[str | None]:
        """How each attempt ended; None: it runs."""
        ended = [attempt.ended_how for attempt in self.attempts(job_id)]
        return [None if how is None else how.value for how in ended]

    def made(self, job_id: str, pipeline_id: int = 1) -> list[Checkpoint]:
        """Every checkpoint that was ever made."""
        line = self.cluster.seen.made.get((job_id, pipeline_id), [])
        return [made.checkpoint for made in line]

    def claims(self, job_id: str, pipeline_id: int = 1) -> list[Checkpoint]:
        made = self.made(job_id, pipeline_id)
        return [checkpoint for checkpoint in made if checkpoint.kind is CheckpointKind.CLAIM]

    def rows(self, job_id: str, table: str = "t") -> list[int]:
        """What its sinks show, in the order in which it was read."""
        return [
            id_
            for (owner, _), memory in sorted(self.cluster.around.sinks.items())
            if owner == job_id
            for id_ in memory.ids(table)
        ]

    def until_rows(self, job_id: str, count: int, table: str = "t") -> None:
        self.run_until(f"{count} rows", lambda: len(self.rows(job_id, table)) >= count)

    def working(self) -> str:
        """The name of a worker on which something runs."""
        found: list[str] = []

        def is_there() -> bool:
            workers = self.cluster.workers.items()
            found.extend(n for n, w in workers if w.process.alive and not w.host.is_empty)
            return bool(found)

        self.run_until("a worker with an attempt", is_there)
        return found[0]

    def told(self) -> str:
        return "\n".join(self.engine.story)
