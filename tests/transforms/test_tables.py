"""Tables behind a transform: every type of a job file comes through Spark unchanged."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from holdfast.model.errors import ConfigError
from holdfast.model.schema import Column, Table
from holdfast.transforms.tables import table_of_frame
from tests.transforms.applying import Given, run_one

pytestmark = pytest.mark.spark


def naive(*parts: int) -> dt.datetime:
    """A timestamp without zone."""
    year, month, day, *clock = parts
    hour, minute, second, micros = (*clock, 0, 0, 0, 0)[:4]
    return dt.datetime(year, month, day, hour, minute, second, micros, dt.UTC).replace(tzinfo=None)


EVERY_TYPE: dict[str, Any] = {
    "string": "text",
    "boolean": True,
    "tinyint": -7,
    "smallint": 300,
    "int": 70_000,
    "bigint": 2**40,
    "float": 1.5,
    "double": 2.25,
    "decimal(38,18)": Decimal("12345678901234567890.123456789012345678"),
    "decimal(10,2)": Decimal("1.23"),
    "null": None,
    "bytes": b"\x00\xff",
    "date": dt.date(1582, 1, 1),
    "time": dt.time(23, 59, 59, 999_999),
    "timestamp": naive(1900, 1, 1, 0, 0, 0, 1),
    "timestamp_tz": dt.datetime(2020, 1, 1, tzinfo=dt.UTC),
    "array<tinyint>": [1, None, 3],
    "array<time>": [dt.time(1), None],
    "map<string,decimal(5,1)>": [("a", Decimal("1.5")), ("b", None)],
    "row{a int, b row{c time, d array<string>}}": {"a": 1, "b": {"c": dt.time(2), "d": ["x"]}},
    "map<string,array<row{x timestamp}>>": [("k", [{"x": naive(2021, 2, 3)}])],
}


@pytest.mark.parametrize("name", sorted(EVERY_TYPE))
def test_a_type_and_its_value_come_through_every_kind_of_plan(
    spark: SparkSession, name: str
) -> None:
    given = Given("t", {"v": name}, [{"v": EVERY_TYPE[name]}, {"v": None}])
    python = {"source_code": "def transform(batch):\n    return batch"}

    by_columns = run_one(spark, "Filter", {"include_fields": ["v"]}, given)
    by_sql = run_one(spark, "Sql", {"query": "select v from dual"}, given)
    by_view = run_one(spark, "Sql", {"query": "select v from dual order by 1 + 1"}, given)
    by_python = run_one(spark, "Python", python, given)

    for made in (by_columns, by_sql, by_view, by_python):
        assert made.table.columns == given.table.columns
        assert made.arrow.column("v").to_pylist() == [EVERY_TYPE[name], None]


def test_what_a_column_knew_is_kept_while_it_is_the_same(spark: SparkSession) -> None:
    known = Column("a", pa.string(), comment="said", length=20, default="x")
    table = Table("t", (known, Column("b", pa.int32())), ("a",), (("b",),), comment="of t")
    frame = spark.sql("select 'x' as a, cast(1 as bigint) as b, 1.5D as c")

    made = table_of_frame(frame, table)

    assert made.columns == (
        replace(known, nullable=False),
        Column("b", pa.int64(), nullable=False),
        Column("c", pa.float64(), nullable=False),
    )
    assert (made.primary_key, made.unique_keys, made.comment) == (("a",), (("b",),), "of t")


def test_keys_go_with_their_columns(spark: SparkSession) -> None:
    table = Table("t", (Column("a", pa.int32()),), ("a", "b"), (("a",), ("a", "b")))

    made = table_of_frame(spark.sql("select 1 as a"), table)

    assert (made.primary_key, made.unique_keys) == ((), (("a",),))


def test_a_type_that_no_job_file_has_is_refused_by_its_column(spark: SparkSession) -> None:
    frame = spark.sql("select interval 1 day as gap")

    with pytest.raises(ConfigError, match=r"column 'gap' of table 't' .* interval day"):
        table_of_frame(frame, Table("t", ()))


def test_two_columns_of_one_name_are_refused(spark: SparkSession) -> None:
    with pytest.raises(ConfigError, match="gives two columns the name 'a'"):
        table_of_frame(spark.sql("select 1 as a, 2 as a"), Table("t", ()))
