"""The schema blocks of sources."""

from __future__ import annotations

import pyarrow as pa
import pytest

from holdfast.model.json import Json
from holdfast.spec.hocon import parse_hocon
from holdfast.spec.schema_block import parse_schema
from tests.spec.a_catalog import said_of, spec_of


def read(inside: str) -> Json:
    return parse_hocon(f"schema {{ {inside} }}").root.plain()["schema"]


def test_fields_become_columns_in_their_order() -> None:
    table = parse_schema(
        read("""
        table = "shop.public.orders"
        fields {
            id = bigint, name = "string", price = "decimal(10, 2)", tags = "array<string>"
            more = "map<string, int>", at = timestamp
            place { street = string, number = int }
        }
        primaryKey { name = pk, columnNames = [id] }
    """)
    )

    assert table.path == "shop.public.orders"
    assert [(c.name, c.type) for c in table.columns] == [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("price", pa.decimal128(10, 2)),
        ("tags", pa.list_(pa.string())),
        ("more", pa.map_(pa.string(), pa.int32())),
        ("at", pa.timestamp("us")),
        ("place", pa.struct([("street", pa.string()), ("number", pa.int32())])),
    ]
    assert table.primary_key == ("id",)


def test_columns_say_more_of_each() -> None:
    table = parse_schema(
        read("""
        columns = [
            { name = id, type = bigint, nullable = false, defaultValue = 0, comment = "the key" }
            { name = name, type = string, columnLength = 20 }
            { name = price, type = decimal, columnLength = 12, columnScale = 4 }
        ]
        primaryKey { columnNames = [id] }
        constraintKeys = [
            { constraintName = u, constraintType = UNIQUE_KEY
              constraintColumns = [{ columnName = name, sortType = ASC }] }
            { constraintName = i, constraintType = INDEX_KEY, constraintColumns = [{ columnName = id }] }
        ]
        comment = orders
    """)
    )

    key, name, price = table.columns
    assert (key.nullable, key.default, key.comment) == (False, 0, "the key")
    assert (name.nullable, name.length) == (True, 20)
    assert price.type == pa.decimal128(12, 4)
    assert (table.path, table.comment) == ("", "orders")
    assert table.unique_keys == (("name",),)


@pytest.mark.parametrize(
    ("inside", "said"),
    [
        ("", "expected either 'fields' or 'columns'"),
        ("fields { a = int }, columns = []", "expected either 'fields' or 'columns'"),
        ("fields {}", "there is no column"),
        ("columns = []", "there is no column"),
        ("fields { a = intt }", "column 'a': 'intt' is not a type"),
        ("fields { a = bgint }", "Did you mean 'bigint'?"),
        ("fields { a = 3 }", "column 'a': expected a type's name, found 3"),
        ("fields { a {} }", "a row needs at least one field"),
        ("field { a = int }", "there is no 'field' in a schema here. Did you mean 'fields'?"),
        ("columns = [{ name = a }]", "a column has no 'type'"),
        ("columns = [{ name = a, typ = int }]", "Did you mean 'type'?"),
        ("columns = [{ name = a, type = int, nullable = maybe }]", "true or false"),
        ("columns = [{ name = a, type = int }, { name = a, type = int }]", "'a' is given twice"),
        ("fields { abc = int }, primaryKey { columnNames = [ab] }", "Did you mean 'abc'?"),
        ("fields { a = int }, primaryKey { columnNames = a }", "to be a list"),
        ("fields { a = int }, constraintKeys = [{ constraintType = UNIQ }]", "is not one of"),
    ],
)
def test_a_wrong_schema_is_told_with_what_was_expected(inside: str, said: str) -> None:
    with pytest.raises(ValueError, match=r"\w") as caught:
        parse_schema(read(inside))

    assert said in str(caught.value)


def test_a_connector_takes_it_as_an_option_and_problems_have_lines() -> None:
    text = "source { FakeSource {\nschema { fields { id = %s } }\n} }\nsink { Console {} }"

    table = spec_of(text % "int").pipelines[0].vertices[0].options.schema
    assert table.column_names == ["id"]
    assert said_of(text % "int8x")[0].startswith(
        "line 2: source FakeSource: option 'schema': column 'id': 'int8x' is not a type"
    )


def test_every_column_that_is_wrong_is_told_with_its_own_line() -> None:
    fields = "fields {\n a = intt\n b = int\n c = datee\n}"
    columns = "columns = [\n{ name = a, typ = int }\n{ name = b, type = int }\n{ name = c }\n]"
    text = "source { FakeSource { schema { %s } } }\nsink { Console {} }"

    assert [said[:6] for said in said_of(text % fields)] == ["line 2", "line 4"]
    assert [said[:6] for said in said_of(text % columns)] == ["line 2", "line 4"]
