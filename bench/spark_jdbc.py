"""The peer: Spark's own JDBC reader to parquet, two partitions by key, timed after start-up."""

from __future__ import annotations

import sys
import time

from pyspark.sql import SparkSession


def main() -> None:
    url, user, password, rows, out = sys.argv[1:]
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars.packages", "org.postgresql:postgresql:42.7.4")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "2g")
        .getOrCreate()
    )
    spark.range(10).count()
    began = time.monotonic()
    spark.read.jdbc(
        url,
        "big",
        column="id",
        lowerBound=1,
        upperBound=int(rows),
        numPartitions=2,
        properties={
            "user": user,
            "password": password,
            "driver": "org.postgresql.Driver",
            "fetchsize": "10000",
        },
    ).write.parquet(out)
    print(f"seconds={time.monotonic() - began}")
    spark.stop()


if __name__ == "__main__":
    main()
