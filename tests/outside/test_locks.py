"""A job's lock is held by one live process, and dies with it."""

import multiprocessing
import os
import signal
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from holdfast.outside.locks import JobIsLive, LockFailed, is_locked, job_lock


def _hold(path: Path, held: Event) -> None:
    with job_lock(path, "orders"):
        held.set()
        signal.pause()


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / "jobs" / "orders" / "lock"


def hold_elsewhere(lock: Path) -> multiprocessing.process.BaseProcess:
    context = multiprocessing.get_context("fork")
    held = context.Event()
    holder = context.Process(target=_hold, args=(lock, held))
    holder.start()
    assert held.wait(60)
    return holder


def test_a_job_that_is_live_is_refused_with_the_process_that_runs_it(lock: Path) -> None:
    holder = hold_elsewhere(lock)
    assert holder.pid is not None
    try:
        assert is_locked(lock)
        with (
            pytest.raises(JobIsLive, match=f"it is RUNNING in process {holder.pid}"),
            job_lock(lock, "orders"),
        ):
            pass
    finally:
        os.kill(holder.pid, signal.SIGKILL)
        holder.join()


def test_a_killed_process_leaves_no_lock(lock: Path) -> None:
    holder = hold_elsewhere(lock)
    assert holder.pid is not None

    os.kill(holder.pid, signal.SIGKILL)
    holder.join()

    assert not is_locked(lock)
    with job_lock(lock, "orders"):
        assert is_locked(lock)


def test_what_was_never_run_is_not_locked_and_asking_makes_nothing(lock: Path) -> None:
    assert not is_locked(lock)
    assert not lock.parent.exists()


def test_a_lock_that_cannot_be_made_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "jobs").write_text("a file")

    with (
        pytest.raises(LockFailed, match=r"Cannot lock the job at .*--data"),
        job_lock(tmp_path / "jobs" / "orders" / "lock", "orders"),
    ):
        pass
