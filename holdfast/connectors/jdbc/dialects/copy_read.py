"""PostgreSQL's binary COPY format becomes Arrow columns: by numpy over whole batches, never row by row.

A batch is the messages of many rows, one behind the other. For each column in turn the positions of its values are
known for all rows at once: they follow from the lengths of the columns before it. Numerics become exact 128-bit
decimals; what Arrow cannot hold (infinite dates, NaN as numeric) is an error that names the column.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np
import pyarrow as pa

from holdfast.connectors.base import Run, run_field
from holdfast.connectors.jdbc.dialects.values import (
    HEX,
    Decoder,
    Values,
    fixed,
    named,
    refuse,
    spans,
    view_at_any_byte,
)

HEADER_SIZE = 19
EPOCH_DAYS = 10_957
EPOCH_US = 946_684_800_000_000
_LOW32 = np.uint64(0xFFFFFFFF)


@dataclass(frozen=True)
class ColumnCode:
    """How the values of one column are coded."""

    decode: Decoder
    width: int | None = None
    """Of each value in bytes, where all have the same; nulls have none."""


def decode_rows(
    buffer: bytes, starts: np.ndarray[Any, Any], codes: Sequence[ColumnCode], schema: pa.Schema
) -> pa.RecordBatch:
    """Rows that begin at `starts`, as a batch. `PAD` stands behind them."""
    columns = [
        named(code.decode, values, field)
        for code, field, values in zip(codes, schema, _columns(buffer, starts, codes), strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def split_rows(
    buffer: bytes,
    starts: np.ndarray[Any, Any],
    codes: Sequence[ColumnCode],
    wanted: pa.Schema,
    places: Sequence[int],
    runs: Sequence[Run],
) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """The wanted columns, at these places, decoded; and runs of columns as they are, lengths included."""
    last = max([*places, *(run.first + run.count - 1 for run in runs)])
    columns = list(_columns(buffer, starts, codes[: last + 1]))
    decoded = [
        named(codes[place].decode, columns[place], field)
        for place, field in zip(places, wanted, strict=True)
    ]
    whole = [_run(buffer, columns[run.first], columns[run.first + run.count - 1]) for run in runs]
    return (
        pa.RecordBatch.from_arrays(decoded, schema=wanted),
        pa.RecordBatch.from_arrays(whole, schema=pa.schema([run_field(run) for run in runs])),
    )


def _run(buffer: bytes, first: Values, last: Values) -> pa.Array:
    return spans(pa.binary(), buffer, first.at - 4, last.at + last.size)


def _columns(
    buffer: bytes, starts: np.ndarray[Any, Any], codes: Sequence[ColumnCode]
) -> Iterator[Values]:
    """Where the values of each column stand, from the first on."""
    at = starts + 2
    place = 0
    while place < len(codes):
        widths = [
            code.width
            for code in takewhile(lambda code: code.width is not None, codes[place:])
            if code.width is not None
        ]
        found = _fixed_columns(buffer, at, widths) if len(widths) > 1 else None
        if found is None:
            values, at = _next_column(buffer, at)
            found = [values]
        else:
            at = found[-1].at + widths[-1]
        yield from found
        place += len(found)


def _fixed_columns(
    buffer: bytes, at: np.ndarray[Any, Any], widths: Sequence[int]
) -> list[Values] | None:
    """Neighbours of fixed width, gathered at once; None where some value is null."""
    layout = np.dtype(
        [
            part
            for place, width in enumerate(widths)
            for part in ((f"size{place}", "=i4"), (f"value{place}", f"V{width}"))
        ]
    )
    # As bytes without a structure: with one, numpy copies field by field.
    records = view_at_any_byte(buffer, f"V{layout.itemsize}")[at].view(layout)
    # Compared as they came: to turn all of them round takes longer.
    sizes = [np.array(width, ">i4").view("=i4") for width in widths]
    if any((records[f"size{place}"] != size).any() for place, size in enumerate(sizes)):
        return None
    found = []
    for place, width in enumerate(widths):
        at = at + 4
        size = np.broadcast_to(np.int64(width), at.shape)
        found.append(Values(buffer, at, size, None, records[f"value{place}"]))
        at = at + width
    return found


def _next_column(buffer: bytes, at: np.ndarray[Any, Any]) -> tuple[Values, np.ndarray[Any, Any]]:
    length = view_at_any_byte(buffer, ">i4")[at].astype(np.int64)
    return _values(buffer, at + 4, length)


def _values(
    buffer: bytes, at: np.ndarray[Any, Any], length: np.ndarray[Any, Any]
) -> tuple[Values, np.ndarray[Any, Any]]:
    null = length < 0
    if not null.any():
        return Values(buffer, at, length, None), at + length
    size = np.where(null, 0, length)
    return Values(buffer, at, size, null), at + size


# ------------------------------------------------------------------------------------------- decoders


def numbers(dtype: str, type_: pa.DataType) -> Decoder:
    """Numbers of fixed width."""
    native = np.dtype(dtype).newbyteorder("=")

    def decode(values: Values) -> pa.Array:
        found = values.gather(dtype).astype(native)
        return fixed(values, type_, found)

    return decode


def booleans(values: Values) -> pa.Array:
    found = np.packbits(values.gather("u1") != 0, bitorder="little")
    return fixed(values, pa.bool_(), found)


def dates(values: Values) -> pa.Array:
    found = values.gather(">i4").astype(np.int64)
    refuse(values, np.abs(found + 0.5) > (1 << 31) - 1, "it holds an infinite date")
    return fixed(values, pa.date32(), (found + EPOCH_DAYS).astype(np.int32))


def timestamps(type_: pa.DataType) -> Decoder:
    def decode(values: Values) -> pa.Array:
        found = values.gather(">i8").astype(np.int64)
        largest = np.iinfo(np.int64).max
        wrong = (found > largest - EPOCH_US) | (found == np.iinfo(np.int64).min)
        refuse(values, wrong, "it holds an infinite timestamp, or one behind the year 294246")
        with np.errstate(over="ignore"):
            return fixed(values, type_, found + EPOCH_US)

    return decode


def uuids(values: Values) -> pa.Array:
    """As text, in the usual form of 36 characters."""
    raw = view_at_any_byte(values.buffer, "u1")[values.at[:, None] + np.arange(16)]
    hexed = HEX[raw].reshape(len(raw), 32)
    found = np.full((len(raw), 36), ord("-"), np.uint8)
    for low, high, shift in ((0, 8, 0), (8, 12, 1), (12, 16, 2), (16, 20, 3), (20, 32, 4)):
        found[:, low + shift : high + shift] = hexed[:, low:high]
    offsets = np.arange(0, 36 * (len(raw) + 1), 36, dtype=np.int32)
    buffers = [values.validity(), pa.py_buffer(offsets), pa.py_buffer(found)]
    return pa.Array.from_buffers(pa.string(), len(raw), buffers)


def decimals(precision: int, scale: int) -> Decoder:
    """Numerics as exact decimals."""
    type_ = pa.decimal128(precision, scale)
    below = -(-scale // 4)
    above = -(-(precision - scale) // 4)
    spare = 4 * below - scale

    def decode(values: Values) -> pa.Array:
        head = values.gather(">u8")
        count = head >> np.uint64(48)
        weight = (head >> np.uint64(32)).astype(np.int16).astype(np.int64)
        sign = (head >> np.uint64(16)) & np.uint64(0xFFFF)
        refuse(values, sign >= 0xC000, "it holds NaN or an infinite number")
        refuse(
            values,
            ((count > 0) & (weight >= above)) | ((head & np.uint64(0xFFFF)) > scale),
            f"it holds a number that does not fit decimal({precision},{scale})",
        )
        known = count if values.null is None else np.where(values.null, np.uint64(0), count)
        negative = sign == 0x4000
        short = _join_short(values, known, weight, scale)
        if short is not None:
            return fixed(values, type_, _signed(short, negative))
        digits = _Digits(values, weight, known)
        high, low = _join_digits(digits, above + below, below, spare)
        return fixed(values, type_, _negated(high, low, negative))

    return decode


_SHORT_MAX = 4
"""Digits that lie in eight bytes."""
_POWERS = np.uint64(10) ** np.arange(19, dtype=np.uint64)


def _join_short(
    values: Values, count: np.ndarray[Any, Any], weight: np.ndarray[Any, Any], scale: int
) -> np.ndarray[Any, Any] | None:
    """The unscaled values where all have few digits, and so fit 63 bits; None where some do not."""
    if len(count) == 0 or int(count.max()) > _SHORT_MAX:
        return None
    shift = 4 * (weight - (_SHORT_MAX - 1)) + scale
    shift[count == 0] = 0
    if int(shift.max()) > 2 or int(shift.min()) < -18:
        return None
    unused = (np.uint64(_SHORT_MAX) - count) << np.uint64(4)
    # Twice half the way: numpy does not shift by all 64 bits.
    half = unused >> np.uint64(1)
    there = (values.gather(">u8", 8) >> half >> half) << half << half
    found = there >> np.uint64(48)
    for bits in (32, 16, 0):
        found = found * np.uint64(10_000) + ((there >> np.uint64(bits)) & np.uint64(0xFFFF))
    if int(shift.max()) > 0:
        found *= _POWERS[np.maximum(shift, 0)]
    if int(shift.min()) < 0:
        found //= _POWERS[np.maximum(-shift, 0)]
    joined: np.ndarray[Any, Any] = found.view(np.int64)
    return joined


def _signed(unscaled: np.ndarray[Any, Any], negative: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """As Arrow keeps decimals: low word first, the high one nothing but the sign."""
    words = np.empty((len(unscaled), 2), np.int64)
    words[:, 0] = np.where(negative, -unscaled, unscaled)
    words[:, 1] = words[:, 0] >> 63
    return words


class _Digits:
    """The base 10,000 digits of numerics."""

    def __init__(
        self, values: Values, weight: np.ndarray[Any, Any], count: np.ndarray[Any, Any]
    ) -> None:
        self._view = view_at_any_byte(values.buffer, ">u2")
        self._first = values.at + 8
        self._weight = weight
        self._count = count
        self.size = len(weight)

    def of(self, exponent: int) -> np.ndarray[Any, Any]:
        """The digit that stands for 10,000 ** exponent, 0 where there is none."""
        index = self._weight - exponent
        there = index.view(np.uint64) < self._count
        if not there.any():
            return np.zeros(self.size, np.uint64)
        at = self._first + (index << 1)
        if there.all():
            whole: np.ndarray[Any, Any] = self._view[at].astype(np.uint64)
            return whole
        some: np.ndarray[Any, Any] = self._view[np.where(there, at, 0)].astype(np.uint64) * there
        return some


def _join_digits(
    digits: _Digits, groups: int, below: int, spare: int
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The unscaled value as two 64-bit words. The lowest group gives up its `spare` zeros."""
    parts = [_limb(digits, low, min(low + 4, groups), below) for low in range(0, groups, 4)]
    if below and spare:
        lowest = digits.of(-below)
        cut = np.uint64(10**spare)
        parts[0] = (parts[0] - lowest) // cut + lowest // cut
    high = np.zeros(digits.size, np.uint64)
    low_word = parts[-1]
    for index in range(len(parts) - 2, -1, -1):
        factor = 10 ** (16 - spare) if index == 0 else 10**16
        high, low_word = _times_plus(high, low_word, factor, parts[index])
    return high, low_word


def _limb(digits: _Digits, low: int, high: int, below: int) -> np.ndarray[Any, Any]:
    """Up to four groups as one number under 10 ** 16."""
    found = digits.of(high - 1 - below)
    for index in range(high - 2, low - 1, -1):
        found = found * np.uint64(10_000) + digits.of(index - below)
    return found


def _times_plus(
    high: np.ndarray[Any, Any], low: np.ndarray[Any, Any], factor: int, plus: np.ndarray[Any, Any]
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """(high, low) * factor + plus, in 128 bits."""
    f0, f1 = np.uint64(factor & 0xFFFFFFFF), np.uint64(factor >> 32)
    l0, l1 = low & _LOW32, low >> np.uint64(32)
    p00, p01, p10 = l0 * f0, l0 * f1, l1 * f0
    middle = (p00 >> np.uint64(32)) + (p01 & _LOW32) + (p10 & _LOW32)
    product = (p00 & _LOW32) | (middle << np.uint64(32))
    carried = l1 * f1 + (p01 >> np.uint64(32)) + (p10 >> np.uint64(32)) + (middle >> np.uint64(32))
    found = product + plus
    return high * np.uint64(factor) + carried + (found < plus), found


def _negated(
    high: np.ndarray[Any, Any], low: np.ndarray[Any, Any], negative: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """Two's complement words, low first, as Arrow keeps decimals."""
    words = np.empty((len(low), 2), np.uint64)
    words[:, 0] = np.where(negative, ~low + np.uint64(1), low)
    words[:, 1] = np.where(negative, ~high + (low == 0), high)
    return words


def lists(item: Decoder, item_type: pa.DataType) -> Decoder:
    """Arrays of one dimension."""

    def decode(values: Values) -> pa.Array:
        dimensions = values.gather(">i4").astype(np.int64)
        if values.null is not None:
            dimensions[values.null] = 0
        refuse(values, dimensions > 1, "it holds an array of several dimensions")
        counts = np.where(dimensions == 1, _gather_safely(values, 12), 0)
        offsets = np.concatenate([[0], np.cumsum(counts)])
        flat = item(_items(values, counts, offsets))
        buffers = [values.validity(), pa.py_buffer(offsets.astype(np.int32))]
        type_ = pa.list_(item_type)
        return pa.Array.from_buffers(type_, len(counts), buffers, children=[flat.cast(item_type)])

    return decode


def _gather_safely(values: Values, offset: int) -> np.ndarray[Any, Any]:
    """As `gather`, where a value may be shorter than that and its answer does not matter."""
    at = np.minimum(values.at + offset, len(values.buffer) - 4)
    found: np.ndarray[Any, Any] = view_at_any_byte(values.buffer, ">i4")[at].astype(np.int64)
    return found


def _items(values: Values, counts: np.ndarray[Any, Any], offsets: np.ndarray[Any, Any]) -> Values:
    """Where the elements of all arrays stand: all first ones, then all second ones…"""
    total = int(offsets[-1])
    at = np.zeros(total, np.int64)
    length = np.zeros(total, np.int64)
    sizes = view_at_any_byte(values.buffer, ">i4")
    rows = np.flatnonzero(counts)
    cursor = values.at[rows] + 20
    step = 0
    while len(rows):
        found = sizes[cursor].astype(np.int64)
        at[offsets[rows] + step] = cursor + 4
        length[offsets[rows] + step] = found
        cursor = cursor + 4 + np.maximum(found, 0)
        step += 1
        left = counts[rows] > step
        rows, cursor = rows[left], cursor[left]
    return _values(values.buffer, at, length)[0]
