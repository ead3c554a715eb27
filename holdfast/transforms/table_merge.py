"""TableMerge: several tables of one shape become one, as with tables that were sharded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from holdfast.model.errors import ConfigError
from holdfast.model.jobs import JobMode
from holdfast.model.schema import KIND_COLUMN, RowKind, Table
from holdfast.spec.options import option
from holdfast.transforms.base import TableFrame, Transform, TransformKind
from holdfast.transforms.columns import carries_kinds, column
from holdfast.transforms.table_rules import (
    RULES_DOC,
    Rule,
    RuleOptions,
    TableOptions,
    TableWise,
    check_rules,
    make_table_wise,
    required,
)


@dataclass(frozen=True)
class Target:
    """What one rule says."""

    database: str | None = option("The database of the new table.", default=None)
    schema: str | None = option("The schema of the new table.", default=None)
    table: str | None = option("The name of the new table (required).", default=None)


@dataclass(frozen=True)
class TargetOfTable(Target, RuleOptions):
    """An entry of `table_transform`."""


@dataclass(frozen=True)
class Options(Target, TableOptions):
    """The block."""

    table_transform: list[TargetOfTable] = option(RULES_DOC, default=[])


@dataclass(frozen=True)
class _Merger:
    """Gives tables their new path, then makes one frame of those that share it."""

    tables: TableWise

    def apply(self, inputs: Sequence[TableFrame]) -> list[TableFrame]:
        by_path: dict[str, list[TableFrame]] = {}
        sources: dict[str, str] = {}
        for before in inputs:
            after = self.tables.apply_to(before)
            assert after is not None, "the rules of TableMerge drop nothing"
            first = by_path.setdefault(after.table.path, [])
            sources.setdefault(after.table.path, before.table.path)
            if first:
                _expect_same_shape(
                    first[0].table, after.table, (sources[after.table.path], before.table.path)
                )
            first.append(after)
        return [_union(found) for found in by_path.values()]


def _union(found: list[TableFrame]) -> TableFrame:
    from pyspark.sql import functions as F

    if len(found) == 1:
        return found[0]
    frames = [one.frame for one in found]
    if any(carries_kinds(frame) for frame in frames):
        insert = F.lit(RowKind.INSERT.value).cast("tinyint")
        frames = [f if carries_kinds(f) else f.withColumn(KIND_COLUMN, insert) for f in frames]
    names = [column(name) for name in frames[0].columns]
    merged = reduce(lambda one, other: one.unionAll(other.select(*names)), frames)
    return replace(found[0], frame=merged)


def _expect_same_shape(one: Table, other: Table, paths: tuple[str, str]) -> None:
    types = {c.name: c.type for c in one.columns}
    others = {c.name: c.type for c in other.columns}
    if types == others:
        return
    name = next(n for n in (*types, *others) if types.get(n) != others.get(n))
    raise ConfigError(
        f"Cannot apply transform TableMerge to tables '{paths[0]}' and '{paths[1]}':"
        f" column '{name}' is {types.get(name, 'missing')} in one and"
        f" {others.get(name, 'missing')} in the other."
        f" Bring them to one shape before, or match fewer tables with table_match_regex."
    )


def make_rule(target: Any) -> Rule:
    path = ".".join(part for part in (target.database, target.schema, target.table) if part)

    def rename(found: TableFrame) -> TableFrame:
        return replace(found, table=found.table.renamed(path))

    return rename


def create(options: Options) -> Transform:
    return _Merger(make_table_wise(options, make_rule))


def check(options: Options, mode: JobMode) -> list[str]:
    return check_rules(options, lambda target: required(target, "table"))


TRANSFORM = TransformKind(
    "TableMerge",
    Options,
    create,
    "Merges tables of the same columns into one. A key is kept: rows of one key in two tables"
    " are then rows of one key in the merged table.",
    check,
)
