"""Where the values of a batch stand in the bytes of a wire, and the Arrow columns that are made from there.

A wire's rows are looked at column by column: for all rows at once the positions and sizes of one column's values are
known, and numpy gathers them. What Arrow cannot hold is an error that names the column.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from holdfast.model.errors import Terminal

PAD = b"\0" * 32
"""Stands behind the bytes of a batch, so that a number may be gathered at any null."""
HEX = np.array([f"{i:02x}".encode() for i in range(256)], dtype="S2").view(np.uint8).reshape(256, 2)
"""The two characters of each byte."""


class ValueUnreadable(Terminal):
    """A value has no place in its column's type."""

    code = "value-unreadable"


@dataclass(frozen=True)
class Values:
    """Where the values of one column stand in a buffer."""

    buffer: bytes
    at: np.ndarray[Any, Any]
    """Of each value's first byte (int64); anywhere inside the buffer for nulls."""
    size: np.ndarray[Any, Any]
    """In bytes, 0 for nulls."""
    null: np.ndarray[Any, Any] | None
    gathered: np.ndarray[Any, Any] | None = None
    """The values themselves, where all have one width and were gathered with their neighbours."""

    def gather(self, dtype: str, offset: int = 0) -> np.ndarray[Any, Any]:
        """One number from each value, `offset` bytes into it."""
        if self.gathered is not None and self.gathered.dtype.itemsize == np.dtype(dtype).itemsize:
            return self.gathered.view(dtype)
        found: np.ndarray[Any, Any] = view_at_any_byte(self.buffer, dtype)[self.at + offset]
        return found

    def validity(self) -> pa.Buffer | None:
        if self.null is None:
            return None
        return pa.py_buffer(np.packbits(~self.null, bitorder="little"))


Decoder = Callable[[Values], pa.Array]


def view_at_any_byte(buffer: bytes, dtype: str) -> np.ndarray[Any, Any]:
    """Numbers that begin at any byte: indexing it by byte positions gathers them."""
    size = np.dtype(dtype).itemsize
    return np.ndarray((len(buffer) - size + 1,), dtype, buffer, strides=(1,))


def named(decode: Decoder, values: Values, field: pa.Field) -> pa.Array:
    try:
        found = decode(values)
    except ValueError as error:
        raise ValueUnreadable(
            f"Cannot read column '{field.name}': {error}. Cast it to text in a query, or leave such rows out."
        ) from error
    return found if found.type == field.type else found.cast(field.type)


def texts(type_: pa.DataType, skip: int = 0) -> Decoder:
    """Text or bytes; `skip` leading bytes are no part of it (jsonb's version)."""

    def decode(values: Values) -> pa.Array:
        until = values.at + np.maximum(values.size, skip)
        return spans(type_, values.buffer, values.at + skip, until, values.validity())

    return decode


def spans(
    type_: pa.DataType,
    buffer: bytes,
    at: np.ndarray[Any, Any],
    until: np.ndarray[Any, Any],
    validity: pa.Buffer | None = None,
) -> pa.Array:
    """Pieces of a buffer, in its order: every other value of an array that has what lies between them as well."""
    count = len(at)
    offsets = np.empty(2 * count + 1, np.int32)
    offsets[0 : 2 * count : 2] = at
    offsets[1 : 2 * count : 2] = until
    offsets[2 * count] = len(buffer)
    around = pa.Array.from_buffers(
        type_, 2 * count, [None, pa.py_buffer(offsets), pa.py_buffer(buffer)]
    )
    # Not by `pa.array`: handed numbers of numpy, it would import pandas.
    places = pa.py_buffer(np.arange(0, 2 * count, 2, dtype=np.int32))
    return around.take(pa.Array.from_buffers(pa.int32(), count, [validity, places]))


def fixed(values: Values, type_: pa.DataType, found: np.ndarray[Any, Any]) -> pa.Array:
    buffers = [values.validity(), pa.py_buffer(np.ascontiguousarray(found))]
    return pa.Array.from_buffers(type_, len(values.at), buffers)


def refuse(values: Values, wrong: np.ndarray[Any, Any], said: str) -> None:
    if values.null is not None:
        wrong = wrong & ~values.null
    if wrong.any():
        raise ValueError(said)
