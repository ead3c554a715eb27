"""Split: one field into several. As in SeaTunnel the separator is a regular expression of Java's."""

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
    java_regex_problems,
    required,
    table_wise_kind,
)


@dataclass(frozen=True)
class Splitting:
    """What one rule says."""

    separator: str | None = option("Where to cut: a regular expression (required).", default=None)
    split_field: str | None = option("The field to cut (required).", default=None)
    output_fields: list[str] = option(
        "The new fields, all strings (required). The last takes the rest; those for which nothing"
        " is left are null.",
        default=[],
    )


@dataclass(frozen=True)
class SplittingOfTable(Splitting, RuleOptions):
    """An entry of `table_transform`."""


@dataclass(frozen=True)
class Options(Splitting, TableOptions):
    """The block."""

    table_transform: list[SplittingOfTable] = option(RULES_DOC, default=[])


def make_rule(options: Any) -> Rule:
    def split(found: TableFrame) -> TableFrame:
        from pyspark.sql import functions as F

        expect_columns(found.table, [options.split_field], "Split")
        text = column(options.split_field).cast("string")
        parts = F.split(text, options.separator, len(options.output_fields))
        made = {name: F.get(parts, F.lit(at)) for at, name in enumerate(options.output_fields)}
        return replace(found, frame=put(found.frame, found.table, made))

    return split


def find_problems(options: Any) -> Sequence[str]:
    missing = required(options, "separator", "split_field", "output_fields")
    return [*missing, *java_regex_problems("separator", options.separator)]


TRANSFORM = table_wise_kind(
    "Split", Options, make_rule, find_problems, "Cuts a field into several at a separator."
)
