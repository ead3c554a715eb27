"""How a master begins to lead, where it may fail."""

from __future__ import annotations

import pytest

from holdfast.master.master import Master, MasterSettings
from holdfast.store.commits import Commits
from holdfast.store.connection import CommitUnknown
from holdfast.store.store import Store, open_memory_store
from holdfast.testing.crashes import MemoryFiles, VirtualClock


def test_who_got_no_answer_to_its_take_leads_since_it_knows() -> None:
    clock = VirtualClock()
    lost = ["after take lease"]

    def lose_the_answer(point: str) -> None:
        if point in lost:
            lost.remove(point)
            raise CommitUnknown("Cannot tell whether 'take lease' was done.")

    made = open_memory_store()
    store = Store(made.engine, made.reads, Commits(made.engine, lose_the_answer))
    master = Master(MasterSettings("m"), store, MemoryFiles(clock), clock)

    with pytest.raises(CommitUnknown):
        master.tick()
    clock.advance(100)
    master.tick()

    assert master.term == 1
    assert master.observe().leading_since_ms == clock.now_ms()
    made.close()
