"""The rules by which a server is asked for rows."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from holdfast.connectors.base import Budget, Context, Position, ReadPlan, is_done
from holdfast.connectors.http import SOURCE
from holdfast.connectors.http.source import HttpSource
from holdfast.model.errors import HoldfastError, Terminal, Transient
from holdfast.model.jobs import JobMode
from holdfast.model.json import Json
from holdfast.outside.clock import RealClock
from holdfast.spec.options import option_values
from holdfast.testing.source_contract import SOURCE_RULES, SourceCase
from tests.connectors.http_server import Seen, Server, options_of

PATIENT = Budget(rows_max=10**6, bytes_max=10**9, duration_ms=60_000, tasks_max=1)
ID: Json = {"fields": {"id": "int"}}


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    made.start()
    yield made
    made.stop()


def a_source(
    server: Server, given: dict[str, Json], mode: JobMode = JobMode.BATCH, clock: Any = None
) -> HttpSource:
    options = options_of(SOURCE, {"url": server.url, **given})
    assert list(SOURCE.check(options, mode)) == []
    context = Context("job", 1, "source-0-http", mode, 1, clock or RealClock(), "answers")
    made: HttpSource = SOURCE.create(options, context)
    return made


def step(
    source: HttpSource, position: Position, budget: Budget = PATIENT
) -> tuple[list[Any], Position]:
    plan = source.plan(json.loads(json.dumps(position)), budget)
    assert isinstance(plan, ReadPlan)
    found = [batch for task in plan.tasks for batch in source.read(task, budget)]
    rows = [row for batch in found for row in batch.batch.to_pylist()]
    return rows, source.position_after(position, [b.reached for b in found])


def read_all(source: HttpSource, budget: Budget = PATIENT) -> list[Any]:
    rows: list[Any] = []
    position = source.start()
    while not is_done(position):
        more, position = step(source, position, budget)
        rows += more
    return rows


def pages(rows_of_page: dict[str, list[int]], name: str = "page") -> Callable[[Seen], Any]:
    def answer(seen: Seen) -> tuple[int, str]:
        found = rows_of_page.get(seen.query.get(name, ""), [])
        return 200, json.dumps([{"id": i} for i in found])

    return answer


def test_a_text_answer_is_one_row_and_with_multi_lines_a_row_for_each_line(server: Server) -> None:
    server.answer = lambda seen: (200, "a\nb\n")

    assert read_all(a_source(server, {})) == [{"content": "a\nb\n"}]
    assert read_all(a_source(server, {"enable_multi_lines": True})) == [
        {"content": "a"},
        {"content": "b"},
    ]


def test_json_gives_a_row_for_an_object_and_rows_for_an_array(server: Server) -> None:
    given: dict[str, Json] = {
        "format": "json",
        "schema": {
            "fields": {"id": "int", "m": "decimal(10,2)", "at": "timestamp", "t": "array<string>"}
        },
    }
    server.answer = lambda seen: (200, '{"id": 1, "m": 2.50, "at": "2024-01-02T03:04:05", "z": 9}')
    one = read_all(a_source(server, given))
    server.answer = lambda seen: (200, '[{"id": 1}, {"id": 2, "t": ["x"]}]')
    two = read_all(a_source(server, given))
    server.answer = lambda seen: (200, '{"id": 3}\n\n{"id": 4}\n')
    lines = read_all(a_source(server, {**given, "enable_multi_lines": True}))

    assert (one[0]["id"], str(one[0]["m"]), str(one[0]["at"])) == (1, "2.50", "2024-01-02 03:04:05")
    assert [(row["id"], row["t"]) for row in two] == [(1, None), (2, ["x"])]
    assert [row["id"] for row in lines] == [3, 4]


STORE = {
    "store": {
        "book": [
            {"title": "A", "price": 8.95, "in": {"x": 1}},
            {"title": "B", "price": 12.99},
        ],
        "bicycle": {"color": "red"},
    }
}
BOOK: Json = {"fields": {"title": "string", "price": "double"}}


@pytest.mark.parametrize("path", ["$.store.book.*", "$.store.book[*]", "$.store.book", "$..book"])
def test_content_json_says_where_the_rows_are(server: Server, path: str) -> None:
    server.answer = lambda seen: (200, json.dumps(STORE))
    given: dict[str, Json] = {"format": "json", "schema": BOOK, "content_json": path}

    rows = read_all(a_source(server, given))

    assert rows == [{"title": "A", "price": 8.95}, {"title": "B", "price": 12.99}]


def test_json_field_puts_rows_together_and_a_missing_field_is_null_or_an_error(
    server: Server,
) -> None:
    server.answer = lambda seen: (200, json.dumps(STORE))
    given: dict[str, Json] = {
        "format": "json",
        "schema": {"fields": {"name": "string", "x": "int"}},
        "json_field": {"name": "$.store.book[*].title", "x": "$.store.book[*].in.x"},
    }

    rows = read_all(a_source(server, {**given, "json_filed_missed_return_null": True}))

    assert rows == [{"name": "A", "x": 1}, {"name": "B", "x": None}]
    with pytest.raises(Terminal, match=r"field 'x': there is nothing at \$\.store"):
        read_all(a_source(server, given))


def test_method_headers_params_and_body_are_sent(server: Server) -> None:
    given: dict[str, Json] = {
        "headers": {"X-Token": "t"},
        "params": {"a": "1 2", "b": "ü"},
        "method": "post",
        "body": '{"q": 1}',
    }

    read_all(a_source(server, given))
    read_all(a_source(server, {**given, "keep_params_as_form": True}))
    query, form = server.seen

    assert (query.method, query.body, query.query) == ("POST", '{"q": 1}', {"a": "1 2", "b": "ü"})
    assert (query.headers["X-Token"], query.headers["Content-Type"]) == ("t", "application/json")
    assert (form.query, form.body) == ({}, "a=1+2&b=%C3%BC")
    assert form.headers["Content-Type"] == "application/x-www-form-urlencoded"


@pytest.mark.parametrize(
    ("paging", "asked"),
    [
        ({"total_page_size": 3}, ["1", "2", "3"]),
        ({"batch_size": 2}, ["1", "2"]),
        ({}, ["1", "2", "3", "4"]),
        ({"start_page_number": 2}, ["2", "3", "4"]),
    ],
)
def test_pages_are_read_until_the_last(
    server: Server, paging: dict[str, Json], asked: list[str]
) -> None:
    server.answer = pages({"1": [1, 2], "2": [3], "3": [4, 5]})
    given: dict[str, Json] = {
        "format": "json",
        "schema": ID,
        "pageing": {"page_field": "page", **paging},
    }

    rows = read_all(a_source(server, given))

    assert [seen.query["page"] for seen in server.seen] == asked
    wanted = {"1": [1, 2], "2": [3], "3": [4, 5], "4": []}
    assert [row["id"] for row in rows] == [i for page in asked for i in wanted[page]]


def test_an_epoch_ends_behind_the_page_that_fills_its_budget_and_the_next_goes_on(
    server: Server,
) -> None:
    server.answer = pages({"1": [1, 2], "2": [3, 4], "3": [5]})
    given: dict[str, Json] = {"format": "json", "schema": ID, "pageing": {"page_field": "page"}}
    small = Budget(rows_max=3, bytes_max=10**9, duration_ms=60_000, tasks_max=1)

    rows, position = step(a_source(server, given), {"page": 1}, small)
    rest, done = step(a_source(server, given), position)

    assert [row["id"] for row in rows] == [1, 2, 3, 4]
    assert position == {"page": 3}
    assert [row["id"] for row in rest] == [5]
    assert done == {"done": True}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"params": {"page": "0"}}, {"query": {"page": "7"}}),
        ({"headers": {"page": "0"}}, {"headers": {"page": "7"}, "query": {}}),
        (
            {"method": "POST", "body": '{"page": 0, "a": 1}'},
            {"body": {"page": 7, "a": 1}, "query": {}},
        ),
        (
            {"method": "POST", "body": '{"in": {"page": ${page}}}', "marks": True},
            {"body": {"in": {"page": 7}}, "query": {}},
        ),
        (
            {"params": {"p": "10${page}"}, "headers": {"N": "n-${page}"}, "marks": True},
            {"query": {"p": "107"}, "headers": {"N": "n-7"}},
        ),
        ({"params": {"x": "y"}}, {"query": {"x": "y", "page": "7"}}),
        (
            {"headers": {"page": "0"}, "keep_page_param_as_http_param": True},
            {"headers": {"page": "7"}, "query": {"page": "7"}},
        ),
    ],
)
def test_the_page_stands_where_the_request_has_room_for_it(
    server: Server, given: dict[str, Any], told: dict[str, Any]
) -> None:
    marks = given.pop("marks", False)
    paging = {
        "page_field": "page",
        "start_page_number": 7,
        "total_page_size": 7,
        "use_placeholder_replacement": marks,
    }

    read_all(a_source(server, {**given, "pageing": paging}))
    seen = server.seen[0]

    for name, value in told.get("headers", {}).items():
        assert {k.lower(): v for k, v in seen.headers.items()}[name.lower()] == value
    if "query" in told:
        assert seen.query == told["query"]
    if "body" in told:
        assert json.loads(seen.body) == told["body"]


def test_a_cursor_leads_from_answer_to_answer(server: Server) -> None:
    nexts = {"": "c1", "c1": "c2", "c2": None}

    def answer(seen: Seen) -> tuple[int, str]:
        at = seen.query.get("cursor", "")
        return 200, json.dumps({"data": [{"id": len(at)}], "paging": {"next": nexts[at]}})

    server.answer = answer
    given: dict[str, Json] = {
        "format": "json",
        "schema": ID,
        "content_json": "$.data.*",
        "pageing": {
            "page_type": "Cursor",
            "cursor_field": "cursor",
            "cursor_response_field": "$.paging.next",
        },
    }
    one = Budget(rows_max=1, bytes_max=10**9, duration_ms=60_000, tasks_max=1)

    _, position = step(a_source(server, given), {}, one)
    rows = read_all(a_source(server, given))

    assert position == {"cursor": "c1"}
    assert [row["id"] for row in rows] == [0, 2, 2]


class HandClock(RealClock):
    """A wall clock that the test moves."""

    at_ms = 1_000_000

    def now_ms(self) -> int:
        return self.at_ms


def test_a_stream_asks_again_when_its_poll_is_due(server: Server) -> None:
    server.answer = lambda seen: (200, json.dumps([{"id": len(server.seen)}]))
    clock = HandClock()
    given: dict[str, Json] = {"format": "json", "schema": ID, "poll_interval_millis": 5000}
    source = a_source(server, given, JobMode.STREAMING, clock)

    first, position = step(source, source.start())
    too_early = source.plan(position, PATIENT)
    clock.at_ms += 5000
    second, later = step(source, position)

    assert not source.bounded
    assert (first, second) == ([{"id": 1}], [{"id": 2}])
    assert too_early is None
    assert position == {"poll": 2, "poll_at_ms": 1_005_000}
    assert later == {"poll": 3, "poll_at_ms": 1_010_000}


def test_a_slow_answer_is_taken_by_a_later_epoch_and_not_asked_for_twice(server: Server) -> None:
    release = threading.Event()

    def answer(seen: Seen) -> tuple[int, str]:
        release.wait(60)
        return 200, '[{"id": 1}]'

    server.answer = answer
    source = a_source(server, {"format": "json", "schema": ID})
    hasty = Budget(rows_max=10, bytes_max=10**6, duration_ms=20, tasks_max=1)

    nothing, position = step(source, source.start(), hasty)
    still_nothing, position = step(source, position, hasty)
    release.set()
    rows, position = step(source, position)

    assert (nothing, still_nothing, rows) == ([], [], [{"id": 1}])
    assert len(server.seen) == 1
    assert is_done(position)


def test_close_ends_a_read_that_waits_for_an_answer(server: Server) -> None:
    arrived, release, ended = threading.Event(), threading.Event(), threading.Event()

    def answer(seen: Seen) -> tuple[int, str]:
        arrived.set()
        release.wait(60)
        return 200, "[]"

    server.answer = answer
    source = a_source(server, {})

    def wait() -> None:
        step(source, source.start(), Budget(1, 1, 3_600_000, 1))
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    assert arrived.wait(30)
    source.close()

    assert ended.wait(30)
    release.set()


def test_a_failed_request_is_repeated_as_often_as_asked(server: Server) -> None:
    server.answer = lambda seen: (503, "busy") if len(server.seen) < 3 else (200, '{"id": 1}')
    given: dict[str, Json] = {"format": "json", "schema": ID, "retry_backoff_multiplier_ms": 1}

    rows = read_all(a_source(server, {**given, "retry": 2}))
    server.seen.clear()

    assert rows == [{"id": 1}]
    with pytest.raises(Transient, match=r"answered 503 \(busy\)"):
        read_all(a_source(server, {**given, "retry": 1}))
    assert len(server.seen) == 2


@pytest.mark.parametrize(
    ("status", "kind"), [(400, Terminal), (404, Terminal), (429, Transient), (500, Transient)]
)
def test_the_status_says_whether_another_try_can_help(
    server: Server, status: int, kind: type[HoldfastError]
) -> None:
    server.answer = lambda seen: (status, "no")

    with pytest.raises(kind, match=f"answered {status}"):
        read_all(a_source(server, {"params": {"key": "s3cret"}}))


def test_errors_and_listings_show_no_secrets(server: Server) -> None:
    server.answer = lambda seen: (404, "no")
    given: dict[str, Json] = {"params": {"key": "s3cret"}, "headers": {"Authorization": "s3cret"}}
    source = a_source(server, given)

    with pytest.raises(Terminal) as caught:
        read_all(source)

    assert "s3cret" not in str(caught.value)
    assert "s3cret" not in json.dumps(option_values(source._options))


def test_a_server_that_is_not_there_or_silent_is_worth_another_try(server: Server) -> None:
    release = threading.Event()

    def answer(seen: Seen) -> tuple[int, str]:
        release.wait(60)
        return 200, ""

    server.answer = answer
    silent = a_source(server, {"socket_timeout_ms": 50})
    gone = a_source(server, {"url": "http://127.0.0.1:1/x?key=s3cret"})

    with pytest.raises(Transient, match="no answer in time"):
        read_all(silent)
    with pytest.raises(Transient, match=r"Cannot reach http://127.0.0.1:1/x: .*refused") as caught:
        read_all(gone)
    release.set()
    assert "s3cret" not in str(caught.value)


def test_a_redirect_is_followed_and_its_host_is_not_told_our_headers(server: Server) -> None:
    other = Server(answer=lambda seen: (200, "far"))
    other.start()
    server.extra = {"Location": other.url}
    server.answer = lambda seen: (302, "")

    rows = read_all(a_source(server, {"headers": {"X-Token": "s3cret"}}))
    other.stop()

    assert rows == [{"content": "far"}]
    assert "X-Token" in server.seen[0].headers
    assert "X-Token" not in other.seen[0].headers


def test_redirects_are_followed_on_the_same_host(server: Server) -> None:
    server.extra = {"Location": "/other"}
    server.answer = lambda seen: (200, "there") if seen.path == "/other" else (302, "")

    assert read_all(a_source(server, {})) == [{"content": "there"}]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("<html>", "expected JSON, found '<html>'"),
        ('[{"id": "x"}]', "field 'id': expected int, found \"x\""),
        ("[1]", "expected a row as an object"),
    ],
)
def test_an_answer_that_does_not_fit_fails_the_job_at_once(
    server: Server, answer: str, said: str
) -> None:
    server.answer = lambda seen: (200, answer)

    with pytest.raises(Terminal) as caught:
        read_all(a_source(server, {"format": "json", "schema": ID}))

    assert said in str(caught.value)


def test_an_answer_too_large_to_hold_is_refused(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.connectors.http.client.ANSWER_BYTES_MAX", 1000)
    server.answer = lambda seen: (200, "x" * 2000)

    with pytest.raises(Terminal, match="Ask for pages"):
        read_all(a_source(server, {}))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"url": "ftp://x"}, "neither with http://"),
        ({"url": "http://x", "format": "json"}, "'schema' is missing"),
        ({"url": "http://x", "body": "{}"}, "'body' needs 'method' POST"),
        ({"url": "http://x", "content_json": "a.b"}, "begins with $"),
        ({"url": "http://x", "pageing": {"batch_size": 1}}, "'pageing.page_field' is missing"),
        (
            {"url": "http://x", "pageing": {"page_type": "cursor", "cursor_field": "c"}},
            "'pageing.cursor_response_field' is missing",
        ),
        (
            {"url": "http://x", "format": "json", "schema": ID, "json_field": {"x": "$.x"}},
            "differ in field 'id'",
        ),
    ],
)
def test_options_that_make_no_sense_are_said_before_the_job_runs(
    given: dict[str, Json], said: str
) -> None:
    found = SOURCE.check(options_of(SOURCE, given), JobMode.BATCH)

    assert any(said in problem for problem in found), found


@pytest.mark.parametrize("mode", list(JobMode), ids=lambda mode: mode.name)
@pytest.mark.parametrize("rule", SOURCE_RULES, ids=str)
def test_it_keeps_the_contract_of_sources(server: Server, rule: Any, mode: JobMode) -> None:
    server.answer = pages({str(page): [page, page * 10] for page in range(1, 9)})
    given: dict[str, Json] = {
        "format": "json",
        "schema": ID,
        "pageing": {"page_field": "page"},
        "poll_interval_millis": 3_600_000,
    }
    case = SourceCase(make=lambda: a_source(server, given, mode), unit_rows_max=2, idle_max=20)
    reason = rule.applies(case)
    if reason is not None:
        pytest.skip(reason)

    rule.check(case)
