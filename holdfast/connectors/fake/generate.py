"""Makes values: each is a function of (name of its column, number of its row), so any range can be made again.

Every column has a stream of random words of its own, and a row's words stand at a fixed place in it; PCG64 can jump
to any place. Words become values by vectorised arithmetic, into Arrow buffers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast.connectors.fake.options import TableOptions
from holdfast.connectors.fake.schema import Vector
from holdfast.model.schema import Column

Words = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int64]
_LETTERS = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", dtype=np.uint8)
_LETTER_OF_BYTE = _LETTERS[(np.arange(256) * 52) >> 8]
"""Rises with the byte: words that lie far enough apart give different first letters."""
_MICROS_OF_DAY = 86_400_000_000
_YEARS = (2000, 2029)


@dataclass(frozen=True, slots=True)
class Place:
    """Which values of which column: `count` of them from number `start` on."""

    name: str
    start: int
    count: int
    apart: int = 1
    """Each run of so many values (the keys of one map) is spread out evenly, so that no two are the same."""

    def inside(self, name: str, size: int = 1, *, apart: bool = False) -> Place:
        """The place of what is nested in these values, `size` in each."""
        spread = size if apart else 1
        return Place(f"{self.name}/{name}", self.start * size, self.count * size, spread)

    def words(self, per_value: int = 1) -> Words:
        """`per_value` random words for each value, one value's behind the other's."""
        if self.apart > 1:
            return self._words_apart(per_value)
        return _draw(self.name, self.start * per_value, self.count * per_value)

    def _words_apart(self, per_value: int) -> Words:
        runs = self.count // self.apart
        first = _draw(self.name + "#", self.start // self.apart, runs)
        steps = np.arange(self.apart, dtype=np.uint64) * np.uint64(2**64 // self.apart)
        found = _draw(self.name, self.start * per_value, self.count * per_value)
        found.reshape(self.count, per_value)[:, 0] = (first[:, None] + steps[None, :]).ravel()
        return found


def make_column(column: Column, options: TableOptions, place: Place, vector: Vector | None) -> Any:
    """The values of one column of a table."""
    if vector is not None:
        return _vectors(vector, options, place)
    if pa.types.is_string(column.type) and column.length and not options.string_template:
        return _text(place, column.length, pa.string())
    return _make(column.type, place, options)


def _make(type_: pa.DataType, place: Place, options: TableOptions) -> Any:
    for fits, maker in _MAKERS:
        if fits(type_):
            return maker(type_, place, options)
    raise AssertionError(f"no values are made of {type_}")


def _draw(name: str, start: int, count: int) -> Words:
    seed = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=16).digest(), "little")
    stream = np.random.PCG64(seed)
    stream.advance(start)
    found: Words = stream.random_raw(count)
    return found


def _scale(words: Words, span: int) -> Words:
    """Words as numbers below `span`; larger words give larger numbers."""
    if span == 1:
        return np.zeros_like(words)
    if span & (span - 1) == 0:
        return words >> np.uint64(65 - span.bit_length())
    if span <= 2**32:
        return ((words >> np.uint64(32)) * np.uint64(span)) >> np.uint64(32)
    return _high_product(words, span)


def _high_product(words: Words, span: int) -> Words:
    """The upper 64 bits of word times span, by halves."""
    half, mask = np.uint64(32), np.uint64(2**32 - 1)
    upper, lower = np.uint64(span >> 32), np.uint64(span & (2**32 - 1))
    high, low = words >> half, words & mask
    middle = high * lower + ((low * lower) >> half)
    crossed = low * upper + (middle & mask)
    product: Words = high * upper + (middle >> half) + (crossed >> half)
    return product


def _between(words: Words, least: int, most: int) -> Ints:
    span = most - least + 1
    scaled = words if span == 2**64 else _scale(words, span)
    return (scaled + np.uint64(least % 2**64)).view(np.int64)


def _fractions(words: Words) -> npt.NDArray[np.float64]:
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _pick(words: Words, choices: Sequence[int]) -> Ints:
    chosen: Ints = np.asarray(choices, dtype=np.int64)[_scale(words, len(choices)).view(np.int64)]
    return chosen


def _pick_of(template: Sequence[object], type_: pa.DataType, place: Place) -> Any:
    at = _scale(place.words(), len(template)).view(np.int64)
    return pa.array(template, type_).take(pa.array(at))


def _integers(type_: pa.DataType, place: Place, options: TableOptions) -> Any:
    name = {8: "tinyint", 16: "smallint", 32: "int", 64: "bigint"}[type_.bit_width]
    template = getattr(options, f"{name}_template")
    if template:
        return _pick_of(template, type_, place)
    least = getattr(options, f"{name}_min")
    most = getattr(options, f"{name}_max")
    return pa.array(_between(place.words(), least, most).astype(type_.to_pandas_dtype()), type_)


def _floats(type_: pa.DataType, place: Place, options: TableOptions) -> Any:
    name = "float" if type_.bit_width == 32 else "double"
    template = getattr(options, f"{name}_template")
    if template:
        return _pick_of(template, type_, place)
    least, most = getattr(options, f"{name}_min"), getattr(options, f"{name}_max")
    return _numbers(place, (least, most), type_)


def _numbers(place: Place, limits: tuple[float, float], type_: pa.DataType) -> Any:
    least, most = limits
    found = _fractions(place.words())
    with np.errstate(over="ignore"):
        made = found * most if least == 0 else found * most + (1.0 - found) * least
    return pa.array(made.astype(type_.to_pandas_dtype()), type_)


def _booleans(type_: pa.DataType, place: Place, options: TableOptions) -> Any:
    return pa.array(_scale(place.words(), 2).astype(bool), type_)


def _strings(type_: pa.DataType, place: Place, options: TableOptions) -> Any:
    if options.string_template:
        return _pick_of(options.string_template, type_, place)
    return _text(place, options.string_length, type_)


def _bytes(type_: pa.DataType, place: Place, options: TableOptions) -> Any:
    return _text(place, options.bytes_length, type_)


def _text(place: Place, length: int, type_: pa.DataType) -> Any:
    """Letters, straight into Arrow's buffers."""
    per_value = max(1, (length + 7) // 8)
    drawn = place.words(per_value).astype(">u8").view(np.uint8).reshape(place.count, per_value * 8)
    letters = _LETTER_OF_BYTE[drawn[:, :length]]
    return _of_bytes(letters, length, type_)


def _of_bytes(drawn: npt.NDArray[np.uint8], length: int, type_: pa.DataType) -> Any:
    """Equal long values, one in each line of `drawn`."""
    offsets = np.arange(len(drawn) + 1, dtype=np.int32) * np.int32(length)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(drawn))]
    return pa.Array.from_buffers(type_, len(drawn), buffers)


def _decimals(type_: pa.DataType, place: Place, options: TableOptions) -> Any:
    """Up to 18 digits evenly; more digits by a draw of as many bits as surely fit."""
    pairs = np.zeros((place.count, 2), dtype=np.uint64)
    if type_.precision <= 18:
        pairs[:, 0] = _scale(place.words(), 10**type_.precision)
    else:
        bits = (10**type_.precision).bit_length() - 1
        drawn = place.words(2).reshape(place.count, 2)
        pairs[:, 0] = drawn[:, 1]
        if bits < 64:
            pairs[:, 0] = drawn[:, 0] >> np.uint64(64 - bits)
        elif bits > 64:
            pairs[:, 1] = drawn[:, 0] >> np.uint64(128 - bits)
    return pa.Array.from_buffers(type_, place.count, [None, pa.py_buffer(pairs)])


def _has_templates(options: TableOptions) -> bool:
    names = ("date_year", "date_month", "date_day", "time_hour", "time_minute", "time_second")
    return any(getattr(options, f"{name}_template") for name in names)


def _first_and_last_day() -> tuple[int, int]:
    first, last = f"{_YEARS[0]}-01-01", f"{_YEARS[1]}-12-31"
    days = np.array([first, last], dtype="datetime64[D]").astype(np.int64)
    return int(days[0]), int(days[1])


def _days(place: Place, options: TableOptions) -> Ints:
    """Days since 1970: from the templates where there are some, else any day of thirty years."""
    given = (options.date_year_template, options.date_month_template, options.date_day_template)
    if not any(given):
        return _between(place.words(), *_first_and_last_day())
    years, months, days = given
    year = _pick(place.inside("year").words(), years or range(_YEARS[0], _YEARS[1] + 1))
    month = _pick(place.inside("month").words(), months or range(1, 13))
    day = _pick(place.inside("day").words(), days or range(1, 32))
    months_since = (year - 1970) * 12 + month - 1
    starts = months_since.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    ends = (months_since + 1).astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    found: Ints = np.minimum(starts + day - 1, ends - 1)
    return found


def _micros(place: Place, options: TableOptions) -> Ints:
    """Whole seconds of a day, in microseconds."""
    given = (options.time_hour_template, options.time_minute_template, options.time_second_template)
    if not any(given):
        return _between(place.words(), 0, 86_399) * 1_000_000
    hours, minutes, seconds = given
    hour = _pick(place.inside("hour").words(), hours or range(24))
    minute = _pick(place.inside("minute").words(), minutes or range(60))
    second = _pick(place.inside("second").words(), seconds or range(60))
    return (hour * 3600 + minute * 60 + second) * 1_000_000


def _dates(type_: pa.DataType, place: Place, options: TableOptions) -> Any:
    return pa.array(_days(place, options).astype(np.int32), pa.int32()).view(type_)


def _times(type_: pa.DataType, place: Place, options: TableOptions) -> Any:
    return pa.array(_micros(place, options)).view(type_)


def _timestamps(type_: pa.DataType, place: Place, options: TableOptions) -> Any:
    if not _has_templates(options):
        first, last = _first_and_last_day()
        seconds = _between(place.words(), first * 86_400, last * 86_400 + 86_399)
        return pa.array(seconds * 1_000_000).view(type_)
    days = _days(_apart_as(place, "date"), options)
    micros = _micros(_apart_as(place, "time"), options)
    return pa.array(days * _MICROS_OF_DAY + micros).view(type_)


def _apart_as(place: Place, name: str) -> Place:
    return Place(f"{place.name}/{name}", place.start, place.count, place.apart)


def _lists(type_: pa.DataType, place: Place, options: TableOptions) -> Any:
    size = options.array_size
    items = _make(type_.value_type, place.inside("item", size), options)
    return pa.ListArray.from_arrays(_even_offsets(place.count, size), items, type=type_)


def _maps(type_: pa.DataType, place: Place, options: TableOptions) -> Any:
    size = min(options.map_size, _different_values(type_.key_type, options))
    keys = _make(type_.key_type, place.inside("key", size, apart=True), options)
    items = _make(type_.item_type, place.inside("value", size), options)
    offsets = _even_offsets(place.count, size)
    return pa.MapArray.from_arrays(offsets, keys, items, type=type_)


def _different_values(type_: pa.DataType, options: TableOptions) -> int:
    """How many keys of a type can differ for sure: a map has no more entries."""
    if pa.types.is_boolean(type_):
        return 2
    if pa.types.is_null(type_):
        return 0
    if pa.types.is_integer(type_):
        name = {8: "tinyint", 16: "smallint", 32: "int", 64: "bigint"}[type_.bit_width]
        span = getattr(options, f"{name}_max") - getattr(options, f"{name}_min") + 1
        return len(getattr(options, f"{name}_template")) or int(span)
    if pa.types.is_string(type_):
        return len(options.string_template) or (52 if options.string_length else 1)
    if pa.types.is_binary(type_):
        return 52 if options.bytes_length else 1
    return 2**31


def _even_offsets(count: int, size: int) -> Any:
    return pa.array(np.arange(count + 1, dtype=np.int32) * np.int32(size))


def _structs(type_: pa.DataType, place: Place, options: TableOptions) -> Any:
    children = [_make(f.type, place.inside(f.name), options) for f in type_]
    if not children:
        return pa.array([{}] * place.count, type_)
    return pa.StructArray.from_arrays(children, fields=list(type_))


def _nulls(type_: pa.DataType, place: Place, options: TableOptions) -> Any:
    return pa.nulls(place.count)


def _vectors(vector: Vector, options: TableOptions, place: Place) -> Any:
    limits = (options.vector_float_min, options.vector_float_max)
    if vector.kind == "binary_vector":
        size = (vector.dimension or options.binary_vector_dimension) // 8
        per_value = max(1, (size + 7) // 8)
        drawn = place.words(per_value).view(np.uint8).reshape(place.count, per_value * 8)
        return _of_bytes(drawn[:, :size], size, pa.binary())
    size = vector.dimension or options.vector_dimension
    numbers = _numbers(place.inside("item", size), limits, pa.float32())
    offsets = _even_offsets(place.count, size)
    if vector.kind == "sparse_float_vector":
        index = pa.array(np.tile(np.arange(size, dtype=np.int32), place.count))
        return pa.MapArray.from_arrays(offsets, index, numbers)
    return pa.ListArray.from_arrays(offsets, numbers)


_MAKERS: tuple[tuple[Any, Callable[[pa.DataType, Place, TableOptions], Any]], ...] = (
    (pa.types.is_integer, _integers),
    (pa.types.is_string, _strings),
    (pa.types.is_floating, _floats),
    (pa.types.is_decimal, _decimals),
    (pa.types.is_timestamp, _timestamps),
    (pa.types.is_date, _dates),
    (pa.types.is_time, _times),
    (pa.types.is_boolean, _booleans),
    (pa.types.is_binary, _bytes),
    (pa.types.is_map, _maps),
    (pa.types.is_list, _lists),
    (pa.types.is_struct, _structs),
    (pa.types.is_null, _nulls),
)
