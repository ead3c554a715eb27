"""One task: every row goes to every sink, is counted once, and a sink that fails does not leave the reader hanging."""

from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.connectors.base import Budget, ReadTask, SinkBase, SourceBase, StageScope, TableBatch
from holdfast.model.errors import SinkRejected
from holdfast.model.json import JsonObject
from holdfast.runtime.task import TaskWork, run_task
from holdfast.testing.builders import a_batch, a_scope

BATCHES = 50


class Rows(SourceBase):
    def read(self, task: ReadTask, budget: Budget) -> Iterator[TableBatch]:
        for index in range(BATCHES):
            found = a_batch([2 * index, 2 * index + 1])
            yield TableBatch(found.table, found.batch, {"at": index})


class Taking(SinkBase):
    """Takes so many batches, then ends or fails."""

    def __init__(self, limit: int = BATCHES, error: Exception | None = None) -> None:
        self.limit, self.error = limit, error
        self.ids: list[int] = []

    def stage(self, scope: StageScope, batches: Iterator[TableBatch]) -> JsonObject | None:
        for count, found in enumerate(batches, start=1):
            self.ids += found.batch.column("id").to_pylist()
            if count == self.limit:
                break
        if self.error is not None:
            raise self.error
        return {"rows": len(self.ids)}


def work(*sinks: Any) -> TaskWork:
    source: Any = Rows()
    targets = tuple((f"sink-{n}", sink, a_scope()) for n, sink in enumerate(sinks))
    return TaskWork("source-0", source, ReadTask({}), Budget(1, 1, 1, 1), targets)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_every_sink_gets_every_row_in_order(count: int) -> None:
    sinks = [Taking() for _ in range(count)]

    done = run_task(work(*sinks))

    assert [sink.ids for sink in sinks] == [list(range(2 * BATCHES))] * count
    assert done.count.rows == 2 * BATCHES
    assert [part.rows_by_table for part in done.parts] == [{"t": 2 * BATCHES}] * count
    assert done.reached == {"at": BATCHES - 1}


@pytest.mark.parametrize("limit", [1, 3, BATCHES])
def test_a_sink_that_fails_ends_the_task_with_its_error(limit: int) -> None:
    with pytest.raises(SinkRejected, match="too long"):
        run_task(work(Taking(), Taking(limit, SinkRejected("Cannot write: too long."))))


@pytest.mark.parametrize("others", [0, 1])
def test_a_sink_that_takes_no_more_does_not_stop_the_count(others: int) -> None:
    done = run_task(work(Taking(2), *[Taking() for _ in range(others)]))

    assert done.count.rows == 2 * BATCHES
    assert done.reached == {"at": BATCHES - 1}


def test_a_source_that_fails_ends_the_task_and_its_sinks() -> None:
    class Torn(Rows):
        def read(self, task: ReadTask, budget: Budget) -> Iterator[TableBatch]:
            yield a_batch([1])
            raise OSError("torn")

    found = work(Taking(), Taking())
    torn: Any = Torn()
    with pytest.raises(OSError, match="torn"):
        run_task(TaskWork("source-0", torn, found.task, found.budget, found.sinks))


def test_a_task_without_rows_leaves_what_the_sink_says() -> None:
    class Nothing(Rows):
        def read(self, task: ReadTask, budget: Budget) -> Iterator[TableBatch]:
            yield TableBatch("t", a_batch([]).batch, {"at": 7})

    found = work(Taking())
    empty: Any = Nothing()
    done = run_task(TaskWork("source-0", empty, found.task, found.budget, found.sinks))

    assert done.count.rows == 0
    assert done.reached == {"at": 7}, "a position may move without rows"
