"""What all transforms that work table by table have in common: which rule applies to which table.

`table_transform` names tables by their exact path and wins over `table_match_regex`, which is matched against the
whole path. Tables matched by nothing pass unchanged.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from holdfast.model.jobs import JobMode
from holdfast.spec.options import declared_options, option
from holdfast.transforms.base import TableFrame, Transform, TransformKind
from holdfast.transforms.tables import table_of_frame

Rule = Callable[[TableFrame], TableFrame | None]
"""One table in, one out; None drops it."""
MakeRule = Callable[[Any], Rule]
FindProblems = Callable[[Any], Sequence[str]]


@dataclass(frozen=True)
class TableOptions:
    """Options of the transform itself, beside its own."""

    table_match_regex: str = option(
        "Which tables the options here apply to: a regular expression for the whole table path.",
        default=".*",
    )
    rule_match_mode: Literal["FIRST_MATCH", "ALL_MATCH"] | None = option(
        "What to do with several `table_transform` entries of one path: take the first, or apply"
        " all in their order. Without it they are an error.",
        default=None,
    )


@dataclass(frozen=True)
class RuleOptions:
    """What every entry of `table_transform` has, beside the transform's own options."""

    table_path: str = option("The exact path of the table: `database.schema.table`, or less.")


RULES_DOC = "Options for single tables, each with its `table_path`."


@dataclass(frozen=True)
class TableWise:
    """A transform that treats each table by its rules."""

    by_path: Mapping[str, Sequence[Rule]]
    pattern: re.Pattern[str]
    outer: Rule | None

    def apply(self, inputs: Sequence[TableFrame]) -> list[TableFrame]:
        done = [self.apply_to(found) for found in inputs]
        return [found for found in done if found is not None]

    def apply_to(self, found: TableFrame) -> TableFrame | None:
        rules = self.rules_of(found.table.path)
        current: TableFrame | None = found
        for number, rule in enumerate(rules):
            if current is None:
                break
            if number:
                table = table_of_frame(current.frame, current.table)
                current = replace(current, table=table)
            current = rule(current)
        return current

    def rules_of(self, path: str) -> Sequence[Rule]:
        if path in self.by_path:
            return self.by_path[path]
        if self.outer is not None and self.pattern.fullmatch(path):
            return [self.outer]
        return []


def make_table_wise(options: Any, make: MakeRule) -> TableWise:
    """The transform that `options` describe; `make` builds one rule from the transform's own options."""
    by_path: dict[str, list[Rule]] = {}
    for entry in options.table_transform:
        known = by_path.setdefault(entry.table_path, [])
        if not known or options.rule_match_mode == "ALL_MATCH":
            known.append(make(entry))
    outer = make(options) if _wants_outer(options) else None
    return TableWise(by_path, re.compile(options.table_match_regex), outer)


def table_wise_kind(
    name: str, options: type[Any], make: MakeRule, problems: FindProblems, doc: str
) -> TransformKind:
    """The declaration of a transform that works table by table. `problems` sees one rule's own options."""

    def create(given: Any) -> Transform:
        return make_table_wise(given, make)

    def check(given: Any, mode: JobMode) -> list[str]:
        return check_rules(given, problems)

    return TransformKind(name, options, create, doc, check)


def check_rules(options: Any, problems: FindProblems) -> list[str]:
    """Problems of the rules, each named by its table where it has one."""
    found = list(problems(options)) if _wants_outer(options) else []
    seen: set[str] = set()
    for entry in options.table_transform:
        path = entry.table_path
        found += [f"table_transform of '{path}': {said}" for said in problems(entry)]
        if path in seen and options.rule_match_mode is None:
            found.append(
                f"table_transform has '{path}' twice. Set rule_match_mode to FIRST_MATCH or"
                f" ALL_MATCH, or remove one."
            )
        seen.add(path)
    return found + regex_problems("table_match_regex", options.table_match_regex)


def regex_problems(option_name: str, pattern: str | None) -> list[str]:
    """What is wrong with a pattern that Python matches names with."""
    try:
        re.compile(pattern or "")
    except re.error as wrong:
        return [f"{option_name} '{pattern}' is not a regular expression: {wrong}"]
    return []


_BROKEN_IN_JAVA_TOO = (
    "unterminated character set",
    "missing ), unterminated subpattern",
    "unbalanced parenthesis",
)


def java_regex_problems(option_name: str, pattern: str | None) -> list[str]:
    """What is wrong with a pattern that Java will read, as far as Python knows: the two differ elsewhere."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = regex_problems(option_name, pattern)
    return [said for said in found if any(broken in said for broken in _BROKEN_IN_JAVA_TOO)]


def required(options: Any, *names: str) -> list[str]:
    """Problems where own options are not given: they cannot be declared so, as each rule has them."""
    return [f"option '{n}' is required and missing" for n in names if not getattr(options, n)]


def _wants_outer(options: Any) -> bool:
    """The block's own options count, unless there are rules for single tables and nothing else."""
    if not options.table_transform:
        return True
    common = {f.name for f in fields(TableOptions)} | {"table_transform"}
    return any(
        getattr(options, known.attribute) != known.default
        for known in declared_options(type(options))
        if known.attribute not in common
    )
