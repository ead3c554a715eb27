"""The rules by which a table's names are put into the options of sinks."""

from __future__ import annotations

import pyarrow as pa
import pytest

from holdfast.connectors.placeholders import fill, fill_names, has_placeholder
from holdfast.model.schema import Column, Table

FULL = Table(
    "shop.public.orders",
    (Column("id", pa.int64()), Column("line", pa.int32()), Column("name", pa.string())),
    primary_key=("id", "line"),
    unique_keys=(("name",),),
)
BARE = Table("orders", (Column("id", pa.int64()),))


@pytest.mark.parametrize(
    ("template", "filled"),
    [
        ("/out/${database_name}/${schema_name}/${table_name}", "/out/shop/public/orders"),
        ("${schema_full_name}|${table_full_name}", "shop.public|shop.public.orders"),
        ("${primary_key}|${unique_key}|${field_names}", "id,line|name|id,line,name"),
        ("${table_name:other}", "orders"),
        ("${transactionId}_${now}_${x:y}", "${transactionId}_${now}_${x:y}"),
        ("no placeholder", "no placeholder"),
    ],
)
def test_placeholders_take_the_names_of_the_table_and_others_stay(
    template: str, filled: str
) -> None:
    assert fill(template, FULL) == filled


@pytest.mark.parametrize(
    ("template", "filled"),
    [
        ("${database_name:main}.${table_name}", "main.orders"),
        ("${schema_name}/${table_name}", "/orders"),
        ("${primary_key:id}", "id"),
        ("${table_full_name}", "orders"),
        ("${schema_full_name:}x", "x"),
    ],
)
def test_what_a_table_lacks_is_the_default_or_nothing(template: str, filled: str) -> None:
    assert fill(template, BARE) == filled


def test_a_path_of_two_parts_is_database_and_table() -> None:
    assert fill("${database_name}|${schema_name}|${table_name}", Table("a.b", ())) == "a||b"


def test_a_list_of_names_takes_each_name_of_a_key_by_itself() -> None:
    assert fill_names(["${primary_key}", "x"], FULL) == ["id", "line", "x"]
    assert fill_names(["${primary_key}"], BARE) == []
    assert fill_names(["${primary_key:a,b}"], BARE) == ["a", "b"]


def test_only_placeholders_of_tables_make_a_text_depend_on_the_table() -> None:
    assert has_placeholder("a/${table_name:x}")
    assert not has_placeholder("a/${transactionId}")
