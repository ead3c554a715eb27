"""The rules by which JSON values become columns of declared types."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from holdfast.connectors.json_columns import batch_of, column_of
from holdfast.model.json import Json
from holdfast.model.schema import parse_type


@pytest.mark.parametrize(
    ("type_", "value", "wanted"),
    [
        ("string", "a", "a"),
        ("string", 1.5, "1.5"),
        ("string", True, "true"),
        ("string", {"a": [1]}, '{"a":[1]}'),
        ("boolean", True, True),
        ("boolean", "false", False),
        ("tinyint", -128, -128),
        ("int", "7", 7),
        ("bigint", 2**63 - 1, 2**63 - 1),
        ("float", 1, 1.0),
        ("double", "2.5", 2.5),
        ("decimal(10,2)", 1.005, Decimal("1.01")),
        ("decimal(38,0)", 10**37, Decimal(10**37)),
        ("decimal(10,2)", "-3", Decimal("-3.00")),
        ("date", "2024-02-29", dt.date(2024, 2, 29)),
        ("time", "12:34:56", dt.time(12, 34, 56)),
        ("time", "12:34:56.789", dt.time(12, 34, 56, 789_000)),
        ("timestamp", "2024-01-02T03:04:05", dt.datetime(2024, 1, 2, 3, 4, 5)),  # noqa: DTZ001 - a local timestamp is what is tested
        ("timestamp", "2024-01-02 03:04:05", dt.datetime(2024, 1, 2, 3, 4, 5)),  # noqa: DTZ001 - a local timestamp is what is tested
        (
            "timestamp_tz",
            "2024-01-02T03:04:05+02:00",
            dt.datetime(2024, 1, 2, 1, 4, 5, tzinfo=dt.UTC),
        ),
        ("bytes", "bWlJWmo=", b"miIZj"),
        ("array<int>", [1, None, 3], [1, None, 3]),
        ("array<int>", "[1, 2]", [1, 2]),
        ("map<string,int>", {"a": 1}, [("a", 1)]),
        ("map<time,string>", "{ 12:01:26 = v0 }", [(dt.time(12, 1, 26), "v0")]),
        ("row{a int, b array<string>}", {"b": ["x"], "z": 1}, {"a": None, "b": ["x"]}),
        ("row{a int, b array<string>}", [1, ["x"]], {"a": 1, "b": ["x"]}),
        ("array<row{a int}>", [[1], {"a": 2}, None], [{"a": 1}, {"a": 2}, None]),
    ],
)
def test_a_value_becomes_what_its_type_says_and_null_stays_null(
    type_: str, value: Json, wanted: Any
) -> None:
    column = column_of([None, value, value], parse_type(type_))

    column.validate(full=True)
    assert column.type == parse_type(type_)
    assert column.to_pylist() == [None, wanted, wanted]


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("int", "x"),
        ("int", 1.5),
        ("tinyint", 128),
        ("boolean", "maybe"),
        ("decimal(4,2)", 1234),
        ("decimal(4,2)", "x"),
        ("date", "2024-13-01"),
        ("time", "noon"),
        ("timestamp", "now"),
        ("bytes", "%"),
        ("array<int>", 1),
        ("array<int>", ["x"]),
        ("map<string,int>", [1]),
        ("row{a int}", "x"),
        ("null", 1),
    ],
)
def test_a_value_that_does_not_fit_is_named(type_: str, value: Json) -> None:
    with pytest.raises(ValueError, match="expected"):
        column_of([None, value], parse_type(type_))


def test_rows_are_objects_or_lists_and_what_is_missing_is_null() -> None:
    schema = pa.schema([("a", pa.int32()), ("b", pa.string())])

    batch = batch_of([{"b": "x", "c": 1}, [2], None], schema)

    assert batch.to_pylist() == [
        {"a": None, "b": "x"},
        {"a": 2, "b": None},
        {"a": None, "b": None},
    ]


def test_a_field_that_does_not_fit_is_named_down_to_the_nested_one() -> None:
    schema = pa.schema([("r", pa.struct([("x", pa.int32())]))])

    with pytest.raises(ValueError, match=r"field 'r': field 'x': expected int, found \"q\""):
        batch_of([{"r": {"x": "q"}}], schema)
