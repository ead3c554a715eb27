"""Arrow columns become what MySQL takes in bulk: the CSV of LOAD DATA, or INSERT with many rows.

In the CSV nulls are the bare word NULL, texts are quoted with quotes doubled and nothing is escaped; bytes go as
hexadecimal digits, which a SET clause turns back. Types and ranges are the server's to judge.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv

from holdfast.connectors.jdbc.dialects.mysql_types import is_binary, parse_type, quote
from holdfast.connectors.jdbc.dialects.values import HEX
from holdfast.connectors.json_text import json_of

ROWS_MAX = 16_384
INSERT_BYTES_MAX = 1 << 20
Columns = Sequence[tuple[str, str]]


def load_statement(name: str, columns: Columns, schema: pa.Schema) -> str:
    """The statement that takes what `csv_of` gives."""
    targets, sets = [], []
    for index, ((column, sql_type), field) in enumerate(zip(columns, schema, strict=True)):
        value = _converted(f"@v{index}", sql_type, field.type)
        if value is None:
            targets.append(quote(column))
        else:
            targets.append(f"@v{index}")
            sets.append(f"{quote(column)} = {value}")
    clause = f" SET {', '.join(sets)}" if sets else ""
    return (
        f"LOAD DATA LOCAL INFILE 'rows' INTO TABLE {name} CHARACTER SET utf8mb4 FIELDS TERMINATED BY ','"
        " OPTIONALLY ENCLOSED BY '\"' ESCAPED BY '' LINES TERMINATED BY '\\n'"
        f" ({', '.join(targets)}){clause}"
    )


def _converted(value: str, sql_type: str, type_: pa.DataType) -> str | None:
    """How hexadecimal digits and the bits of a BIT column get their meaning back; None where text will do."""
    in_hex = _is_bytes(type_)
    if parse_type(sql_type)[0] == "bit":
        number = f"CONV({value}, 16, 10)" if in_hex else value
        return f"CAST({number} AS UNSIGNED)"
    if not in_hex:
        return None
    plain = f"UNHEX({value})"
    return plain if is_binary(sql_type) else f"CONVERT({plain} USING utf8mb4)"


def csv_of(batch: pa.RecordBatch) -> memoryview:
    columns = [_loaded(column) for column in batch.columns]
    stream = pa.BufferOutputStream()
    options = csv.WriteOptions(include_header=False, batch_size=ROWS_MAX, null_string="NULL")
    csv.write_csv(pa.table(columns, names=[f"c{n}" for n in range(len(columns))]), stream, options)
    return memoryview(stream.getvalue())


def csv_chunks(batches: Iterator[pa.RecordBatch]) -> Iterator[memoryview]:
    for batch in batches:
        for low in range(0, batch.num_rows, ROWS_MAX):
            yield csv_of(batch.slice(low, ROWS_MAX))


def _loaded(column: pa.Array) -> pa.Array:
    """A column in a type that Arrow writes to CSV as MySQL reads it."""
    type_ = column.type
    if _is_bytes(type_):
        return hexed(column)
    if pa.types.is_boolean(type_):
        return column.cast(pa.int8())
    if pa.types.is_float32(type_):
        return column.cast(pa.float64())
    if pa.types.is_nested(type_):
        return pc.if_else(column.is_valid(), json_of(column), None)
    if pa.types.is_timestamp(type_):
        return _in_utc(column)
    if pa.types.is_decimal(type_) or pa.types.is_null(type_) or pa.types.is_dictionary(type_):
        return column.cast(pa.string())
    return column


def _in_utc(column: pa.Array) -> pa.Array:
    if column.type.tz is None:
        return column
    return pc.local_timestamp(column.cast(pa.timestamp("us", "UTC")))


def hexed(column: pa.Array) -> pa.Array:
    """Bytes as text, two digits each."""
    filled = column.cast(pa.binary()).fill_null(b"")
    offsets = np.frombuffer(filled.buffers()[1], np.int32)
    offsets = offsets[filled.offset : filled.offset + len(filled) + 1].astype(np.int64)
    data = np.frombuffer(filled.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    pairs = np.ascontiguousarray(HEX[data]).reshape(-1)
    ends = ((offsets - offsets[0]) * 2).astype(np.int32)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(pairs)]
    found = pa.Array.from_buffers(pa.string(), len(filled), buffers)
    return pc.if_else(column.is_valid(), found, None)


def plain(value: Any) -> Any:
    """A value as the driver puts it into a statement of the user's own: moments in UTC, nested values as JSON."""
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(datetime.UTC).replace(tzinfo=None)
    if isinstance(value, list | dict):
        return json.dumps(value, default=str)
    return value


# ---------------------------------------------------------------------------------------------- INSERT


def insert_statements(
    name: str, columns: Columns, batch: pa.RecordBatch, bytes_max: int
) -> Iterator[str]:
    """Where the server takes no LOAD DATA LOCAL."""
    listed = ", ".join(quote(column) for column, _ in columns)
    begin = f"INSERT INTO {name} ({listed}) VALUES "
    limit = min(INSERT_BYTES_MAX, bytes_max // 2)
    waiting: list[str] = []
    size = 0
    for row in _rows_as_sql(columns, batch).to_pylist():
        if waiting and size + len(row) > limit:
            yield begin + ",".join(waiting)
            waiting, size = [], 0
        waiting.append(row)
        size += len(row) + 1
    if waiting:
        yield begin + ",".join(waiting)


def _rows_as_sql(columns: Columns, batch: pa.RecordBatch) -> pa.Array:
    shown = [
        _as_sql(column, sql_type)
        for column, (_, sql_type) in zip(batch.columns, columns, strict=True)
    ]
    joined = pc.binary_join_element_wise(
        *shown, pa.scalar(","), null_handling="replace", null_replacement="NULL"
    )
    return _around("(", joined, ")")


def _as_sql(column: pa.Array, sql_type: str) -> pa.Array:
    type_ = column.type
    shown = _loaded(column).cast(pa.string())
    if _is_bytes(type_):
        around = ("X'", "'")
        if parse_type(sql_type)[0] == "bit":
            around = ("CAST(CONV('", "', 16, 10) AS UNSIGNED)")
        return _around(around[0], shown, around[1])
    if pa.types.is_boolean(type_) or pa.types.is_integer(type_):
        return shown
    escaped = pc.replace_substring(pc.replace_substring(shown, "\\", "\\\\"), "'", "''")
    return _around("'", escaped, "'")


def _around(begin: str, shown: pa.Array, end: str) -> pa.Array:
    return pc.binary_join_element_wise(pa.scalar(begin), shown, pa.scalar(end), pa.scalar(""))


def _is_bytes(type_: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(type_)
        or pa.types.is_large_binary(type_)
        or pa.types.is_fixed_size_binary(type_)
    )
