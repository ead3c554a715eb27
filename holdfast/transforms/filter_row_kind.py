"""FilterRowKind: rows of some kinds only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from holdfast.model.schema import KIND_COLUMN, RowKind
from holdfast.spec.options import option
from holdfast.transforms.base import TableFrame
from holdfast.transforms.columns import carries_kinds, column
from holdfast.transforms.table_rules import (
    RULES_DOC,
    Rule,
    RuleOptions,
    TableOptions,
    table_wise_kind,
)


@dataclass(frozen=True)
class Kinds:
    """What one rule says."""

    include_kinds: list[str] = option("The kinds to keep: INSERT or +I, and so on.", default=[])
    exclude_kinds: list[str] = option("The kinds to drop.", default=[])


@dataclass(frozen=True)
class KindsOfTable(Kinds, RuleOptions):
    """An entry of `table_transform`."""


@dataclass(frozen=True)
class Options(Kinds, TableOptions):
    """The block."""

    table_transform: list[KindsOfTable] = option(RULES_DOC, default=[])


def make_rule(kinds: Any) -> Rule:
    named = {RowKind.parse(text) for text in kinds.include_kinds or kinds.exclude_kinds}
    kept = named if kinds.include_kinds else set(RowKind) - named

    def keep(found: TableFrame) -> TableFrame:
        from pyspark.sql import functions as F

        if not carries_kinds(found.frame):
            rows = found.frame if RowKind.INSERT in kept else found.frame.where(F.lit(False))
        else:
            rows = found.frame.where(column(KIND_COLUMN).isin([kind.value for kind in kept]))
        return replace(found, frame=rows)

    return keep


def find_problems(kinds: Any) -> Sequence[str]:
    if bool(kinds.include_kinds) == bool(kinds.exclude_kinds):
        return ["give one of include_kinds and exclude_kinds"]
    found = []
    for text in (*kinds.include_kinds, *kinds.exclude_kinds):
        try:
            RowKind.parse(text)
        except ValueError as wrong:
            found.append(str(wrong))
    return found


TRANSFORM = table_wise_kind(
    "FilterRowKind",
    Options,
    make_rule,
    find_problems,
    "Keeps the rows of include_kinds, or all but those of exclude_kinds.",
)
