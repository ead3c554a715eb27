"""The rules by which rows become JSON."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.connectors.json_text import json_of, rows_as_json
from holdfast.model.schema import KIND_COLUMN


@pytest.mark.parametrize(
    ("value", "type_", "shown"),
    [
        (1, pa.int64(), "1"),
        (True, pa.bool_(), "true"),
        (1.5, pa.float64(), "1.5"),
        (float("nan"), pa.float64(), "null"),
        (float("-inf"), pa.float32(), "null"),
        (
            Decimal("1234567890123456789012345.50"),
            pa.decimal128(38, 2),
            "1234567890123456789012345.50",
        ),
        ("a", pa.string(), '"a"'),
        ('q" \\ \n ü \x01', pa.string(), '"q\\" \\\\ \\n ü \\u0001"'),
        (b"\x00\xff", pa.binary(), '"AP8="'),
        (dt.date(2024, 1, 2), pa.date32(), '"2024-01-02"'),
        (dt.time(1, 2, 3), pa.time64("us"), '"01:02:03.000000"'),
        (dt.datetime(2024, 1, 2, 3, 4, 5), pa.timestamp("us"), '"2024-01-02T03:04:05.000000"'),  # noqa: DTZ001 - a local timestamp is what is tested
        ([1, None], pa.list_(pa.int8()), "[1,null]"),
        ([], pa.list_(pa.int8()), "[]"),
        ([("a", 1), ('"', None)], pa.map_(pa.string(), pa.int32()), '{"a":1,"\\"":null}'),
        ([(7, ["x"])], pa.map_(pa.int32(), pa.list_(pa.string())), '{"7":["x"]}'),
        ([(dt.date(2024, 1, 2), 1)], pa.map_(pa.date32(), pa.int32()), '{"2024-01-02":1}'),
        (
            {"x": 1, "y": None},
            pa.struct([("x", pa.int8()), ("y", pa.string())]),
            '{"x":1,"y":null}',
        ),
        (None, pa.null(), "null"),
    ],
)
def test_every_type_has_its_json_also_beside_nulls_and_in_slices(
    value: Any, type_: pa.DataType, shown: str
) -> None:
    column = pa.array([value, None, value, value], type_).slice(1, 2)

    found = json_of(column).to_pylist()

    assert found == ["null", shown]
    json.loads(found[1])


def test_a_row_is_an_object_without_its_kind() -> None:
    batch = pa.record_batch(
        {"a": [1, 2], KIND_COLUMN: pa.array([0, 3], pa.int8()), 'b"': ["x", None]}
    )

    assert rows_as_json(batch).to_pylist() == ['{"a":1,"b\\"":"x"}', '{"a":2,"b\\"":null}']


@given(st.lists(st.none() | st.text(), min_size=1, max_size=20))
def test_any_text_comes_back_from_its_json(texts: list[str | None]) -> None:
    column = pa.array(texts, pa.string())

    assert [json.loads(shown) for shown in json_of(column).to_pylist()] == texts
