"""FieldMapper: which fields a table keeps, in which order and under which names."""

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
    required,
    table_wise_kind,
)
from holdfast.transforms.tables import with_renamed_columns


@dataclass(frozen=True)
class Mapper:
    """What one rule says."""

    field_mapper: dict[str, str] = option(
        "Old name to new name (required). Fields that are not named are dropped; the order here is"
        " the order of the fields.",
        default={},
    )


@dataclass(frozen=True)
class MapperOfTable(Mapper, RuleOptions):
    """An entry of `table_transform`."""


@dataclass(frozen=True)
class Options(Mapper, TableOptions):
    """The block."""

    table_transform: list[MapperOfTable] = option(RULES_DOC, default=[])


def make_rule(mapper: Any) -> Rule:
    names: dict[str, str] = mapper.field_mapper

    def map_fields(found: TableFrame) -> TableFrame:
        expect_columns(found.table, names, "FieldMapper")
        frame = pick(found.frame, {new: column(old) for old, new in names.items()})
        kept = tuple(c for c in found.table.columns if c.name in names)
        table = with_renamed_columns(replace(found.table, columns=kept), names)
        return replace(found, table=table, frame=frame)

    return map_fields


def find_problems(mapper: Any) -> Sequence[str]:
    targets = list(mapper.field_mapper.values())
    twice = sorted({name for name in targets if targets.count(name) > 1})
    return [
        *required(mapper, "field_mapper"),
        *(f"field_mapper gives two fields the name '{name}'" for name in twice),
    ]


TRANSFORM = table_wise_kind(
    "FieldMapper",
    Options,
    make_rule,
    find_problems,
    "Keeps, orders and renames fields; unmapped fields are dropped.",
)
