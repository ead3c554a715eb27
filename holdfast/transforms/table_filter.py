"""TableFilter: some tables of many. A dropped table is dropped with all its rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from holdfast.spec.options import option
from holdfast.transforms.base import TableFrame
from holdfast.transforms.table_rules import (
    RULES_DOC,
    Rule,
    RuleOptions,
    TableOptions,
    regex_problems,
    table_wise_kind,
)


@dataclass(frozen=True)
class Patterns:
    """What one rule says."""

    database_pattern: str | None = option("A regular expression for the database.", default=None)
    schema_pattern: str | None = option("A regular expression for the schema.", default=None)
    table_pattern: str | None = option("A regular expression for the table's name.", default=None)
    pattern_mode: Literal["INCLUDE", "EXCLUDE"] = option(
        "Whether tables that match all given patterns are kept or dropped.", default="INCLUDE"
    )


@dataclass(frozen=True)
class PatternsOfTable(Patterns, RuleOptions):
    """An entry of `table_transform`."""


@dataclass(frozen=True)
class Options(Patterns, TableOptions):
    """The block."""

    table_transform: list[PatternsOfTable] = option(RULES_DOC, default=[])


def make_rule(patterns: Any) -> Rule:
    def keep(found: TableFrame) -> TableFrame | None:
        wanted = patterns.pattern_mode == "INCLUDE"
        return found if _matches(patterns, found.table.path) == wanted else None

    return keep


def _matches(patterns: Any, path: str) -> bool:
    database, schema, table = _parts(path)
    pairs = (
        (patterns.database_pattern, database),
        (patterns.schema_pattern, schema),
        (patterns.table_pattern, table),
    )
    return all(p is None or re.fullmatch(p, part) is not None for p, part in pairs)


def _parts(path: str) -> tuple[str, str, str]:
    parts = path.split(".")
    database = parts[0] if len(parts) > 1 else ""
    schema = ".".join(parts[1:-1])
    return database, schema, parts[-1]


def find_problems(patterns: Any) -> Sequence[str]:
    names = ("database_pattern", "schema_pattern", "table_pattern")
    if all(getattr(patterns, name) is None for name in names):
        return ["give at least one of database_pattern, schema_pattern and table_pattern"]
    return [said for name in names for said in regex_problems(name, getattr(patterns, name))]


TRANSFORM = table_wise_kind(
    "TableFilter",
    Options,
    make_rule,
    find_problems,
    "Keeps or drops whole tables by patterns of their database, schema and name.",
)
