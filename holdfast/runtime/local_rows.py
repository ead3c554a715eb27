"""The rows of a frame here, in Arrow. Where the plan holds them already, no Spark job is run for them.

A small epoch comes in as Arrow, and Spark's optimizer has computed a projection and a filter over it by the time the
plan is ready: what is left of the plan is a list of rows in the driver's JVM. A job would only copy it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from holdfast.model.releases import with_known_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS_PER_BATCH_MAX = 65_536
BYTES_PER_BATCH_MAX = 64 << 20
_CONVERTERS = "org.apache.spark.sql.execution.arrow.ArrowConverters$"


def read_rows(frame: DataFrame) -> pa.Table:
    """What `frame.toArrow()` gives."""
    held = _held_rows(frame)
    return frame.toArrow() if held is None else held


def _held_rows(frame: DataFrame) -> pa.Table | None:
    from py4j.protocol import Py4JError
    from pyspark.sql.pandas.types import to_arrow_schema

    inside: Any = frame._jdf
    plan = inside.queryExecution().executedPlan()
    if plan.nodeName() != "LocalTableScan":
        return None
    try:
        batches = _batches(frame, plan.rows().iterator())
    except Py4JError:  # a Spark whose inside is another: it has a job run
        return None
    if not batches:
        to_schema = with_known_options(to_arrow_schema, timezone="UTC")
        return to_schema(frame.schema).empty_table()
    return pa.concat_tables(batches)


def _batches(frame: DataFrame, rows: Any) -> list[pa.Table]:
    session = frame.sparkSession
    converters: Any = getattr(getattr(session._jvm, _CONVERTERS), "MODULE$")
    streams = converters.toBatchWithSchemaIterator(
        rows,
        frame._jdf.schema(),
        ROWS_PER_BATCH_MAX,
        BYTES_PER_BATCH_MAX,
        session.conf.get("spark.sql.session.timeZone"),
        False,
        False,
    )
    found = []
    while streams.hasNext():
        found.append(pa.ipc.open_stream(bytes(streams.next())).read_all())
    return found
