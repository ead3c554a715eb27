"""Types have a text that is read back; tables go through JSON."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.schema import (
    KIND_COLUMN,
    Column,
    RowKind,
    Table,
    format_type,
    parse_type,
    table_from_arrow,
    table_from_json,
)

simple = st.sampled_from(
    [
        pa.string(), pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.null(),
        pa.binary(), pa.date32(), pa.time64("us"), pa.timestamp("us"), pa.timestamp("us", "UTC"),
    ]
)  # fmt: skip
decimals = st.integers(1, 38).flatmap(
    lambda p: st.integers(0, p).map(lambda s: pa.decimal128(p, s))
)


def _may_be_a_key(type_: pa.DataType) -> bool:
    return not pa.types.is_null(type_)


names = st.text(st.characters(exclude_characters='"', codec="utf-8"), min_size=1)
types = st.recursive(
    simple | decimals,
    lambda inner: (
        inner.map(pa.list_)
        | st.tuples(simple.filter(_may_be_a_key), inner).map(lambda found: pa.map_(*found))
        | st.lists(st.tuples(names, inner), max_size=3).map(pa.struct)
    ),
    max_leaves=6,
)


@given(type_=types)
def test_the_text_of_any_type_is_read_back_as_that_type(type_: pa.DataType) -> None:
    assert parse_type(format_type(type_)) == type_


@given(type_=types, nullable=st.booleans())
def test_a_table_comes_back_from_json_as_it_was(type_: pa.DataType, nullable: bool) -> None:
    table = Table(
        "db.s.t", (Column("id", pa.int64(), False), Column("x", type_, nullable)), ("id",)
    )

    assert table_from_json(table.to_json()) == table


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("DECIMAL(10, 2)", pa.decimal128(10, 2)),
        ("decimal", pa.decimal128(38, 18)),
        ("varchar(255)", pa.string()),
        ("array<map<string, int>>", pa.list_(pa.map_(pa.string(), pa.int32()))),
        ("row{a int, b = string}", pa.struct([("a", pa.int32()), ("b", pa.string())])),
        ("float_vector", pa.list_(pa.float32())),
    ],
)
def test_the_words_of_job_files_are_types(text: str, type_: pa.DataType) -> None:
    assert parse_type(text) == type_


@given(text=st.text(max_size=30))
def test_any_other_text_is_refused_by_value(text: str) -> None:
    try:
        parse_type(text)
    except ValueError:
        return


@pytest.mark.parametrize(
    "text", ["", "strin", "decimal(39,0)", "decimal(2,3)", "array<int", "map<int>", "row{a}", "int int"]
)  # fmt: skip
def test_what_is_no_type_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"type|expected|decimal"):
        parse_type(text)


def test_row_kinds_are_read_in_both_spellings() -> None:
    assert RowKind.parse("+U") is RowKind.parse("update_after") is RowKind.UPDATE_AFTER
    with pytest.raises(ValueError, match="not a row kind"):
        RowKind.parse("upsert")


def test_the_kind_column_is_no_column_of_the_table() -> None:
    schema = pa.schema([("id", pa.int64()), (KIND_COLUMN, pa.int8())])

    assert table_from_arrow("t", schema, ("id",)).column_names == ["id"]


def test_a_key_that_lost_a_column_is_no_key() -> None:
    assert table_from_arrow("t", pa.schema([("a", pa.int64())]), ("a", "b")).primary_key == ()
