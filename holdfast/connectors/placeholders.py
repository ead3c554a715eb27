"""Placeholders in the options of sinks: `${table_name}` and its kin, filled for each table that reaches the sink.

`${x:default}` takes the default where the table has no such thing; without one, nothing is put in its place. Any
other `${…}` is left as it stands: it belongs to the sink (`${transactionId}`, `${now}`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from holdfast.model.schema import Table

_PLACEHOLDER = re.compile(r"\$\{(\w+)(?::([^}]*))?\}")
_LISTS = ("primary_key", "unique_key", "field_names")
PLACEHOLDERS = (
    *("database_name", "schema_name", "table_name", "schema_full_name", "table_full_name"),
    *_LISTS,
)


def fill(template: str, table: Table) -> str:
    """The template with the placeholders of a table filled. Several names are joined by commas."""
    if "${" not in template:
        return template
    values = _values_of(table)

    def value_of(found: re.Match[str]) -> str:
        name, default = found.groups()
        names = values.get(name)
        if names is None:
            return found.group()
        return ",".join(names) or default or ""

    return _PLACEHOLDER.sub(value_of, template)


def fill_names(templates: Sequence[str], table: Table) -> list[str]:
    """A list of names: an entry that is `${primary_key}`, `${unique_key}` or `${field_names}` becomes several."""
    values = _values_of(table)
    filled: list[str] = []
    for template in templates:
        whole = _PLACEHOLDER.fullmatch(template.strip())
        if whole and whole.group(1) in _LISTS and values[whole.group(1)]:
            filled += values[whole.group(1)]
        else:
            filled += [name for name in fill(template, table).split(",") if name]
    return filled


def has_placeholder(template: str) -> bool:
    """Whether the text depends on the table."""
    return any(found.group(1) in PLACEHOLDERS for found in _PLACEHOLDER.finditer(template))


def _values_of(table: Table) -> dict[str, list[str]]:
    """A path of two parts is database and table, as in SeaTunnel."""
    parts = table.path.rsplit(".", 2)
    name = parts[-1]
    database = parts[0] if len(parts) > 1 else ""
    schema = parts[1] if len(parts) > 2 else ""
    full_schema = ".".join(part for part in (database, schema) if part)
    return {
        "database_name": _listed(database),
        "schema_name": _listed(schema),
        "table_name": _listed(name),
        "schema_full_name": _listed(full_schema),
        "table_full_name": _listed(table.path),
        "primary_key": list(table.primary_key),
        "unique_key": list(table.unique_keys[0]) if table.unique_keys else [],
        "field_names": table.column_names,
    }


def _listed(name: str) -> list[str]:
    return [name] if name else []
