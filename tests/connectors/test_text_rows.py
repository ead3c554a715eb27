"""The rules by which rows become text for people."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from holdfast.connectors.text_rows import block_of, text_of


@pytest.mark.parametrize(
    ("values", "type_", "shown"),
    [
        ([True, None], pa.bool_(), ["true", "null"]),
        ([Decimal("1.50")], pa.decimal128(10, 2), ["1.50"]),
        ([b"\x00\xff", None, b""], pa.binary(), ["00ff", "null", ""]),
        ([[1, None], None, []], pa.list_(pa.int32()), ["[1, null]", "null", "[]"]),
        ([[[1], []], None], pa.list_(pa.list_(pa.int8())), ["[[1], []]", "null"]),
        (
            [[("a", 1), ("b", None)], None, []],
            pa.map_(pa.string(), pa.int32()),
            ["{a=1, b=null}", "null", "{}"],
        ),
        (
            [{"x": 1, "y": ["q"]}, None],
            pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))]),
            ["[1, [q]]", "null"],
        ),
        ([None, None], pa.null(), ["null", "null"]),
    ],
)
def test_every_type_has_a_text_also_in_a_slice(
    values: list[Any], type_: pa.DataType, shown: list[str]
) -> None:
    column = pa.array([values[0], *values, values[0]], type_)

    assert text_of(column.slice(1, len(values))).to_pylist() == shown


def test_a_block_holds_the_lines_of_a_slice_alone() -> None:
    assert block_of(pa.array(["no", "á", "", "c", "no"]).slice(1, 3)) == "á\n\nc\n"
    assert block_of(pa.array([], pa.string())) == ""
