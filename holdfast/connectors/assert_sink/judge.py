"""Which values of a column break a rule: whole columns at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.connectors.assert_sink.options import ValueRule
from holdfast.connectors.json_columns import column_of
from holdfast.connectors.text_rows import text_of
from holdfast.model.json import Json


class RuleMisfit(ValueError):
    """The rule cannot be asked of a field of this type."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that some values break."""

    rule: str
    found: str
    """One of them, as text."""
    count: int
    of_rows: int


def judge_values(column: pa.Array, rule: ValueRule) -> Violation | None:
    """The first part of the rule that some value breaks."""
    if rule.rule_type is not None:
        broken = _broken_by_type(column, rule.rule_type, rule.rule_value)
        if (violation := _first(column, broken, _shown(rule))) is not None:
            return violation
    if rule.equals_to is not None:
        return _first(column, _different(column, rule.equals_to), f"equals_to {rule.equals_to!r}")
    return None


def _shown(rule: ValueRule) -> str:
    return f"{rule.rule_type}" if rule.rule_value is None else f"{rule.rule_type} {rule.rule_value}"


def _first(column: pa.Array, broken: Any, rule: str) -> Violation | None:
    """`broken`: a boolean for each value; null counts as kept."""
    broken = pc.fill_null(broken, False)
    count = pc.sum(broken).as_py() or 0
    if not count:
        return None
    at = pc.index(broken, True).as_py()
    return Violation(rule, text_of(column.slice(at, 1))[0].as_py(), count, len(column))


def _broken_by_type(column: pa.Array, rule_type: str, value: Json) -> Any:
    if rule_type == "NOT_NULL":
        return column.is_null()
    if rule_type == "NULL":
        return column.is_valid()
    if rule_type == "MIN":
        return pc.less(*_comparable(column, value))
    if rule_type == "MAX":
        return pc.greater(*_comparable(column, value))
    limit = pa.scalar(int(float(str(value))), pa.int64())
    if rule_type == "MIN_LENGTH":
        return pc.less(pc.fill_null(_lengths(column), 0), limit)
    return pc.greater(_lengths(column), limit)


def _comparable(column: pa.Array, value: Json) -> tuple[pa.Array, pa.Scalar]:
    """Column and limit in one type: the column's where the limit fits it exactly, else double."""
    if not (pa.types.is_temporal(column.type) or _is_number(column.type)):
        raise RuleMisfit(f"MIN and MAX are for numbers, dates and times, not for {column.type}")
    try:
        if pa.types.is_floating(column.type) or not _is_exact(column.type, value):
            return column.cast(pa.float64()), pa.scalar(float(str(value)))
        return column, column_of([value], column.type)[0]
    except ValueError:
        if not _is_number(column.type):
            raise RuleMisfit(f"{value!r} cannot be compared with {column.type}") from None
    try:
        return column.cast(pa.float64(), safe=False), pa.scalar(float(str(value)))
    except ValueError:
        raise RuleMisfit(f"{value!r} is no number") from None


def _is_exact(type_: pa.DataType, value: Json) -> bool:
    """Whether a decimal column has digits enough behind the point for the limit."""
    if not pa.types.is_decimal(type_):
        return True
    digits = str(value).partition(".")[2].rstrip("0")
    return len(digits) <= type_.scale and "e" not in str(value).lower()


def _is_number(type_: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_)
    )


def _lengths(column: pa.Array) -> Any:
    """Letters of a string, bytes, items of an array or map, else letters of the value as text."""
    type_ = column.type
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return pc.utf8_length(column).cast(pa.int64())
    if pa.types.is_binary(type_):
        return pc.binary_length(column).cast(pa.int64())
    if pa.types.is_list(type_) or pa.types.is_map(type_):
        return pc.list_value_length(column).cast(pa.int64())
    lengths = pc.utf8_length(text_of(column)).cast(pa.int64())
    return pc.if_else(column.is_valid(), lengths, pa.scalar(None, pa.int64()))


def _different(column: pa.Array, wanted: Json) -> Any:
    """Null is different from every value."""
    try:
        expected = column_of([wanted], column.type)[0]
    except ValueError as error:
        raise RuleMisfit(str(error)) from None
    if pa.types.is_nested(column.type):
        return _different_nested(column, expected)
    return pc.fill_null(pc.not_equal(column, expected), True)


def _different_nested(column: pa.Array, expected: pa.Scalar) -> Any:
    """Arrow compares no nested values: one by one, and maps whatever the order of their keys."""
    wanted = _unordered(expected.as_py(), expected.type)
    return pa.array([_unordered(v, column.type) != wanted for v in column.to_pylist()], pa.bool_())


def _unordered(value: Any, type_: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_map(type_):
        return {key: _unordered(item, type_.item_type) for key, item in value}
    if pa.types.is_list(type_):
        return [_unordered(item, type_.value_type) for item in value]
    if pa.types.is_struct(type_):
        return {f.name: _unordered(value[f.name], f.type) for f in type_}
    return value
