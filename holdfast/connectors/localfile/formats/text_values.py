"""Values as text and back, column by column: for csv, text, XML, Excel and the scalars of JSON.

What is written is read back as the very same value: timestamps keep their microseconds, decimals their digits, bytes
are base64, nested values JSON. Nothing here runs row by row, but for decimals that Arrow shows with an exponent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.connectors.localfile.formats.base64_columns import decode_base64, encode_base64
from holdfast.connectors.localfile.formats.java_patterns import Pattern, parse_pattern

TEXT = pa.large_string()
_EXACT_DOUBLES = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


@dataclass(frozen=True, slots=True)
class TextFormats:
    """How dates and times are written; None for ISO with as many digits as are needed."""

    date: str | None = None
    datetime: str | None = None
    time: str | None = None

    def of(self, type_: pa.DataType) -> str | None:
        if pa.types.is_date(type_):
            return self.date
        return self.time if pa.types.is_time(type_) else self.datetime


# ------------------------------------------------------------------------------------------- to text


def to_text(column: pa.Array, formats: TextFormats) -> pa.Array:
    """Each value as text; null stays null."""
    type_ = column.type
    if _is_text(type_):
        return column.cast(TEXT)
    if pa.types.is_null(type_):
        return pa.nulls(len(column), TEXT)
    if pa.types.is_binary(type_) or pa.types.is_large_binary(type_):
        return encode_base64(column)
    if pa.types.is_floating(type_):
        return _doubles(column)
    if pa.types.is_decimal(type_):
        return _decimals(column)
    if pa.types.is_nested(type_):
        from holdfast.connectors.localfile.formats.json_text import to_json_text

        return pc.if_else(column.is_valid(), to_json_text(column), pa.scalar(None, TEXT))
    if pa.types.is_temporal(type_):
        return _moments(column, formats.of(type_))
    return column.cast(TEXT)


def _doubles(column: pa.Array) -> pa.Array:
    text = column.cast(TEXT)
    if not pc.any(pc.invert(pc.is_finite(column))).as_py():
        return text
    for short, java in _EXACT_DOUBLES.items():
        text = pc.if_else(pc.equal(text, short), pa.scalar(java, TEXT), text)
    return text


def _decimals(column: pa.Array) -> pa.Array:
    text = column.cast(TEXT)
    odd = pc.match_substring(text, "E")
    if not pc.any(odd).as_py():
        return text
    plain = pa.array([format(v, "f") for v in column.filter(odd).to_pylist()], TEXT)
    return pc.replace_with_mask(text, odd.fill_null(False), plain)


def _moments(column: pa.Array, java: str | None) -> pa.Array:
    if java is not None:
        return _by_pattern(column, parse_pattern(java))
    if pa.types.is_date(column.type):
        return column.cast(TEXT)
    text = column.cast(TEXT)
    zone = "Z" if pa.types.is_timestamp(column.type) and column.type.tz else ""
    if zone:
        text = pc.replace_substring(text, "Z", "")
    text = pc.ascii_rtrim(pc.ascii_rtrim(text, "0"), ".")
    return pc.binary_join_element_wise(text, _text(zone), _text("")) if zone else text


def _by_pattern(column: pa.Array, pattern: Pattern) -> pa.Array:
    moments = column
    if pa.types.is_time(column.type) or pa.types.is_timestamp(column.type):
        moments = column.cast(pa.int64()).cast(pa.timestamp("us"))
    whole = pc.floor_temporal(moments, unit="second").cast(pa.timestamp("s"))
    text = pc.strftime(whole, format=pattern.letters).cast(TEXT)
    if not pattern.digits:
        return text
    behind = pc.utf8_slice_codeunits(
        pc.utf8_slice_codeunits(moments.cast(TEXT), start=-6), start=0, stop=pattern.digits
    )
    return pc.binary_join_element_wise(text, behind, _text("."))


# ----------------------------------------------------------------------------------------- from text


def from_text(column: pa.Array, type_: pa.DataType, formats: TextFormats) -> pa.Array:
    """Text to values; an empty text is null, but for strings and bytes. Raises ValueError with what does not fit."""
    if _is_text(type_):
        return column.cast(type_)
    if pa.types.is_binary(type_):
        return decode_base64(column)
    trimmed = pc.utf8_trim_whitespace(column)
    trimmed = pc.if_else(pc.equal(trimmed, ""), pa.scalar(None, trimmed.type), trimmed)
    try:
        return _parsed(trimmed, type_, formats)
    except pa.ArrowException as error:
        raise ValueError(str(error).splitlines()[0]) from error


def _parsed(text: pa.Array, type_: pa.DataType, formats: TextFormats) -> pa.Array:
    if pa.types.is_null(type_):
        return pa.nulls(len(text))
    if pa.types.is_nested(type_):
        from holdfast.connectors.localfile.formats.json_text import from_json_text

        return from_json_text(text, type_)
    if pa.types.is_temporal(type_):
        return _parse_moments(text, type_, formats.of(type_))
    if pa.types.is_integer(type_):
        text = pc.replace_substring_regex(text, r"^\+", "")
    return text.cast(type_)


def _parse_moments(text: pa.Array, type_: pa.DataType, java: str | None) -> pa.Array:
    if java is not None:
        moments = _parse_pattern(text, parse_pattern(java))
        if pa.types.is_timestamp(type_) and type_.tz:
            return pc.assume_timezone(moments, type_.tz)
        return moments.cast(type_)
    if pa.types.is_time(type_):
        days = pc.binary_join_element_wise(
            _text("1970-01-01").cast(text.type), text, pa.scalar(" ", text.type)
        )
        return days.cast(pa.timestamp("us")).cast(pa.time64("us"))
    if pa.types.is_timestamp(type_) and type_.tz:
        zoned = pc.match_substring_regex(text, r"(Z|[+-]\d\d:?\d\d|[+-]\d\d)$")
        clock = pc.match_substring(text, ":")
        bare = pc.and_(pc.invert(zoned), clock)
        ended = pc.binary_join_element_wise(
            text, pa.scalar("Z", text.type), pa.scalar("", text.type)
        )
        return pc.if_else(bare, ended, text).cast(type_)
    return text.cast(type_)


def _parse_pattern(text: pa.Array, pattern: Pattern) -> pa.Array:
    if not pattern.digits:
        return pc.strptime(text.cast(pa.string()), format=pattern.letters, unit="us")
    head = pc.replace_substring_regex(text, r"\.\d+$", "")
    whole = pc.strptime(head.cast(pa.string()), format=pattern.letters, unit="us")
    parts = pc.extract_regex(text, r"\.(?P<digits>\d{1,9})$")
    digits = pc.utf8_slice_codeunits(
        pc.utf8_rpad(pc.fill_null(pc.struct_field(parts, "digits"), "0"), 6, "0"), start=0, stop=6
    )
    return pc.add(whole, digits.cast(pa.int64()).cast(pa.duration("us")))


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_))


def _text(value: str) -> Any:
    return pa.scalar(value, TEXT)
