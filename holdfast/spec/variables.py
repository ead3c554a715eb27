"""Fills `${name}` and `${name:default}` in the strings of a job file from `-i name=value`.

Some names are not variables but placeholders that a connector fills per table, file or request: in a sink they
always stay as written, elsewhere they do unless a variable of that name was handed in.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.spec.config import ConfigObject, ConfigValue, Problem
from holdfast.spec.hocon_syntax import split_reference
from holdfast.spec.options import nearest

PLACEHOLDERS = frozenset(
    [
        *("database_name", "schema_name", "table_name", "schema_full_name", "table_full_name"),
        *("primary_key", "unique_key", "field_names", "transactionId", "now", "uuid"),
        *("page", "cursor", "database", "table", "comment", "rowtype_fields"),
        *("rowtype_primary_key", "rowtype_unique_key", "rowtype_duplicate_key"),
    ]
)
_PARTITION = re.compile(r"[kv]\d+")
_ITEM = re.compile(r"""\s*'[^']*'|\s*"[^"]*"|[^,]+""")
_REFERENCE = re.compile(r"\$\{[^{}$\n]*\}")
FREE_TEXT = frozenset({"source_code", "pattern", "replacement", "prompt", "topic"})
"""Options in which `${…}` may be the user's own text: filled where a variable fits, never complained about."""


@dataclass(slots=True)
class Filling:
    """One pass over a block. `used`: the variables that were needed."""

    variables: Mapping[str, str]
    in_sink: bool = False
    used: set[str] = field(default_factory=set)
    problems: list[Problem] = field(default_factory=list)
    unfilled: set[str] = field(default_factory=set)
    """What was complained about: whoever stumbles over it afterwards need not say so again."""

    def fill(self, entry: ConfigValue, key: str = "") -> ConfigValue:
        """The same value with its strings filled."""
        if isinstance(entry.value, ConfigObject):
            return ConfigValue(self.fill_object(entry.value), entry.line)
        if isinstance(entry.value, list):
            return ConfigValue([self.fill(item, key) for item in entry.value], entry.line)
        if isinstance(entry.value, str) and "${" in entry.value:
            line = entry.line
            found = _REFERENCE.fullmatch(entry.value)
            items = self._items(entry.value, key) if found else None
            if items is not None:
                return ConfigValue([ConfigValue(item, line) for item in items], line)
            text = _REFERENCE.sub(lambda found: self._answer(found.group(), key, line), entry.value)
            return ConfigValue(text, entry.line)
        return entry

    def fill_object(self, found: ConfigObject) -> ConfigObject:
        filled = {key: self.fill(entry, key) for key, entry in found.entries.items()}
        return ConfigObject(found.line, filled)

    def _items(self, text: str, key: str) -> list[str] | None:
        """A variable that stands alone may be a list."""
        name, _, _ = split_reference(text)
        items = list_items(self.variables.get(name, ""), key)
        if items is not None and not is_placeholder(name):
            self.used.add(name)
            return items
        return None

    def _answer(self, text: str, key: str, line: int) -> str:
        name, optional, default = split_reference(text)
        placeholder = is_placeholder(name)
        if name in self.variables and not (placeholder and self.in_sink):
            self.used.add(name)
            return self.variables[name]
        if placeholder:
            return text
        if default is not None:
            return default
        if optional:
            return ""
        if key not in FREE_TEXT:
            said = (
                f"variable '{name}' has no value. Give it one with -i {name}=…,"
                f" or a default in the file: ${{{name}:…}}"
            )
            if self.in_sink and (hint := nearest(name, sorted(PLACEHOLDERS))):
                said += f".{hint} The sink fills that itself"
            self.problems.append(Problem(line, said))
            self.unfilled.add(text)
        return text


def list_items(given: str, key: str) -> list[str] | None:
    """The items of a list, as the shell leaves it of `-i names=['a','b']`; None where it is no list."""
    given = given.strip()
    if key in FREE_TEXT or not (given.startswith("[") and given.endswith("]")):
        return None
    items = (item.strip() for item in _ITEM.findall(given[1:-1]))
    return [item[1:-1] if item[0] in "'\"" else item for item in items if item]


def is_placeholder(name: str) -> bool:
    """Whether a connector fills this name by itself."""
    return name in PLACEHOLDERS or _PARTITION.fullmatch(name) is not None
