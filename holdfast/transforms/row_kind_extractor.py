"""RowKindExtractor: the kind of each row as a field of its own, and every row an insert."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from holdfast.spec.options import option
from holdfast.transforms.base import TableFrame
from holdfast.transforms.columns import column, expect_new_column, kind_text
from holdfast.transforms.table_rules import (
    RULES_DOC,
    Rule,
    RuleOptions,
    TableOptions,
    table_wise_kind,
)


@dataclass(frozen=True)
class KindField:
    """What one rule says."""

    custom_field_name: str = option("The name of the new field.", default="row_kind")
    transform_type: Literal["SHORT", "FULL"] = option(
        "SHORT: +I, -U, +U, -D. FULL: INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE.",
        default="SHORT",
    )


@dataclass(frozen=True)
class KindFieldOfTable(KindField, RuleOptions):
    """An entry of `table_transform`."""


@dataclass(frozen=True)
class Options(KindField, TableOptions):
    """The block."""

    table_transform: list[KindFieldOfTable] = option(RULES_DOC, default=[])


def make_rule(field: Any) -> Rule:
    def extract(found: TableFrame) -> TableFrame:
        expect_new_column(found.table, field.custom_field_name, "RowKindExtractor")
        kind = kind_text(found.frame, full=field.transform_type == "FULL")
        columns = [column(name) for name in found.table.column_names]
        frame = found.frame.select(*columns, kind.alias(field.custom_field_name))
        # Several rows of one key are all inserts now: the key is none any more.
        table = replace(found.table, primary_key=(), unique_keys=())
        return replace(found, table=table, frame=frame)

    return extract


def find_problems(field: Any) -> Sequence[str]:
    return ()


TRANSFORM = table_wise_kind(
    "RowKindExtractor",
    Options,
    make_rule,
    find_problems,
    "Puts the row kind into a field and turns every row into an insert.",
)
