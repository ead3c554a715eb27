"""Rows are read without a job where the plan holds them, and are the same as those of a job."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from holdfast.runtime.local_rows import read_rows

pytestmark = pytest.mark.spark

ROWS = pa.table(
    {
        "i": pa.array([1, None, 3], pa.int8()),
        "s": ["a", None, "c"],
        "d": pa.array([Decimal("1.23"), None, Decimal("-5")], pa.decimal128(10, 2)),
        "t": pa.array([dt.time(1, 2, 3, 4), None, None], pa.time64("us")),
        "z": pa.array(
            [dt.datetime(2020, 1, 1, tzinfo=dt.UTC), None, None], pa.timestamp("us", "UTC")
        ),
        "l": pa.array([["x"], [], None], pa.list_(pa.string())),
    }
)


def jobs_run(spark: SparkSession, frame: DataFrame) -> tuple[pa.Table, int]:
    context = spark.sparkContext
    context.setJobGroup("counted", "counted")
    before = len(context.statusTracker().getJobIdsForGroup("counted"))
    rows = read_rows(frame)
    after = len(context.statusTracker().getJobIdsForGroup("counted"))
    context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    return rows, after - before


@pytest.mark.parametrize("where", ["true", "i > 1", "false"])
def test_a_projection_and_a_filter_over_arrow_need_no_job(spark: SparkSession, where: str) -> None:
    frame = spark.createDataFrame(ROWS).where(where).selectExpr("*", "i + 1 as more")

    rows, count = jobs_run(spark, frame)

    assert count == 0
    assert rows.equals(frame.toArrow())


def test_what_spark_has_to_compute_is_computed_by_it(spark: SparkSession) -> None:
    frame = spark.createDataFrame(ROWS).groupBy("s").count().orderBy("s")

    rows, count = jobs_run(spark, frame)

    assert count > 0
    assert rows.column("s").to_pylist() == [None, "a", "c"]
