"""Composes the processes of a cluster: `holdfast server` (a master with its API, and a worker beside it by default)
and `holdfast worker`. Checkpoint storage is a folder that all of them see.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from queue import SimpleQueue

from holdfast.api.app import create_app
from holdfast.api.serving import Serving
from holdfast.decide.world import Limits
from holdfast.master.master import Master, MasterSettings
from holdfast.model.errors import Canceled, HoldfastError, Terminal
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
TIDY_EVERY_MS = 60_000
DRAIN_MS = 20_000
DRAIN_LOOK_MS = 20
DRAINED = 0
"""Beside the numbers of signals: who asked did so over the API."""
WARM_UP_WAITS_S = (1, 5, 30)


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


def state_url(data: Path, given: str | None) -> str:
    """Where the state store is: as given, or in the data folder."""
    return given or f"sqlite:///{data / 'state' / 'holdfast.db'}"


def run_server(data: Path, config: ServerConfig) -> None:
    """Until SIGTERM or SIGINT."""
    clock = RealClock()
    listening = listen(config.host, config.port)
    url = (
        config.advertise
        or f"http://{config.host}:{listening.getsockname()[1]}{config.context_path}"
    )
    state = state_url(data, config.state)
    store = open_store(state, now_ms=clock.now_ms())
    settings = MasterSettings(new_id(), url, config.lease_ttl_ms, limits=config.limits)
    master = Master(settings, store, LocalFiles(data / "checkpoints"), clock, RealThreads())
    with ExitStack() as stack:
        asked = stack.enter_context(_asked_to_end())
        stack.callback(store.close)
        stack.enter_context(_ticking(master))
        worker = None
        if config.worker is not None:
            told = functools.partial(_say, "The worker drains: it takes no more attempts.")
            worker = stack.enter_context(_working(data, config.worker, (url,), clock, told))
        serving = Serving(master, Catalog(), config.strategy, forward, worker, config.context_path)
        stack.enter_context(serve_api(serving, listening))
        _say(f"Master at {url}, state in {_without_password(state)}, data in {data}.")
        asked.get()
        _say("Stopping.")
        if worker is not None:
            _drain(worker, asked, clock)


def run_worker(data: Path, config: WorkerConfig) -> None:
    """Until SIGTERM or SIGINT."""
    clock = RealClock()
    with (
        _asked_to_end() as asked,
        _working(data, config, config.masters, clock, lambda: asked.put(DRAINED)) as worker,
    ):
        _say(f"Worker for {', '.join(config.masters)}, data in {data}.")
        asked.get()
        _say("Stopping: attempts end after their epoch and go on elsewhere. Again: they end now.")
        _drain(worker, asked, clock)


@contextmanager
def _ticking(master: Master) -> Iterator[None]:
    ended = threading.Event()

    def run() -> None:
        led: int | None = None
        failed: set[str] = set()
        tidied_ms = RealClock().elapsed_ms()
        while not ended.is_set():
            try:
                master.tick()
            except Exception as error:  # noqa: BLE001 - the loop's outermost line: the next tick looks again
                _say(f"A tick failed and is repeated: {_words_of(error)}")
            for said in sorted(set(master.failed.values()) - failed):
                _say(f"Could not be done and is tried again: {said}")
            failed = set(master.failed.values())
            if master.term is not None and RealClock().elapsed_ms() - tidied_ms > TIDY_EVERY_MS:
                tidied_ms = RealClock().elapsed_ms()
                with contextlib.suppress(HoldfastError):
                    master.store.tidy()
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
    data: Path,
    config: WorkerConfig,
    masters: tuple[str, ...],
    clock: Clock,
    when_drained: Callable[[], None],
) -> Iterator[WorkerHost]:
    """`when_drained` is called once, when somebody has asked it over the API to end in peace."""
    conf = dict(config.spark)
    spark_master = conf.pop("spark.master", "local[*]")
    host = SparkHost(SparkSettings(master=spark_master, conf=conf))
    outside = HostOutside(LocalFiles(data / "checkpoints"), Catalog(), host, clock, _say)
    place = f"{socket.gethostname()}:{os.getpid()}"
    settings = WorkerSettings(new_id(), masters, place, slots=config.slots, tags=config.tags)
    worker = WorkerHost(
        settings,
        attempt_runner(outside),
        network=HttpNetwork(),
        clock=clock,
        threads=RealThreads(),
    )
    _say(f"Worker {settings.me} begins.")
    ended = threading.Event()
    threads = RealThreads()
    threads.start("heartbeat", lambda: _beat(worker, settings, ended, when_drained))
    threads.start("lease", lambda: _watch_lease(worker, ended))
    if config.warm:
        threads.start("warm up", lambda: _warm_up(host))
    try:
        yield worker
    finally:
        ended.set()
        worker.cancel_all()
        host.stop()


def _beat(
    worker: WorkerHost,
    settings: WorkerSettings,
    ended: threading.Event,
    when_drained: Callable[[], None],
) -> None:
    was_answered: bool | None = None
    was_draining = False
    while not ended.is_set():
        try:
            answered = worker.beat()
        except Exception as error:  # noqa: BLE001 - the loop's outermost line: without it the worker would fall silent
            answered = False
            _say(f"A heartbeat failed and is repeated: {_words_of(error)}")
        if answered is not was_answered:
            was_answered = answered
            masters = ", ".join(settings.masters)
            _say("A leader answers." if answered else f"No leader answers; asked were {masters}.")
        if worker.is_draining and not was_draining:
            was_draining = True
            when_drained()
        worker.wake.wait(settings.heartbeat_ms / 1000)


def _watch_lease(worker: WorkerHost, ended: threading.Event) -> None:
    while not ended.wait(LEASE_CHECK_MS / 1000):
        try:
            stopped = worker.check_lease()
        except Exception as error:  # noqa: BLE001 - the loop's outermost line: nobody else ends what must not go on
            _say(f"A look at the lease failed and is repeated: {_words_of(error)}")
            continue
        if stopped:
            _say(f"No leader answered for a whole lease: {stopped} attempts are ended.")


def _warm_up(host: SparkHost) -> None:
    """Whoever needs Spark next meets the failure again; here it is told before anybody waits for it."""
    for wait_s in WARM_UP_WAITS_S:
        try:
            host.warm_up()
        except Canceled:
            return
        except Exception as error:  # noqa: BLE001 - the thread's outermost line
            _say(f"Spark does not start: {_words_of(error)}")
            RealClock().wait(wait_s * 1000)
        else:
            _say("Spark is warm.")
            return


def _drain(worker: WorkerHost, asked: SimpleQueue[int], clock: Clock) -> None:
    """Attempts end after their epoch and go on elsewhere. What does not in time is canceled, as when asked again."""
    worker.drain()
    until_ms = clock.elapsed_ms() + DRAIN_MS
    while not worker.is_empty and asked.empty() and clock.elapsed_ms() < until_ms:
        clock.wait(DRAIN_LOOK_MS)
    if not worker.is_empty:
        _say("Attempts have not ended: they are canceled.")
    with contextlib.suppress(HoldfastError):
        worker.beat()


@contextmanager
def serve_api(serving: Serving, listening: socket.socket) -> Iterator[None]:
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


def listen(host: str, port: int) -> socket.socket:
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


@contextmanager
def _asked_to_end() -> Iterator[SimpleQueue[int]]:
    """Holds one item for each SIGINT and SIGTERM. A handler interrupts whatever runs: it does no more than that."""
    asked: SimpleQueue[int] = SimpleQueue()
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {n: signal.signal(n, lambda number, _: asked.put(number)) for n in numbers}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _words_of(error: Exception) -> str:
    return str(error) if isinstance(error, HoldfastError) else f"{type(error).__name__}: {error}"


def _say(line: str) -> None:
    """Never raises: a log on a full disk, or one that nobody reads any more, ends no loop and no attempt."""
    at = datetime.fromtimestamp(RealClock().now_ms() / 1000, UTC).strftime("%H:%M:%S.%f")[:-3]
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"{at} {line}\n")
        sys.stderr.flush()


def _without_password(url: str) -> str:
    from holdfast.spec.redact import redact_text

    return redact_text(url)
