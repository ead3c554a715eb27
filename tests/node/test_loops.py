"""The loops of a process outlive whatever happens in one turn."""

from __future__ import annotations

import errno
import io
import sys
import threading
from pathlib import Path

import pytest

from holdfast.cluster import _beat, _ticking
from holdfast.master.master import Master, MasterSettings
from holdfast.model.attempts import EndedHow
from holdfast.model.json import JsonObject
from holdfast.outside.clock import RealClock
from holdfast.outside.files import LocalFiles
from holdfast.outside.threads import RealThreads
from holdfast.store.store import open_memory_store
from holdfast.worker.host import WorkerHost, WorkerSettings


class FailingClock(RealClock):
    """Raises what nobody expects, some times."""

    def __init__(self) -> None:
        super().__init__()
        self.left = 3

    def now_ms(self) -> int:
        if self.left:
            self.left -= 1
            raise RuntimeError("no such time")
        return super().now_ms()


def test_a_tick_that_raises_is_told_and_the_next_one_comes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """F048, F062."""
    clock = FailingClock()
    store = open_memory_store()
    master = Master(MasterSettings("m"), store, LocalFiles(tmp_path), clock)
    with _ticking(master):
        until_ms = clock.elapsed_ms() + 10_000
        while clock.left or master.term is None:
            assert clock.elapsed_ms() < until_ms
            clock.wait(10)
    store.close()

    said = capsys.readouterr().err
    assert said.count("A tick failed and is repeated: RuntimeError: no such time") >= 1
    assert "Leads with term 1" in said


class FullDisk(io.StringIO):
    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_log_that_takes_no_more_ends_no_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F133, F048."""
    clock = FailingClock()
    store = open_memory_store()
    master = Master(MasterSettings("m"), store, LocalFiles(tmp_path), clock)
    monkeypatch.setattr(sys, "stderr", FullDisk())
    with _ticking(master):
        until_ms = clock.elapsed_ms() + 10_000
        while master.term is None and clock.elapsed_ms() < until_ms:
            clock.wait(10)
    monkeypatch.undo()

    lease = store.reads.lease()
    store.close()
    assert lease is not None
    assert lease.term == 1


class FailingNetwork:
    """Fails in a way that is no lost answer, and answers later."""

    def __init__(self) -> None:
        self.calls = 0

    def call(self, url: str, path: str, body: JsonObject) -> tuple[int, JsonObject]:
        self.calls += 1
        if self.calls <= 3:
            raise RuntimeError("no such network")
        return 503, {}


def _run_nothing(*given: object) -> tuple[EndedHow, str]:
    raise AssertionError("nobody wants an attempt here")


def test_a_heartbeat_that_raises_is_told_and_the_next_one_comes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """F048."""
    network, clock, ended = FailingNetwork(), RealClock(), threading.Event()
    settings = WorkerSettings("w", ("m",), heartbeat_ms=10)
    host = WorkerHost(settings, _run_nothing, network=network, clock=clock, threads=RealThreads())
    thread = threading.Thread(target=_beat, args=(host, settings, ended, lambda: None), daemon=True)
    thread.start()
    until_ms = clock.elapsed_ms() + 10_000
    while network.calls < 6 and clock.elapsed_ms() < until_ms:
        clock.wait(10)
    ended.set()
    host.wake.set()
    thread.join(5)

    assert network.calls >= 6
    assert "A heartbeat failed and is repeated: RuntimeError: no such network" in (
        capsys.readouterr().err
    )
