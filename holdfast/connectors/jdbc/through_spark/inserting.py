"""A job's own `INSERT INTO t (a, b) VALUES (?, ?)`, as the table and the columns that it names: it is staged."""

from __future__ import annotations

import re
from dataclasses import dataclass

_INSERT = re.compile(
    r"\s*insert\s+into\s+(?P<table>[^\s(]+)\s*(?:\((?P<columns>[^)]*)\)\s*)?"
    r"values\s*\(\s*\?(?:\s*,\s*\?)*\s*\)\s*;?\s*",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Insert:
    """Where rows go, a value for each column in their order."""

    table: str
    columns: tuple[str, ...]
    """Empty: those of the table."""
    values_count: int


def parse_insert(query: str) -> Insert | None:
    """None where the statement is another, or computes what it inserts."""
    found = _INSERT.fullmatch(query)
    if found is None:
        return None
    columns = [_plain(name) for name in (found["columns"] or "").split(",") if name.strip()]
    table = ".".join(_plain(part) for part in found["table"].split("."))
    return Insert(table, tuple(columns), query.count("?"))


def _plain(name: str) -> str:
    return name.strip().strip('"`[]')
