"""Arrow columns as JSON text and back, without a row in Python's hands where Arrow can do it.

Writing joins the texts of columns; reading uses Arrow's own JSON reader for the types it knows. Blocks it will not
read (maps, numbers in quotes, doubled keys, dates inside lists) go through Python's `json`, exactly and slower.
Doubles that are no numbers are written as NaN, Infinity, -Infinity.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from holdfast.connectors.json_columns import batch_of
from holdfast.connectors.localfile.formats.text_values import (
    TEXT,
    TextFormats,
    from_text,
    to_text,
)
from holdfast.model.json import Json

ISO = TextFormats()
_NULL = "null"
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}
_AS_TEXT = (
    pa.types.is_date,
    pa.types.is_time,
    pa.types.is_timestamp,
    pa.types.is_binary,
    pa.types.is_large_binary,
)


# --------------------------------------------------------------------------------------------- writing


def json_rows(batch: pa.RecordBatch, formats: TextFormats = ISO) -> pa.Array:
    """Each row as one JSON object."""
    return _objects(batch.schema.names, batch.columns, batch.num_rows, formats)


def to_json_text(column: pa.Array, formats: TextFormats = ISO) -> pa.Array:
    """Each value as JSON; null as `null`."""
    return pc.fill_null(_values(column, formats), _NULL)


def quote_json(text: pa.Array) -> pa.Array:
    """Texts in quotes, with what must be escaped."""
    return join_texts('"', _escaped(text), '"')


def join_texts(*parts: Any) -> pa.Array:
    """Texts and columns of text one behind the other."""
    typed = [pa.scalar(part, TEXT) if isinstance(part, str) else part for part in parts]
    return pc.binary_join_element_wise(*typed, pa.scalar("", TEXT))


def holds_any(text: pa.Array, *signs: str) -> bool:
    """Whether any value may hold any of these: by one search through the bytes of all, which is fast."""
    data = lines_of(text)
    return any(sign.encode() in data for sign in signs)


def holds_control(text: pa.Array) -> bool:
    import numpy as np

    return bool(np.any(np.frombuffer(lines_of(text), dtype=np.uint8) < 0x20))


def _values(column: pa.Array, formats: TextFormats) -> pa.Array:
    type_ = column.type
    if pa.types.is_map(type_):
        return _maps(column, formats)
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return _lists(column, formats)
    if pa.types.is_struct(type_):
        names = [item.name for item in type_]
        rows = _objects(names, column.flatten(), len(column), formats)
        return pc.if_else(column.is_valid(), rows, pa.scalar(None, TEXT))
    text = to_text(column, formats)
    bare = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean)
    if any(fits(type_) for fits in bare) or pa.types.is_null(type_):
        return text
    return quote_json(text)


def _objects(
    names: list[str], columns: list[pa.Array], rows_count: int, formats: TextFormats
) -> pa.Array:
    if not names:
        return pa.array(["{}"] * rows_count, TEXT)
    parts: list[Any] = []
    for name, column in zip(names, columns, strict=True):
        sign = "," if parts else "{"
        parts += [f"{sign}{json.dumps(name, ensure_ascii=False)}:", to_json_text(column, formats)]
    return join_texts(*parts, "}")


def _lists(column: pa.Array, formats: TextFormats) -> pa.Array:
    own = _compact(column)
    return _joined(own, to_json_text(own.values, formats), "[", "]")


def _maps(column: pa.Array, formats: TextFormats) -> pa.Array:
    own = _compact(column)
    keys = quote_json(to_text(own.keys, formats))
    return _joined(own, join_texts(keys, ":", to_json_text(own.items, formats)), "{", "}")


def _joined(own: pa.Array, items: pa.Array, begin: str, end: str) -> pa.Array:
    offsets = own.offsets.cast(pa.int64())
    lists = pa.LargeListArray.from_arrays(offsets, items)
    whole = join_texts(begin, pc.binary_join(lists, pa.scalar(",", TEXT)), end)
    return pc.if_else(own.is_valid(), whole, pa.scalar(None, TEXT))


def _compact(column: pa.Array) -> pa.Array:
    """Without an offset, and with nothing behind nulls."""
    return column.take(pa.array(range(len(column)), pa.int64()))


def _escaped(text: pa.Array) -> pa.Array:
    if not holds_any(text, '"', "\\") and not holds_control(text):
        return text
    text = pc.replace_substring(pc.replace_substring(text, "\\", "\\\\"), '"', '\\"')
    if not holds_control(text):
        return text
    for code in range(0x20):
        sign = chr(code)
        text = pc.replace_substring(text, sign, _SHORT.get(sign, f"\\u{code:04x}"))
    return text


# --------------------------------------------------------------------------------------------- reading


def read_json_block(
    block: bytes, schema: pa.Schema, formats: TextFormats = ISO, first_line: int = 1
) -> pa.RecordBatch | pa.Table:
    """Rows of a block of JSON lines. Raises ValueError that says what does not fit, and in which line."""
    native = pa.schema([pa.field(f.name, _native_type(f.type) or pa.string()) for f in schema])
    if all(_native_type(f.type) or _is_plain_text(f.type) for f in schema):
        try:
            found = pj.read_json(
                pa.BufferReader(block),
                read_options=pj.ReadOptions(block_size=max(len(block) + 1, 1 << 16)),
                parse_options=pj.ParseOptions(
                    explicit_schema=native, unexpected_field_behavior="ignore"
                ),
            )
            columns = [_converted(found.column(f.name), f, formats) for f in schema]
            return pa.table(columns, schema=schema)
        except (pa.ArrowException, ValueError):
            pass
    return _read_slowly(block, schema, formats, first_line)


def from_json_text(text: pa.Array, type_: pa.DataType) -> pa.Array:
    """Nested values that stand as JSON in a column of text."""
    lines = join_texts('{"v":', pc.fill_null(text.cast(TEXT), _NULL), "}\n")
    found = read_json_block(lines_of(lines), pa.schema([pa.field("v", type_)]))
    return _one(found.column(0))


def lines_of(lines: pa.Array) -> bytes:
    """The bytes of all texts one behind the other, out of Arrow's buffer."""
    import numpy as np

    if len(lines) == 0:
        return b""
    _, ends, data = lines.buffers()
    offsets = np.frombuffer(ends, dtype=np.int64)
    begin, until = int(offsets[lines.offset]), int(offsets[lines.offset + len(lines)])
    if data is None or begin == until:
        return b""
    taken: bytes = data.slice(begin, until - begin).to_pybytes()
    return taken


def _native_type(type_: pa.DataType) -> pa.DataType | None:
    """The type under which Arrow reads it from JSON as it is, or None."""
    if pa.types.is_list(type_):
        item = _native_type(type_.value_type)
        return None if item is None else pa.list_(item)
    if pa.types.is_map(type_) or any(fits(type_) for fits in _AS_TEXT):
        return None
    if pa.types.is_struct(type_):
        fields = [(f.name, _native_type(f.type)) for f in type_]
        return None if any(t is None for _, t in fields) else pa.struct(fields)
    return type_


def _is_plain_text(type_: pa.DataType) -> bool:
    return any(fits(type_) for fits in _AS_TEXT)


def _converted(column: pa.ChunkedArray, field: pa.Field, formats: TextFormats) -> pa.Array:
    own = _one(column)
    return (
        from_text(own, field.type, formats) if _is_plain_text(field.type) else own.cast(field.type)
    )


def _one(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _read_slowly(
    block: bytes, schema: pa.Schema, formats: TextFormats, first_line: int
) -> pa.RecordBatch:
    """By Python's parser. Numbers with a point stay text until their type is known, so no digit is lost."""
    rows = {}
    for number, line in enumerate(block.split(b"\n"), first_line):
        if line.strip():
            rows[number] = _object_in(line, number)
    found = _batch_of_lines(rows, pa.schema([_slow_field(f, formats) for f in schema]))
    columns = [_from_slow(found.column(i), f, formats) for i, f in enumerate(schema)]
    return pa.record_batch(columns, schema=schema)


def _object_in(line: bytes, number: int) -> dict[str, Json]:
    try:
        found = json.loads(line, parse_float=str)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"line {number} is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise ValueError(f"line {number}: expected an object, found {line[:60]!r}")
    return found


def _batch_of_lines(rows: Mapping[int, Json], schema: pa.Schema) -> pa.RecordBatch:
    """All at once; when that fails, one by one, to tell in which line."""
    try:
        return batch_of(list(rows.values()), schema)
    except ValueError:
        for number, row in rows.items():
            try:
                batch_of([row], schema)
            except ValueError as error:
                raise ValueError(f"line {number}: {error}") from error
        raise


def _slow_field(field: pa.Field, formats: TextFormats) -> pa.Field:
    """Where a format is given for a moment, its text is parsed by it behind Python's parser."""
    own = pa.types.is_temporal(field.type) and formats.of(field.type) is not None
    return pa.field(field.name, pa.string() if own else field.type)


def _from_slow(column: pa.Array, field: pa.Field, formats: TextFormats) -> pa.Array:
    if column.type == field.type:
        return column
    return from_text(column, field.type, formats)
