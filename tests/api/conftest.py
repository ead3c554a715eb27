"""Masters with their API on loopback, on one store; workers are real hosts whose attempts do nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from holdfast.api.serving import Serving
from holdfast.cluster import listen, serve_api
from holdfast.master.master import Master, MasterSettings
from holdfast.model.attempts import EndedHow
from holdfast.model.jobs import ScheduleStrategy
from holdfast.model.workers import DesiredAttempt
from holdfast.outside.clock import Clock, RealClock
from holdfast.outside.files import LocalFiles
from holdfast.outside.network import HttpNetwork, call_api, forward
from holdfast.outside.threads import RealThreads
from holdfast.runtime.catalog import Catalog
from holdfast.runtime.stop import StopSignal
from holdfast.runtime.watch import Watch
from holdfast.store.store import open_store
from holdfast.worker.host import WorkerHost, WorkerSettings

LEASE_MS = 10 * 60_000
JOB = """
    env {{ job.mode = STREAMING, job.id = "{id}", job.name = "{id}", {env} }}
    source {{ FakeSource {{ row.num = 1, schema {{ fields {{ id = bigint }} }} }} }}
    sink {{ Console {{}} }}
"""


@dataclass(frozen=True)
class Site:
    """One master and where it is reached. Ticks when it is told to."""

    master: Master
    url: str

    def ask(self, method: str, target: str, body: str | bytes = "") -> tuple[int, Any]:
        sent = body if isinstance(body, bytes) else body.encode()
        status, found = call_api(method, self.url, target, sent)
        return status, found.get("found", found)

    def get(self, target: str) -> Any:
        status, found = self.ask("GET", target)
        assert status == 200, found
        return found

    def post(self, target: str, body: str = "") -> Any:
        status, found = self.ask("POST", target, body)
        assert status == 200, found
        return found

    def submit(self, job_id: str = "orders", *, env: str = "", query: str = "") -> Any:
        return self.post(f"/submit-job?format=hocon{query}", JOB.format(id=job_id, env=env))


@dataclass
class Sites:
    """Makes masters on one store and workers that know them."""

    folder: Path
    stack: ExitStack
    made: list[Site] = field(default_factory=list)

    def add(
        self, clock: Clock | None = None, strategy: ScheduleStrategy = ScheduleStrategy.WAIT
    ) -> Site:
        clock = clock or RealClock()
        listening = listen("127.0.0.1", 0)
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        store = open_store(f"sqlite:///{self.folder / 'state.db'}", now_ms=clock.now_ms())
        self.stack.callback(store.close)
        settings = MasterSettings(f"m{len(self.made)}", url, LEASE_MS)
        master = Master(settings, store, LocalFiles(self.folder / "checkpoints"), clock)
        master.tick()
        self.stack.enter_context(
            serve_api(Serving(master, Catalog(), strategy, forward), listening)
        )
        self.made.append(Site(master, url))
        return self.made[-1]

    def add_worker(
        self, name: str = "w1", *, slots: int | None = None, tags: Mapping[str, str] | None = None
    ) -> WorkerHost:
        urls = tuple(site.url for site in self.made)
        settings = WorkerSettings(name, urls, "here:1", slots=slots, tags=tags or {})
        worker = WorkerHost(
            settings,
            _idle,
            network=HttpNetwork(),
            clock=RealClock(),
            threads=RealThreads(),
        )
        self.stack.callback(worker.cancel_all)
        assert worker.beat()
        return worker


def _idle(wanted: DesiredAttempt, watch: Watch, stop: StopSignal) -> tuple[EndedHow, str]:
    stop.wake.wait(60)
    return EndedHow.STOPPED, ""


@pytest.fixture
def sites(tmp_path: Path) -> Iterator[Sites]:
    with ExitStack() as stack:
        yield Sites(tmp_path, stack)
