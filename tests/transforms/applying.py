"""Applies a transform as a pipeline does: options read and checked, once on empty frames, then on rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from holdfast.model.jobs import JobMode
from holdfast.model.schema import KIND_COLUMN, RowKind, Table, parse_type, table_from_arrow
from holdfast.spec.config import ConfigObject, config_from_json
from holdfast.spec.options import read_options
from holdfast.transforms.base import TableFrame, Transform, TransformKind
from holdfast.transforms.registry import find_transform
from holdfast.transforms.tables import table_of_frame

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Given:
    """A table and its rows. A row's `kind`, where rows have one, stands under `__kind` as `+I` and so on."""

    path: str
    columns: Mapping[str, str]
    rows: Rows = field(default_factory=list)
    output: str = "fake"
    key: tuple[str, ...] = ()
    kinds: bool = False

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(name, parse_type(text)) for name, text in self.columns.items()])

    @property
    def table(self) -> Table:
        return table_from_arrow(self.path, self.schema, self.key)

    def arrow(self) -> pa.Table:
        schema, rows = self.schema, self.rows
        if self.kinds:
            schema = schema.append(pa.field(KIND_COLUMN, pa.int8()))
            rows = [{**r, KIND_COLUMN: RowKind.parse(r[KIND_COLUMN]).value} for r in rows]
        return pa.Table.from_pylist(rows, schema)

    def frame(self, spark: SparkSession, *, empty: bool = False) -> TableFrame:
        arrow = self.arrow().slice(0, 0) if empty else self.arrow()
        schema = from_arrow_schema(arrow.schema, prefer_timestamp_ntz=True)
        return TableFrame(self.table, spark.createDataFrame(arrow, schema=schema), self.output)


@dataclass(frozen=True)
class Made:
    """A table that came out, and its rows."""

    table: Table
    arrow: pa.Table
    frame: TableFrame

    @property
    def rows(self) -> Rows:
        kinds = list(RowKind)
        return [
            {n: kinds[v].short if n == KIND_COLUMN else v for n, v in row.items()}
            for row in self.arrow.to_pylist()
        ]


def kind_of(name: str) -> TransformKind:
    found = find_transform(name)
    assert found is not None
    return found


def problems_of(name: str, options: Mapping[str, Any]) -> list[str]:
    kind = kind_of(name)
    block = config_from_json(dict(options)).value
    assert isinstance(block, ConfigObject)
    read, problems = read_options(kind.options, block, name)
    if read is None:
        return [str(problem) for problem in problems]
    return list(kind.check(read, JobMode.BATCH))


def create(name: str, options: Mapping[str, Any]) -> Transform:
    assert problems_of(name, options) == []
    kind = kind_of(name)
    block = config_from_json(dict(options)).value
    assert isinstance(block, ConfigObject)
    read, _ = read_options(kind.options, block, name)
    return kind.create(read)


def run(
    spark: SparkSession, name: str, options: Mapping[str, Any], tables: Sequence[Given]
) -> list[Made]:
    """As the pipeline: learn on empty frames, apply to rows, and find the tables that were learnt."""
    transform = create(name, options)
    empty = transform.apply([one.frame(spark, empty=True) for one in tables])
    learnt = [table_of_frame(one.frame, one.table) for one in empty]
    made = [_made(one) for one in transform.apply([one.frame(spark) for one in tables])]
    assert [one.table for one in made] == learnt
    return made


def run_one(spark: SparkSession, name: str, options: Mapping[str, Any], given: Given) -> Made:
    (made,) = run(spark, name, options, [given])
    return made


def _made(found: TableFrame) -> Made:
    table = table_of_frame(found.frame, found.table)
    arrow = found.frame.toArrow()
    schema = table.arrow_schema
    if KIND_COLUMN in arrow.schema.names:
        schema = schema.append(pa.field(KIND_COLUMN, pa.int8()))
    return Made(table, arrow.cast(schema), found)
