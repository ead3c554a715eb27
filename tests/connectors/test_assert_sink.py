"""The rules by which an Assert judges."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from holdfast.connectors.assert_sink import SINK
from holdfast.connectors.assert_sink.sink import AssertSink
from holdfast.connectors.base import Context, StageScope, TableBatch
from holdfast.connectors.json_columns import batch_of
from holdfast.model.errors import SinkRejected, Terminal
from holdfast.model.jobs import JobMode
from holdfast.model.json import Json
from holdfast.model.schema import Column, Table
from holdfast.outside.clock import RealClock
from holdfast.spec.config import ConfigObject, config_from_json
from holdfast.spec.options import read_options
from holdfast.spec.schema_block import parse_schema

PEOPLE: dict[str, Json] = {"table": "db.people", "fields": {"name": "string", "age": "int"}}
TABLE = parse_schema(PEOPLE)


def options_of(rules: Json) -> tuple[Any, list[str]]:
    block = config_from_json({"rules": rules}).value
    assert isinstance(block, ConfigObject)
    options, problems = read_options(SINK.options, block, "Assert")
    found = [str(problem) for problem in problems]
    return options, found or list(SINK.check(options, JobMode.BATCH))


def a_sink(rules: Json) -> AssertSink:
    options, problems = options_of(rules)
    assert problems == []
    context = Context("job", 1, "sink-0-assert", JobMode.BATCH, 1, RealClock())
    made: AssertSink = SINK.create(options, context)
    return made


def stage(sink: AssertSink, rows: list[Json], table: Table = TABLE) -> None:
    scope = StageScope("job", 1, "sink-0-assert", 1, 1, 0, {table.path: table})
    sink.stage(scope, iter([TableBatch(table.path, batch_of(rows, table.arrow_schema))]))


def value_rule(field: str, **rule: Any) -> Json:
    return {"field_rules": [{"field_name": field, "field_value": [rule]}]}


PEOPLE_ROWS: list[Json] = [["ann", 20], ["bert", 30], [None, None]]


@pytest.mark.parametrize(
    ("field", "rule"),
    [
        ("age", {"rule_type": "MIN", "rule_value": 20}),
        ("age", {"rule_type": "MAX", "rule_value": 30.5}),
        ("name", {"rule_type": "MAX_LENGTH", "rule_value": 4}),
        ("name", {"rule_type": "MIN_LENGTH", "rule_value": 0}),
    ],
)
def test_rows_that_keep_a_rule_are_taken(field: str, rule: dict[str, Any]) -> None:
    stage(a_sink(value_rule(field, **rule)), PEOPLE_ROWS)


@pytest.mark.parametrize(
    ("field", "rule", "said"),
    [
        ("age", {"rule_type": "MIN", "rule_value": 21}, "breaks MIN 21 in 1 of 3 rows"),
        (
            "age",
            {"rule_type": "MAX", "rule_value": 19.5},
            "in 2 of 3 rows looked at, first with 20",
        ),
        ("name", {"rule_type": "NOT_NULL"}, "breaks NOT_NULL in 1 of 3"),
        ("name", {"rule_type": "not_null"}, "breaks NOT_NULL in 1 of 3"),
        ("name", {"rule_type": "NULL"}, "breaks NULL in 2 of 3 rows looked at, first with ann"),
        ("name", {"rule_type": "MAX_LENGTH", "rule_value": 3}, "first with bert"),
        ("name", {"rule_type": "MIN_LENGTH", "rule_value": 1}, "first with null"),
        ("age", {"equals_to": 20}, "breaks equals_to 20 in 2 of 3 rows looked at, first with 30"),
        ("name", {"rule_type": "MIN", "rule_value": 1}, "MIN and MAX are for numbers"),
        ("age", {"equals_to": "x"}, 'expected int, found "x"'),
    ],
)
def test_a_broken_rule_names_table_field_rule_and_a_value(
    field: str, rule: dict[str, Any], said: str
) -> None:
    with pytest.raises(SinkRejected) as caught:
        stage(a_sink(value_rule(field, **rule)), PEOPLE_ROWS)

    assert isinstance(caught.value, Terminal)
    assert said in str(caught.value)
    assert f"field '{field}'" in str(caught.value) or f"'{field}'" in str(caught.value)
    assert "db.people" in str(caught.value)


@pytest.mark.parametrize(
    ("type_", "value", "other"),
    [
        ("string", "AAA", "AAB"),
        ("boolean", False, True),
        ("tinyint", 1, 2),
        ("bigint", 2**62, 2**62 + 1),
        ("float", 3.1, 3.2),
        ("double", 9.33333, 9.33334),
        ("decimal(30, 8)", "99999.99999999", "99999.99999998"),
        ("date", "2012-12-21", "2012-12-22"),
        ("timestamp", "2012-12-21T12:34:56", "2012-12-21T12:34:57"),
        ("time", "12:34:56", "12:34:57"),
        ("bytes", "bWlJWmo=", "bWlJWg=="),
        ("array<int>", [0, 1, 2], [0, 1]),
        ("map<time, string>", "{ 12:01:26 = v0 }", {"12:01:26": "v1"}),
        ("map<string, int>", {"a": 1, "b": 2}, {"a": 1}),
        ("map<string, {c_int = int, c_string = string}>", {"k": [123, "B"]}, {"k": [124, "B"]}),
        ("row{a int, b map<string, int>}", [1, {"x": 1}], [1, {"x": 2}]),
    ],
)
def test_equals_to_compares_values_of_every_type(type_: str, value: Json, other: Json) -> None:
    table = parse_schema({"table": "t", "fields": {"c": type_}})
    sink = a_sink(value_rule("c", rule_type="NOT_NULL", equals_to=value))

    stage(sink, [[value]], table)
    for wrong in (other, None):
        with pytest.raises(SinkRejected):
            stage(sink, [[wrong]], table)


def test_dates_and_decimals_have_a_least_and_a_most() -> None:
    table = parse_schema({"table": "t", "fields": {"d": "date", "m": "decimal(10,2)"}})

    stage(
        a_sink(value_rule("d", rule_type="MIN", rule_value="2020-01-01")),
        [["2020-01-01", 1]],
        table,
    )
    stage(a_sink(value_rule("m", rule_type="MAX", rule_value=1.25)), [["2020-01-01", 1.25]], table)
    with pytest.raises(SinkRejected, match="first with 2019-12-31"):
        stage(
            a_sink(value_rule("d", rule_type="MIN", rule_value="2020-01-01")),
            [["2019-12-31", 1]],
            table,
        )


def test_the_limit_of_a_large_decimal_is_exact() -> None:
    table = parse_schema({"table": "t", "fields": {"m": "decimal(38,2)"}})
    sink = a_sink(value_rule("m", rule_type="MAX", rule_value="12345678901234567890.01"))

    stage(sink, [["12345678901234567890.01"]], table)
    with pytest.raises(SinkRejected):
        stage(sink, [["12345678901234567890.02"]], table)


def test_row_counts_are_judged_over_the_whole_job() -> None:
    sink = a_sink(
        {
            "row_rules": [
                {"rule_type": "MIN_ROW", "rule_value": 5},
                {"rule_type": "MAX_ROW", "rule_value": 10},
            ]
        }
    )

    sink.finish({"a": 5, "b": 10})
    with pytest.raises(SinkRejected, match="'a' at sink-0-assert: MIN_ROW is 5, and 4 rows came"):
        sink.finish({"a": 4})
    with pytest.raises(SinkRejected, match="MAX_ROW is 10, and 11 rows came"):
        sink.finish({"a": 11})


def test_too_many_rows_in_one_epoch_are_not_waited_for() -> None:
    with pytest.raises(SinkRejected, match="MAX_ROW is 2, and more came"):
        stage(a_sink({"row_rules": [{"rule_type": "MAX_ROW", "rule_value": 2}]}), PEOPLE_ROWS)


def test_rules_of_a_table_hold_for_that_table_alone_and_it_must_be_there() -> None:
    count: list[Json] = [{"rule_type": "MIN_ROW", "rule_value": 17}]
    sink = a_sink({"tables_configs": [{"table_path": "db.people", "row_rules": count}]})

    sink.finish({"db.people": 17, "other": 1})
    with pytest.raises(SinkRejected, match=r"'db.people'.*17"):
        sink.finish({"db.people": 16})
    with pytest.raises(SinkRejected, match="does not reach this sink"):
        sink.prepare([Table("other", ())])


def test_named_tables_must_reach_the_sink() -> None:
    sink = a_sink({"table-names": ["a", "b"]})

    sink.prepare([Table("b", ()), Table("a", ()), Table("c", ())])
    with pytest.raises(SinkRejected, match=r"'b'.*there: a"):
        sink.prepare([Table("a", ())])


def test_a_field_must_be_there_and_have_its_type() -> None:
    good = a_sink({"field_rules": [{"field_name": "age", "field_type": "INT"}]})
    wrong = a_sink({"field_rules": [{"field_name": "age", "field_type": "bigint"}]})
    absent = a_sink({"field_rules": [{"field_name": "ages"}]})

    good.prepare([TABLE])
    with pytest.raises(SinkRejected, match="'age' is int, expected bigint"):
        wrong.prepare([TABLE])
    with pytest.raises(SinkRejected, match="no field 'ages'"):
        absent.prepare([TABLE])


def test_tables_are_judged_again_by_an_attempt_that_prepared_nothing() -> None:
    sink = a_sink({"field_rules": [{"field_name": "age", "field_type": "bigint"}]})

    with pytest.raises(SinkRejected, match="expected bigint"):
        stage(sink, PEOPLE_ROWS)


CATALOG = Table(
    "t",
    (
        Column("id", pa.int64(), nullable=False, comment="the id"),
        Column("name", pa.string(), length=20, default="x"),
    ),
    primary_key=("id",),
    unique_keys=(("name",),),
)
NAME_RULE = {"name": "name", "type": "string", "column_length": 20, "default_value": "x"}
ID_RULE = {"name": "id", "type": "bigint", "nullable": False, "comment": "the id"}


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({"column_rule": [ID_RULE, NAME_RULE]}, None),
        ({"column_rule": [NAME_RULE, ID_RULE]}, r"its columns are \(id, name\)"),
        (
            {"column_rule": [{**ID_RULE, "type": "int"}, NAME_RULE]},
            "the type of column 'id' is bigint",
        ),
        ({"column_rule": [{**ID_RULE, "nullable": True}, NAME_RULE]}, "nullable of column 'id'"),
        (
            {"column_rule": [ID_RULE, {**NAME_RULE, "column_length": 9}]},
            "the length of column 'name'",
        ),
        ({"column_rule": [ID_RULE, {**NAME_RULE, "default_value": "y"}]}, "the default of column"),
        ({"column_rule": [{**ID_RULE, "comment": "?"}, NAME_RULE]}, "the comment of column 'id'"),
        ({"primary_key_rule": {"primary_key_name": "p", "primary_key_columns": ["id"]}}, None),
        ({"primary_key_rule": {"primary_key_columns": ["name"]}}, r"primary key is \(id\)"),
        (
            {
                "constraint_key_rule": [
                    {
                        "constraint_key_name": "u",
                        "constraint_key_type": "UNIQUE_KEY",
                        "constraint_key_columns": [{"constraint_key_column_name": "name"}],
                    }
                ]
            },
            None,
        ),
        (
            {
                "constraint_key_rule": [
                    {"constraint_key_columns": [{"constraint_key_column_name": "id"}]}
                ]
            },
            r"no unique key \(id\)",
        ),
        ({"table_identifier_rule": {"catalog_name": "c", "table": CATALOG.path}}, None),
        ({"table_identifier_rule": {"table": "other"}}, "expected table 'other'"),
    ],
)
def test_a_table_is_what_the_catalog_rule_says(rule: Json, said: str | None) -> None:
    sink = a_sink({"catalog_table_rule": rule})

    if said is None:
        sink.prepare([CATALOG])
    else:
        with pytest.raises(SinkRejected, match=said):
            sink.prepare([CATALOG])


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ({}, "holds no rule"),
        (value_rule("a", rule_type="MIN"), "MIN has no 'rule_value'"),
        (value_rule("a", rule_type="MOST", rule_value=1), "'MOST' is not one of"),
        (value_rule("a"), "neither 'rule_type' nor 'equals_to'"),
        (value_rule("a", rule_type="MAX_LENGTH", rule_value="x"), "expects a whole number"),
        ({"row_rules": [{"rule_type": "MAX_ROW"}]}, "'rule_value' is required"),
        ({"row_rule": []}, "there is no option 'row_rule'"),
    ],
)
def test_rules_that_make_no_sense_are_said_before_the_job_runs(rules: Json, said: str) -> None:
    _, problems = options_of(rules)

    assert any(said in problem for problem in problems), problems
