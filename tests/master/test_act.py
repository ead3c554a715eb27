"""What the leader does, where it may fail."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from holdfast.checkpoint.chain import Chain
from holdfast.decide.actions import WriteSavepoint
from holdfast.decide.world import Limits
from holdfast.master.act import SAVEPOINT_DEADLINES, Acting, act
from holdfast.model.jobs import Goal, Outcome
from holdfast.outside.files import StorageFailed
from holdfast.store.store import open_memory_store
from holdfast.testing.builders import a_submitted_job
from holdfast.testing.crashes import CrashingFiles, Fault, MemoryFiles, VirtualClock
from tests.checkpoint.links import a_checkpoint

LIMITS = Limits()
DEADLINES_MS = SAVEPOINT_DEADLINES * LIMITS.stop_deadline_ms
WISHED_AT_MS = 10 * DEADLINES_MS
WISHED = WriteSavepoint("orders", 1, (1,), WISHED_AT_MS)


@pytest.fixture
def given() -> Iterator[Acting]:
    """A job that stands still and is to be saved, and a storage whose next write fails."""
    clock = VirtualClock()
    files = MemoryFiles(clock)
    Chain(files, "orders", 1).extend(a_checkpoint())
    failing = CrashingFiles(files, clock, Fault.FAIL, at=1)
    store = open_memory_store()
    store.commits.take_lease(seen_term=0, holder="m", url="", expires_at_ms=1)
    store.commits.submit_job(1, a_submitted_job(), is_restore=False)
    store.commits.set_goal(1, "orders", 1, Goal.SAVEPOINT, at_ms=WISHED_AT_MS)
    yield Acting(1, store.commits, store.reads, failing, WISHED_AT_MS, LIMITS)
    store.close()


def test_a_savepoint_that_cannot_be_written_is_tried_again(given: Acting) -> None:
    with pytest.raises(StorageFailed):
        act(WISHED, given)
    act(WISHED, given)

    job = given.reads.job("orders")
    assert job is not None
    assert job.outcome is Outcome.SAVEPOINT_DONE


def test_after_some_deadlines_a_stop_ends_without_its_savepoint(given: Acting) -> None:
    act(WISHED, replace(given, now_ms=WISHED_AT_MS + DEADLINES_MS + 1))

    job = given.reads.job("orders")
    assert job is not None
    assert job.outcome is Outcome.FAILED


def test_a_leader_whose_clock_is_ahead_gives_a_savepoint_its_time(given: Acting) -> None:
    ahead_ms = WISHED_AT_MS + 2 * DEADLINES_MS
    ahead = replace(given, now_ms=ahead_ms, leading_since_ms=ahead_ms - 100)

    with pytest.raises(StorageFailed):
        act(WISHED, ahead)
    act(WISHED, ahead)

    job = given.reads.job("orders")
    assert job is not None
    assert job.outcome is Outcome.SAVEPOINT_DONE
