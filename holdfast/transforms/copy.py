"""Copy: fields under a second name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from holdfast.spec.options import option
from holdfast.transforms.base import TableFrame
from holdfast.transforms.columns import column, expect_columns, put
from holdfast.transforms.table_rules import (
    RULES_DOC,
    Rule,
    RuleOptions,
    TableOptions,
    table_wise_kind,
)


@dataclass(frozen=True)
class Copies:
    """What one rule says."""

    fields: dict[str, str] = option("New name to the field it is a copy of.", default={})
    src_field: str | None = option("The older form: the field to copy.", default=None)
    dest_field: str | None = option("The older form: the name of the copy.", default=None)


@dataclass(frozen=True)
class CopiesOfTable(Copies, RuleOptions):
    """An entry of `table_transform`."""


@dataclass(frozen=True)
class Options(Copies, TableOptions):
    """The block."""

    table_transform: list[CopiesOfTable] = option(RULES_DOC, default=[])


def make_rule(options: Any) -> Rule:
    copies: dict[str, str] = dict(options.fields)
    if options.src_field and options.dest_field:
        copies[options.dest_field] = options.src_field

    def copy(found: TableFrame) -> TableFrame:
        expect_columns(found.table, copies.values(), "Copy")
        made = {new: column(old) for new, old in copies.items()}
        return replace(found, frame=put(found.frame, found.table, made))

    return copy


def find_problems(options: Any) -> Sequence[str]:
    if bool(options.src_field) != bool(options.dest_field):
        return ["src_field and dest_field go together"]
    if not options.fields and not options.src_field:
        return ["option 'fields' is required and missing"]
    return []


TRANSFORM = table_wise_kind(
    "Copy", Options, make_rule, find_problems, "Copies fields to new fields."
)
