"""How FieldRename and TableRename make a new name of an old one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from holdfast.spec.options import option
from holdfast.transforms.table_rules import regex_problems


@dataclass(frozen=True)
class Substitution:
    """One entry of `replacements_with_regex`."""

    replace_from: str = option("What to look for in the old name.")
    replace_to: str = option("What to put in its place, as it is.")
    is_regex: bool = option(
        "False: replace_from is a whole name and no regular expression.", default=True
    )


@dataclass(frozen=True)
class Renaming:
    """What one rule says."""

    convert_case: Literal["UPPER", "LOWER"] | None = option("The case of new names.", default=None)
    prefix: str = option("Put before each name.", default="")
    suffix: str = option("Put behind each name.", default="")
    replacements_with_regex: list[Substitution] = option(
        "Replacements within the old name. What is put in keeps its case; the last entry that"
        " matches counts.",
        default=[],
    )


def derive_name(renaming: Any, old: str) -> str:
    """Replacements are looked for in the old name; case, prefix and suffix come after."""
    spans: list[tuple[int, int]] = []
    put = ""
    for substitution in renaming.replacements_with_regex:
        found = _spans(substitution, old)
        if found:
            spans, put = found, substitution.replace_to.strip()
    parts, at = [], 0
    for start, end in spans:
        parts += [_cased(renaming, old[at:start]), put]
        at = end
    parts.append(_cased(renaming, old[at:]))
    return f"{renaming.prefix.strip()}{''.join(parts)}{renaming.suffix.strip()}"


def find_renaming_problems(renaming: Any) -> Sequence[str]:
    return [
        said
        for one in renaming.replacements_with_regex
        if one.is_regex
        for said in regex_problems("replace_from", one.replace_from)
    ]


def _spans(substitution: Substitution, old: str) -> list[tuple[int, int]]:
    if not substitution.replace_from:
        return []
    if not substitution.is_regex:
        return [(0, len(old))] if old == substitution.replace_from else []
    return [found.span() for found in re.finditer(substitution.replace_from, old)]


def _cased(renaming: Any, text: str) -> str:
    return cased(text, renaming.convert_case)


def cased(text: str, case: str | None) -> str:
    if case is None:
        return text
    return text.upper() if case == "UPPER" else text.lower()
