"""Arrow columns become PostgreSQL's binary COPY format: numpy writes what has a fixed width, Arrow joins the rest.

A row is a sequence of pieces. Neighbouring values of fixed width are fields of one numpy record; text, bytes and
values that may be null are Arrow binary arrays between such records; Arrow joins the pieces of all rows at once.
An encoder is chosen by the target column's type; where one is missing the caller falls back to COPY as CSV.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.connectors.jdbc.dialects.copy_read import EPOCH_DAYS, EPOCH_US

HEADER = b"PGCOPY\n\xff\r\n\0" + b"\0" * 8
TRAILER = b"\xff\xff"
ROWS_MAX = 16_384
"""Of one piece of work: joined rows stay far under the 2 GB of one Arrow buffer."""


@dataclass(frozen=True)
class Fixed:
    """Values of one width each; whatever stands at a null does not count."""

    values: np.ndarray[Any, Any]


@dataclass(frozen=True)
class Varied:
    """Binary values; nulls are nulls. `prefix` stands before each (jsonb's version)."""

    values: pa.Array
    prefix: bytes = b""


@dataclass(frozen=True)
class Whole:
    """Columns that are coded already, lengths included."""

    values: pa.Array
    count: int


Encoder = Callable[[pa.Array], Fixed | Varied]
RunEncoder = Callable[[pa.Array], Whole]


def encode_batch(batch: pa.RecordBatch, encoders: Sequence[Encoder | RunEncoder]) -> pa.Buffer:
    """The rows of a batch of at most `ROWS_MAX`, without header and trailer."""
    row = _Row(batch.num_rows)
    found = [encode(column) for column, encode in zip(batch.columns, encoders, strict=True)]
    row.add_number(">i2", sum(one.count if isinstance(one, Whole) else 1 for one in found))
    for column, one in zip(batch.columns, found, strict=True):
        if isinstance(one, Whole):
            row.add_binary(one.values)
        else:
            _add_value(row, column, one)
    return row.joined()


def _add_value(row: _Row, column: pa.Array, found: Fixed | Varied) -> None:
    null = _nulls(column)
    if isinstance(found, Varied):
        sizes = _sizes(found.values) + len(found.prefix)
        row.add_number(">i4", sizes if null is None else np.where(null, -1, sizes))
        if found.prefix:
            row.add_binary(_repeated(found.prefix, null, len(column)))
        row.add_binary(_without_nulls(found.values))
        return
    width = found.values.dtype.itemsize
    if null is None:
        row.add_number(">i4", width)
        row.add_values(found.values)
        return
    row.add_number(">i4", np.where(null, -1, width))
    row.add_binary(_sparse(found.values[~null], ~null))


@dataclass
class _Row:
    """The pieces of all rows, in the order they stand in."""

    count: int
    pieces: list[pa.Array] = field(default_factory=list)
    fields: list[tuple[str, Any, Any]] = field(default_factory=list)

    def add_number(self, dtype: str, values: Any) -> None:
        self.fields.append((f"f{len(self.fields)}", np.dtype(dtype), values))

    def add_values(self, values: np.ndarray[Any, Any]) -> None:
        self.fields.append((f"f{len(self.fields)}", values.dtype, values))

    def add_binary(self, values: pa.Array) -> None:
        self._flush()
        self.pieces.append(values)

    def joined(self) -> pa.Buffer:
        self._flush()
        if len(self.pieces) == 1:
            found = self.pieces[0]
        else:
            found = pc.binary_join_element_wise(*self.pieces, pa.scalar(b"", pa.binary()))
        return _data_of(found)

    def _flush(self) -> None:
        if not self.fields:
            return
        records = np.empty(self.count, np.dtype([(name, dtype) for name, dtype, _ in self.fields]))
        for name, _, values in self.fields:
            records[name] = values
        self.fields = []
        self.pieces.append(_binary(records, np.arange(self.count + 1) * records.dtype.itemsize))


def _binary(data: np.ndarray[Any, Any] | pa.Buffer, offsets: np.ndarray[Any, Any]) -> pa.Array:
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def _data_of(values: pa.Array) -> pa.Buffer:
    """The bytes of all values, one behind the other."""
    offsets = _offsets(values)
    data = values.buffers()[2]
    if data is None:
        return pa.py_buffer(b"")
    return data.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))


def _offsets(values: pa.Array) -> np.ndarray[Any, Any]:
    if len(values) == 0:
        return np.zeros(1, np.int32)
    raw = np.frombuffer(values.buffers()[1], np.int32)
    return raw[values.offset : values.offset + len(values) + 1]


def _sizes(values: pa.Array) -> np.ndarray[Any, Any]:
    return np.diff(_offsets(values)).astype(np.int64)


def _sparse(values: np.ndarray[Any, Any], there: np.ndarray[Any, Any]) -> pa.Array:
    """Values of fixed width where they are there, empty elsewhere."""
    ends = np.cumsum(there) * values.dtype.itemsize
    return _binary(np.ascontiguousarray(values).view(np.uint8), np.concatenate([[0], ends]))


def _repeated(prefix: bytes, null: np.ndarray[Any, Any] | None, count: int) -> pa.Array:
    there = np.ones(count, bool) if null is None else ~null
    return _sparse(np.full(int(there.sum()), prefix, f"S{len(prefix)}"), there)


def _without_nulls(values: pa.Array) -> pa.Array:
    return values if values.null_count == 0 else values.fill_null(b"")


def _nulls(column: pa.Array) -> np.ndarray[Any, Any] | None:
    if column.null_count == 0:
        return None
    # Not by way of `to_numpy`, which would import pandas.
    return _data_of_fixed(column.is_null().cast(pa.uint8()), np.dtype("u1")).view(bool)


# ------------------------------------------------------------------------------------------- encoders


def numbers(type_: pa.DataType, dtype: str, plus: int = 0) -> Encoder:
    """Integers, floats, dates and times: cast to `type_`, read as numbers, shifted to PostgreSQL's epoch."""

    def encode(column: pa.Array) -> Fixed:
        native = np.dtype(dtype).newbyteorder("=")
        found = _data_of_fixed(column.cast(type_), native)
        return Fixed((found - native.type(plus) if plus else found).astype(dtype))

    return encode


def run_of(count: int) -> RunEncoder:
    return lambda column: Whole(column, count)


def booleans(column: pa.Array) -> Fixed:
    return Fixed(_data_of_fixed(column.cast(pa.uint8()), np.dtype("u1")))


dates = numbers(pa.date32(), ">i4", EPOCH_DAYS)
times = numbers(pa.time64("us"), ">i8")
timestamps = numbers(pa.timestamp("us"), ">i8", EPOCH_US)
timestamps_tz = numbers(pa.timestamp("us", "UTC"), ">i8", EPOCH_US)


def texts(column: pa.Array) -> Varied:
    return Varied(column.cast(pa.string()).cast(pa.binary()))


def bytes_(column: pa.Array) -> Varied:
    return Varied(column.cast(pa.binary()))


def jsonb(column: pa.Array) -> Varied:
    return Varied(column.cast(pa.string()).cast(pa.binary()), b"\x01")


def uuids(column: pa.Array) -> Fixed:
    """From text: 32 hexadecimal digits, with dashes or braces or without."""
    text = column.cast(pa.string()).fill_null("0" * 32)
    plain = pc.utf8_lower(pc.replace_substring_regex(text, "[-{}]", ""))
    if not pc.all(pc.match_substring_regex(plain, "^[0-9a-f]{32}$")).as_py() and len(plain):
        wrong = plain.filter(pc.invert(pc.match_substring_regex(plain, "^[0-9a-f]{32}$")))
        raise ValueError(f"{wrong[0].as_py()[:60]!r} is no uuid")
    digits = np.frombuffer(_data_of(plain), np.uint8).reshape(len(plain), 32)
    nibbles = np.where(digits >= ord("a"), digits - (ord("a") - 10), digits - ord("0"))
    packed = (nibbles[:, 0::2] << 4 | nibbles[:, 1::2]).astype(np.uint8)
    return Fixed(np.ascontiguousarray(packed).view("V16").reshape(len(plain)))


def decimals(column: pa.Array) -> Fixed:
    """Exact decimals; leading and trailing zero digits are the server's to strip."""
    if not pa.types.is_decimal128(column.type):
        column = column.cast(
            pa.decimal128(38, 0) if pa.types.is_integer(column.type) else _decimal128(column.type)
        )
    precision, scale = column.type.precision, column.type.scale
    below = -(-scale // 4)
    above = max(-(-(precision - scale) // 4), 1)
    words = _data_of_fixed(column, np.dtype("V16")).view(np.uint64).reshape(len(column), 2)
    negative = words[:, 1] >> np.uint64(63) == 1
    low = np.where(negative, ~words[:, 0] + np.uint64(1), words[:, 0])
    high = np.where(negative, ~words[:, 1] + (words[:, 0] == 0), words[:, 1])
    groups = _split(high, low, above + below, 4 * below - scale)
    layout = [
        ("n", ">u2"),
        ("weight", ">i2"),
        ("sign", ">u2"),
        ("scale", ">u2"),
        ("groups", ">u2", (above + below,)),
    ]
    found = np.empty(len(column), np.dtype(layout))
    found["n"], found["weight"], found["scale"] = above + below, above - 1, scale
    found["sign"] = np.where(negative, 0x4000, 0)
    for index, group in enumerate(groups):
        found["groups"][:, above + below - 1 - index] = group
    return Fixed(found)


def _decimal128(type_: pa.DataType) -> pa.DataType:
    return pa.decimal128(min(type_.precision, 38), type_.scale)


def _split(
    high: np.ndarray[Any, Any], low: np.ndarray[Any, Any], groups: int, spare: int
) -> list[np.ndarray[Any, Any]]:
    """Base 10,000 digits, the lowest first; the lowest lacks `spare` zeros, which it is given."""
    limbs = [
        low & np.uint64(0xFFFFFFFF),
        low >> np.uint64(32),
        high & np.uint64(0xFFFFFFFF),
        high >> np.uint64(32),
    ]
    if not high.any():
        limbs = limbs[:2]
    found: list[np.ndarray[Any, Any]] = []
    divisor = 10 ** (8 - spare)
    while len(found) < groups:
        limbs, eight = _divided(limbs, divisor)
        if divisor != 10**8:
            eight = eight * np.uint64(10**spare)
        found += [eight % np.uint64(10_000), eight // np.uint64(10_000)]
        divisor = 10**8
    return found[:groups]


def _divided(
    limbs: list[np.ndarray[Any, Any]], divisor: int
) -> tuple[list[np.ndarray[Any, Any]], np.ndarray[Any, Any]]:
    """Long division of 32-bit limbs, lowest first, by a divisor under 2 ** 32."""
    by = np.uint64(divisor)
    rest = np.zeros(len(limbs[0]), np.uint64)
    quotients = []
    for limb in reversed(limbs):
        current = (rest << np.uint64(32)) | limb
        quotient = current // by
        rest = current - quotient * by
        quotients.append(quotient)
    return quotients[::-1], rest


def lists(item: Encoder, item_oid: int) -> Encoder:
    """Arrays of one dimension."""

    def encode(column: pa.Array) -> Varied:
        offsets = np.asarray(column.offsets).astype(np.int64)
        first, last = int(offsets[0]), int(offsets[-1])
        flat = column.values.slice(first, last - first)
        items = _Row(len(flat))
        _add_value(items, flat, item(flat))
        items._flush()
        joined = pc.binary_join_element_wise(*items.pieces, pa.scalar(b"", pa.binary()))
        bytes_at = _offsets(joined) if len(flat) else np.zeros(1, np.int32)
        whole = _binary(_data_of(joined), (bytes_at - bytes_at[0])[offsets - first])
        headers = _list_headers(np.diff(offsets), int(flat.null_count > 0), item_oid)
        found = pc.binary_join_element_wise(headers, whole, pa.scalar(b"", pa.binary()))
        null = _nulls(column)
        return Varied(found if null is None else pc.if_else(pa.array(null), None, found))

    return encode


def _list_headers(counts: np.ndarray[Any, Any], has_null: int, item_oid: int) -> pa.Array:
    """Twelve bytes for an empty array, twenty for others."""
    layout = [(name, ">i4") for name in ("dimensions", "has_null", "oid", "count", "bound")]
    records = np.empty(len(counts), np.dtype(layout))
    records["dimensions"], records["has_null"], records["oid"] = counts > 0, has_null, item_oid
    records["count"], records["bound"] = counts, 1
    data = records.view(np.uint8).reshape(len(counts), 20)
    kept = np.ones((len(counts), 20), bool)
    kept[counts == 0, 12:] = False
    ends = np.cumsum(np.where(counts > 0, 20, 12))
    return _binary(data[kept], np.concatenate([[0], ends]))


def _data_of_fixed(column: pa.Array, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    if len(column) == 0:
        return np.empty(0, dtype)
    raw = np.frombuffer(column.buffers()[1], dtype, column.offset + len(column))
    return raw[column.offset :]
