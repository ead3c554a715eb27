"""MySQL's binary rows become Arrow columns: by numpy over whole stretches, never row by row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.connectors.jdbc.dialects.mysql_wire import FIELD_TYPE, Stretch, WireColumn
from holdfast.connectors.jdbc.dialects.values import (
    Decoder,
    Values,
    fixed,
    named,
    refuse,
    texts,
    view_at_any_byte,
)

_NUMBERS = {
    FIELD_TYPE.TINY: "i1",
    FIELD_TYPE.SHORT: "<i2",
    FIELD_TYPE.YEAR: "<i2",
    FIELD_TYPE.INT24: "<i4",
    FIELD_TYPE.LONG: "<i4",
    FIELD_TYPE.LONGLONG: "<i8",
    FIELD_TYPE.FLOAT: "<f4",
    FIELD_TYPE.DOUBLE: "<f8",
}
_MOMENTS = (FIELD_TYPE.DATE, FIELD_TYPE.NEWDATE, FIELD_TYPE.DATETIME, FIELD_TYPE.TIMESTAMP)
_DECIMALS = (FIELD_TYPE.DECIMAL, FIELD_TYPE.NEWDECIMAL)
_DIGITS_OF_INT64 = 18
_DAY_US = 86_400_000_000
_ZERO_DATE = (
    "it holds a date with a zero, as 0000-00-00. Set zeroDateTimeBehavior=convertToNull in the url"
)

Numbers = np.ndarray[Any, Any]


def decode_stretch(
    stretch: Stretch, wires: Sequence[WireColumn], decoders: Sequence[Decoder], schema: pa.Schema
) -> pa.RecordBatch:
    """Rows as a batch. In each row: a zero, a bit for each null, and the values that are not null."""
    buffer = stretch.buffer
    starts = np.array(stretch.starts, np.int64)
    bytes_ = view_at_any_byte(buffer, "u1")
    at = starts + 1 + (len(wires) + 9) // 8
    columns = []
    for number, (wire, decode, field) in enumerate(zip(wires, decoders, schema, strict=True)):
        null = None
        if wire.nullable:
            place = number + 2
            null = (bytes_[starts + (1 + place // 8)] & (1 << place % 8)) != 0
            null = null if null.any() else None
        values, at = _values(buffer, at, null, wire)
        columns.append(named(decode, values, field))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _values(
    buffer: bytes, at: Numbers, null: Numbers | None, wire: WireColumn
) -> tuple[Values, Numbers]:
    """Where a column's values stand, and where the next column's begin."""
    dtype = _NUMBERS.get(wire.code)
    if dtype is not None:
        width = np.int64(np.dtype(dtype).itemsize)
        size = np.broadcast_to(width, at.shape) if null is None else np.where(null, 0, width)
        return Values(buffer, at, size, null), at + size
    bytes_ = view_at_any_byte(buffer, "u1")
    size = bytes_[at].astype(np.int64)
    header: Numbers | int = 1
    if (size > 250).any():
        size, header = _long_sizes(buffer, at, size)
    if null is not None:
        size, header = np.where(null, 0, size), np.where(null, 0, header)
    begin = at + header
    return Values(buffer, begin, size, null), begin + size


def _long_sizes(buffer: bytes, at: Numbers, first: Numbers) -> tuple[Numbers, Numbers]:
    """A size over 250 stands in the 2, 3 or 8 bytes behind a mark."""
    four = view_at_any_byte(buffer, "<u4")[at + 1].astype(np.int64)
    sizes = np.select(
        [first == 252, first == 253, first == 254], [four & 0xFFFF, four & 0xFFFFFF, four], first
    )
    headers = np.select([first == 252, first == 253, first == 254], [3, 4, 9], 1)
    return sizes, headers


# ------------------------------------------------------------------------------------------- decoders


def decoder_of(wire: WireColumn, type_: pa.DataType, *, zero_as_null: bool) -> Decoder:
    """From what the wire carries to the type that was told for the column."""
    dtype = _NUMBERS.get(wire.code)
    if dtype is not None:
        return _number_decoder(dtype.replace("i", "u") if wire.unsigned else dtype, type_)
    if wire.code in _MOMENTS:
        return _moments(type_, zero_as_null=zero_as_null)
    if wire.code == FIELD_TYPE.TIME:
        return _times
    if wire.code in _DECIMALS and pa.types.is_decimal(type_):
        return _decimals(type_)
    if wire.code == FIELD_TYPE.BIT and pa.types.is_boolean(type_):
        return _booleans
    return texts(type_)


def _number_decoder(dtype: str, type_: pa.DataType) -> Decoder:
    if pa.types.is_boolean(type_):
        return _booleans
    if pa.types.is_decimal(type_):
        return _wide_numbers(dtype, type_)
    native = np.dtype(dtype).newbyteorder("=")
    natural = pa.from_numpy_dtype(native)

    def decode(values: Values) -> pa.Array:
        return fixed(values, natural, values.gather(dtype).astype(native))

    return decode


def _wide_numbers(dtype: str, type_: pa.DataType) -> Decoder:
    """Unsigned numbers of 64 bits: Arrow's decimals hold them all."""

    def decode(values: Values) -> pa.Array:
        words = np.zeros((len(values.at), 2), np.uint64)
        words[:, 0] = values.gather(dtype)
        return fixed(values, type_, words)

    return decode


def _booleans(values: Values) -> pa.Array:
    found = values.gather("u1")
    refuse(
        values,
        found > 1,
        "it is a tinyint(1) that holds other numbers than 0 and 1. Set int_type_narrowing = false",
    )
    return fixed(values, pa.bool_(), np.packbits(found != 0, bitorder="little"))


def _decimals(type_: pa.DataType) -> Decoder:
    """Text with a fixed count of digits behind the point: without the point it is the unscaled number."""
    as_text = texts(pa.string())
    if type_.precision > _DIGITS_OF_INT64:
        return lambda values: as_text(values).cast(type_)

    def decode(values: Values) -> pa.Array:
        shown = as_text(values)
        if type_.scale:
            shown = pc.replace_substring(shown, ".", "", max_replacements=1)
        unscaled = shown.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        words = np.empty((len(unscaled), 2), np.int64)
        words[:, 0] = unscaled
        words[:, 1] = unscaled >> 63
        return fixed(values, type_, words)

    return decode


def _moments(type_: pa.DataType, *, zero_as_null: bool) -> Decoder:
    """Dates and moments come as 0, 4, 7 or 11 bytes, as much as is not zero."""
    as_date = pa.types.is_date(type_)

    def decode(values: Values) -> pa.Array:
        there = values.size > 0
        month = values.gather("u1", 2) * there
        day = values.gather("u1", 3) * there
        known = _without_zero_dates(values, (month == 0) | (day == 0), zero_as_null)
        days = _days(values.gather("<u2").astype(np.int64), month.astype(np.int64), day)
        if as_date:
            return fixed(known, type_, days.astype(np.int32))
        found = days * _DAY_US + _clock(values, 4)
        return fixed(known, type_, found)

    return decode


def _without_zero_dates(values: Values, zero: Numbers, zero_as_null: bool) -> Values:
    if not zero_as_null:
        refuse(values, zero, _ZERO_DATE)
        return values
    null = zero if values.null is None else zero | values.null
    return Values(values.buffer, values.at, values.size, null)


def _days(year: Numbers, month: Numbers, day: Numbers) -> Numbers:
    """Days since 1970: years begin in March here, so that the day that may be missing is the last."""
    year = year - (month <= 2)
    era = year // 400
    year_of_era = year - era * 400
    from_march = (month + 9) % 12
    day_of_year = (153 * from_march + 2) // 5 + day - 1
    day_of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year
    found: Numbers = era * 146_097 + day_of_era - 719_468
    return found


def _clock(values: Values, offset: int) -> Numbers:
    """Microseconds of the hours, minutes, seconds and fraction that stand `offset` bytes into each value."""
    parts = [values.gather("u1", offset + n).astype(np.int64) for n in range(3)]
    seconds = (parts[0] * 60 + parts[1]) * 60 + parts[2]
    found = np.where(values.size > offset, seconds * 1_000_000, 0)
    exact = values.size > offset + 3
    if exact.any():
        found += np.where(exact, values.gather("<u4", offset + 3), 0)
    return found


def _times(values: Values) -> pa.Array:
    """A sign, days, and a time of day. Arrow's times lie within one day."""
    there = values.size > 0
    beyond = (values.gather("u1") != 0) | (values.gather("<u4", 1) != 0)
    refuse(values, beyond & there, "it holds a time outside of 00:00:00 to 23:59:59")
    return fixed(values, pa.time64("us"), _clock(values, 5))
