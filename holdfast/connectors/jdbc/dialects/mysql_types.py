"""MySQL's types and names: which Arrow type stands for which, and how SQL says it."""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa

from holdfast.connectors.jdbc.dialects.mysql_wire import FIELD_TYPE, FLAG, WireColumn
from holdfast.model.schema import Column, Table

DECIMAL_DIGITS_MAX = 38
KEY_CHARACTERS_MAX = 255
"""Of a text in a new key whose length is not known: indexes hold 3,072 bytes."""
VARCHAR_BYTES_MAX = 32_000
"""Of all texts of known length in one new table: a row has 65,535 bytes, and the others are kept outside of it."""
_UTC = pa.timestamp("us", "UTC")
_INTEGERS: dict[str, tuple[pa.DataType, pa.DataType]] = {
    "tinyint": (pa.int8(), pa.int16()),
    "smallint": (pa.int16(), pa.int32()),
    "mediumint": (pa.int32(), pa.int32()),
    "int": (pa.int32(), pa.int64()),
    "bigint": (pa.int64(), pa.decimal128(20, 0)),
}
"""Signed, and unsigned."""
_OTHERS: dict[str, pa.DataType] = {
    "year": pa.int32(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "datetime": pa.timestamp("us"),
    "timestamp": _UTC,
}
_GEOMETRY = (
    *("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring"),
    *("multipolygon", "geometrycollection", "geomcollection"),
)
_BINARY = (
    *("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "vector"),
    *_GEOMETRY,
)
_TYPE = re.compile(r"(?P<base>[a-z0-9_]+)\s*(\((?P<options>.*)\))?(?P<rest>[^()]*)$", re.DOTALL)


def parse_type(sql_type: str) -> tuple[str, list[int], bool]:
    """`decimal(10,2) unsigned` is a base name, its numbers, and whether it is unsigned."""
    found = _TYPE.match(sql_type.strip().lower())
    if not found:
        return sql_type.lower(), [], False
    base = {"integer": "int", "dec": "decimal", "numeric": "decimal", "real": "double"}.get(
        found["base"], found["base"]
    )
    numbers = re.fullmatch(r"[\d, ]+", found["options"] or "")
    options = [int(n) for n in numbers.group().split(",")] if numbers else []
    return base, options, "unsigned" in found["rest"]


def is_geometry(sql_type: str) -> bool:
    return parse_type(sql_type)[0] in _GEOMETRY


def is_number(text: str) -> bool:
    """Whether it can stand in SQL as a number."""
    return re.fullmatch(r"-?\d+(\.\d+)?(e[+-]?\d+)?", text, re.IGNORECASE) is not None


def is_binary(sql_type: str) -> bool:
    return parse_type(sql_type)[0] in _BINARY


def arrow_of(sql_type: str) -> pa.DataType:
    """The Arrow type of a column; text where there is no better."""
    base, options, unsigned = parse_type(sql_type)
    if sql_type.lower() == "tinyint(1)":
        return pa.bool_()
    if base in _INTEGERS:
        return _INTEGERS[base][unsigned]
    if base == "decimal":
        precision, scale = (*options, 0)[:2] if options else (10, 0)
        fits = precision <= DECIMAL_DIGITS_MAX
        return pa.decimal128(precision, scale) if fits else pa.string()
    if base == "bit":
        return pa.bool_() if options in ([], [1]) else pa.binary()
    if base in _BINARY:
        return pa.binary()
    return _OTHERS.get(base, pa.string())


def without_bools(sql_type: str) -> str:
    """`tinyint(1)` as a number."""
    return "tinyint" if sql_type.lower() == "tinyint(1)" else sql_type


# ----------------------------------------------------------------------------------- results of queries

_NAMES = {
    FIELD_TYPE.TINY: "tinyint",
    FIELD_TYPE.SHORT: "smallint",
    FIELD_TYPE.INT24: "mediumint",
    FIELD_TYPE.LONG: "int",
    FIELD_TYPE.LONGLONG: "bigint",
    FIELD_TYPE.YEAR: "year",
    FIELD_TYPE.FLOAT: "float",
    FIELD_TYPE.DOUBLE: "double",
    FIELD_TYPE.DATE: "date",
    FIELD_TYPE.NEWDATE: "date",
    FIELD_TYPE.TIME: "time",
    FIELD_TYPE.DATETIME: "datetime",
    FIELD_TYPE.TIMESTAMP: "timestamp",
    FIELD_TYPE.JSON: "json",
    FIELD_TYPE.GEOMETRY: "geometry",
    FIELD_TYPE.NULL: "text",
}
_INTEGER_CODES = tuple(code for code, name in _NAMES.items() if name in _INTEGERS)


def type_of_wire(wire: WireColumn) -> str:
    """The database's name of a result's column."""
    if wire.code in _INTEGER_CODES:
        return _integer_of_wire(wire)
    if wire.code in (FIELD_TYPE.DECIMAL, FIELD_TYPE.NEWDECIMAL):
        digits = wire.length - (wire.scale > 0) - (not wire.unsigned)
        return f"decimal({max(digits, wire.scale, 1)},{wire.scale})"
    if wire.code == FIELD_TYPE.BIT:
        return f"bit({wire.length})"
    if wire.code in _NAMES:
        return _NAMES[wire.code]
    if wire.flags & FLAG.ENUM:
        return "enum"
    if wire.flags & FLAG.SET:
        return "set"
    return "longblob" if wire.is_binary else "longtext"


def _integer_of_wire(wire: WireColumn) -> str:
    name = _NAMES[wire.code]
    if name == "tinyint" and wire.length == 1 and not wire.unsigned:
        return "tinyint(1)"
    return f"{name} unsigned" if wire.unsigned else name


# ------------------------------------------------------------------------------------------- SQL text

_CREATED: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_int8, "tinyint"),
    (pa.types.is_int16, "smallint"),
    (pa.types.is_int32, "int"),
    (pa.types.is_int64, "bigint"),
    (pa.types.is_float32, "float"),
    (pa.types.is_float64, "double"),
    (pa.types.is_date, "date"),
    (pa.types.is_time, "time(6)"),
    (pa.types.is_timestamp, "datetime(6)"),
    (lambda t: pa.types.is_binary(t) or pa.types.is_large_binary(t), "longblob"),
    (pa.types.is_nested, "json"),
)
"""Moments become `datetime` in UTC: `timestamp` ends in 2038."""


def create_table(path: str, table: Table, *, with_keys: bool) -> str:
    keys = [table.primary_key, *table.unique_keys] if with_keys and table.primary_key else []
    in_keys = {name for key in keys for name in key}
    known = sum(4 * (c.length or 0) for c in table.columns if pa.types.is_string(c.type))
    lines = [
        _column_line(column, in_keys, keep_lengths=known <= VARCHAR_BYTES_MAX)
        for column in table.columns
    ]
    words = ("PRIMARY KEY", *["UNIQUE"] * len(table.unique_keys))
    lines += [
        f"{word} ({', '.join(map(quote, key))})" for word, key in zip(words, keys, strict=False)
    ]
    comment = f" COMMENT {literal(table.comment)}" if table.comment else ""
    body = ", ".join(lines)
    return f"CREATE TABLE IF NOT EXISTS {sql_name(path)} ({body}) DEFAULT CHARSET utf8mb4{comment}"


def _column_line(column: Column, in_keys: set[str], *, keep_lengths: bool) -> str:
    type_ = created_type(column, in_key=column.name in in_keys, keep_length=keep_lengths)
    null = "NULL" if column.nullable else "NOT NULL"
    comment = f" COMMENT {literal(column.comment)}" if column.comment else ""
    return f"{quote(column.name)} {type_} {null}{comment}"


def created_type(column: Column, *, in_key: bool = False, keep_length: bool = True) -> str:
    """The column type that a new table gets. Keys compare byte by byte: 'a' and 'A' are two keys upstream."""
    type_ = column.type
    if pa.types.is_decimal(type_):
        return f"decimal({type_.precision},{type_.scale})"
    found = next((name for fits, name in _CREATED if fits(type_)), "longtext")
    if found == "longblob" and in_key:
        return f"varbinary({KEY_CHARACTERS_MAX})"
    if found != "longtext":
        return found
    if in_key:
        length = min(column.length or KEY_CHARACTERS_MAX, 3 * KEY_CHARACTERS_MAX)
        return f"varchar({length}) COLLATE utf8mb4_bin"
    return f"varchar({column.length})" if column.length and keep_length else "longtext"


def quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def split_path(path: str) -> list[str]:
    """`database.table`; a part with dots is written in backticks or double quotes."""
    parts = re.findall(r'`((?:[^`]|``)+)`|"((?:[^"]|"")+)"|([^.]+)', path)
    return [
        ticked.replace("``", "`") or quoted.replace('""', '"') or plain
        for ticked, quoted, plain in parts
    ]


def sql_name(path: str) -> str:
    return ".".join(quote(part) for part in split_path(path)[-2:])


def percented(sql: str) -> str:
    """A statement with `?` as pymysql takes it; quoted text is left alone."""
    parts = re.split(
        r"('(?:[^'\\]|''|\\.)*'|\"(?:[^\"\\]|\"\"|\\.)*\"|`[^`]*`)", sql, flags=re.DOTALL
    )
    return "".join(
        part.replace("%", "%%") if index % 2 else part.replace("%", "%%").replace("?", "%s")
        for index, part in enumerate(parts)
    )
