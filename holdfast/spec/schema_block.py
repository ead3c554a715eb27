"""The `schema` block of a source: `fields { name = type }` or `columns = [{ name, type, … }]`, to a `Table`.

For connectors: `schema: Table | None = option("…", default=None, parse=parse_schema, type_name="schema")`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pyarrow as pa

from holdfast.model.json import Json, JsonObject
from holdfast.model.schema import Column, Table, parse_type
from holdfast.spec.options import Place, WrongParts, nearest

_KEYS = ("fields", "columns", "primaryKey", "constraintKeys", "table", "comment", "schema_first")
_COLUMN_KEYS = (
    *("name", "type", "nullable", "defaultValue", "comment"),
    *("columnLength", "columnScale", "sourceType"),
)
_KEY_KEYS = ("name", "columnNames", "enableAutoId")
_CONSTRAINT_KEYS = ("constraintName", "constraintType", "constraintColumns")
_UNIQUE = "UNIQUE_KEY"
_CONSTRAINTS = (_UNIQUE, "INDEX_KEY", "FOREIGN_KEY", "VECTOR_INDEX_KEY")


def parse_schema(found: Json) -> Table:
    """The table; its path is "" where none is given. Raises ValueError with what was expected."""
    schema = _object(found, "a schema with 'fields' or 'columns'", _KEYS)
    if ("fields" in schema) == ("columns" in schema):
        raise ValueError("expected either 'fields' or 'columns' in a schema")
    columns = _columns(schema)
    names = [column.name for column in columns]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice or not names:
        raise ValueError(f"column '{twice[0]}' is given twice" if twice else "there is no column")
    path, comment = schema.get("table"), schema.get("comment")
    return Table(
        path="" if path is None else _text(path, "table"),
        columns=columns,
        primary_key=_primary_key(schema.get("primaryKey"), names),
        unique_keys=tuple(_unique_keys(schema.get("constraintKeys"), names)),
        comment=None if comment is None else _text(comment, "comment"),
    )


def _columns(schema: JsonObject) -> tuple[Column, ...]:
    """All columns, or all that is wrong with them."""
    columns: list[Column] = []
    wrong: list[tuple[Place, str]] = []
    for place, read in _readers(schema):
        try:
            columns.append(read())
        except ValueError as error:
            wrong.append((place, str(error)))
    if wrong:
        raise WrongParts(wrong)
    return tuple(columns)


def _readers(schema: JsonObject) -> Iterator[tuple[Place, Callable[[], Column]]]:
    if "columns" in schema:
        for index, item in enumerate(_list(schema["columns"], "columns")):
            yield ("columns", index), partial(_column, item)
        return
    for name, type_ in _object(schema["fields"], "'fields' to hold 'name = type'").items():
        yield ("fields", name), partial(_field, name, type_)


def _field(name: str, type_: Json) -> Column:
    return Column(name, _type(type_, name))


def _column(item: Json) -> Column:
    found = _object(item, "each of 'columns' to be { name, type, … }", _COLUMN_KEYS)
    if "name" not in found or "type" not in found:
        missing = "name" if "name" not in found else "type"
        raise ValueError(f"a column has no '{missing}': {sorted(found)}")
    name = _text(found["name"], "name")
    length = _whole(found.get("columnLength"), f"columnLength of '{name}'")
    scale = _whole(found.get("columnScale"), f"columnScale of '{name}'")
    text = found["type"]
    if isinstance(text, str) and text.strip().lower() == "decimal" and length is not None:
        text = f"decimal({length},{scale or 0})"
    comment = found.get("comment")
    return Column(
        name=name,
        type=_type(text, name),
        nullable=_boolean(found.get("nullable"), f"nullable of '{name}'", default=True),
        default=found.get("defaultValue"),
        comment=None if comment is None else _text(comment, "comment"),
        length=length,
    )


def _type(found: Json, column: str) -> pa.DataType:
    """A type's text, or an object of fields: a row."""
    if isinstance(found, dict):
        if not found:
            raise ValueError(f"column '{column}': a row needs at least one field")
        return pa.struct([pa.field(name, _type(inner, name)) for name, inner in found.items()])
    if not isinstance(found, str):
        raise ValueError(f"column '{column}': expected a type's name, found {found!r}")
    try:
        return parse_type(found)
    except ValueError as wrong:
        raise ValueError(f"column '{column}': {wrong}") from None


def _primary_key(found: Json, names: list[str]) -> tuple[str, ...]:
    if found is None:
        return ()
    key = _object(found, "'primaryKey' to be { name, columnNames }", _KEY_KEYS)
    columns = [_text(name, "columnNames") for name in _list(key.get("columnNames"), "columnNames")]
    return _known(columns, names, "primaryKey")


def _unique_keys(found: Json, names: list[str]) -> Iterator[tuple[str, ...]]:
    for item in [] if found is None else _list(found, "constraintKeys"):
        key = _object(item, "each of 'constraintKeys' to be an object", _CONSTRAINT_KEYS)
        type_ = _text(key.get("constraintType"), "constraintType").upper()
        if type_ not in _CONSTRAINTS:
            raise ValueError(
                f"constraintType {type_!r} is not one of {', '.join(_CONSTRAINTS)}."
                f"{nearest(type_, _CONSTRAINTS)}"
            )
        columns = [
            _text(
                _object(c, "each of 'constraintColumns' to be an object").get("columnName"),
                "columnName",
            )
            for c in _list(key.get("constraintColumns"), "constraintColumns")
        ]
        if type_ == _UNIQUE:
            yield _known(columns, names, "constraintKeys")


def _known(columns: list[str], names: list[str], place: str) -> tuple[str, ...]:
    for name in columns:
        if name not in names:
            raise ValueError(f"{place} names '{name}', which is no column.{nearest(name, names)}")
    return tuple(columns)


def _object(found: Json, expected: str, keys: tuple[str, ...] = ()) -> JsonObject:
    if not isinstance(found, dict):
        raise ValueError(f"expected {expected}, found {found!r}")
    for key in found:
        if keys and key not in keys:
            raise ValueError(f"there is no '{key}' in a schema here.{nearest(key, keys)}")
    return found


def _list(found: Json, place: str) -> list[Json]:
    if not isinstance(found, list):
        raise ValueError(f"expected '{place}' to be a list, found {found!r}")
    return found


def _text(found: Json, place: str) -> str:
    if not isinstance(found, str) or not found.strip():
        raise ValueError(f"expected '{place}' to be text, found {found!r}")
    return found


def _whole(found: Json, place: str) -> int | None:
    if found is None:
        return None
    if isinstance(found, bool) or not str(found).strip().isdecimal():
        raise ValueError(f"expected {place} to be a whole number, found {found!r}")
    return int(str(found))


def _boolean(found: Json, place: str, *, default: bool) -> bool:
    if found is None:
        return default
    text = str(found).strip().lower()
    if text not in ("true", "false"):
        raise ValueError(f"expected {place} to be true or false, found {found!r}")
    return text == "true"
