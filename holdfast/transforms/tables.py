"""Tables as they are behind a transform: Spark's schema in Arrow types, with what the table before it knew.

Spark 4 has every type of a job file (TIME too, which Arrow counts there in nanoseconds), so types come through
unchanged; what Spark has beyond them (intervals, variants) is refused with the column's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from holdfast.model.errors import ConfigError
from holdfast.model.releases import with_known_options
from holdfast.model.schema import KIND_COLUMN, Column, Table, format_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructField


def table_of_frame(frame: DataFrame, like: Table) -> Table:
    """The table a frame holds. Path, comments and defaults are those of `like`; so are the keys, while they last."""
    known = {column.name: column for column in like.columns}
    columns = [_column(f, known, like.path) for f in frame.schema.fields if f.name != KIND_COLUMN]
    names = [column.name for column in columns]
    _expect_distinct(names, like.path)
    return replace(
        like,
        columns=tuple(columns),
        primary_key=like.primary_key if set(like.primary_key) <= set(names) else (),
        unique_keys=tuple(key for key in like.unique_keys if set(key) <= set(names)),
    )


def with_renamed_columns(table: Table, names: Mapping[str, str]) -> Table:
    """The table with columns renamed, in its keys as well. `names`: old to new."""
    return replace(
        table,
        columns=tuple(replace(c, name=names.get(c.name, c.name)) for c in table.columns),
        primary_key=tuple(names.get(name, name) for name in table.primary_key),
        unique_keys=tuple(tuple(names.get(n, n) for n in key) for key in table.unique_keys),
    )


def arrow_type(found: pa.DataType) -> pa.DataType:
    """An Arrow type as Spark writes it, in the form that tables use."""
    if pa.types.is_time(found):
        return pa.time64("us")
    if pa.types.is_timestamp(found):
        return pa.timestamp("us", "UTC" if found.tz else None)
    if pa.types.is_list(found):
        return pa.list_(arrow_type(found.value_type))
    if pa.types.is_map(found):
        return pa.map_(arrow_type(found.key_type), arrow_type(found.item_type))
    if pa.types.is_struct(found):
        return pa.struct([pa.field(f.name, arrow_type(f.type), f.nullable) for f in found])
    return found


def spark_arrow_type(type_: pa.DataType) -> pa.DataType:
    """An Arrow type in the only form that Spark takes from a Python worker: times in nanoseconds."""
    if pa.types.is_time(type_):
        return pa.time64("ns")
    if pa.types.is_list(type_):
        return pa.list_(spark_arrow_type(type_.value_type))
    if pa.types.is_map(type_):
        return pa.map_(spark_arrow_type(type_.key_type), spark_arrow_type(type_.item_type))
    if pa.types.is_struct(type_):
        return pa.struct([f.with_type(spark_arrow_type(f.type)) for f in type_])
    return type_


def batch_for_spark(batch: pa.RecordBatch) -> pa.RecordBatch:
    """What a Python worker yields to Spark; the batch itself unless it holds times."""
    types = [spark_arrow_type(f.type) for f in batch.schema]
    if types == batch.schema.types:
        return batch
    fields = [f.with_type(type_) for f, type_ in zip(batch.schema, types, strict=True)]
    return batch.cast(pa.schema(fields))


def _column(found: StructField, known: Mapping[str, Column], path: str) -> Column:
    type_ = _type_of(found, path)
    before = known.get(found.name)
    if before is not None and before.type == type_:
        return replace(before, nullable=found.nullable)
    return Column(found.name, type_, found.nullable)


def _type_of(found: StructField, path: str) -> pa.DataType:
    from pyspark.errors import PySparkTypeError
    from pyspark.sql.pandas.types import to_arrow_type

    try:
        to_type = with_known_options(to_arrow_type, timezone="UTC")
        type_ = arrow_type(to_type(found.dataType))
        format_type(type_)
    except (PySparkTypeError, ValueError) as wrong:
        raise ConfigError(
            f"Cannot carry column '{found.name}' of table '{path}' on from a transform:"
            f" it is of Spark's type {found.dataType.simpleString()}, and no type of a job file"
            f" stands for that. Cast it to another type."
        ) from wrong
    return type_


def _expect_distinct(names: list[str], path: str) -> None:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(
            f"Cannot build table '{path}': a transform gives two columns the name '{twice}'."
            f" Give one of them another name."
        )
