"""The Jdbc sink of databases that only a JDBC driver speaks to: Spark writes, exactly once by staging.

The rows of an epoch go into tables `hf_*` beside the target; publishing moves them in one transaction with a row of
the ledger `holdfast_epochs`, as on every other database. A staged row has a number that is the same in every try of
its task, and the staging table has it as its key: a task that ran twice fails and never doubles a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from holdfast.connectors.base import (
    Claim,
    Context,
    SinkBase,
    StageScope,
    TableBatch,
    Token,
    token_lineage,
)
from holdfast.connectors.jdbc.options import SinkOptions
from holdfast.connectors.jdbc.sink import promise_of
from holdfast.connectors.jdbc.staging import KIND, SEQUENCE, Owner, Stage, stage_name
from holdfast.connectors.jdbc.through_spark.database import Database, place_of
from holdfast.connectors.jdbc.through_spark.publishing import discard, ensure_ledger, publish
from holdfast.connectors.jdbc.through_spark.targets import (
    SparkTarget,
    apply_save_modes,
    find_target,
)
from holdfast.model.json import JsonObject
from holdfast.model.schema import KIND_COLUMN, Table
from holdfast.outside.ids import new_id

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class SparkJdbcSink(SinkBase):
    """Stages frames where Spark has them already, and batches by making frames of them."""

    def __init__(self, options: SinkOptions, context: Context) -> None:
        self._options = options
        self.guarantee, self.condition = promise_of(options)
        self._context = (context.job_id, context.pipeline_id, context.location)
        self._database = Database(place_of(options), context.spark)

    def prepare(self, tables: Sequence[Table]) -> None:
        with self._database.connect("prepare the target") as connection:
            for table in tables:
                apply_save_modes(connection, self._database, self._options, table)
            for table in tables:
                target = find_target(connection, self._database, self._options, table)
                ensure_ledger(connection, target.named)

    def stage(self, scope: StageScope, batches: Iterator[TableBatch]) -> JsonObject | None:
        """Small epochs: the rows are here."""
        spark = self._database.spark()
        parts = []
        for path, group in groupby(batches, lambda found: found.table):
            rows = pa.Table.from_batches([f.batch for f in group])
            if rows.num_rows:
                frame = _as_frame(spark, rows).coalesce(1)
                parts.append(self.stage_frame(scope, scope.tables[path], frame))
        return _joined([part for part in parts if part is not None])

    def stage_frame(self, scope: StageScope, table: Table, frame: DataFrame) -> JsonObject | None:
        """Write a frame's rows into a staging table. The part has `"rows"`: how many there are."""
        with self._database.connect("stage rows") as connection:
            target = find_target(connection, self._database, self._options, table)
            stage = Stage(target.path, stage_name(scope, 0, new_id()), target.merge_keys)
            beside = target.named.beside(stage.name)
            sql_name = connection.sql_name(beside)
            connection.execute(target.create_stage_sql(connection, beside))
            with self._database.told("stage rows"):
                self._write(_for_stage(frame, table, target, self._options), sql_name)
            ((count,),) = connection.fetch(f"SELECT COUNT(*) FROM {sql_name}")
            if count == "0":
                connection.execute(f"DROP TABLE {sql_name}")
                return None
        return {"rows": int(str(count)), "stages": [stage.to_json()]}

    def publish(self, token: Token) -> None:
        owner = Owner(*self._context, token_lineage(token))
        with self._database.connect("publish rows") as connection:
            publish(connection, self._database.place, owner, token)

    def discard(self, claim: Claim) -> None:
        owner = Owner(*self._context, claim.lineage)
        with self._database.connect("discard staged rows") as connection:
            discard(connection, owner, claim)

    def close(self) -> None:
        self._database.close()

    def _write(self, frame: DataFrame, sql_name: str) -> None:
        options = self._database.place.options(
            dbtable=sql_name,
            batchsize=str(self._options.batch_size),
            isolationLevel="READ_COMMITTED",
        )
        frame.write.format("jdbc").options(**options).mode("append").save()


def _for_stage(
    frame: DataFrame, table: Table, target: SparkTarget, options: SinkOptions
) -> DataFrame:
    """The target's columns, with kind and number; of each key only its last change."""
    from pyspark.sql import functions as F

    kind = F.col(KIND_COLUMN) if KIND_COLUMN in frame.columns else F.lit(0)
    columns = [
        _storable(F.col(f"`{column.name}`"), column.type).alias(name)
        for column, name in zip(table.columns, target.columns, strict=True)
    ]
    rows = frame.select(
        *columns,
        kind.cast("int").alias(KIND),
        F.monotonically_increasing_id().alias(SEQUENCE),
    )
    if not target.merge_keys:
        return rows.where(f"{KIND} <> 1")
    if not options.is_primary_key_updated:
        rows = rows.where(f"{KIND} <> 1")
    whole = F.struct(*(F.col(f"`{name}`") for name in rows.columns))
    keys = [F.col(f"`{name}`").alias(f"hf_key_{i}") for i, name in enumerate(target.merge_keys)]
    last = rows.groupBy(*keys).agg(F.max_by(whole, F.col(SEQUENCE)).alias("hf_last"))
    return last.select("hf_last.*")


def _storable(column: Any, type_: pa.DataType) -> Any:
    """A TIME as text, as its column is staged."""
    return column.cast("string") if pa.types.is_time(type_) else column


def _as_frame(spark: Any, rows: pa.Table) -> DataFrame:
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = from_arrow_schema(rows.schema, prefer_timestamp_ntz=True)
    frame: DataFrame = spark.createDataFrame(rows, schema=schema)
    return frame


def _joined(parts: Sequence[JsonObject]) -> JsonObject | None:
    if not parts:
        return None
    stages: list[Any] = []
    for part in parts:
        found = part["stages"]
        assert isinstance(found, list)
        stages += found
    return {"rows": sum(int(str(part["rows"])) for part in parts), "stages": stages}
