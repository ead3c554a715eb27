"""A whole cluster in one world: masters on one store, workers, storage; and the people who submit and stop jobs."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Engine as SqlEngine
from sqlalchemy import create_engine
from sqlalchemy.pool import StaticPool

from holdfast.checkpoint.chain import MANIFEST
from holdfast.checkpoint.document import read_document
from holdfast.decide.world import Limits
from holdfast.master.master import Master, MasterSettings, NotLeading
from holdfast.master.submitting import Submission, ask, submit
from holdfast.model.checkpoints import Checkpoint, checkpoint_from_json
from holdfast.model.errors import HoldfastError
from holdfast.model.jobs import Goal, Job, Outcome, Role, ScheduleStrategy
from holdfast.model.json import JsonObject
from holdfast.model.wire import answer_to_json, heartbeat_from_json
from holdfast.outside.network import NoAnswer
from holdfast.runtime.catalog import Catalog
from holdfast.store.commits import Commits
from holdfast.store.reads import Reads
from holdfast.store.schema import metadata
from holdfast.store.store import Store
from holdfast.testing.crashes import MemoryFiles, VirtualClock
from holdfast.testing.sim.engine import Engine, Process, SimClock, SimThreads
from holdfast.testing.sim.faults import Faults, SimFiles, SimNetwork
from holdfast.testing.sim.parts import SinkMemory, sim_connectors
from holdfast.testing.world import NoSpark
from holdfast.worker.host import WorkerHost, WorkerSettings
from holdfast.worker.running import HostOutside, attempt_runner

TICK_MS = 250.0
HEARTBEAT_MS = 500
LEASE_CHECK_MS = 250.0
LIMITS = Limits(
    worker_lease_ms=3_500, stop_deadline_ms=6_000, cleanup_delay_ms=4_000, stall_grace_ms=2_000
)


@dataclass
class Seen:
    """What was noticed on the way and must hold for ever after."""

    made: dict[tuple[str, int], list[Checkpoint]] = field(default_factory=dict)
    """Every checkpoint that was ever made, by job and pipeline, in order."""
    outcomes: dict[tuple[str, int], Outcome] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)


@dataclass
class MasterProcess:
    process: Process
    master: Master


@dataclass
class WorkerProcess:
    process: Process
    host: WorkerHost


class Cluster:
    """`masters` and `workers` are those that were started last under each name."""

    def __init__(self, seed: int, *, masters: int, workers: int, limits: Limits = LIMITS) -> None:
        self.engine = Engine(seed)
        self.faults = Faults(self.engine)
        self.limits = limits
        self.sql = _memory_engine()
        self.reads = Reads(self.sql)
        self.storage = MemoryFiles(VirtualClock())
        self.sinks: dict[tuple[str, str], SinkMemory] = {}
        self.source_fails = [0.0]
        self.catalog = Catalog(
            own={
                (Role(c.role), c.name): c
                for c in sim_connectors(self.engine, self.sinks, self.source_fails)
            }
        )
        self.seen = Seen()
        self.masters: dict[str, MasterProcess] = {}
        self.workers: dict[str, WorkerProcess] = {}
        self._starts = 0
        for number in range(masters):
            self.start_master(f"master-{number}")
        for number in range(workers):
            self.start_worker(f"worker-{number}")

    # ------------------------------------------------------------------------------------------ processes

    def start_master(self, name: str) -> None:
        process = Process(name)
        clock = SimClock(self.engine, process)
        commits = Commits(self.sql, lambda point: self.faults.at_commit(process, point))
        store = Store(self.sql, self.reads, commits)
        settings = MasterSettings(self._fresh(name), url=name, limits=self.limits)
        master = Master(settings, store, self._files(process), clock)
        self.masters[name] = MasterProcess(process, master)

        def run() -> None:
            while True:
                with suppress(HoldfastError):
                    master.tick()
                clock.wait(TICK_MS, master.wake)
                master.wake.clear()

        self.engine.spawn(process, run)

    def start_worker(self, name: str) -> None:
        process = Process(name)
        clock = SimClock(self.engine, process)
        outside = HostOutside(
            self._files(process),
            self.catalog,
            NoSpark(),
            clock,
            lambda line: self.engine.tell(f"{name}: {line}"),
            lambda point: self.faults.at_point(process, point),
        )
        host = WorkerHost(
            WorkerSettings(self._fresh(name), tuple(self.masters)),
            attempt_runner(outside),
            network=SimNetwork(self.engine, self.faults, process, self._deliver),
            clock=clock,
            threads=SimThreads(self.engine, process),
        )
        self.workers[name] = WorkerProcess(process, host)

        def beat() -> None:
            while True:
                host.beat()
                clock.wait(HEARTBEAT_MS, host.wake)

        def check() -> None:
            while True:
                clock.wait(LEASE_CHECK_MS)
                host.check_lease()

        self.engine.spawn(process, beat)
        self.engine.spawn(process, check)

    def heal(self) -> None:
        """Fair weather, and everything that is down comes up."""
        from holdfast.testing.sim.faults import FAIR

        self.faults.weather = FAIR
        self.source_fails[0] = 0.0
        self.engine.tell("the faults are over")
        for name, master in list(self.masters.items()):
            master.process.clock_step_ms = 0
            if not master.process.alive:
                self.start_master(name)
        for name, worker in list(self.workers.items()):
            worker.process.clock_step_ms = 0
            if not worker.process.alive:
                self.start_worker(name)

    def _fresh(self, name: str) -> str:
        self._starts += 1
        return f"{name}.{self._starts}"

    def _files(self, process: Process) -> SimFiles:
        files = SimFiles(self.storage, self.faults, process)
        files.on_create = self._note_checkpoint
        return files

    def _note_checkpoint(self, path: str, data: bytes) -> None:
        if path.endswith(MANIFEST) and not path.startswith("savepoint"):
            made = checkpoint_from_json(read_document(data, path))
            self.seen.made.setdefault((made.job_id, made.pipeline_id), []).append(made)

    def _deliver(self, url: str, path: str, body: JsonObject) -> tuple[int, JsonObject]:
        """A call arrives. The real code of the master answers, as one of its own threads would."""
        found = self.masters.get(url)
        is_there = found is not None and found.process.alive
        if not is_there or found is None or found.process.paused_until_ms > self.engine.now_ms:
            self.engine.sleep(300)
            raise NoAnswer(f"Cannot call {url}: nobody answers.")
        heartbeat = heartbeat_from_json(json.loads(json.dumps(body)))
        try:
            answer = found.master.hear(heartbeat)
        except NotLeading as error:
            return 503, {"leader": error.leader_url}
        except HoldfastError as error:
            return 503, {"message": str(error)}
        return 200, json.loads(json.dumps(answer_to_json(answer)))

    # ------------------------------------------------------------------------------------------ people

    def leader(self) -> Master | None:
        for found in self.masters.values():
            is_awake = found.process.paused_until_ms <= self.engine.now_ms
            if found.process.alive and is_awake and found.master.term is not None:
                return found.master
        return None

    def submit(self, given: Submission) -> bool:
        """Tells whether it was taken."""
        return self._at_leader(
            lambda master: submit(master, given, self.catalog, ScheduleStrategy.WAIT),
            f"submit {given.job_id}",
        )

    def ask(self, job_id: str, goal: Goal) -> bool:
        return self._at_leader(
            lambda master: ask(master, job_id, goal), f"ask {job_id} to {goal.value}"
        )

    def _at_leader(self, do: Callable[[Master], Job], said: str) -> bool:
        master = self.leader()
        if master is None:
            return False
        weather, self.faults.weather = self.faults.weather, replace(self.faults.weather)
        self.faults.weather.crash = self.faults.weather.pause = 0.0
        try:
            do(master)
        except HoldfastError as error:
            self.engine.tell(f"{said}: {error}")
            return False
        finally:
            self.faults.weather = weather
        self.engine.tell(said)
        return True

    def jobs(self) -> list[Job]:
        """All generations of all jobs."""
        live = self.reads.jobs(outcome=None, live=True)
        return [*live, *self.reads.jobs(outcome=None, live=False)]

    def note_outcomes(self) -> None:
        """An outcome is final: whatever was once seen is so for ever."""
        for job in self.jobs():
            key = (job.id, job.generation)
            known = self.seen.outcomes.get(key)
            if known is not None and job.outcome is not known:
                self.seen.wrong.append(f"{key} was {known.value} and is {job.outcome}")
            if job.outcome is not None:
                self.seen.outcomes[key] = job.outcome


def _memory_engine() -> SqlEngine:
    engine = create_engine(
        "sqlite://",
        isolation_level="AUTOCOMMIT",
        poolclass=StaticPool,
        connect_args={"check_same_thread": False},
    )
    metadata.create_all(engine)
    return engine


def job_text(
    tables: dict[str, int],
    *,
    mode: str,
    interval_ms: int = 1_000,
    every_ms: int = 150,
    retries: int = 50,
    overlaps: bool = False,
) -> str:
    """A job file: a ticking source for each table (rows; 0: endless), all into one sink."""
    env: dict[str, Any] = {
        "job.mode": mode,
        "checkpoint.interval": interval_ms,
        "job.retry.times": retries,
        "job.retry.interval.seconds": 1,
    }
    sources = [
        {
            "plugin_name": "Tick",
            "plugin_output": name,
            "table": name,
            "rows": rows,
            "every_ms": every_ms,
        }
        for name, rows in tables.items()
    ]
    sink = {"plugin_name": "Memory", "plugin_input": list(tables), "overlaps": overlaps}
    return json.dumps({"env": env, "source": sources, "sink": [sink]})
