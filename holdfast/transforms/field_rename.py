"""FieldRename: new names for all fields of a table, by rule or one by one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from holdfast.model.errors import ConfigError
from holdfast.model.schema import Table
from holdfast.spec.options import option
from holdfast.transforms.base import TableFrame
from holdfast.transforms.columns import column, pick
from holdfast.transforms.renaming import Renaming, derive_name, find_renaming_problems
from holdfast.transforms.table_rules import (
    RULES_DOC,
    Rule,
    RuleOptions,
    TableOptions,
    table_wise_kind,
)
from holdfast.transforms.tables import with_renamed_columns


@dataclass(frozen=True)
class Specific:
    """One entry of `specific`."""

    field_name: str = option("The field's name as it is.")
    target_name: str = option("The name it gets.")


@dataclass(frozen=True)
class FieldRenaming(Renaming):
    """What one rule says."""

    specific: list[Specific] = option(
        "Names for single fields; no other rule is applied to these.", default=[]
    )


@dataclass(frozen=True)
class FieldRenamingOfTable(FieldRenaming, RuleOptions):
    """An entry of `table_transform`."""


@dataclass(frozen=True)
class Options(FieldRenaming, TableOptions):
    """The block."""

    table_transform: list[FieldRenamingOfTable] = option(RULES_DOC, default=[])


def make_rule(renaming: Any) -> Rule:
    specific = {one.field_name: one.target_name for one in reversed(renaming.specific)}

    def rename(found: TableFrame) -> TableFrame:
        names = {
            old: specific.get(old) or derive_name(renaming, old) for old in found.table.column_names
        }
        _expect_distinct(names, found.table)
        frame = pick(found.frame, {new: column(old) for old, new in names.items()})
        return replace(found, table=with_renamed_columns(found.table, names), frame=frame)

    return rename


def _expect_distinct(names: dict[str, str], table: Table) -> None:
    by_new: dict[str, str] = {}
    for old, new in names.items():
        if new in by_new:
            raise ConfigError(
                f"Cannot apply transform FieldRename to table '{table.path}':"
                f" '{by_new[new]}' and '{old}' would both be named '{new}'."
                f" Give one of them a name of its own by 'specific'."
            )
        by_new[new] = old


TRANSFORM = table_wise_kind(
    "FieldRename",
    Options,
    make_rule,
    find_renaming_problems,
    "Renames the fields of tables: case, prefix, suffix, replacements, or one by one.",
)
