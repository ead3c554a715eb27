"""A worker reports the end of every attempt, however it ends."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.model.attempts import EndedHow
from holdfast.model.workers import Answer, DesiredAttempt, Wish
from holdfast.outside.files import LocalFiles
from holdfast.outside.threads import RealThreads
from holdfast.runtime.catalog import Catalog
from holdfast.runtime.session import SparkHost, SparkSettings
from holdfast.runtime.stop import StopSignal
from holdfast.runtime.watch import NoWatch, Watch
from holdfast.testing.builders import a_key
from holdfast.testing.crashes import VirtualClock
from holdfast.worker.host import WorkerHost, WorkerSettings
from holdfast.worker.running import HostOutside, attempt_runner, judge_end


class NoThreads:
    """As where a limit of the system is reached."""

    def start(self, name: str, run: Callable[[], None]) -> None:
        raise RuntimeError("can't start new thread")


class Here:
    """The caller's own thread."""

    def start(self, name: str, run: Callable[[], None]) -> None:
        run()


def _wanted(job_id: str = "orders") -> DesiredAttempt:
    return DesiredAttempt(a_key(job_id), Wish.RUN, "s1", "env {}", "conf", job_id, {}, {})


def _finish(wanted: DesiredAttempt, watch: Watch, stop: StopSignal) -> tuple[EndedHow, str]:
    return EndedHow.FINISHED, ""


def _exit(*given: Any, **named: Any) -> Any:
    raise SystemExit(3)


def test_an_attempt_for_which_there_is_no_thread_is_told_as_ended_and_holds_up_no_other() -> None:
    clock = VirtualClock()
    settings = WorkerSettings("w1", ("http://m",))
    host = WorkerHost(settings, _finish, network=None, clock=clock, threads=NoThreads())  # type: ignore[arg-type]
    wanted = (_wanted("bills"), _wanted("orders"))

    host.obey(Answer(1, sent_at_ms=int(clock.elapsed_ms()), lease_ms=1_000, attempts=wanted))

    told = host.heartbeat().attempts
    assert [seen.ended_how for seen in told] == [EndedHow.CANCELED] * 2
    assert "could not start a thread" in told[0].reason


def test_what_a_worker_ends_by_itself_is_told_with_the_reason() -> None:
    clock, begun = VirtualClock(), threading.Event()

    def run(wanted: DesiredAttempt, watch: Watch, stop: StopSignal) -> tuple[EndedHow, str]:
        begun.set()
        stop.wake.wait(60)
        return EndedHow.CANCELED, ""

    settings = WorkerSettings("w1", ("http://m",))
    host = WorkerHost(settings, run, network=None, clock=clock, threads=RealThreads())  # type: ignore[arg-type]
    sent_at_ms = int(clock.elapsed_ms())
    host.obey(Answer(1, sent_at_ms=sent_at_ms, lease_ms=1_000, attempts=(_wanted(),)))
    assert begun.wait(10)
    host.wake.clear()

    clock.advance(1_000)
    assert host.check_lease() == 1

    assert host.wake.wait(10)
    [told] = host.heartbeat().attempts
    assert told.reason == "worker w1 had no answer of a leader for a whole lease"


def test_code_that_asks_the_process_to_end_ends_its_attempt_with_that_reason(
    tmp_path: Path,
) -> None:
    said: list[str] = []
    host = SparkHost(SparkSettings())
    files = LocalFiles(tmp_path)
    outside = HostOutside(files, Catalog(), host, VirtualClock(), said.append, parse=_exit)

    how, reason = attempt_runner(outside)(_wanted(), NoWatch(), StopSignal())

    assert how is EndedHow.FAILED_FOR_GOOD
    assert "exit code 3" in reason
    assert "exit code 3" in said[-1]


def test_an_attempt_whose_thread_breaks_is_told_as_failed() -> None:
    """Whatever happened there: what nobody tells as ended would be RUNNING for ever."""

    def run(wanted: DesiredAttempt, watch: Watch, stop: StopSignal) -> tuple[EndedHow, str]:
        raise MemoryError

    clock = VirtualClock()
    settings = WorkerSettings("w1", ("http://m",))
    host = WorkerHost(settings, run, network=None, clock=clock, threads=Here())  # type: ignore[arg-type]

    with pytest.raises(MemoryError):
        host.obey(
            Answer(1, sent_at_ms=int(clock.elapsed_ms()), lease_ms=1_000, attempts=(_wanted(),))
        )

    [told] = host.heartbeat().attempts
    assert told.ended_how is EndedHow.FAILED


def test_an_error_that_cannot_be_put_into_words_is_judged_all_the_same() -> None:
    class Wordless(Exception):
        def __str__(self) -> str:
            raise ConnectionRefusedError

    assert judge_end(Wordless()) == (EndedHow.FAILED, "Wordless")
