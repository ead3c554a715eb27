"""Which dialect speaks to a url. Loaded at first use: a missing driver is an error of the job that needs it."""

from __future__ import annotations

from importlib import import_module

from holdfast.connectors.jdbc.dialects.base import Dialect
from holdfast.connectors.jdbc.url import url_kind

_DIALECTS = {
    "mariadb": "holdfast.connectors.jdbc.dialects.mysql:DIALECT",
    "mysql": "holdfast.connectors.jdbc.dialects.mysql:DIALECT",
    "postgresql": "holdfast.connectors.jdbc.dialects.postgres:DIALECT",
    "sqlite": "holdfast.connectors.jdbc.dialects.sqlite:DIALECT",
}
"""By the word behind `jdbc:`. Kinds that are not here go through Spark and a JDBC driver (`through_spark`)."""


def native_kinds() -> list[str]:
    return sorted(_DIALECTS)


def is_native(url: str, dialect: str | None) -> bool:
    """Whether we speak to this url ourselves."""
    return (dialect or url_kind(url)).lower() in _DIALECTS


def find_dialect(kind: str) -> Dialect | None:
    """The dialect of a kind, or None where there is none of ours."""
    target = _DIALECTS.get(kind.lower())
    if target is None:
        return None
    module, _, attribute = target.partition(":")
    found: Dialect = getattr(import_module(module), attribute)
    return found
