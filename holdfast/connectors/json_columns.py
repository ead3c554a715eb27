"""JSON values become Arrow columns of declared types: for rows that stand in job files and in answers of servers.

Column by column, not row by row. Text is accepted for every type (dates in ISO form, bytes in base64), a row is
given as an object or as a list in the order of its fields.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from holdfast.model.json import Json


def column_of(values: Sequence[Json], type_: pa.DataType) -> pa.Array:
    """An Arrow array of `type_`. Raises ValueError that names a value which does not fit."""
    try:
        return _builder_of(type_)(values, type_)
    except (pa.ArrowException, TypeError, OverflowError, binascii.Error) as error:
        raise ValueError(_misfit(values, type_)) from error


def batch_of(rows: Sequence[Json], schema: pa.Schema) -> pa.RecordBatch:
    """Rows, each an object or a list in the order of the schema, as one batch. A missing field is null."""
    return pa.record_batch(
        [_named(column_of, part_of(rows, at, f.name), f) for at, f in enumerate(schema)],
        schema=schema,
    )


def part_of(rows: Sequence[Json], at: int, name: str) -> list[Json]:
    """The values of one field of many rows."""
    return [_field_of(row, at, name) for row in rows]


def _named(build: Callable[..., pa.Array], values: list[Json], field: pa.Field) -> pa.Array:
    try:
        return build(values, field.type)
    except ValueError as error:
        raise ValueError(f"field '{field.name}': {error}") from error


def _field_of(row: Json, at: int, name: str) -> Json:
    if isinstance(row, dict):
        return row.get(name)
    if isinstance(row, list):
        return row[at] if at < len(row) else None
    if row is None:
        return None
    raise ValueError(f"expected a row as an object or a list, found {_shown(row)}")


def _builder_of(type_: pa.DataType) -> Callable[[Sequence[Json], pa.DataType], pa.Array]:
    for fits, build in _BUILDERS:
        if fits(type_):
            return build
    return _scalars


def _scalars(values: Sequence[Json], type_: pa.DataType) -> pa.Array:
    """Numbers, dates, times: as they are, or by a cast from text, which knows ISO forms."""
    import pyarrow.compute as pc

    texts = [v if v is None or isinstance(v, str) else _text(v) for v in values]
    trimmed = pc.utf8_trim_whitespace(pa.array(texts, pa.string()))
    if pa.types.is_time(type_):
        return _times(trimmed, type_)
    return trimmed.cast(type_)


def _times(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    """Arrow casts no text to a time: it is the part of a timestamp behind some day."""
    import pyarrow.compute as pc

    days = pc.binary_join_element_wise(pa.scalar("1970-01-01"), texts, pa.scalar(" "))
    return days.cast(pa.timestamp("us")).cast(pa.time64("us")).cast(type_)


def _integers(values: Sequence[Json], type_: pa.DataType) -> pa.Array:
    if all(v is None or type(v) is int for v in values):
        return pa.array(values, type_)
    return _scalars(values, type_)


def _floats(values: Sequence[Json], type_: pa.DataType) -> pa.Array:
    if all(v is None or type(v) in (int, float) for v in values):
        return pa.array([None if v is None else float(v) for v in values], type_)  # type: ignore[arg-type]
    return _scalars(values, type_)


def _booleans(values: Sequence[Json], type_: pa.DataType) -> pa.Array:
    if all(v is None or type(v) is bool for v in values):
        return pa.array(values, type_)
    return _scalars(values, type_)


def _decimals(values: Sequence[Json], type_: pa.DataType) -> pa.Array:
    """By the exact cast where it fits; rounded where a number has more digits behind the point."""
    from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation

    step = Decimal(1).scaleb(-type_.scale)
    exact = Context(prec=76)
    try:
        found = [
            None if v is None else Decimal(_text(v).strip()).quantize(step, ROUND_HALF_UP, exact)
            for v in values
        ]
    except InvalidOperation as error:
        raise TypeError("not a decimal") from error
    return pa.array(found, type_)


def _strings(values: Sequence[Json], type_: pa.DataType) -> pa.Array:
    return pa.array([v if v is None or isinstance(v, str) else _text(v) for v in values], type_)


def _bytes(values: Sequence[Json], type_: pa.DataType) -> pa.Array:
    found = [None if v is None else base64.b64decode(_text(v), validate=True) for v in values]
    return pa.array(found, type_)


def _lists(values: Sequence[Json], type_: pa.DataType) -> pa.Array:
    lists = [_parsed(v, list) for v in values]
    items = [item for found in lists if found is not None for item in found]
    sizes = [None if found is None else len(found) for found in lists]
    return pa.ListArray.from_arrays(_offsets(sizes), column_of(items, type_.value_type), type=type_)


def _maps(values: Sequence[Json], type_: pa.DataType) -> pa.Array:
    maps = [_parsed(v, dict) for v in values]
    keys: list[Json] = [key for found in maps if found is not None for key in found]
    items = [item for found in maps if found is not None for item in found.values()]
    sizes = [None if found is None else len(found) for found in maps]
    return pa.MapArray.from_arrays(
        _offsets(sizes),
        column_of(keys, type_.key_type),
        column_of(items, type_.item_type),
        type=type_,
    )


def _rows(values: Sequence[Json], type_: pa.DataType) -> pa.Array:
    rows = [v if isinstance(v, list) else _parsed(v, dict) for v in values]
    children = [_named(column_of, part_of(rows, at, f.name), f) for at, f in enumerate(type_)]
    absent = pa.array([row is None for row in rows], pa.bool_())
    if not children:
        return pa.array([None if row is None else {} for row in rows], type_)
    return pa.StructArray.from_arrays(children, fields=list(type_), mask=absent)


def _nulls(values: Sequence[Json], type_: pa.DataType) -> pa.Array:
    if any(v is not None for v in values):
        raise TypeError("not null")
    return pa.nulls(len(values), type_)


_BUILDERS: tuple[tuple[Any, Callable[[Sequence[Json], pa.DataType], pa.Array]], ...] = (
    (pa.types.is_string, _strings),
    (pa.types.is_large_string, _strings),
    (pa.types.is_integer, _integers),
    (pa.types.is_floating, _floats),
    (pa.types.is_boolean, _booleans),
    (pa.types.is_decimal, _decimals),
    (pa.types.is_binary, _bytes),
    (pa.types.is_map, _maps),
    (pa.types.is_list, _lists),
    (pa.types.is_struct, _rows),
    (pa.types.is_null, _nulls),
)


def _offsets(sizes: Sequence[int | None]) -> pa.Array:
    """List offsets; a null offset says that the list which begins there is null."""
    at = 0
    offsets: list[int | None] = []
    for size in sizes:
        offsets.append(None if size is None else at)
        at += size or 0
    return pa.array([*offsets, at], pa.int32())


def _parsed(value: Json, wanted: type[Any]) -> Any:
    """A nested value may stand as text: JSON, or a map the way HOCON writes it (`{ k = v, 12:01:26 = v0 }`)."""
    if value is None or isinstance(value, wanted):
        return value
    if isinstance(value, str):
        try:
            found = json.loads(value)
        except json.JSONDecodeError:
            found = _loose_map(value) if wanted is dict else None
        if isinstance(found, wanted):
            return found
    raise TypeError(f"not a {wanted.__name__}")


def _loose_map(text: str) -> dict[str, str] | None:
    inside = text.strip()
    if not (inside.startswith("{") and inside.endswith("}")):
        return None
    pairs = [part.partition("=") for part in inside[1:-1].split(",") if part.strip()]
    if any(not sign for _, sign, _ in pairs):
        return None
    return {key.strip(): item.strip() for key, _, item in pairs}


def _text(value: Json) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _misfit(values: Sequence[Json], type_: pa.DataType) -> str:
    """Which value it was: found by trying each, now that it is known that one does not fit."""
    from holdfast.model.schema import format_type

    build = _builder_of(type_)
    for value in values:
        try:
            build([value], type_)
        except (pa.ArrowException, TypeError, ValueError, OverflowError, binascii.Error):
            return f"expected {format_type(type_)}, found {_shown(value)}"
    return f"expected {format_type(type_)}"


def _shown(value: Json) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."
