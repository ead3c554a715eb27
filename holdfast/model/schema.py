"""Tables, columns, types and row kinds: the shape of what flows. Types are Arrow types, everywhere.

`parse_type` and `format_type` turn the job file's type names (`decimal(10,2)`, `array<int>`, `row{…}`) into
Arrow types and back; the text form is what checkpoints and plans store.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from enum import IntEnum

import pyarrow as pa

from holdfast.model.json import Json, JsonObject

KIND_COLUMN = "__kind"
"""The hidden column that carries a row's kind. A batch without it holds inserts only."""


class RowKind(IntEnum):
    """What a row says about its key."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    @property
    def short(self) -> str:
        return ("+I", "-U", "+U", "-D")[self.value]

    @classmethod
    def parse(cls, text: str) -> RowKind:
        name = text.strip().upper()
        for kind in cls:
            if name in (kind.short, kind.name):
                return kind
        raise ValueError(f"{text!r} is not a row kind (+I, -U, +U, -D)")


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table."""

    name: str
    type: pa.DataType
    nullable: bool = True
    default: Json = None
    comment: str | None = None
    length: int | None = None

    def to_json(self) -> JsonObject:
        found: JsonObject = {"name": self.name, "type": format_type(self.type)}
        if not self.nullable:
            found["nullable"] = False
        return found


@dataclass(frozen=True, slots=True)
class Table:
    """A table as it flows through a pipeline. `path` is `database.schema.table`, or less of it."""

    path: str
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...] = ()
    unique_keys: tuple[tuple[str, ...], ...] = field(default=())
    comment: str | None = None

    @property
    def name(self) -> str:
        return self.path.rsplit(".", 1)[-1]

    @property
    def column_names(self) -> list[str]:
        return [column.name for column in self.columns]

    @property
    def arrow_schema(self) -> pa.Schema:
        """Without the kind column."""
        return pa.schema([pa.field(c.name, c.type, c.nullable) for c in self.columns])

    def renamed(self, path: str) -> Table:
        return replace(self, path=path)

    def to_json(self) -> JsonObject:
        found: JsonObject = {"path": self.path, "columns": [c.to_json() for c in self.columns]}
        if self.primary_key:
            found["primaryKey"] = list(self.primary_key)
        return found


def table_from_arrow(
    path: str, schema: pa.Schema, primary_key: tuple[str, ...] = (), comment: str | None = None
) -> Table:
    """A table with the columns of an Arrow schema; the kind column is left out."""
    columns = tuple(Column(f.name, f.type, f.nullable) for f in schema if f.name != KIND_COLUMN)
    kept = {column.name for column in columns}
    key = primary_key if all(name in kept for name in primary_key) else ()
    return Table(path, columns, key, comment=comment)


def table_from_json(found: JsonObject) -> Table:
    columns = tuple(
        Column(str(c["name"]), parse_type(str(c["type"])), bool(c.get("nullable", True)))
        for c in found["columns"]  # type: ignore[union-attr]
        if isinstance(c, dict)
    )
    key = found.get("primaryKey") or []
    assert isinstance(key, list)
    return Table(str(found["path"]), columns, tuple(str(name) for name in key))


_SIMPLE: dict[str, pa.DataType] = {
    "string": pa.string(),
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "null": pa.null(),
    "bytes": pa.binary(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamp_tz": pa.timestamp("us", "UTC"),
}
_ALIASES = {
    "integer": "int",
    "bool": "boolean",
    "long": "bigint",
    "short": "smallint",
    "byte": "tinyint",
    "binary": "bytes",
    "varbinary": "bytes",
    "varchar": "string",
    "char": "string",
    "text": "string",
    "datetime": "timestamp",
    "offset_date_time": "timestamp_tz",
    "timestamp_with_time_zone": "timestamp_tz",
    "void": "null",
}
_VECTORS: dict[str, pa.DataType] = {
    "float_vector": pa.list_(pa.float32()),
    "float16_vector": pa.list_(pa.float32()),
    "bfloat16_vector": pa.list_(pa.float32()),
    "binary_vector": pa.binary(),
    "sparse_float_vector": pa.map_(pa.int32(), pa.float32()),
}
"""Vectors are ordinary arrays, bytes and maps from the moment they were read."""
TYPE_NAMES = (*_SIMPLE, "decimal(p,s)", "array<…>", "map<…,…>", "row{…}")


def parse_type(text: str) -> pa.DataType:
    """`decimal(10,2)`, `array<map<string,int>>`, `row{a int, b string}` … to an Arrow type."""
    parser = _TypeParser(text)
    found = parser.parse()
    parser.expect_end()
    return found


class _TypeParser:
    """A hand-written descent over the type's text: it nests, so a pattern would not do."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def parse(self) -> pa.DataType:
        if self._peek() == "{":
            return self._row()
        name = self._word().lower()
        if name == "decimal" or name == "numeric":
            return self._decimal()
        if name == "array" or name == "list":
            self._take("<")
            item = self.parse()
            self._take(">")
            return pa.list_(item)
        if name == "map":
            self._take("<")
            key = self.parse()
            self._take(",")
            item = self.parse()
            self._take(">")
            return pa.map_(key, item)
        if name in ("row", "struct"):
            return self._row()
        known = _SIMPLE.get(_ALIASES.get(name, name), _VECTORS.get(name))
        if known is None:
            raise ValueError(_no_type(self._text, name))
        if self._peek() == "(":
            self._arguments()
        return known

    def expect_end(self) -> None:
        if self._peek():
            raise ValueError(f"{self._text!r} has {self._text[self._at :]!r} after a complete type")

    def _decimal(self) -> pa.DataType:
        if self._peek() != "(":
            return pa.decimal128(38, 18)
        arguments = self._arguments()
        precision = arguments[0]
        scale = arguments[1] if len(arguments) > 1 else 0
        if not 1 <= precision <= 38 or not 0 <= scale <= precision:
            raise ValueError(f"{self._text!r}: precision is 1 to 38 and scale 0 to precision")
        return pa.decimal128(precision, scale)

    def _arguments(self) -> list[int]:
        self._take("(")
        until = self._text.find(")", self._at)
        inside = self._text[self._at : until] if until >= 0 else ""
        if not re.fullmatch(r"\s*\d+\s*(,\s*\d+\s*)?", inside):
            raise ValueError(f"{self._text!r}: expected numbers in brackets")
        self._at = until + 1
        return [int(part) for part in inside.split(",")]

    def _row(self) -> pa.DataType:
        closing = {"{": "}", "<": ">"}.get(self._peek(), "}")
        self._take("{" if closing == "}" else "<")
        fields: list[pa.Field] = []
        while self._peek() != closing:
            name = self._word()
            if self._peek() in (":", "="):
                self._at += 1
            fields.append(pa.field(name, self.parse()))
            if self._peek() == ",":
                self._at += 1
        self._take(closing)
        return pa.struct(fields)

    def _peek(self) -> str:
        while self._at < len(self._text) and self._text[self._at].isspace():
            self._at += 1
        return self._text[self._at : self._at + 1]

    def _take(self, sign: str) -> None:
        if self._peek() != sign:
            found = self._peek() or "the end"
            raise ValueError(f"{self._text!r}: expected {sign!r} and found {found!r}")
        self._at += 1

    def _word(self) -> str:
        self._peek()
        found = re.compile(r'"[^"]+"|[\w$-]+').match(self._text, self._at)
        if not found:
            raise ValueError(_no_type(self._text))
        self._at = found.end()
        return found.group().strip('"')


def _no_type(text: str, name: str = "") -> str:
    near = get_close_matches(name, [*_SIMPLE, *_ALIASES, "decimal", "array", "map", "row"], n=1)
    hint = f". Did you mean '{near[0]}'?" if near else ""
    return f"{text!r} is not a type; known are {', '.join(TYPE_NAMES)}{hint}"


def format_type(type_: pa.DataType) -> str:
    """The job file's name of an Arrow type; `parse_type` reads it back."""
    if pa.types.is_decimal(type_):
        return f"decimal({type_.precision},{type_.scale})"
    if pa.types.is_map(type_):
        return f"map<{format_type(type_.key_type)},{format_type(type_.item_type)}>"
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return f"array<{format_type(type_.value_type)}>"
    if pa.types.is_struct(type_):
        inside = ", ".join(f'"{f.name}" {format_type(f.type)}' for f in type_)
        return f"row{{{inside}}}"
    if pa.types.is_timestamp(type_):
        return "timestamp_tz" if type_.tz else "timestamp"
    if pa.types.is_time(type_):
        return "time"
    return _format_simple(type_)


def _format_simple(type_: pa.DataType) -> str:
    if pa.types.is_large_string(type_) or pa.types.is_string_view(type_):
        return "string"
    if pa.types.is_large_binary(type_) or pa.types.is_fixed_size_binary(type_):
        return "bytes"
    for name, known in _SIMPLE.items():
        if known == type_:
            return name
    raise ValueError(f"no type of a job file stands for Arrow's {type_}")
