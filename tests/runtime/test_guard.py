"""A read that outlasts its budget is ended from outside."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.connectors.base import Budget, ReadTask, SourceBase, TableBatch
from holdfast.outside.clock import RealClock
from holdfast.runtime.guard import ReadOverdue, guarded_read
from holdfast.testing.builders import a_batch

TASK = ReadTask({})


class Reader(SourceBase):
    """Gives two batches; the second may hang until the source is closed."""

    def __init__(self, *, hangs: bool = False, error: Exception | None = None) -> None:
        self.hangs, self.error = hangs, error
        self.closed = threading.Event()

    def read(self, task: ReadTask, budget: Budget) -> Iterator[TableBatch]:
        yield a_batch([1])
        if self.hangs:
            assert self.closed.wait(60)
        if self.error is not None:
            raise self.error
        yield a_batch([2])

    def close(self) -> None:
        self.closed.set()


def read(source: Any, *, duration_ms: float) -> list[TableBatch]:
    budget = Budget(10, 10, duration_ms, 1)
    return list(guarded_read(source, TASK, budget, clock=RealClock(), grace_ms=10))


def test_a_read_within_its_budget_is_handed_on() -> None:
    source = Reader()

    assert len(read(source, duration_ms=600_000)) == 2
    assert not source.closed.is_set()


def test_a_read_that_hangs_is_closed_and_told_as_overdue() -> None:
    with pytest.raises(ReadOverdue, match=r"gave nothing for 0\.02 s where it may take 0\.01 s"):
        read(Reader(hangs=True), duration_ms=10)


def test_what_a_closed_read_complains_of_is_not_the_reason() -> None:
    with pytest.raises(ReadOverdue) as raised:
        read(Reader(hangs=True, error=OSError("bad file descriptor")), duration_ms=10)

    assert isinstance(raised.value.__cause__, OSError)


def test_an_error_of_the_source_stays_what_it_is() -> None:
    with pytest.raises(OSError, match="gone"):
        read(Reader(error=OSError("gone")), duration_ms=600_000)


def test_a_slow_consumer_is_not_the_sources_fault() -> None:
    source: Any = Reader()
    budget = Budget(10, 10, 1, 1)
    batches = guarded_read(source, TASK, budget, clock=RealClock(), grace_ms=200)

    next(batches)
    threading.Event().wait(0.4)

    assert next(batches).batch.num_rows == 1
