"""Types between a JDBC driver, Spark and a table: Spark's dialects decide, and what they widen is narrowed again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from holdfast.connectors.jdbc.through_spark.database import CatalogColumn
from holdfast.model.errors import Terminal
from holdfast.model.releases import with_known_options
from holdfast.model.schema import Column, Table, format_type

if TYPE_CHECKING:
    from pyspark.sql.types import StructField, StructType

_NARROW = {"TINYINT": pa.int16(), "SMALLINT": pa.int16()}
"""Of integers that Spark reads as INTEGER. Some databases' TINYINT has no sign."""
KEY_LENGTH = 255


def table_of_schema(
    schema: StructType, path: str, columns: Sequence[CatalogColumn], keys: Sequence[str]
) -> Table:
    """The table that a frame of Spark's JDBC reader holds."""
    required = {column.name for column in columns if not column.nullable}
    return Table(
        path,
        tuple(
            Column(f.name, _type_of(f, path), nullable=f.name not in required)
            for f in schema.fields
        ),
        tuple(keys),
    )


def _type_of(found: StructField, path: str) -> pa.DataType:
    from pyspark.errors import PySparkTypeError
    from pyspark.sql.pandas.types import to_arrow_type

    if found.metadata.get("logical_time_type"):
        return pa.time64("us")
    try:
        type_ = with_known_options(to_arrow_type, timezone="UTC")(found.dataType)
        if pa.types.is_timestamp(type_):
            type_ = pa.timestamp("us", "UTC" if type_.tz else None)
        format_type(type_)
    except (PySparkTypeError, ValueError) as wrong:
        raise Terminal(
            f"Cannot read column '{found.name}' of '{path}': it is of type"
            f" {found.metadata.get('jdbcClientType', found.dataType.simpleString())}, and no type of a job"
            " file stands for that. Leave it out by a query, or convert it there."
        ) from wrong
    if type_ == pa.int32():
        return _NARROW.get(str(found.metadata.get("jdbcClientType")), type_)
    return type_


def can_cut(type_: pa.DataType) -> bool:
    """Whether values can be shared out evenly."""
    return bool(
        pa.types.is_integer(type_)
        or pa.types.is_floating(type_)
        or pa.types.is_decimal(type_)
        or pa.types.is_date(type_)
        or (pa.types.is_timestamp(type_) and type_.tz is None)
    )


def column_sql(spark: Any, url: str, column: Column, *, is_key: bool) -> str:
    """A column's type in CREATE TABLE, by Spark's dialect for the url."""
    if pa.types.is_time(column.type):
        return "TIME"
    if pa.types.is_string(column.type) and (is_key or column.length):
        return f"VARCHAR({column.length or KEY_LENGTH})"
    found = _by_spark(spark, url, column.type)
    if found is None or (pa.types.is_string(column.type) and found == "TEXT"):
        if pa.types.is_string(column.type):
            return "VARCHAR(4000)"
        raise Terminal(
            f"Cannot create column '{column.name}': no type of the database is known for"
            f" {format_type(column.type)}. Create the table yourself, or convert the column by a transform."
        )
    return found


def _by_spark(spark: Any, url: str, type_: pa.DataType) -> str | None:
    from pyspark.sql.pandas.types import from_arrow_type

    jvm = spark._jvm
    wanted = from_arrow_type(type_, prefer_timestamp_ntz=True)
    java_type = spark._jsparkSession.parseDataType(wanted.json())
    writer = jvm.org.apache.spark.sql.execution.datasources.jdbc.JdbcUtils
    dialect = jvm.org.apache.spark.sql.jdbc.JdbcDialects.get(url)
    for found in (dialect.getJDBCType(java_type), writer.getCommonJDBCType(java_type)):
        if found.isDefined():
            return str(found.get().databaseTypeDefinition())
    return None
