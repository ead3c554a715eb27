"""TableRename: new names for tables. The case of database and schema is converted too, nothing else of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from holdfast.model.errors import ConfigError
from holdfast.model.jobs import JobMode
from holdfast.spec.options import option
from holdfast.transforms.base import TableFrame, Transform, TransformKind
from holdfast.transforms.renaming import Renaming, cased, derive_name, find_renaming_problems
from holdfast.transforms.table_rules import (
    RULES_DOC,
    Rule,
    RuleOptions,
    TableOptions,
    TableWise,
    check_rules,
    make_table_wise,
)


@dataclass(frozen=True)
class TableRenamingOfTable(Renaming, RuleOptions):
    """An entry of `table_transform`."""


@dataclass(frozen=True)
class Options(Renaming, TableOptions):
    """The block."""

    table_transform: list[TableRenamingOfTable] = option(RULES_DOC, default=[])


@dataclass(frozen=True)
class _Renamer:
    """Renames table by table, and refuses to give two tables one name."""

    tables: TableWise

    def apply(self, inputs: Sequence[TableFrame]) -> list[TableFrame]:
        done = self.tables.apply(inputs)
        by_path: dict[str, str] = {}
        for before, after in zip(inputs, done, strict=True):
            if after.table.path in by_path:
                raise ConfigError(
                    f"Cannot apply transform TableRename: '{by_path[after.table.path]}' and"
                    f" '{before.table.path}' would both be named '{after.table.path}'."
                    f" Use TableMerge to make one table of several."
                )
            by_path[after.table.path] = before.table.path
        return done


def make_rule(renaming: Any) -> Rule:
    def rename(found: TableFrame) -> TableFrame:
        *outer, name = found.table.path.split(".")
        path = [
            *(cased(part, renaming.convert_case) for part in outer),
            derive_name(renaming, name),
        ]
        return replace(found, table=found.table.renamed(".".join(path)))

    return rename


def create(options: Options) -> Transform:
    return _Renamer(make_table_wise(options, make_rule))


def check(options: Options, mode: JobMode) -> list[str]:
    return check_rules(options, find_renaming_problems)


TRANSFORM = TransformKind(
    "TableRename",
    Options,
    create,
    "Renames tables: case, prefix, suffix, replacements in the table's name.",
    check,
)
