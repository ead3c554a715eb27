"""Rows as JSON text, column by column: for systems that take JSON. Decimals stay exact numbers."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.model.schema import KIND_COLUMN


def rows_as_json(batch: pa.RecordBatch) -> pa.Array:
    """An object in JSON for each row."""
    fields = [(f.name, batch.column(at)) for at, f in enumerate(batch.schema)]
    return _objects([(name, column) for name, column in fields if name != KIND_COLUMN], len(batch))


def json_of(column: pa.Array) -> pa.Array:
    """Each value in JSON; null as `null`."""
    for fits, show in _SHOWN:
        if fits(column.type):
            return pc.fill_null(show(column), "null")
    return pc.fill_null(column.cast(pa.string()), "null")


def _objects(fields: list[tuple[str, pa.Array]], rows: int) -> pa.Array:
    parts: list[Any] = []
    for at, (name, column) in enumerate(fields):
        begin = "{" if at == 0 else ","
        parts += [pa.scalar(f"{begin}{json.dumps(name, ensure_ascii=False)}:"), json_of(column)]
    if not parts:
        return pa.repeat(pa.scalar("{}"), rows)
    return pc.binary_join_element_wise(*parts, pa.scalar("}"), pa.scalar(""))


def _joined(*parts: Any) -> pa.Array:
    return pc.binary_join_element_wise(*parts, pa.scalar(""))


def _quoted(texts: pa.Array) -> pa.Array:
    return _joined(pa.scalar('"'), texts, pa.scalar('"'))


def _strings(column: pa.Array) -> pa.Array:
    column = column.cast(pa.string())
    if not pc.any(pc.match_substring_regex(column, r'["\\\x00-\x1f]')).as_py():
        return _quoted(column)
    shown = [None if v is None else json.dumps(v, ensure_ascii=False) for v in column.to_pylist()]
    return pa.array(shown, pa.string())


def _floats(column: pa.Array) -> pa.Array:
    """JSON has no NaN and no infinity: null."""
    finite = pc.if_else(pc.is_finite(column), column, pa.scalar(None, column.type))
    return finite.cast(pa.string())


def _decimals(column: pa.Array) -> pa.Array:
    """Arrow writes some decimals with an exponent, which JSON knows as well."""
    return column.cast(pa.string())


def _timestamps(column: pa.Array) -> pa.Array:
    texts = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.string())
    return _quoted(pc.replace_substring(texts, " ", "T", max_replacements=1))


def _temporals(column: pa.Array) -> pa.Array:
    return _quoted(column.cast(pa.string()))


def _bytes(column: pa.Array) -> pa.Array:
    found = [None if v is None else base64.b64encode(v).decode() for v in column.to_pylist()]
    return _quoted(pa.array(found, pa.string()))


def _lists(column: pa.Array) -> pa.Array:
    return _nulls_as(column, _bracketed("[", column, json_of(column.flatten()), "]"))


def _maps(column: pa.Array) -> pa.Array:
    entry = pa.struct([column.type.key_field, column.type.item_field])
    listed = column.cast(pa.list_(entry))
    entries = listed.flatten()
    key = entries.field(0)
    named = json_of(key) if pa.types.is_string(key.type) else _names_of(key)
    pairs = _joined(named, pa.scalar(":"), json_of(entries.field(1)))
    return _nulls_as(column, _bracketed("{", listed, pairs, "}"))


def _names_of(keys: pa.Array) -> pa.Array:
    """Keys of JSON objects are strings."""
    shown = json_of(keys)
    plain = pc.if_else(pc.starts_with(shown, '"'), shown, _quoted(shown))
    return plain


def _structs(column: pa.Array) -> pa.Array:
    children = column.flatten()
    fields = [(f.name, child) for f, child in zip(column.type, children, strict=True)]
    return _nulls_as(column, _objects(fields, len(column)))


def _null_column(column: pa.Array) -> pa.Array:
    return pa.nulls(len(column), pa.string())


def _bracketed(begin: str, listed: pa.Array, items: pa.Array, end: str) -> pa.Array:
    sizes = pc.fill_null(pc.list_value_length(listed), 0).to_numpy(zero_copy_only=False)
    offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int32())
    inside = pc.binary_join(pa.ListArray.from_arrays(offsets, items), ",")
    return _joined(pa.scalar(begin), inside, pa.scalar(end))


def _nulls_as(column: pa.Array, shown: pa.Array) -> pa.Array:
    return pc.if_else(column.is_valid(), shown, pa.scalar(None, pa.string()))


_SHOWN: tuple[tuple[Any, Callable[[pa.Array], pa.Array]], ...] = (
    (pa.types.is_null, _null_column),
    (pa.types.is_string, _strings),
    (pa.types.is_large_string, _strings),
    (pa.types.is_floating, _floats),
    (pa.types.is_decimal, _decimals),
    (pa.types.is_timestamp, _timestamps),
    (pa.types.is_temporal, _temporals),
    (pa.types.is_binary, _bytes),
    (pa.types.is_map, _maps),
    (pa.types.is_list, _lists),
    (pa.types.is_struct, _structs),
)
