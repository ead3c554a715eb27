"""A cluster of real processes on loopback, for tests and benchmarks: masters and workers that are started, killed,
paused and started again, and asked over their API as people ask it.

Every process dies with the one that started it, also when that is killed.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from holdfast.outside.clock import RealClock
from holdfast.outside.ids import new_id
from holdfast.outside.network import NoAnswer, call_api
from holdfast.outside.processes import Running, launch
from holdfast.testing.servers import free_port

CLOCK = RealClock()
LOOK_EVERY_MS = 20.0
TIMEOUT_MS = 60_000.0
START_TIMEOUT_MS = 180_000.0
ASK_TIMEOUT_MS = 3_000
ENDED = ("FINISHED", "FAILED", "CANCELED", "SAVEPOINT_DONE", "UNKNOWABLE")


def until(what: str, found: Callable[[], Any], *, timeout_ms: float = TIMEOUT_MS) -> Any:
    """Ask again and again until the answer is true; fails with `what` past the deadline."""
    deadline_ms = CLOCK.elapsed_ms() + timeout_ms
    while True:
        answer = found()
        if answer:
            return answer
        assert CLOCK.elapsed_ms() < deadline_ms, f"not within {timeout_ms / 1000:g} s: {what}"
        CLOCK.wait(LOOK_EVERY_MS)


class LiveProcess:
    """One process that may be started again under the same name."""

    def __init__(self, name: str, command: Sequence[str], log: Path, data: Path) -> None:
        self.name = name
        self._command = list(command)
        self._log = log
        self._data = data
        self._running: Running | None = None
        self._is_paused = False
        self.is_ending = False
        """It was asked to end."""
        self._begun_at = 0
        """Where the log of the newest start begins."""

    def start(self) -> None:
        assert not self.is_alive
        self.is_ending = False
        self._begun_at = len(self.log())
        dying_with_us = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
        self._running = launch(
            [*dying_with_us, *self._command],
            log=self._log,
            environment={"HOLDFAST_DATA": str(self._data)},
        )

    @property
    def is_alive(self) -> bool:
        return self._running is not None and self._running.is_alive

    @property
    def is_paused(self) -> bool:
        return self._is_paused

    @property
    def pid(self) -> int:
        assert self._running is not None
        return self._running.pid

    def kill(self) -> None:
        """SIGKILL, whatever it is at."""
        self._is_paused = False
        if self._running is not None:
            self._running.end(grace_ms=0, ask=signal.SIGKILL)

    def pause(self) -> None:
        self._is_paused = True
        os.kill(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        self._is_paused = False
        os.kill(self.pid, signal.SIGCONT)

    def ask_to_end(self) -> None:
        self.is_ending = True
        os.kill(self.pid, signal.SIGTERM)

    def wait_for_end(self, timeout_ms: float = TIMEOUT_MS) -> None:
        until(f"the end of {self.name}", lambda: not self.is_alive, timeout_ms=timeout_ms)

    def log(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def wait_for(self, text: str, *, timeout_ms: float = TIMEOUT_MS) -> None:
        """Until it has said so since it was started last."""
        what = f"{text!r} in the log of {self.name}"
        until(what, lambda: text in self.log()[self._begun_at :], timeout_ms=timeout_ms)


class LiveMaster(LiveProcess):
    """Keeps its port over restarts: workers know it by its address."""

    def __init__(self, name: str, arguments: Sequence[str], log: Path, data: Path) -> None:
        self.port = free_port()
        command = [*HOLDFAST, "server", "--port", str(self.port), *arguments]
        super().__init__(name, command, log, data)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(
        self, method: str, target: str, body: str = "", *, timeout_ms: int = ASK_TIMEOUT_MS
    ) -> tuple[int, dict[str, Any]]:
        status, found = call_api(method, self.url, target, body.encode(), timeout_ms=timeout_ms)
        return status, dict(found)

    def leads(self, timeout_ms: int = ASK_TIMEOUT_MS) -> bool:
        return self._overview(timeout_ms).get("isLeader") == "True"

    def answers(self) -> bool:
        return bool(self._overview(ASK_TIMEOUT_MS))

    def _overview(self, timeout_ms: int) -> dict[str, Any]:
        if not self.is_alive or self.is_paused:
            return {}
        try:
            status, found = self.ask("GET", "/overview", timeout_ms=timeout_ms)
        except NoAnswer:
            return {}
        return found if status == 200 else {}


HOLDFAST = [sys.executable, "-m", "holdfast.cli.main"]


@dataclass
class LiveCluster:
    """All processes share a data folder. Ended as a whole."""

    folder: Path
    state: str | None = None
    masters: list[LiveMaster] = field(default_factory=list)
    workers: list[LiveProcess] = field(default_factory=list)

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def add_master(self, *arguments: str) -> LiveMaster:
        name = f"master-{len(self.masters) + 1}"
        state = ["--state", self.state] if self.state else []
        log = self._log(name)
        made = LiveMaster(name, [*state, *arguments], log, self.data)
        made.start()
        self.masters.append(made)
        return made

    def add_worker(self, *arguments: str) -> LiveProcess:
        name = f"worker-{len(self.workers) + 1}"
        masters = ",".join(master.url for master in self.masters)
        command = [*HOLDFAST, "worker", "--masters", masters, *arguments]
        made = LiveProcess(name, command, self._log(name), self.data)
        made.start()
        self.workers.append(made)
        return made

    def _log(self, name: str) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        return self.folder / f"{name}.log"

    @property
    def processes(self) -> list[LiveProcess]:
        return [*self.masters, *self.workers]

    def leader(self, *, timeout_ms: float = TIMEOUT_MS) -> LiveMaster:
        def find() -> LiveMaster | None:
            return next((master for master in self.masters if master.leads()), None)

        found = until("a leader", find, timeout_ms=timeout_ms)
        assert isinstance(found, LiveMaster)
        return found

    def wait_until_warm(self) -> None:
        """All workers are known to the leader and have their Spark."""
        for worker in self.workers:
            worker.wait_for("Spark is warm.", timeout_ms=START_TIMEOUT_MS)
        hosting = [m for m in self.masters if "Worker " in m.log() and m.is_alive]
        wanted = len(self.workers) + len(hosting)
        until("all workers", lambda: len(self.list_workers()) >= wanted)

    # ------------------------------------------------------------------------------------------- asking

    def ask(self, method: str, target: str, body: str = "") -> Any:
        """Of the first master that answers with success; asked again for as long as the cluster has none."""
        said = ["nothing"]

        def once() -> Any:
            for master in self.masters:
                if not master.is_alive or master.is_paused:
                    continue
                try:
                    status, found = master.ask(method, target, body)
                except NoAnswer as silent:
                    said[0] = str(silent)
                    continue
                if status == 200:
                    return [found]
                assert status == 503, found
                said[0] = str(found)
            return None

        try:
            return until(f"an answer to {target}", once)[0]
        except AssertionError as error:
            raise AssertionError(f"{error}; last: {said[0]}") from None

    def submit(self, text: str, **query: str) -> str:
        """The job's id. Asked again under one submission, so that a lost answer submits nothing twice."""
        asked = urlencode({"format": "hocon", "submission": new_id(), **query})
        return str(self.ask("POST", f"/submit-job?{asked}", text)["jobId"])

    def stop(self, job_id: str, *, savepoint: bool = False) -> None:
        wanted = f'{{"jobId": "{job_id}", "isStopWithSavePoint": {str(savepoint).lower()}}}'
        self.ask("POST", "/stop-job", wanted)

    def show(self, job_id: str) -> dict[str, Any]:
        found = self.ask("GET", f"/job-info/{job_id}")
        assert isinstance(found, dict)
        return found

    def list_workers(self) -> list[dict[str, Any]]:
        """Those that are heard."""
        found = self.ask("GET", "/workers").get("found", [])
        return [worker for worker in found if worker["status"] == "ALIVE"]

    def wait_for_status(self, job_id: str, *statuses: str, timeout_ms: float = TIMEOUT_MS) -> None:
        """Fails at once when the job has ended otherwise."""
        deadline_ms = CLOCK.elapsed_ms() + timeout_ms
        while True:
            shown = self.show(job_id)
            status = shown["jobStatus"]
            if status in statuses:
                return
            said = f"{job_id} is {status} and not {'/'.join(statuses)}: {shown['errorMsg']}"
            assert status not in ENDED, said
            assert CLOCK.elapsed_ms() < deadline_ms, f"{said}; {shown['attempts'][-3:]}"
            CLOCK.wait(LOOK_EVERY_MS)

    def attempts(self, job_id: str) -> list[tuple[int, int, str | None]]:
        """Pipeline, number and how it ended, of all attempts of the newest generation."""
        listed = self.show(job_id)["attempts"]
        return [(a["pipelineId"], a["number"], a["ended"]) for a in listed]

    def worker_of(self, job_id: str, pipeline_id: int = 1) -> LiveProcess:
        """The process that hosts the newest attempt."""

        def find() -> LiveProcess | None:
            listed = self.show(job_id)["attempts"]
            mine = [a["workerId"] for a in listed if a["pipelineId"] == pipeline_id]
            if not mine:
                return None
            told = f"Worker {mine[-1]} begins."
            return next(process for process in self.processes if told in process.log())

        found = until(f"the worker of {job_id}", find)
        assert isinstance(found, LiveProcess)
        return found

    def revive(self) -> None:
        """Everything that was killed or paused runs again, and all workers are warm."""
        for process in self.processes:
            if process.is_alive and process.is_paused:
                process.go_on()
            elif not process.is_alive:
                process.start()
        self.wait_until_warm()

    def end(self) -> None:
        for process in self.processes:
            process.kill()

    def logs(self) -> str:
        return "\n".join(f"--- {p.name}\n{p.log()}" for p in self.processes)


@contextmanager
def live_cluster(
    folder: Path,
    *,
    masters: int = 1,
    workers: int = 1,
    state: str | None = None,
    worker_arguments: Sequence[str] = (),
) -> Iterator[LiveCluster]:
    """Masters without workers beside them, and workers of their own; warm when the block begins."""
    cluster = LiveCluster(folder, state)
    with ExitStack() as stack:
        stack.callback(cluster.end)
        for _ in range(masters):
            cluster.add_master("--no-worker")
        for _ in range(workers):
            cluster.add_worker(*worker_arguments)
        cluster.wait_until_warm()
        yield cluster
