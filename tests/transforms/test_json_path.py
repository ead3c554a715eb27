"""Values out of JSON: their types, what counts as an error, and what happens then."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from holdfast.model.errors import ConfigError
from tests.transforms.applying import Given, problems_of, run_one

pytestmark = pytest.mark.spark

DOCUMENT = """{"data": {"c_string": "this is a string", "c_boolean": true, "c_integer": 42, "c_float": 3.14,
 "c_double": 3.14, "c_decimal": 10.55, "c_date": "2023-10-29", "c_time": "16:12:43.459", "c_null": null,
 "c_array": ["item1", "item2"], "c_maps": [{"k": "v"}], "c_row": {"a": 1, "b": {"c": "x"}}, "a b": 7,
 "c_ts": "2023-10-29 16:12:43"}}"""
TYPED: dict[str, tuple[str, Any]] = {
    "$.data.c_string": ("string", "this is a string"),
    "$.data.c_boolean": ("boolean", True),
    "$.data.c_integer": ("int", 42),
    "$.data.c_double": ("double", 3.14),
    "$.data.c_decimal": ("decimal(4,2)", Decimal("10.55")),
    "$.data.c_date": ("date", dt.date(2023, 10, 29)),
    "$.data.c_time": ("time", dt.time(16, 12, 43, 459000)),
    "$.data.c_ts": ("timestamp", dt.datetime.fromisoformat("2023-10-29T16:12:43")),
    "$.data.c_null": ("int", None),
    "$.data.c_array": ("array<string>", ["item1", "item2"]),
    "$.data.c_array[1]": ("string", "item2"),
    "$.data.c_array[*]": ("array<string>", ["item1", "item2"]),
    "$.data.c_maps": ("array<map<string,string>>", [[("k", "v")]]),
    "$.data.c_row": ("row{a int, b row{c string}}", {"a": 1, "b": {"c": "x"}}),
    "$.data.c_row.b": ("string", '{"c":"x"}'),
    "$['data']['a b']": ("bigint", 7),
}


def given(*documents: str | None) -> Given:
    return Given("t", {"data": "string"}, [{"data": text} for text in documents])


def columns(**way: Any) -> dict[str, Any]:
    return {"columns": [{"src_field": "data", "path": "$.a", "dest_field": "a", **way}]}


def test_values_come_in_their_types(spark: SparkSession) -> None:
    options = {
        "columns": [
            {"src_field": "data", "path": path, "dest_field": path, "dest_type": type_}
            for path, (type_, _) in TYPED.items()
        ]
    }

    made = run_one(spark, "JsonPath", options, given(DOCUMENT, None))

    found = made.rows[0]
    assert {path: found[path] for path in TYPED} == {p: value for p, (_, value) in TYPED.items()}
    assert set(made.rows[1].values()) == {None}


def test_several_values_of_one_field_may_be_lists(spark: SparkSession) -> None:
    options = {
        "columns": [
            {
                "src_field": "data",
                "path": ["$.a", "$.b"],
                "dest_field": ["x", "y"],
                "dest_type": ["int", "string"],
            }
        ]
    }

    made = run_one(spark, "JsonPath", options, given('{"a": 1, "b": 2}'))

    assert (made.rows[0]["x"], made.rows[0]["y"]) == (1, "2")


def test_bytes_arrays_maps_and_rows_hold_json_too(spark: SparkSession) -> None:
    types = {"b": "bytes", "l": "array<int>", "m": "map<string,int>", "r": "row{n string, a int}"}
    row = {"b": b'{"a":1}', "l": [5, 6], "m": [("k", 7)], "r": {"n": None, "a": 18}}
    paths = {"b": "$.a", "l": "$[1]", "m": "$.k", "r": "$[1]"}
    options = {
        "columns": [
            {"src_field": name, "path": path, "dest_field": f"x{name}"}
            for name, path in paths.items()
        ]
    }

    made = run_one(spark, "JsonPath", options, Given("t", types, [row]))

    assert [made.rows[0][f"x{name}"] for name in paths] == ["1", "6", "7", "18"]


WRONG = ["{}", "no json", '{"a": "x"}']
"""Nothing at the path, nothing to look in, a value of another type."""


@pytest.mark.parametrize("document", WRONG)
@pytest.mark.parametrize(
    ("way", "row_way", "expected"),
    [
        ("SKIP", "FAIL", [1, None]),
        ("SKIP_ROW", "FAIL", [1]),
        (None, "SKIP", [1]),
        ("SKIP", "SKIP", [1, None]),
    ],
)
def test_an_error_is_skipped_as_the_column_says_or_else_the_row(
    spark: SparkSession, document: str, way: str | None, row_way: str, expected: list[int | None]
) -> None:
    options = {
        **columns(dest_type="int", column_error_handle_way=way),
        "row_error_handle_way": row_way,
    }

    made = run_one(spark, "JsonPath", options, given('{"a": 1}', document))

    assert [row["a"] for row in made.rows] == expected


@pytest.mark.parametrize("document", WRONG)
@pytest.mark.parametrize(("way", "row_way"), [(None, "FAIL"), ("FAIL", "SKIP")])
def test_an_error_fails_the_job_and_tells_no_values(
    spark: SparkSession, document: str, way: str | None, row_way: str
) -> None:
    options = {
        **columns(dest_type="int", column_error_handle_way=way),
        "row_error_handle_way": row_way,
    }

    with pytest.raises(PySparkException, match=r"Cannot read '\$\.a' of field 'data' as int:"):
        run_one(spark, "JsonPath", options, given(document))


def test_a_field_that_holds_no_json_is_refused(spark: SparkSession) -> None:
    number = Given("t", {"data": "int"}, [])

    with pytest.raises(ConfigError, match="field 'data' is int32, and only string, bytes"):
        run_one(spark, "JsonPath", columns(), number)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "option 'columns' is required"),
        (columns(path="$..a"), "path '$..a' is not one that can be read"),
        (columns(path="$.a[?(@.b)]"), "is not one that can be read"),
        (columns(dest_type="whole"), "dest_type 'whole' is not a type"),
        (columns(path=["$.a", "$.b"]), "have 2, 1 and 1 entries"),
        ({**columns(), "row_error_handle_way": "ROUTE_TO_TABLE"}, "is not one of FAIL, SKIP"),
    ],
)
def test_options_are_checked_without_spark(options: dict[str, Any], said: str) -> None:
    assert any(said in problem for problem in problems_of("JsonPath", options))
