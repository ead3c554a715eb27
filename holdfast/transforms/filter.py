"""Filter: keep some fields of a table, or all but some."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from holdfast.spec.options import option
from holdfast.transforms.base import TableFrame
from holdfast.transforms.columns import column, expect_columns, pick
from holdfast.transforms.table_rules import (
    RULES_DOC,
    Rule,
    RuleOptions,
    TableOptions,
    table_wise_kind,
)


@dataclass(frozen=True)
class Fields:
    """What one rule says."""

    include_fields: list[str] = option("The fields to keep, in this order.", default=[])
    exclude_fields: list[str] = option("The fields to drop.", default=[])


@dataclass(frozen=True)
class FieldsOfTable(Fields, RuleOptions):
    """An entry of `table_transform`."""


@dataclass(frozen=True)
class Options(Fields, TableOptions):
    """The block."""

    table_transform: list[FieldsOfTable] = option(RULES_DOC, default=[])


def make_rule(fields: Any) -> Rule:
    def keep(found: TableFrame) -> TableFrame:
        expect_columns(found.table, [*fields.include_fields, *fields.exclude_fields], "Filter")
        kept = fields.include_fields or [
            name for name in found.table.column_names if name not in fields.exclude_fields
        ]
        return replace(found, frame=pick(found.frame, {name: column(name) for name in kept}))

    return keep


def find_problems(fields: Any) -> Sequence[str]:
    if bool(fields.include_fields) == bool(fields.exclude_fields):
        return ["give one of include_fields and exclude_fields"]
    return []


TRANSFORM = table_wise_kind(
    "Filter",
    Options,
    make_rule,
    find_problems,
    "Keeps the fields of include_fields, or all but those of exclude_fields.",
)
