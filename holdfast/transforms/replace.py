"""Replace: text within a field, by itself or by a regular expression of Java's."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.spec.options import option
from holdfast.transforms.base import TableFrame
from holdfast.transforms.columns import column, expect_columns, put
from holdfast.transforms.table_rules import (
    RULES_DOC,
    Rule,
    RuleOptions,
    TableOptions,
    java_regex_problems,
    table_wise_kind,
)

if TYPE_CHECKING:
    from pyspark.sql import Column


@dataclass(frozen=True)
class Replacement:
    """What one rule says."""

    replace_field: str | None = option("The field to change (required).", default=None)
    pattern: str | None = option("What to look for (required).", default=None)
    replacement: str | None = option(
        "What to put in its place (required). With is_regex, $1 is the first group.", default=None
    )
    is_regex: bool = option("The pattern is a regular expression.", default=False)
    replace_first: bool = option("Only the first match; with is_regex.", default=False)


@dataclass(frozen=True)
class ReplacementOfTable(Replacement, RuleOptions):
    """An entry of `table_transform`."""


@dataclass(frozen=True)
class Options(Replacement, TableOptions):
    """The block."""

    table_transform: list[ReplacementOfTable] = option(RULES_DOC, default=[])


def make_rule(options: Any) -> Rule:
    def replace(found: TableFrame) -> TableFrame:
        expect_columns(found.table, [options.replace_field], "Replace")
        made = {options.replace_field: _replaced(options)}
        return dataclasses.replace(found, frame=put(found.frame, found.table, made))

    return replace


def _replaced(options: Any) -> Column:
    from pyspark.sql import functions as F

    text = column(options.replace_field).cast("string")
    if not options.is_regex:
        return F.replace(text, F.lit(options.pattern), F.lit(options.replacement))
    if not options.replace_first:
        return F.regexp_replace(text, options.pattern, options.replacement)
    # Spark replaces all or none: match the text before the first match too, and put it back.
    pattern = rf"(?s)\A(.*?)(?-s:{_shift_groups(options.pattern, chr(92))})"
    return F.regexp_replace(text, pattern, "$1" + _shift_groups(options.replacement, "$"))


def _shift_groups(text: str, sign: str) -> str:
    """References to groups, one higher: there is a group in front of them now."""

    def shift(found: re.Match[str]) -> str:
        return f"{sign}{int(found[1]) + 1}" if found[1] else found[0]

    return re.sub(rf"{re.escape(sign)}([1-9])|\\.", shift, text, flags=re.DOTALL)


def find_problems(options: Any) -> Sequence[str]:
    missing = [
        f"option '{name}' is required and missing"
        for name in ("replace_field", "pattern", "replacement")
        if getattr(options, name) is None
    ]
    if options.replace_first and not options.is_regex:
        missing.append("replace_first works with is_regex = true only")
    if options.is_regex:
        missing += java_regex_problems("pattern", options.pattern)
    return missing


TRANSFORM = table_wise_kind(
    "Replace", Options, make_rule, find_problems, "Replaces text within a field."
)
