"""The rules by which rows are printed."""

from __future__ import annotations

import pickle
import re
import threading
from multiprocessing import AuthenticationError
from typing import Any

import pyarrow as pa
import pytest

from holdfast.connectors.base import StageScope, TableBatch
from holdfast.connectors.console import SINK
from holdfast.connectors.console.options import Options
from holdfast.connectors.console.relay import Counter, Relay, RelayClient, RelayGone
from holdfast.connectors.console.sink import ConsoleSink
from holdfast.model.schema import KIND_COLUMN
from holdfast.runtime.session import SparkHost
from holdfast.testing.builders import a_context
from holdfast.testing.sink_contract import SINK_RULES, SinkCase


def a_sink(**given: Any) -> ConsoleSink:
    made: ConsoleSink = SINK.create(Options(**given), a_context())
    return made


def scope(task: int = 0) -> StageScope:
    return StageScope("job", 1, "sink-0-console", 1, 1, task, {})


def rows(**columns: Any) -> TableBatch:
    return TableBatch("db.t", pa.record_batch(dict(columns)))


def test_a_row_is_a_line_with_its_number_kind_and_fields(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sink = a_sink()
    batch = rows(**{"name": ["a", None], "age": [1, 2], KIND_COLUMN: pa.array([0, 3], pa.int8())})

    part = sink.stage(scope(), iter([batch, rows(name=["c"], age=[3])]))

    assert part == {"rows": 3}
    assert capsys.readouterr().out.splitlines() == [
        "subtaskIndex=0 rowIndex=1: tableId=db.t kind=INSERT: a, 1",
        "subtaskIndex=0 rowIndex=2: tableId=db.t kind=DELETE: null, 2",
        "subtaskIndex=0 rowIndex=3: tableId=db.t kind=INSERT: c, 3",
    ]


def test_numbers_go_on_from_epoch_to_epoch_for_each_subtask(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sink = a_sink()

    sink.stage(scope(), iter([rows(a=[1])]))
    sink.stage(scope(task=1), iter([rows(a=[2])]))
    sink.stage(scope(), iter([rows(a=[3])]))

    heads = [line.split(":")[0] for line in capsys.readouterr().out.splitlines()]
    assert heads == [
        "subtaskIndex=0 rowIndex=1",
        "subtaskIndex=1 rowIndex=1",
        "subtaskIndex=0 rowIndex=2",
    ]


def test_rows_are_counted_and_not_printed_where_that_was_asked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    part = a_sink(print_data=False).stage(scope(), iter([rows(a=[1, 2])]))

    assert part == {"rows": 2}
    assert capsys.readouterr().out == ""


def test_no_rows_leave_no_part() -> None:
    assert a_sink().stage(scope(), iter([])) is None


def test_a_large_batch_is_printed_whole_and_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    a_sink().stage(scope(), iter([rows(a=list(range(40_000)))]))

    lines = capsys.readouterr().out.splitlines()
    assert [int(line.rsplit(" ", 1)[1]) for line in lines] == list(range(40_000))


def test_closing_ends_a_wait_between_rows() -> None:
    sink = a_sink(delay_ms=3_600_000)
    sink.close()

    assert sink.stage(scope(), iter([rows(a=[1, 2])])) == {"rows": 2}


def test_a_copy_on_an_executor_prints_here_and_counts_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sink = a_sink()
    sink.stage(scope(task=3), iter([rows(a=[1])]))
    copy: ConsoleSink = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(sink))))

    first = copy.stage(scope(task=3), iter([rows(a=[2, 3]), rows(a=[4])]))
    again = copy.stage(scope(task=3), iter([rows(a=["5\n"])]))
    sink.stage(scope(task=3), iter([rows(a=[6])]))
    sink.close()

    assert (first, again) == ({"rows": 3}, {"rows": 1})
    found = re.findall(r"rowIndex=(\d+): \S+ \S+ (\d)", capsys.readouterr().out)
    assert found == [(str(i), str(i)) for i in range(1, 7)]


def test_tasks_on_executors_print_side_by_side_and_no_line_is_torn(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sink = a_sink()
    copies = [pickle.loads(pickle.dumps(sink)) for _ in range(4)]

    def run(task: int) -> None:
        batches = [rows(a=[i] * 50) for i in range(20)]
        copies[task].stage(scope(task=task), iter(batches))

    threads = [threading.Thread(target=run, args=(task,)) for task in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sink.close()

    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4000
    for task in range(4):
        own = [line for line in lines if line.startswith(f"subtaskIndex={task} ")]
        assert [int(line.rsplit(" ", 1)[1]) for line in own] == [
            i for i in range(20) for _ in range(50)
        ]


@pytest.mark.spark
def test_what_spark_workers_stage_is_printed_here(
    host: SparkHost, capsys: pytest.CaptureFixture[str]
) -> None:
    sink = a_sink()
    batches = {task: rows(a=[task * 10, task * 10 + 1]) for task in range(2)}

    def run(task: int, try_id: str) -> Any:
        return sink.stage(scope(task=task), iter([batches[task]]))

    parts = host.run_tasks(run, [0, 1])
    sink.close()

    assert parts == [{"rows": 2}, {"rows": 2}]
    printed = sorted(line.rsplit(" ", 1)[1] for line in capsys.readouterr().out.splitlines())
    assert printed == ["0", "1", "10", "11"]


def test_only_who_knows_the_key_may_print(capsys: pytest.CaptureFixture[str]) -> None:
    relay = Relay(Counter(), print)

    with pytest.raises(AuthenticationError):
        RelayClient(type(relay.address)(relay.address.port, b"guess"), 0)
    RelayClient(relay.address, 0).write("welcome", 1)
    relay.close()

    assert capsys.readouterr().out == "welcome\n"


def test_a_terminal_that_has_gone_is_worth_another_try() -> None:
    sink = a_sink()
    copy: ConsoleSink = pickle.loads(pickle.dumps(sink))
    sink.close()

    with pytest.raises(RelayGone):
        copy.stage(scope(), iter([rows(a=[1])]))


@pytest.mark.parametrize("rule", SINK_RULES, ids=str)
def test_it_keeps_the_contract_of_sinks(rule: Any, capsys: pytest.CaptureFixture[str]) -> None:
    printed: list[str] = []

    def visible() -> list[int]:
        printed.extend(capsys.readouterr().out.splitlines())
        return [int(line.split(": ")[2].split(",")[0]) for line in printed]

    case = SinkCase(make=lambda context: SINK.create(Options(), context), visible=visible)
    reason = rule.applies(case)
    if reason is not None:
        pytest.skip(reason)

    rule.check(case)
