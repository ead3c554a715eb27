"""Composes the processes of a cluster: `holdfast server` (a master with its API, and a worker beside it by default)
and `holdfast worker`. Checkpoint storage is a folder that all of them see.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from holdfast.api.app import create_app
from holdfast.api.serving import Serving
from holdfast.decide.world import Limits
from holdfast.master.master import Master, MasterSettings
from holdfast.model.errors import HoldfastError, Terminal
from holdfast.model.jobs import ScheduleStrategy
from holdfast.outside.clock import Clock, RealClock
from holdfast.outside.files import LocalFiles
from holdfast.outside.ids import new_id
from holdfast.outside.network import HttpNetwork, forward
from holdfast.outside.threads import RealThreads
from holdfast.runtime.catalog import Catalog
from holdfast.runtime.session import SparkHost, SparkSettings
from holdfast.store.store import open_store
from holdfast.worker.host import LEASE_CHECK_MS, WorkerHost, WorkerSettings
from holdfast.worker.running import HostOutside, attempt_runner

TICK_MS = 100
DRAIN_MS = 20_000


class PortTaken(Terminal):
    """The API's port belongs to somebody else."""

    code = "port-taken"


@dataclass(frozen=True)
class WorkerConfig:
    masters: tuple[str, ...] = ()
    slots: int | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    spark: Mapping[str, str] = field(default_factory=dict)
    warm: bool = True
    """Start Spark before the first attempt asks for it."""


@dataclass(frozen=True)
class ServerConfig:
    host: str = "127.0.0.1"
    port: int = 8080
    advertise: str | None = None
    """The url under which others reach this master."""
    state: str | None = None
    """The state store; default: SQLite under the data folder."""
    context_path: str = ""
    strategy: ScheduleStrategy = ScheduleStrategy.REJECT
    lease_ttl_ms: int = 2_000
    limits: Limits = field(default_factory=Limits)
    worker: WorkerConfig | None = field(default_factory=WorkerConfig)


def run_server(data: Path, config: ServerConfig) -> None:
    """Until SIGTERM or SIGINT."""
    clock = RealClock()
    listening = _listen(config.host, config.port)
    url = (
        config.advertise
        or f"http://{config.host}:{listening.getsockname()[1]}{config.context_path}"
    )
    state = config.state or f"sqlite:///{data / 'state' / 'holdfast.db'}"
    store = open_store(state, now_ms=clock.now_ms())
    settings = MasterSettings(new_id(), url, config.lease_ttl_ms, limits=config.limits)
    master = Master(settings, store, LocalFiles(data / "checkpoints"), clock)
    with ExitStack() as stack:
        stack.callback(store.close)
        stack.enter_context(_ticking(master))
        worker = None
        if config.worker is not None:
            worker = stack.enter_context(_working(data, config.worker, (url,), clock))
        serving = Serving(master, Catalog(), config.strategy, forward, worker, config.context_path)
        stack.enter_context(_serving(serving, listening))
        _say(f"Master at {url}, state in {_without_password(state)}, data in {data}.")
        _wait_for_signal()
        _say("Stopping.")
        if worker is not None:
            _drain(worker, clock)


def run_worker(data: Path, config: WorkerConfig) -> None:
    """Until SIGTERM or SIGINT."""
    clock = RealClock()
    with _working(data, config, config.masters, clock) as worker:
        _say(f"Worker for {', '.join(config.masters)}, data in {data}.")
        _wait_for_signal()
        _say("Stopping: attempts end after their epoch.")
        _drain(worker, clock)


@contextmanager
def _ticking(master: Master) -> Iterator[None]:
    ended = threading.Event()

    def run() -> None:
        led: int | None = None
        while not ended.is_set():
            try:
                master.tick()
            except HoldfastError as error:
                _say(f"A tick failed and is repeated: {error}")
            if master.term != led:
                led = master.term
                _say(f"Leads with term {led}." if led is not None else "Follows.")
            master.wake.wait(TICK_MS / 1000)
            master.wake.clear()

    thread = threading.Thread(target=run, name="master", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        with contextlib.suppress(HoldfastError):
            master.step_down()


@contextmanager
def _working(
    data: Path, config: WorkerConfig, masters: tuple[str, ...], clock: Clock
) -> Iterator[WorkerHost]:
    conf = dict(config.spark)
    spark_master = conf.pop("spark.master", "local[*]")
    host = SparkHost(SparkSettings(master=spark_master, conf=conf))
    outside = HostOutside(LocalFiles(data / "checkpoints"), Catalog(), host, clock, _say)
    settings = WorkerSettings(new_id(), masters, slots=config.slots, tags=config.tags)
    worker = WorkerHost(
        settings,
        attempt_runner(outside),
        network=HttpNetwork(),
        clock=clock,
        threads=RealThreads(),
    )
    ended = threading.Event()

    def beat() -> None:
        while not ended.is_set():
            worker.beat()
            worker.wake.wait(settings.heartbeat_ms / 1000)

    def check() -> None:
        while not ended.wait(LEASE_CHECK_MS / 1000):
            worker.check_lease()

    threads = RealThreads()
    threads.start("heartbeat", beat)
    threads.start("lease", check)
    if config.warm:
        threads.start("warm up", host.session)  # type: ignore[arg-type]
    try:
        yield worker
    finally:
        ended.set()
        worker.cancel_all()
        host.stop()


def _drain(worker: WorkerHost, clock: Clock) -> None:
    """Attempts end after their epoch, and go on elsewhere; what does not end in time is canceled."""
    worker.drain()
    until_ms = clock.elapsed_ms() + DRAIN_MS
    while not worker.is_empty and clock.elapsed_ms() < until_ms:
        clock.wait(50)
    worker.beat()


@contextmanager
def _serving(serving: Serving, listening: socket.socket) -> Iterator[None]:
    import uvicorn

    config = uvicorn.Config(
        create_app(serving), log_level="warning", access_log=False, lifespan="off"
    )
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    thread = threading.Thread(
        target=server.run, kwargs={"sockets": [listening]}, name="api", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(5)


def _listen(host: str, port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        raise PortTaken(
            f"Cannot listen on {host}:{port}: {error.strerror}. Choose another --port."
        ) from error
    listening.listen(128)
    return listening


def _wait_for_signal() -> None:
    asked = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: asked.set())
    while not asked.wait(0.5):
        continue


def _say(line: str) -> None:
    at = datetime.fromtimestamp(RealClock().now_ms() / 1000, UTC).strftime("%H:%M:%S.%f")[:-3]
    sys.stderr.write(f"{at} {line}\n")
    sys.stderr.flush()


def _without_password(url: str) -> str:
    from holdfast.spec.redact import redact_text

    return redact_text(url)
