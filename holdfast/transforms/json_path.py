"""JsonPath: values out of JSON as fields of their own, read by Spark's own JSON functions.

A path that leads nowhere, text that is no JSON and a value that does not fit its type are errors of that column;
`column_error_handle_way` says what happens then, and where it does not, `row_error_handle_way`. JSON's null is
null and no error. Paths know `.name`, `['name']`, `[n]` and `[*]`; on a row-typed field `$[n]` is its nth field.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from holdfast.model.errors import ConfigError
from holdfast.model.schema import Table, format_type, parse_type
from holdfast.spec.options import option
from holdfast.transforms.base import TableFrame
from holdfast.transforms.columns import column, expect_columns, put
from holdfast.transforms.table_rules import (
    RULES_DOC,
    Rule,
    RuleOptions,
    TableOptions,
    required,
    table_wise_kind,
)

if TYPE_CHECKING:
    from pyspark.sql import Column

_STEP = r"\.[^.\[\]'*?()\s]+|\[\d+\]|\[\*\]|\['[^']+'\]|\[\"[^\"]+\"\]"
_PATH = re.compile(rf"\$(?:{_STEP})*")
_NTH = re.compile(r"\$\[(\d+)\]")


@dataclass(frozen=True)
class JsonColumn:
    """One entry of `columns`: one value, or several out of the same field by lists of equal length."""

    src_field: str = option("The field that holds the JSON: string, bytes, array, map or row.")
    path: list[str] = option("Where the value is: $.a.b[0].")
    dest_field: list[str] = option("The name of the new field.")
    dest_type: list[str] = option("Its type.", default=["string"])
    column_error_handle_way: Literal["FAIL", "SKIP", "SKIP_ROW"] | None = option(
        "On an error: FAIL ends the job, SKIP makes the field null, SKIP_ROW drops the row.",
        default=None,
    )


@dataclass(frozen=True)
class Extraction:
    """What one rule says."""

    columns: list[JsonColumn] = option("The fields to make (required).", default=[])
    row_error_handle_way: Literal["FAIL", "SKIP"] = option(
        "For columns without column_error_handle_way: FAIL ends the job, SKIP drops the row.",
        default="FAIL",
    )


@dataclass(frozen=True)
class ExtractionOfTable(Extraction, RuleOptions):
    """An entry of `table_transform`."""


@dataclass(frozen=True)
class Options(Extraction, TableOptions):
    """The block."""

    table_transform: list[ExtractionOfTable] = option(RULES_DOC, default=[])


@dataclass(frozen=True)
class _Value:
    """One field to make."""

    source: str
    path: str
    name: str
    type: pa.DataType
    way: str
    """FAIL, SKIP or SKIP_ROW."""


@dataclass(frozen=True)
class _Read:
    """The field's value, and whether it was an error."""

    value: Column
    wrong: Column


def make_rule(extraction: Any) -> Rule:
    values = _values(extraction)

    def extract(found: TableFrame) -> TableFrame:
        expect_columns(found.table, [value.source for value in values], "JsonPath")
        reads = {value.name: (value, _read(value, found.table)) for value in values}
        rows = found.frame
        dropping = [read.wrong for value, read in reads.values() if value.way == "SKIP_ROW"]
        if dropping:
            rows = rows.where(~reduce(lambda one, other: one | other, dropping))
        made = {name: _settled(value, read) for name, (value, read) in reads.items()}
        return replace(found, frame=put(rows, found.table, made))

    return extract


def _values(extraction: Any) -> list[_Value]:
    values = []
    row_way = "SKIP_ROW" if extraction.row_error_handle_way == "SKIP" else "FAIL"
    for one in extraction.columns:
        for path, name, type_ in zip(one.path, one.dest_field, _types(one), strict=True):
            way = one.column_error_handle_way or row_way
            values.append(_Value(one.src_field, path, name, parse_type(type_), way))
    return values


def _types(one: JsonColumn) -> list[str]:
    return one.dest_type * len(one.path) if len(one.dest_type) == 1 else one.dest_type


def _read(value: _Value, table: Table) -> _Read:
    from pyspark.sql import functions as F

    text, path = _json_of(value, table)
    raw = F.get_json_object(text, path)
    made = _converted(raw, value.type)
    if "*" in path:
        is_null = F.lit(False)
    else:
        at_path = F.try_variant_get(F.try_parse_json(text), path, "variant")
        is_null = F.coalesce(F.is_variant_null(at_path), F.lit(False))
    wrong = text.isNotNull() & made.isNull() & (raw.isNotNull() | ~is_null)
    return _Read(made, wrong)


def _settled(value: _Value, read: _Read) -> Column:
    from pyspark.sql import functions as F

    if value.way != "FAIL":
        return read.value
    said = (
        f"Cannot read '{value.path}' of field '{value.source}' as {format_type(value.type)}: there is"
        f" no such value in a row, or it is of another type. Correct the path of transform JsonPath,"
        f" or set column_error_handle_way to SKIP or SKIP_ROW."
    )
    return F.when(read.wrong, F.raise_error(F.lit(said))).otherwise(read.value)


def _json_of(value: _Value, table: Table) -> tuple[Column, str]:
    """The JSON text to look in, and the path in it."""
    from pyspark.sql import functions as F

    type_ = next(c.type for c in table.columns if c.name == value.source)
    source = column(value.source)
    if pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_binary(type_):
        return source.cast("string"), value.path
    if pa.types.is_list(type_) or pa.types.is_map(type_):
        return F.to_json(source), value.path
    if pa.types.is_struct(type_):
        return F.to_json(source, {"ignoreNullFields": "false"}), _path_in_row(value, type_)
    raise ConfigError(
        f"Cannot apply transform JsonPath to table '{table.path}': field '{value.source}' is"
        f" {type_}, and only string, bytes, array, map and row hold JSON. Choose another field."
    )


def _path_in_row(value: _Value, type_: pa.StructType) -> str:
    nth = _NTH.match(value.path)
    if nth is None:
        return value.path
    if int(nth[1]) >= type_.num_fields:
        raise ConfigError(
            f"Cannot apply transform JsonPath: path '{value.path}' asks for field {nth[1]} of"
            f" '{value.source}', which has {type_.num_fields}, counted from 0. Correct the path."
        )
    return f"$['{type_.field(int(nth[1])).name}']{value.path[nth.end() :]}"


def _converted(raw: Column, type_: pa.DataType) -> Column:
    from pyspark.sql import functions as F
    from pyspark.sql.pandas.types import from_arrow_type

    spark_type: Any = from_arrow_type(type_, prefer_timestamp_ntz=True)
    if pa.types.is_string(type_):
        return raw
    if pa.types.is_nested(type_):
        return F.from_json(raw, spark_type)
    if pa.types.is_binary(type_):
        return F.try_to_binary(raw, F.lit("base64"))
    return raw.try_cast(spark_type)


def find_problems(extraction: Any) -> Sequence[str]:
    found = list(required(extraction, "columns"))
    for one in extraction.columns:
        found += _problems_of(one)
    return found


def _problems_of(one: JsonColumn) -> list[str]:
    found = []
    counts = {len(one.path), len(one.dest_field), len(_types(one))}
    if len(counts) > 1:
        found.append(
            f"columns: path, dest_field and dest_type of '{one.src_field}' have"
            f" {len(one.path)}, {len(one.dest_field)} and {len(one.dest_type)} entries;"
            f" they go together one by one"
        )
    for path in one.path:
        if not _PATH.fullmatch(path):
            found.append(
                f"columns: path '{path}' is not one that can be read; paths are made of"
                f" .name, ['name'], [n] and [*], after a $"
            )
    for type_ in one.dest_type:
        try:
            parse_type(type_)
        except ValueError as wrong:
            found.append(f"columns: dest_type {wrong}")
    return found


TRANSFORM = table_wise_kind(
    "JsonPath",
    Options,
    make_rule,
    find_problems,
    "Reads values out of JSON by paths into fields of their own.",
)
