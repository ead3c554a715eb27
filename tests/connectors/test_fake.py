"""The rules by which a FakeSource makes rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.connectors.base import Budget, Context, Position, ReadPlan, is_done
from holdfast.connectors.fake import SOURCE
from holdfast.connectors.fake.source import FakeSource
from holdfast.model.jobs import JobMode
from holdfast.model.json import Json
from holdfast.model.schema import KIND_COLUMN
from holdfast.outside.clock import RealClock
from holdfast.spec.config import ConfigObject, config_from_json
from holdfast.spec.options import read_options
from holdfast.testing.source_contract import SOURCE_RULES, SourceCase

ALL_TYPES: dict[str, Any] = {
    "c_string": "string",
    "c_boolean": "boolean",
    "c_tinyint": "tinyint",
    "c_smallint": "smallint",
    "c_int": "int",
    "c_bigint": "bigint",
    "c_float": "float",
    "c_double": "double",
    "c_decimal": "decimal(30, 8)",
    "c_money": "decimal(10, 2)",
    "c_null": "null",
    "c_bytes": "bytes",
    "c_date": "date",
    "c_time": "time",
    "c_timestamp": "timestamp",
    "c_tz": "timestamp_tz",
    "c_array": "array<array<int>>",
    "c_map": "map<tinyint, row{a string, b date}>",
    "c_row": "row{a int, b map<string, decimal(20,3)>}",
    "c_vector": "float_vector",
    "c_bits": "binary_vector",
    "c_sparse": "sparse_float_vector",
}
WHOLE = Budget(rows_max=10**9, bytes_max=10**12, duration_ms=1e9, tasks_max=4)


class HandClock(RealClock):
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.at_ms = 0.0

    def elapsed_ms(self) -> float:
        return self.at_ms


def options_of(given: dict[str, Json]) -> tuple[Any, list[str]]:
    block = config_from_json(given).value
    assert isinstance(block, ConfigObject)
    options, problems = read_options(SOURCE.options, block, "FakeSource")
    return options, [str(problem) for problem in problems]


def a_source(
    given: dict[str, Json],
    mode: JobMode = JobMode.BATCH,
    parallelism: int = 1,
    clock: Any = None,
) -> FakeSource:
    options, problems = options_of(given)
    assert problems == []
    assert list(SOURCE.check(options, mode)) == []
    context = Context("job", 1, "source-0-fake", mode, parallelism, clock or RealClock(), "fake")
    made: FakeSource = SOURCE.create(options, context)
    return made


def columns(**types: Any) -> dict[str, Json]:
    return {"fields": dict(types)}


def budget(rows: int, tasks: int = 3) -> Budget:
    return Budget(rows_max=rows, bytes_max=10**9, duration_ms=1e9, tasks_max=tasks)


def read_plan(source: FakeSource, plan: ReadPlan) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for task in plan.tasks:
        for batch in source.read(task, WHOLE):
            batch.batch.validate(full=True)
            found.setdefault(batch.table, []).extend(batch.batch.to_pylist())
    return found


def read_all(source: FakeSource, cuts: list[int] | None = None) -> dict[str, list[Any]]:
    """Everything, in epochs of the sizes in `cuts` (over and over)."""
    sizes = cuts or [10**9]
    found: dict[str, list[Any]] = {}
    position: Position = source.start()
    at = 0
    while not is_done(position):
        plan = source.plan(position, budget(sizes[at % len(sizes)]))
        assert plan is not None
        assert plan.end is not None
        for table, rows in read_plan(source, plan).items():
            found.setdefault(table, []).extend(rows)
        position = plan.end
        at += 1
    return found


def one_table(source: FakeSource) -> pa.Table:
    plan = source.plan(source.start(), WHOLE)
    assert plan is not None
    return pa.Table.from_batches([b.batch for task in plan.tasks for b in source.read(task, WHOLE)])


@settings(max_examples=30, deadline=None)
@given(
    cuts=st.lists(st.integers(1, 40), min_size=1, max_size=6),
    splits=st.integers(1, 9),
    parallelism=st.integers(1, 3),
)
def test_any_sequence_of_cuts_gives_the_same_rows(
    cuts: list[int], splits: int, parallelism: int
) -> None:
    given: dict[str, Json] = {
        "schema": columns(**ALL_TYPES),
        "row.num": 30,
        "split.num": splits,
    }

    whole = read_all(a_source(given, parallelism=parallelism))
    in_pieces = read_all(a_source(given, parallelism=parallelism), cuts)

    assert len(whole["fake"]) == 30 * parallelism
    assert in_pieces == whole


def test_the_same_seed_gives_the_same_rows_and_another_seed_gives_others() -> None:
    schema = columns(id="bigint", name="string")

    first = read_all(a_source({"schema": schema, "seed": 7}))
    again = read_all(a_source({"schema": schema, "seed": 7}))
    other = read_all(a_source({"schema": schema, "seed": 8}))

    assert first == again
    assert first != other


def test_every_type_is_made_and_columns_have_the_types_of_the_schema() -> None:
    source = a_source({"schema": columns(**ALL_TYPES)})

    rows = one_table(source)

    assert rows.schema == source.tables()[0].arrow_schema
    assert rows.num_rows == 5


def test_rows_are_made_for_each_degree_of_parallelism() -> None:
    source = a_source({"schema": columns(id="int"), "row.num": 16}, parallelism=3)

    assert len(read_all(source)["fake"]) == 48


@pytest.mark.parametrize(
    ("type_", "least", "most"),
    [
        ("tinyint", -128, 127),
        ("smallint", 10, 10),
        ("int", -5, 5),
        ("int", -(2**31), 2**31 - 1),
        ("bigint", -(2**63), 2**63 - 1),
        ("bigint", 2**40, 2**40 + 3_000_000_000_000),
        ("float", -1.5, 2.5),
        ("double", 0.5, 0.75),
        ("double", -1.7e308, 1.7e308),
    ],
)
def test_numbers_stay_in_their_range_and_use_it(type_: str, least: float, most: float) -> None:
    limits: dict[str, Json] = {f"{type_}.min": least, f"{type_}.max": most}

    made = one_table(a_source({"schema": columns(v=type_), "row.num": 3000, **limits}))
    column = made["v"]
    found = pc.min_max(column).as_py()

    assert least <= found["min"]
    assert found["max"] <= most
    middle, quarter = least / 2 + most / 2, most / 4 - least / 4
    assert found["min"] <= middle - quarter
    assert found["max"] >= middle + quarter


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        ("string", ["tyrant", "beauty"]),
        ("tinyint", [-1, 7]),
        ("smallint", [300, 301]),
        ("int", [20, 21]),
        ("bigint", [2**40, 5]),
        ("float", [40.0, 41.5]),
        ("double", [44.0, 45.25]),
    ],
)
def test_a_template_gives_its_values_and_no_others(type_: str, values: list[Json]) -> None:
    given: dict[str, Json] = {
        "schema": columns(v=type_),
        f"{type_}.fake.mode": "template",
        f"{type_}.template": values,
        "row.num": 100,
    }

    column = one_table(a_source(given))["v"]

    assert set(column.to_pylist()) == set(values)


def test_parts_of_dates_and_times_come_from_their_templates() -> None:
    source = a_source(
        {
            "schema": columns(d="date", t="time", ts="timestamp"),
            "row.num": 200,
            "date.year.template": [2023, 2024],
            "date.month.template": [2],
            "date.day.template": [28, 31],
            "time.hour.template": [13],
            "time.minute.template": [14, 15],
            "time.second.template": [16],
        },
    )

    rows = one_table(source)

    assert {str(d) for d in rows["d"].to_pylist()} == {"2023-02-28", "2024-02-28", "2024-02-29"}
    assert {str(t) for t in rows["t"].to_pylist()} == {"13:14:16", "13:15:16"}
    assert {str(ts)[:7] for ts in rows["ts"].to_pylist()} == {"2023-02", "2024-02"}


def test_sizes_are_the_ones_given_and_a_map_has_no_key_twice() -> None:
    types: dict[str, str] = {
        "s": "string",
        "b": "bytes",
        "a": "array<int>",
        "m": "map<tinyint,int>",
        "f": "map<boolean,int>",
        "v": "float_vector",
        "bits": "binary_vector",
        "one": "map<string,int>",
    }
    sizes: dict[str, Json] = {
        "string.length": 11,
        "bytes.length": 3,
        "array.size": 2,
        "map.size": 7,
        "vector.dimension": 6,
        "binary.vector.dimension": 16,
        "vector.float.max": 1.0,
    }
    source = a_source({"schema": columns(**types), "row.num": 500, **sizes})

    rows = one_table(source).to_pylist()

    assert {len(r["s"]) for r in rows} == {11}
    assert {len(r["b"]) for r in rows} == {3}
    assert {len(r["a"]) for r in rows} == {2}
    assert {len(dict(r["m"])) for r in rows} == {7}
    assert {len(dict(r["one"])) for r in rows} == {7}
    assert {len(dict(r["f"])) for r in rows} == {2}
    assert {len(r["v"]) for r in rows} == {6}
    assert {len(r["bits"]) for r in rows} == {2}
    assert all(0 <= number <= 1 for r in rows for number in r["v"])


def test_decimals_use_all_their_digits() -> None:
    source = a_source({"schema": columns(a="decimal(38,0)", b="decimal(4,2)"), "row.num": 500})

    rows = one_table(source).to_pylist()

    assert max(r["a"] for r in rows) > 10**37
    assert max(r["b"] for r in rows) > 98


def test_listed_rows_come_once_with_their_kinds_and_nested_values() -> None:
    types: dict[str, str] = {
        "id": "int",
        "at": "timestamp",
        "b": "bytes",
        "m": "map<time, string>",
        "r": "row{x int, y array<int>}",
    }
    first: list[Json] = [1, "2012-12-21T12:34:56", "bWlJWmo=", "{ 12:01:26 = v0 }", [5, [1, 2]]]
    second: list[Json] = [2, None, None, None, None]
    listed: list[Json] = [{"kind": "INSERT", "fields": first}, {"kind": "DELETE", "fields": second}]
    source = a_source({"schema": columns(**types), "rows": listed}, parallelism=2)

    rows = read_all(source, [1])["fake"]

    assert source.emits_kinds
    assert [row[KIND_COLUMN] for row in rows] == [0, 3]
    assert str(rows[0]["at"]) == "2012-12-21 12:34:56"
    assert rows[0]["b"] == b"miIZj"
    assert [(str(k), v) for k, v in rows[0]["m"]] == [("12:01:26", "v0")]
    assert rows[0]["r"] == {"x": 5, "y": [1, 2]}
    assert rows[1] == {KIND_COLUMN: 3, "id": 2, "at": None, "b": None, "m": None, "r": None}


def test_kinds_are_emitted_only_where_some_row_is_no_insert() -> None:
    source = a_source({"schema": columns(id="int"), "rows": [{"fields": [1]}]})

    assert not source.emits_kinds
    assert read_all(source)["fake"] == [{"id": 1}]


def test_several_tables_come_side_by_side_each_with_its_own_options() -> None:
    tables: list[Json] = [
        {"schema": {"table": "db.a", "fields": {"id": "int"}}, "row.num": 7},
        {"schema": {"table": "db.b", "fields": {"name": "string"}}, "row.num": 20},
        {"schema": {"table": "db.c", "fields": {"x": "int"}}, "row.num": 0},
    ]
    source = a_source({"tables_configs": tables})

    plan = source.plan(source.start(), budget(10, tasks=2))
    whole = read_all(source)
    in_pieces = read_all(source, [3, 1])

    assert plan is not None
    assert plan.rows_estimate == 10
    assert [table.path for table in source.tables()] == ["db.a", "db.b", "db.c"]
    assert {path: len(rows) for path, rows in whole.items()} == {"db.a": 7, "db.b": 20}
    assert in_pieces == whole


def test_the_position_of_ten_thousand_splits_is_tiny() -> None:
    source = a_source({"schema": columns(id="int"), "row.num": 1_000_000, "split.num": 10_000})

    plan = source.plan(source.start(), budget(123_456))

    assert plan is not None
    assert plan.end == {"tables": {"fake": {"split": 1234, "row": 56}}}
    assert source.describe(plan.end) == "fake: split 1234 of 10000, row 56"


def test_a_plan_keeps_to_the_budget_in_rows_bytes_and_tasks() -> None:
    source = a_source({"schema": columns(id="bigint"), "row.num": 10_000_000})
    tight = Budget(rows_max=10**9, bytes_max=8_000_000, duration_ms=1e9, tasks_max=4)

    by_rows = source.plan(source.start(), budget(1000))
    by_bytes = source.plan(source.start(), tight)

    assert by_rows is not None
    assert by_bytes is not None
    assert by_rows.rows_estimate == 1000
    assert by_bytes.rows_estimate == 1_000_000
    assert len(by_bytes.tasks) == 4


def test_a_stream_brings_its_splits_again_each_interval_with_new_rows() -> None:
    clock = HandClock()
    pace: dict[str, Json] = {"row.num": 4, "split.num": 2, "split.read-interval": 100}
    source = a_source({"schema": columns(id="bigint"), **pace}, mode=JobMode.STREAMING, clock=clock)
    position = source.start()
    found: list[int] = []
    for _ in range(4):
        plan = source.plan(position, WHOLE)
        assert plan is not None
        assert plan.end is not None
        found += [row["id"] for row in read_plan(source, plan)["fake"]]
        position = plan.end
        assert source.plan(position, WHOLE) is None
        clock.at_ms += 100

    assert not source.bounded
    assert len(found) == 8
    assert len(set(found)) == 8
    assert position == {"tables": {"fake": {"split": 4, "row": 0}}}


def test_what_has_come_due_waits_when_the_budget_cuts_it() -> None:
    clock = HandClock()
    pace: dict[str, Json] = {"row.num": 10, "split.num": 2, "split.read-interval": 1000}
    source = a_source({"schema": columns(id="int"), **pace}, clock=clock)

    first = source.plan(source.start(), budget(3))
    assert first is not None
    assert first.end is not None
    second = source.plan(first.end, budget(3))
    assert second is not None
    assert second.end is not None

    assert (first.rows_estimate, second.rows_estimate) == (3, 2)
    assert source.plan(second.end, budget(3)) is None


def test_a_table_added_after_the_position_was_kept_begins_at_its_first_row() -> None:
    tables: list[Json] = [
        {"schema": {"table": "a", "fields": {"id": "int"}}},
        {"schema": {"table": "b", "fields": {"id": "int"}}},
    ]
    both = a_source({"tables_configs": tables})

    plan = both.plan(
        {"tables": {"a": {"split": 0, "row": 3}, "old": {"split": 1, "row": 0}}}, WHOLE
    )

    assert plan is not None
    assert {path: len(rows) for path, rows in read_plan(both, plan).items()} == {"a": 2, "b": 5}
    assert "old" in both.probe({"tables": {"old": {"split": 1, "row": 0}}}).said


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "option 'schema' (or 'tables_configs') is required"),
        ({"schema": {"fields": {"a": "int"}}, "int.min": 9, "int.max": 1}, "'int.min' is above"),
        (
            {"schema": {"fields": {"a": "int"}}, "int.fake.mode": "template"},
            "'int.template' is missing",
        ),
        (
            {"schema": {"fields": {"a": "int"}}, "rows": [{"fields": [1, 2]}]},
            "row 1 has 2 fields, the schema 1",
        ),
        (
            {"schema": {"fields": {"a": "int"}}, "rows": [{"fields": ["x"]}]},
            "field 'a': expected int, found \"x\"",
        ),
        (
            {"schema": {"fields": {"a": "time"}}, "time.hour.template": [24]},
            "goes from 0 to 23",
        ),
        (
            {"tables_configs": [{"schema": {"fields": {"a": "int"}}}], "row.num": 3},
            "'row.num' stands beside 'tables_configs'",
        ),
    ],
)
def test_what_cannot_be_is_said_before_the_job_runs(given: dict[str, Json], said: str) -> None:
    options, problems = options_of(given)

    found = problems or list(SOURCE.check(options, JobMode.BATCH))

    assert any(said in problem for problem in found), found


def test_the_part_that_is_done_is_known() -> None:
    source = a_source({"schema": columns(id="int"), "row.num": 40, "split.num": 4})
    stream = a_source({"schema": columns(id="int")}, mode=JobMode.STREAMING)

    assert source.fraction(source.start()) == 0
    assert source.fraction({"tables": {"fake": {"split": 3, "row": 0}}}) == 0.75
    assert source.fraction(source.latest()) == 1
    assert stream.fraction(stream.start()) is None


ENDLESS = ("is_resumable_from_every_position", "is_unmoved_by_ack")
"""Rules over all that remains. Of a stream that makes rows for ever, time alone says how much remains."""


@pytest.mark.parametrize("kinds", [False, True], ids=["made", "listed with kinds"])
@pytest.mark.parametrize("mode", list(JobMode), ids=lambda mode: mode.name)
@pytest.mark.parametrize("rule", SOURCE_RULES, ids=str)
def test_it_keeps_the_contract_of_sources(rule: Any, mode: JobMode, kinds: bool) -> None:
    listed: list[Json] = [
        {"kind": kind, "fields": [at, "x"]}
        for at, kind in enumerate(["+I", "-U", "+U", "-D", "+I"])
    ]
    second: dict[str, Json] = {"row.num": 11, "split.num": 3}
    if kinds:
        second = {"rows": listed, "split.num": 2}
    types = columns(id="bigint", name="string")
    tables: list[Json] = [
        {"schema": {**types, "table": "a"}, "row.num": 20, "split.num": 20},
        {"schema": {**types, "table": "b"}, **second},
    ]
    pace: dict[str, Json] = {"split.read-interval": 3_600_000}
    if mode is JobMode.STREAMING:
        tables = [{**table, **pace} for table in tables if isinstance(table, dict)]
    case = SourceCase(make=lambda: a_source({"tables_configs": tables}, mode=mode), ordered=False)
    reason = rule.applies(case)
    if mode is JobMode.STREAMING and rule.name in ENDLESS:
        reason = "a stream that makes rows for ever"
    if reason is not None:
        pytest.skip(reason)

    rule.check(case)
