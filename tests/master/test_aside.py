"""What a leader does in checkpoint storage holds up nothing else."""

from __future__ import annotations

import threading
from pathlib import Path

from holdfast.checkpoint.chain import Chain
from holdfast.decide.world import Limits
from holdfast.master.master import Master, MasterSettings
from holdfast.model.attempts import EndedHow
from holdfast.model.jobs import Goal, Outcome
from holdfast.outside.clock import RealClock
from holdfast.outside.files import FileInfo, LocalFiles
from holdfast.outside.threads import RealThreads
from holdfast.store.store import open_store
from holdfast.testing.builders import a_heartbeat, a_submitted_job, an_observed
from holdfast.testing.live_cluster import until
from tests.checkpoint.links import a_checkpoint


class HangingFiles(LocalFiles):
    """As a mounted folder whose server is away."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.hangs = threading.Event()
        self.go_on = threading.Event()

    def list_folder(self, path: str) -> list[FileInfo]:
        self.hangs.set()
        assert self.go_on.wait(30)
        return super().list_folder(path)


def _stopped_job(master: Master) -> None:
    """Asked to stop with a savepoint, and all it ran has stopped."""
    assert master.term is not None
    commits = master.store.commits
    commits.submit_job(master.term, a_submitted_job("orders"), is_restore=True)
    master.tick()
    [attempt] = master.store.reads.open_attempts()
    commits.set_goal(master.term, "orders", 1, Goal.SAVEPOINT, at_ms=master.now_ms())
    for sent_at_ms, how in ((1, None), (2, EndedHow.STOPPED)):
        seen = an_observed(attempt, claim=1, tip=1, ended_how=how)
        master.hear(a_heartbeat("w1", seen, sent_at_ms=sent_at_ms))
        master.tick()
    master.tick()


def test_while_storage_hangs_workers_are_answered_and_the_lease_is_renewed(tmp_path: Path) -> None:
    files, store = HangingFiles(tmp_path), open_store(f"sqlite:///{tmp_path / 's.db'}", now_ms=0)
    chain = Chain(LocalFiles(tmp_path), "orders", 1)
    chain.extend(a_checkpoint(1))
    settings = MasterSettings("m", "http://m", lease_ttl_ms=300)
    master = Master(settings, store, files, RealClock(), RealThreads())
    master.tick()
    master.hear(a_heartbeat("w1"))

    _stopped_job(master)
    assert files.hangs.wait(10)
    for sent_at_ms in range(3, 10):
        master.tick()
        assert master.hear(a_heartbeat("w1", sent_at_ms=sent_at_ms)).term == 1
        master.clock.wait(100)

    files.go_on.set()
    until("the savepoint", lambda: _savepoint_of(master))


def test_a_stop_ends_though_storage_neither_writes_its_savepoint_nor_fails(tmp_path: Path) -> None:
    files, store = HangingFiles(tmp_path), open_store(f"sqlite:///{tmp_path / 's.db'}", now_ms=0)
    Chain(LocalFiles(tmp_path), "orders", 1).extend(a_checkpoint(1))
    settings = MasterSettings("m", "http://m", limits=Limits(stop_deadline_ms=50))
    master = Master(settings, store, files, RealClock(), RealThreads())
    master.tick()
    master.hear(a_heartbeat("w1"))

    _stopped_job(master)
    assert files.hangs.wait(10)
    until("the end of the job", lambda: _is_ended(master))

    job = store.reads.job("orders")
    assert job is not None
    assert (job.outcome, job.savepoint) == (Outcome.FAILED, None)
    assert job.reason.endswith("checkpoint storage gave no answer")
    files.go_on.set()


def _is_ended(master: Master) -> bool:
    master.tick()
    found = master.store.reads.job("orders")
    return found is not None and found.outcome is not None


def _savepoint_of(master: Master) -> str | None:
    found = master.store.reads.job("orders")
    return None if found is None else found.savepoint
