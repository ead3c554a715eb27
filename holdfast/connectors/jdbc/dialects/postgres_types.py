"""PostgreSQL's types and names: which Arrow type stands for which, how both are coded, how SQL says it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.connectors.jdbc.dialects import copy_read, copy_write
from holdfast.connectors.jdbc.dialects.copy_read import ColumnCode
from holdfast.connectors.jdbc.dialects.copy_write import Encoder
from holdfast.connectors.jdbc.dialects.values import HEX, Decoder, texts
from holdfast.model.schema import Table

TEXT = texts(pa.string())
_UTC = pa.timestamp("us", "UTC")
_SCALARS: dict[str, tuple[pa.DataType, Decoder]] = {
    "boolean": (pa.bool_(), copy_read.booleans),
    "smallint": (pa.int16(), copy_read.numbers(">i2", pa.int16())),
    "integer": (pa.int32(), copy_read.numbers(">i4", pa.int32())),
    "bigint": (pa.int64(), copy_read.numbers(">i8", pa.int64())),
    "oid": (pa.int64(), copy_read.numbers(">u4", pa.uint32())),
    "real": (pa.float32(), copy_read.numbers(">f4", pa.float32())),
    "double precision": (pa.float64(), copy_read.numbers(">f8", pa.float64())),
    "text": (pa.string(), TEXT),
    "character varying": (pa.string(), TEXT),
    "character": (pa.string(), TEXT),
    "name": (pa.string(), TEXT),
    "json": (pa.string(), TEXT),
    "xml": (pa.string(), TEXT),
    "jsonb": (pa.string(), texts(pa.string(), skip=1)),
    "uuid": (pa.string(), copy_read.uuids),
    "bytea": (pa.binary(), texts(pa.binary())),
    "date": (pa.date32(), copy_read.dates),
    "time without time zone": (pa.time64("us"), copy_read.numbers(">i8", pa.time64("us"))),
    "timestamp without time zone": (pa.timestamp("us"), copy_read.timestamps(pa.timestamp("us"))),
    "timestamp with time zone": (_UTC, copy_read.timestamps(_UTC)),
}
_TYPE = re.compile(
    r"(?P<base>[^(\[]+?)(\((?P<args>[-\d, ]+)\))?(?P<rest> [a-z ]+)?(?P<list>\[\])?$"
)
_ITEM_OIDS = {
    "boolean": 16, "bytea": 17, "bigint": 20, "smallint": 21, "integer": 23, "text": 25, "json": 114,
    "real": 700, "double precision": 701, "character": 1042, "character varying": 1043, "date": 1082,
    "time without time zone": 1083, "timestamp without time zone": 1114,
    "timestamp with time zone": 1184, "numeric": 1700, "uuid": 2950, "jsonb": 3802,
}  # fmt: skip


def parse_sql_type(sql_type: str) -> tuple[str, list[int], bool]:
    """`numeric(10,2)[]` is a base name, its arguments and whether it is a list."""
    found = _TYPE.match(sql_type)
    if not found:
        return sql_type, [], False
    base = found["base"] + (found["rest"] or "")
    arguments = [int(part) for part in (found["args"] or "").split(",") if part.strip()]
    return base, arguments, bool(found["list"])


def _scalar(base: str, arguments: list[int]) -> tuple[pa.DataType, Decoder] | None:
    if base != "numeric":
        return _SCALARS.get(base)
    precision, scale = (*arguments, 0)[:2] if arguments else (38, 18)
    precision, scale = max(precision, scale) - min(scale, 0), max(scale, 0)
    if precision > 38:
        return None
    return pa.decimal128(precision, scale), copy_read.decimals(precision, scale)


def arrow_of(sql_type: str) -> pa.DataType:
    """The Arrow type of a column; text where there is no better."""
    base, arguments, is_list = parse_sql_type(sql_type)
    found = _scalar(base, arguments)
    if found is None:
        return pa.string()
    return pa.list_(found[0]) if is_list else found[0]


_WIDTHS = {
    "boolean": 1, "smallint": 2, "integer": 4, "bigint": 8, "oid": 4, "real": 4, "double precision": 8, "date": 4,
    "time without time zone": 8, "timestamp without time zone": 8, "timestamp with time zone": 8, "uuid": 16,
}  # fmt: skip


def code_of(sql_type: str) -> ColumnCode:
    """How a column comes; without a decoder it comes as text, by a cast in the query."""
    decode = decoder_of(sql_type)
    return ColumnCode(TEXT) if decode is None else ColumnCode(decode, _WIDTHS.get(sql_type))


def decoder_of(sql_type: str) -> Decoder | None:
    """None: the column is read as text, by a cast in the query."""
    base, arguments, is_list = parse_sql_type(sql_type)
    found = _scalar(base, arguments)
    if found is None:
        return None
    return copy_read.lists(found[1], found[0]) if is_list else found[1]


_ALIKE = {"character varying": "text", "character": "text", "name": "text"}
_OPAQUE = (
    *("interval", "inet", "cidr", "macaddr", "money", "bit", "bit varying", "tsvector", "point"),
    *(
        "time with time zone",
        "int4range",
        "int8range",
        "numrange",
        "daterange",
        "tsrange",
        "tstzrange",
    ),
)
"""Read as text into Arrow, and yet handed over as they are between two tables of the same type."""


def byte_type(sql_type: str) -> str | None:
    """Under which name a column's binary form is known; None where it may differ between databases."""
    base, _, is_list = parse_sql_type(sql_type)
    if is_list:
        return f"{base}[]" if base in _ITEM_OIDS else None
    known = base == "numeric" or base in _SCALARS or base in _OPAQUE
    return _ALIKE.get(base, base) if known else None


# -------------------------------------------------------------------------------------------- encoding

_TEXTS = ("text", "character varying", "character", "name", "json", "xml")
_ENCODERS: tuple[tuple[Any, dict[str, Encoder]], ...] = (
    (pa.types.is_boolean, {"boolean": copy_write.booleans}),
    (
        pa.types.is_integer,
        {
            "smallint": copy_write.numbers(pa.int16(), ">i2"),
            "integer": copy_write.numbers(pa.int32(), ">i4"),
            "bigint": copy_write.numbers(pa.int64(), ">i8"),
            "numeric": copy_write.decimals,
        },
    ),
    (
        pa.types.is_float32,
        {
            "real": copy_write.numbers(pa.float32(), ">f4"),
            "double precision": copy_write.numbers(pa.float64(), ">f8"),
        },
    ),
    (pa.types.is_float64, {"double precision": copy_write.numbers(pa.float64(), ">f8")}),
    (pa.types.is_decimal128, {"numeric": copy_write.decimals}),
    (
        lambda t: pa.types.is_string(t) or pa.types.is_large_string(t),
        {
            **dict.fromkeys(_TEXTS, copy_write.texts),
            "jsonb": copy_write.jsonb,
            "uuid": copy_write.uuids,
        },
    ),
    (lambda t: pa.types.is_binary(t) or pa.types.is_large_binary(t), {"bytea": copy_write.bytes_}),
    (
        pa.types.is_date,
        {"date": copy_write.dates, "timestamp without time zone": copy_write.timestamps},
    ),
    (pa.types.is_time, {"time without time zone": copy_write.times}),
    (
        pa.types.is_timestamp,
        {
            "timestamp without time zone": copy_write.timestamps,
            "timestamp with time zone": copy_write.timestamps_tz,
        },
    ),
)


def encoder_of(type_: pa.DataType, sql_type: str) -> Encoder | None:
    """From an Arrow type to a target column, exactly; None where only text will do."""
    base, _, is_list = parse_sql_type(sql_type)
    if pa.types.is_list(type_) != is_list:
        return None
    if is_list:
        item = encoder_of(type_.value_type, base)
        oid = _ITEM_OIDS.get(base)
        return copy_write.lists(item, oid) if item and oid else None
    for fits, by_target in _ENCODERS:
        if fits(type_):
            return by_target.get(base)
    return None


def csv_of(batch: pa.RecordBatch) -> pa.Buffer:
    """COPY's CSV: nulls are empty, empty texts are quoted."""
    import pyarrow.csv as csv

    columns = [_as_text(column) for column in batch.columns]
    options = csv.WriteOptions(include_header=False, batch_size=copy_write.ROWS_MAX)
    stream = pa.BufferOutputStream()
    csv.write_csv(pa.table(columns, names=batch.schema.names), stream, options)
    return stream.getvalue()


def _as_text(column: pa.Array) -> pa.Array:
    type_ = column.type
    if pa.types.is_binary(type_) or pa.types.is_large_binary(type_):
        return _hexed(column.cast(pa.binary()))
    if pa.types.is_map(type_) or pa.types.is_struct(type_):
        return _json(column)
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return _braced(column)
    if pa.types.is_timestamp(type_) and type_.tz:
        local = pc.local_timestamp(column.cast(pa.timestamp("us", "UTC"))).cast(pa.string())
        return pc.binary_join_element_wise(local, pa.scalar("+00"), pa.scalar(""))
    return column.cast(pa.string())


def _hexed(column: pa.Array) -> pa.Array:
    data = copy_write._data_of(column.fill_null(b""))
    pairs = HEX[np.frombuffer(data, np.uint8)]
    offsets = copy_write._offsets(column.fill_null(b"")).astype(np.int64)
    ends = (offsets - offsets[0]) * 2
    hexed = copy_write._binary(np.ascontiguousarray(pairs).reshape(-1), ends).cast(pa.string())
    found = pc.binary_join_element_wise(pa.scalar("\\x"), hexed, pa.scalar(""))
    return pc.if_else(column.is_null(), None, found)


def _braced(column: pa.Array) -> pa.Array:
    """`{"a","b",NULL}`, as array literals are written."""
    flat = _as_text(column.flatten())
    if not pa.types.is_list(column.type.value_type):
        escaped = pc.replace_substring_regex(flat, r'([\\"])', r"\\\1")
        flat = pc.binary_join_element_wise(pa.scalar('"'), escaped, pa.scalar('"'), pa.scalar(""))
    items = flat.fill_null("NULL")
    counts = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    lists = pa.ListArray.from_arrays(pa.array(offsets), items)
    joined = pc.binary_join(lists, ",")
    found = pc.binary_join_element_wise(pa.scalar("{"), joined, pa.scalar("}"), pa.scalar(""))
    return pc.if_else(column.is_null(), None, found)


def _json(column: pa.Array) -> pa.Array:
    """Rows and maps, as JSON. The one place that goes value by value: Arrow writes no JSON."""
    import json

    def plain(value: Any) -> Any:
        if isinstance(value, list) and value and isinstance(value[0], tuple):
            return {str(k): plain(v) for k, v in value}
        return value

    found = [
        None if v is None else json.dumps(plain(v), default=str, ensure_ascii=False)
        for v in column.to_pylist()
    ]
    return pa.array(found, pa.string())


# ------------------------------------------------------------------------------------------- SQL text

_CREATED: dict[pa.DataType, str] = {
    pa.bool_(): "boolean",
    pa.int8(): "smallint",
    pa.int16(): "smallint",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.float32(): "real",
    pa.float64(): "double precision",
    pa.string(): "text",
    pa.large_string(): "text",
    pa.binary(): "bytea",
    pa.large_binary(): "bytea",
    pa.date32(): "date",
    pa.time64("us"): "time",
    pa.null(): "text",
}


def created_type(type_: pa.DataType) -> str:
    """The column type that a new table gets."""
    if pa.types.is_decimal(type_):
        return f"numeric({type_.precision},{type_.scale})"
    if pa.types.is_timestamp(type_):
        return "timestamptz" if type_.tz else "timestamp"
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return f"{created_type(type_.value_type).removesuffix('[]')}[]"
    if pa.types.is_map(type_) or pa.types.is_struct(type_):
        return "jsonb"
    return _CREATED.get(type_, "text")


def create_table(path: str, table: Table, *, with_keys: bool) -> list[str]:
    name = sql_name(path)
    lines = [
        f"{quote(c.name)} {created_type(c.type)}{'' if c.nullable else ' NOT NULL'}"
        for c in table.columns
    ]
    if with_keys and table.primary_key:
        lines.append(f"PRIMARY KEY ({', '.join(map(quote, table.primary_key))})")
        lines += [f"UNIQUE ({', '.join(map(quote, key))})" for key in table.unique_keys]
    found = [f"CREATE TABLE IF NOT EXISTS {name} ({', '.join(lines)})"]
    if table.comment:
        found.append(f"COMMENT ON TABLE {name} IS {literal(table.comment)}")
    found += [
        f"COMMENT ON COLUMN {name}.{quote(c.name)} IS {literal(c.comment)}"
        for c in table.columns
        if c.comment
    ]
    return found


def quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    body = text.replace("'", "''")
    return f"E'{body.replace(chr(92), chr(92) * 2)}'" if "\\" in body else f"'{body}'"


def split_path(path: str) -> list[str]:
    """`a.b.c`; a part with dots is written in double quotes."""
    parts = re.findall(r'"((?:[^"]|"")+)"|([^.]+)', path)
    return [quoted.replace('""', '"') if quoted else plain for quoted, plain in parts]


def sql_name(path: str) -> str:
    return ".".join(quote(part) for part in split_path(path)[-2:])


def numbered(sql: str) -> str:
    """A statement with `?` as psycopg takes it; quoted text is left alone."""
    parts = re.split(r"('(?:[^']|'')*'|\"(?:[^\"]|\"\")*\")", sql)
    return "".join(
        part.replace("%", "%%") if index % 2 else part.replace("%", "%%").replace("?", "%s")
        for index, part in enumerate(parts)
    )
