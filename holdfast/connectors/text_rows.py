"""Rows as text for people: columns become strings column by column, and whole batches become one block of lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

NULL = "null"


def text_of(column: pa.Array) -> pa.Array:
    """Each value as it is shown; null as `null`. Nested values as `[a, b]`, `{k=v}`; bytes in hex."""
    for fits, show in _SHOWN:
        if fits(column.type):
            return pc.fill_null(show(column), NULL)
    return pc.fill_null(column.cast(pa.string()), NULL)


def rows_as_text(columns: Sequence[pa.Array], separator: str = ", ") -> pa.Array:
    """One string for each row."""
    shown = [text_of(column) for column in columns]
    return pc.binary_join_element_wise(*shown, pa.scalar(separator))


def block_of(lines: pa.Array) -> str:
    """The lines, each with its line end, as one text: straight from Arrow's buffer."""
    ended = pc.binary_join_element_wise(lines, pa.scalar("\n"), pa.scalar(""))
    if len(ended) == 0:
        return ""
    _, offsets, data = ended.buffers()
    ends = np.frombuffer(offsets, dtype=np.int32)
    begin, end = int(ends[ended.offset]), int(ends[ended.offset + len(ended)])
    block: bytes = data.slice(begin, end - begin).to_pybytes()
    return block.decode()


def _joined(*parts: pa.Array | pa.Scalar) -> pa.Array:
    return pc.binary_join_element_wise(*parts, pa.scalar(""))


def _bytes(column: pa.Array) -> pa.Array:
    """Hex digits by a table lookup over the whole buffer."""
    packed = column.take(pa.array(np.arange(len(column)))) if column.offset else column
    valid, offsets, data = packed.buffers()
    ends = np.frombuffer(offsets, dtype=np.int32)[: len(packed) + 1]
    given = np.frombuffer(data, dtype=np.uint8) if data is not None else np.empty(0, np.uint8)
    digits = _HEX[given].tobytes()
    moved = pa.py_buffer((ends * 2).astype(np.int32))
    return pa.Array.from_buffers(
        pa.string(), len(packed), [valid, moved, pa.py_buffer(digits)], packed.null_count
    )


_HEX = np.frombuffer(b"".join(b"%02x" % value for value in range(256)), dtype=np.uint16)


def _lists(column: pa.Array) -> pa.Array:
    shown = pa.ListArray.from_arrays(_offsets_of(column), text_of(column.flatten()))
    inside = pc.binary_join(shown, ", ")
    return _nulls_as(column, _joined(pa.scalar("["), inside, pa.scalar("]")))


def _maps(column: pa.Array) -> pa.Array:
    entry = pa.struct([column.type.key_field, column.type.item_field])
    listed = column.cast(pa.list_(entry))
    entries = listed.flatten()
    pairs = _joined(text_of(entries.field(0)), pa.scalar("="), text_of(entries.field(1)))
    shown = pa.ListArray.from_arrays(_offsets_of(listed), pairs)
    return _nulls_as(column, _joined(pa.scalar("{"), pc.binary_join(shown, ", "), pa.scalar("}")))


def _structs(column: pa.Array) -> pa.Array:
    if column.type.num_fields == 0:
        return _nulls_as(column, pa.repeat(pa.scalar("[]"), len(column)))
    inside = rows_as_text(column.flatten())
    return _nulls_as(column, _joined(pa.scalar("["), inside, pa.scalar("]")))


def _null_column(column: pa.Array) -> pa.Array:
    return pa.nulls(len(column), pa.string())


def _offsets_of(column: pa.Array) -> pa.Array:
    """Offsets from zero; a null list counts as an empty one."""
    sizes = pc.fill_null(pc.list_value_length(column), 0)
    ends = np.concatenate([[0], np.cumsum(sizes.to_numpy(zero_copy_only=False))])
    return pa.array(ends, pa.int32())


def _nulls_as(column: pa.Array, shown: pa.Array) -> pa.Array:
    return pc.if_else(column.is_valid(), shown, pa.scalar(None, pa.string()))


_SHOWN: tuple[tuple[Any, Callable[[pa.Array], pa.Array]], ...] = (
    (pa.types.is_null, _null_column),
    (pa.types.is_binary, _bytes),
    (pa.types.is_map, _maps),
    (pa.types.is_list, _lists),
    (pa.types.is_struct, _structs),
)
