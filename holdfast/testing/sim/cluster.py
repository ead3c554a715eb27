"""A whole cluster in one world: masters on one store, workers, storage; and the people who submit and stop jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from holdfast.decide.world import Limits
from holdfast.master.master import Master, MasterSettings, NotLeading
from holdfast.master.submitting import Submission, ask, submit
from holdfast.model.attempts import AttemptKey, EndedHow
from holdfast.model.errors import HoldfastError
from holdfast.model.jobs import Goal, Job, Role, ScheduleStrategy
from holdfast.model.json import JsonObject
from holdfast.model.wire import answer_to_json, heartbeat_from_json
from holdfast.model.workers import DesiredAttempt
from holdfast.outside.network import NoAnswer
from holdfast.runtime.catalog import Catalog
from holdfast.runtime.stop import StopLevel, StopSignal
from holdfast.runtime.watch import Watch
from holdfast.spec.catalog import Catalog as SpecCatalog
from holdfast.spec.parse import Parsed, parse_job
from holdfast.store.commits import Commits
from holdfast.store.store import Store
from holdfast.testing.sim.database import Database, KeptReads
from holdfast.testing.sim.engine import Engine, Process, SimClock, SimLock, SimThreads
from holdfast.testing.sim.faults import FAIR, FOR_EVER, Faults, SimNetwork
from holdfast.testing.sim.parts import Surroundings, sim_connectors
from holdfast.testing.sim.seen import Seen
from holdfast.testing.sim.storage import SimFiles, Storage
from holdfast.testing.world import NoSpark
from holdfast.worker.host import RunAttempt, WorkerHost, WorkerSettings
from holdfast.worker.running import HostOutside, attempt_runner

_parsed: dict[tuple[str, str], Parsed] = {}


def _parse_once(
    text: str, *, name: str, variables: Mapping[str, str], catalog: SpecCatalog
) -> Parsed:
    """For all schedules: all simulated clusters have the same connectors, and a spec holds none of their objects."""
    key = (text, name.rpartition(".")[2])
    if key not in _parsed:
        if len(_parsed) > PARSED_MAX:
            _parsed.clear()
        _parsed[key] = parse_job(text, name=f"job.{key[1]}", variables=variables, catalog=catalog)
    return _parsed[key]


PARSED_MAX = 5_000
TICK_MS = 250.0
HEARTBEAT_MS = 500
LEASE_CHECK_MS = 250.0
WRITE_BEHIND_MS = 4_000
"""Nothing is decided from what is written behind; it costs a quarter of all statements at its usual pace."""


@dataclass
class MasterProcess:
    process: Process
    master: Master
    lock: SimLock


@dataclass
class WorkerProcess:
    process: Process
    host: WorkerHost


@dataclass
class Request:
    """Somebody's call to the API, under way in the leader."""

    process: Process
    is_over: bool = False
    is_taken: bool = False


@dataclass
class Run:
    """An attempt that began somewhere, as the operating system would know it."""

    key: AttemptKey
    worker: str
    process: Process
    stop: StopSignal
    is_over: bool = False


class Cluster:
    """`masters` and `workers` are those that were started last under each name."""

    def __init__(
        self, seed: int, *, masters: int, workers: int, limits: Limits, slots: int | None = None
    ) -> None:
        self.engine = Engine(seed)
        self.faults = Faults(self.engine)
        self.limits = limits
        self.slots = slots
        self.sql = Database()
        self.reads = KeptReads(self.sql)
        self.storage = Storage()
        self.around = Surroundings(self.engine, self.faults)
        self.seen = Seen(self.storage, self.reads, self.around)
        connectors = sim_connectors(self.around, self.seen)
        self.catalog = Catalog(own={(Role(c.role), c.name): c for c in connectors})
        self.masters: dict[str, MasterProcess] = {}
        self.workers: dict[str, WorkerProcess] = {}
        self._runs: list[Run] = []
        self._heard_ms: dict[tuple[str, str], float] = {}
        """When each master took in the newest report of each worker."""
        self._lost: set[AttemptKey] = set()
        self._starts = 0
        for number in range(masters):
            self.start_master(f"master-{number}")
        for number in range(workers):
            self.start_worker(f"worker-{number}")

    # ------------------------------------------------------------------------------------------ processes

    def start_master(self, name: str) -> None:
        process = Process(name)
        clock = SimClock(self.engine, process)
        me = self._fresh(name)

        def at_commit(point: str) -> None:
            when, _, doing = point.partition(" ")
            if when == "after" and doing not in ("take lease", "give up lease"):
                self.seen.wrote(doing, me)
                if doing == "end attempt":
                    self._blame_lost(name)
            self.faults.at_commit(process, point)

        commits = Commits(self.sql, at_commit)  # type: ignore[arg-type]
        reads = KeptReads(self.sql, lambda: self.faults.at_store_read(process))
        store = Store(self.sql, reads, commits)  # type: ignore[arg-type]
        settings = MasterSettings(me, url=name, write_behind_ms=WRITE_BEHIND_MS, limits=self.limits)
        files = self._files(process)
        files.on_remove = self.seen.cleaned
        master = Master(settings, store, files, clock, SimThreads(self.engine, process))
        lock = SimLock(self.engine)
        master._lock = lock  # type: ignore[assignment]
        self.masters[name] = MasterProcess(process, master, lock)

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
        files = self._files(process)
        files.on_remove = self.seen.tidied
        outside = HostOutside(
            files,
            self.catalog,
            NoSpark(),
            clock,
            lambda line: self.engine.tell(f"{name}: {line}"),
            lambda point: self.faults.at_step(process, point),
            _parse_once,
        )
        host = WorkerHost(
            WorkerSettings(self._fresh(name), tuple(self.masters), slots=self.slots),
            self._watched(name, process, attempt_runner(outside)),
            network=SimNetwork(self.engine, self.faults, self._deliver, name),
            clock=clock,
            threads=SimThreads(self.engine, process),
        )
        self.workers[name] = WorkerProcess(process, host)

        def beat() -> None:
            while True:
                term = host._term
                host.beat()
                self.seen.obeyed(name, term, host._term)
                clock.wait(HEARTBEAT_MS, host.wake)

        def check() -> None:
            while True:
                clock.wait(LEASE_CHECK_MS)
                host.check_lease()

        self.engine.spawn(process, beat)
        self.engine.spawn(process, check)

    def start_fallen(self) -> None:
        for name, master in list(self.masters.items()):
            if not master.process.alive:
                self.engine.tell(f"{name} is started again")
                self.start_master(name)
        for name, worker in list(self.workers.items()):
            if not worker.process.alive:
                self.engine.tell(f"{name} is started again")
                self.start_worker(name)

    def heal(self) -> None:
        """Fair weather, and everything that is down comes up."""
        self.engine.tell("the faults are over")
        self.faults.weather = FAIR
        now_ms = self.engine.now_ms
        for job, until_ms in list(self.faults.undeletable.items()):
            if until_ms >= FOR_EVER:
                del self.faults.undeletable[job]
                self.faults.removable_since_ms[job] = now_ms
        for process in self.processes():
            process.clock_step_ms = 0
        self.start_fallen()

    def processes(self) -> list[Process]:
        found = [master.process for master in self.masters.values()]
        return found + [worker.process for worker in self.workers.values()]

    def awake_ms(self) -> float:
        """When the last pause ends, or ended, and the last trouble of a worker's network."""
        faults = self.faults
        troubles = (faults.cut_until_ms, faults.deaf_until_ms, faults.slow_until_ms)
        ends = [ms for until_ms in troubles for ms in until_ms.values()]
        return max(ends + [process.paused_until_ms for process in self.processes()])

    def process(self, name: str) -> Process:
        return next(process for process in self.processes() if process.name == name)

    def _fresh(self, name: str) -> str:
        self._starts += 1
        return f"{name}.{self._starts}"

    def _files(self, process: Process) -> SimFiles:
        files = SimFiles(self.storage, self.faults, process)
        files.on_create = lambda path, data: self.seen.created(path, data, self.running_elsewhere)
        return files

    def running_elsewhere(self, job_id: str, pipeline_id: int) -> list[str]:
        """Workers that go on with an attempt of this pipeline, as far as they know, and who could know better.

        Only the newest attempt may: an older one was told to end, or ends by its own lease.
        """
        found = []
        for run in self.running():
            is_awake = run.process.paused_until_ms + 2 * LEASE_CHECK_MS < self.engine.now_ms
            key = run.key
            if (
                is_awake
                and (key.job_id, key.pipeline_id) == (job_id, pipeline_id)
                and run.stop.level is StopLevel.GO_ON
                and not self._is_left_behind(key)
            ):
                found.append(f"{run.worker} ({key})")
        return found

    def running(self) -> list[Run]:
        """Attempts that are under way in processes that live, known to their hosts or not."""
        self._runs = [run for run in self._runs if run.process.alive and not run.is_over]
        return self._runs

    def _watched(self, name: str, process: Process, run_attempt: RunAttempt) -> RunAttempt:
        def run(wanted: DesiredAttempt, watch: Watch, stop: StopSignal) -> tuple[EndedHow, str]:
            under_way = Run(wanted.key, name, process, stop)
            self._runs.append(under_way)
            try:
                return run_attempt(wanted, watch, stop)
            finally:
                under_way.is_over = True

        return run

    def _blame_lost(self, master: str) -> None:
        """A worker that lives knows what it was given until it has told the end of it, and who was heard is not silent.
        Called when that master has ended an attempt.
        """
        self.seen.checked["what runs is not taken for lost"] += 1
        alive = {w.host._settings.me for w in self.workers.values() if w.process.alive}
        for job in self.reads.jobs(outcome=None, live=True):
            for attempt in self.reads.attempts(job.id, job.generation):
                if attempt.ended_how is not EndedHow.LOST or attempt.key in self._lost:
                    continue
                self._lost.add(attempt.key)
                heard_ms = self._heard_ms.get((master, attempt.worker_id), -1e9)
                is_heard = self.engine.now_ms - heard_ms < self.limits.worker_lease_ms - 100
                is_known = "does not know" in attempt.reason
                if attempt.worker_id in alive and (is_known or is_heard):
                    self.seen.blame(f"{attempt.key} is taken for lost: {attempt.reason}")

    def _is_left_behind(self, key: AttemptKey) -> bool:
        """Somebody asked that nobody waits for it, or it did not end in time: the chain alone keeps it apart."""
        return any(
            attempt.key == key and attempt.ended_how is EndedHow.CANCELED
            for attempt in self.reads.attempts(key.job_id, key.generation)
        )

    def _deliver(self, url: str, path: str, body: JsonObject) -> tuple[int, JsonObject]:
        """A call arrives. The real code of the master answers, as one of its own threads would."""
        found = self.masters.get(url)
        while found is not None and found.process.alive and found.lock.is_held:
            self.engine.sleep(20)
        if found is None or not self._answers(found.process):
            self.engine.sleep(300)
            raise NoAnswer(f"Cannot call {url}: nobody answers.")
        heartbeat = heartbeat_from_json(body)
        try:
            answer = found.master.hear(heartbeat)
            if found.master._workers[heartbeat.worker_id].heartbeat is heartbeat:
                self._heard_ms[url, heartbeat.worker_id] = self.engine.now_ms
        except NotLeading as error:
            return 503, {"leader": error.leader_url}
        except HoldfastError as error:
            return 503, {"message": str(error)}
        return 200, answer_to_json(answer)

    def _answers(self, process: Process) -> bool:
        return process.alive and process.paused_until_ms <= self.engine.now_ms

    # ------------------------------------------------------------------------------------------ people

    def leader(self) -> MasterProcess | None:
        for found in self.masters.values():
            if self._answers(found.process) and found.master.term is not None:
                return found
        return None

    def submit(self, given: Submission) -> Request | None:
        self.seen.asked_restore(given)
        return self._request(
            lambda master: submit(master, given, self.catalog, ScheduleStrategy.WAIT, _parse_once),
            f"submit {given.job_id}" + (f" ({given.restore})" if given.restore else ""),
        )

    def ask(self, job_id: str, goal: Goal) -> Request | None:
        return self._request(
            lambda master: ask(master, job_id, goal), f"ask {job_id} to {goal.value}"
        )

    def _request(self, do: Callable[[Master], Job], said: str) -> Request | None:
        """In a thread of the leader, which may die over it. None: nobody leads."""
        found = self.leader()
        if found is None:
            return None
        request = Request(found.process)
        leader = found.master

        def run() -> None:
            try:
                do(leader)
            except HoldfastError as error:
                self.engine.tell(f"{said}: {error}")
            else:
                self.engine.tell(said)
                lost = self.faults.weather.message_lost
                request.is_taken = not self.faults.happens("request repeated", lost)
            request.is_over = True

        self.engine.spawn(found.process, run)
        return request
