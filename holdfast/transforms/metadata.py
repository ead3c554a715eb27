"""Metadata: what is known of a row beside its fields, as fields."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from holdfast.spec.options import nearest, option
from holdfast.transforms.base import TableFrame
from holdfast.transforms.columns import expect_new_column, kind_text, put
from holdfast.transforms.table_rules import (
    RULES_DOC,
    Rule,
    RuleOptions,
    TableOptions,
    table_wise_kind,
)

if TYPE_CHECKING:
    from pyspark.sql import Column

KNOWN = ("Database", "Table", "RowKind")
NOT_DELIVERED = (
    *("EventTime", "Delay", "SourceTimestamp", "BinlogFile", "BinlogPos", "BinlogRow", "Gtid"),
    *("FilePath", "FileCreateTime", "FileUpdateTime", "FileSize", "FileType", "Partition"),
)
"""Known to SeaTunnel; no source delivers them here yet."""


@dataclass(frozen=True)
class Wanted:
    """What one rule says."""

    metadata_fields: dict[str, str] = option(
        f"Metadata to the name of its field: {', '.join(KNOWN)}.", default={}
    )


@dataclass(frozen=True)
class WantedOfTable(Wanted, RuleOptions):
    """An entry of `table_transform`."""


@dataclass(frozen=True)
class Options(Wanted, TableOptions):
    """The block."""

    table_transform: list[WantedOfTable] = option(RULES_DOC, default=[])


def make_rule(wanted: Any) -> Rule:
    def add(found: TableFrame) -> TableFrame:
        made: dict[str, Column] = {}
        for key, name in wanted.metadata_fields.items():
            expect_new_column(found.table, name, "Metadata")
            made[name] = _value(key, found)
        return replace(found, frame=put(found.frame, found.table, made))

    return add


def _value(key: str, found: TableFrame) -> Column:
    from pyspark.sql import functions as F

    if key == "RowKind":
        return kind_text(found.frame)
    database, dot, _ = found.table.path.partition(".")
    text = found.table.name if key == "Table" else database if dot else None
    return F.lit(text).cast("string")


def find_problems(wanted: Any) -> Sequence[str]:
    found = []
    for key in wanted.metadata_fields:
        if key in NOT_DELIVERED:
            found.append(f"metadata '{key}' is delivered by no source here")
        elif key not in KNOWN:
            hint = nearest(key, KNOWN)
            found.append(f"there is no metadata '{key}'; there is {', '.join(KNOWN)}.{hint}")
    return found


TRANSFORM = table_wise_kind(
    "Metadata",
    Options,
    make_rule,
    find_problems,
    "Adds the database, the table or the row kind of a row as fields.",
)
