"""The rules by which rows are posted to a server."""

from __future__ import annotations

import json
import pickle
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from holdfast.connectors.base import StageScope, TableBatch
from holdfast.connectors.http import SINK
from holdfast.connectors.http.sink import HttpSink
from holdfast.model.errors import Canceled, SinkRejected
from holdfast.model.jobs import JobMode
from holdfast.model.json import Json
from holdfast.model.schema import KIND_COLUMN, Table, table_from_arrow
from holdfast.testing.builders import a_context
from holdfast.testing.sink_contract import SINK_RULES, SinkCase
from tests.connectors.http_server import Seen, Server, options_of


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    made.start()
    yield made
    made.stop()


def a_sink(server: Server, given: dict[str, Json] | None = None) -> HttpSink:
    options = options_of(SINK, {"url": server.url, **(given or {})})
    assert list(SINK.check(options, JobMode.BATCH)) == []
    made: HttpSink = SINK.create(options, a_context())
    return made


def stage(sink: HttpSink, batch: pa.RecordBatch, path: str = "db.t") -> Json:
    tables: dict[str, Table] = {path: table_from_arrow(path, batch.schema)}
    scope = StageScope("job", 1, "sink-0-http", 1, 1, 0, tables)
    return sink.stage(scope, iter([TableBatch(path, batch)]))


def test_each_row_is_posted_as_a_json_object(server: Server) -> None:
    batch = pa.record_batch({"id": [1, None], "name": ['a"\n', "b"]})

    part = stage(a_sink(server, {"headers": {"token": "x"}, "params": {"p": "1"}}), batch)

    assert part == {"rows": 2}
    assert [json.loads(seen.body) for seen in server.seen] == [
        {"id": 1, "name": 'a"\n'},
        {"id": None, "name": "b"},
    ]
    assert {seen.method for seen in server.seen} == {"POST"}
    assert server.seen[0].headers["token"] == "x"
    assert server.seen[0].headers["Content-Type"] == "application/json"
    assert server.seen[0].query == {"p": "1"}


def test_array_mode_posts_so_many_rows_at_once(server: Server) -> None:
    stage(a_sink(server, {"array_mode": True, "batch_size": 2}), pa.record_batch({"id": [1, 2, 3]}))

    assert [json.loads(seen.body) for seen in server.seen] == [[{"id": 1}, {"id": 2}], [{"id": 3}]]


def test_the_url_is_filled_for_each_table(server: Server) -> None:
    sink = a_sink(server, {"url": server.url + "/${database_name}_x/${table_name}"})

    stage(sink, pa.record_batch({"id": [1]}), "shop.orders")

    assert server.seen[0].path == "/data/shop_x/orders"


def test_a_request_that_failed_is_sent_again(server: Server) -> None:
    server.answer = lambda seen: (500, "") if len(server.seen) == 1 else (204, "")

    stage(
        a_sink(server, {"retry": 1, "retry_backoff_multiplier_ms": 1}), pa.record_batch({"id": [1]})
    )

    assert [seen.body for seen in server.seen] == ['{"id":1}', '{"id":1}']


def test_rows_the_server_refuses_fail_the_job_at_once(server: Server) -> None:
    server.answer = lambda seen: (422, "bad id")

    with pytest.raises(SinkRejected, match=r"answered 422 \(bad id\)"):
        stage(a_sink(server, {"retry": 5}), pa.record_batch({"id": [1]}))
    assert len(server.seen) == 1


def test_deletions_are_refused_and_not_sent_as_rows(server: Server) -> None:
    kinds = pa.array([0, 2, 3], pa.int8())

    with pytest.raises(SinkRejected, match="Cannot send 1 rows"):
        stage(a_sink(server), pa.record_batch({"id": [1, 2, 3], KIND_COLUMN: kinds}))
    stage(a_sink(server), pa.record_batch({"id": [1, 2], KIND_COLUMN: kinds.slice(0, 2)}))

    assert [seen.body for seen in server.seen] == ['{"id":1}', '{"id":2}']


def test_close_ends_a_request_that_hangs(server: Server) -> None:
    arrived, release = threading.Event(), threading.Event()

    def answer(seen: Seen) -> tuple[int, str]:
        arrived.set()
        release.wait(60)
        return 200, ""

    server.answer = answer
    sink = a_sink(server)
    raised: list[BaseException] = []
    ended = threading.Event()

    def run() -> None:
        try:
            stage(sink, pa.record_batch({"id": [1]}))
        except Canceled as error:
            raised.append(error)
        ended.set()

    threading.Thread(target=run, daemon=True).start()
    assert arrived.wait(30)
    sink.close()

    assert ended.wait(30)
    assert len(raised) == 1
    release.set()


def test_a_copy_for_an_executor_sends_as_well(server: Server) -> None:
    copy: HttpSink = pickle.loads(pickle.dumps(a_sink(server)))

    stage(copy, pa.record_batch({"id": [1]}))

    assert len(server.seen) == 1


@pytest.mark.parametrize("rule", SINK_RULES, ids=str)
def test_it_keeps_the_contract_of_sinks(server: Server, rule: Any) -> None:
    options = options_of(SINK, {"url": server.url, "array_mode": True, "batch_size": 20})
    case = SinkCase(
        make=lambda context: SINK.create(options, context),
        visible=lambda: [row["id"] for seen in server.seen for row in json.loads(seen.body)],
    )
    reason = rule.applies(case)
    if reason is not None:
        pytest.skip(reason)

    rule.check(case)
