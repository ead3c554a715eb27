"""JDBC urls: where they point, without any driver. What stands behind `?` are the driver's properties."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import parse_qsl, unquote

from holdfast.connectors.jdbc.dialects.base import Endpoint
from holdfast.model.errors import ConfigError

PORTS = {"postgresql": 5432, "mysql": 3306, "mariadb": 3306}
_NETWORK = re.compile(
    r"jdbc:(?P<kind>[a-z]+)://(?P<host>\[[^\]]+\]|[^/:?;,]*)(:(?P<port>\d+))?"
    r"(/(?P<database>[^?;]*))?(\?(?P<query>.*))?$"
)
_FILE = re.compile(r"jdbc:(?P<kind>sqlite):(?P<path>[^?]*)(\?(?P<query>.*))?$")
NO_URL = "expected a url that begins with 'jdbc:', as jdbc:postgresql://host:5432/database"
_KIND = re.compile(r"jdbc:(?P<kind>[A-Za-z0-9]+)")


def url_is_sound(url: str) -> bool:
    return _KIND.match(url) is not None


def url_kind(url: str) -> str:
    """The word behind `jdbc:`."""
    found = _KIND.match(url)
    assert found, "checked with the options"
    return found["kind"].lower()


def parse_url(
    url: str,
    *,
    user: str | None = None,
    password: str | None = None,
    properties: Mapping[str, str] | None = None,
    timeouts_ms: tuple[int, int] = (30_000, 86_400_000),
) -> Endpoint:
    """An endpoint; `properties`, `user` and `password` win over what the url says."""
    found = _NETWORK.match(url) or _FILE.match(url)
    if not found:
        raise ConfigError(
            "Cannot read option 'url' of connector 'Jdbc': expected"
            " jdbc:<kind>://host:port/database or jdbc:sqlite:<file>."
        )
    parts = found.groupdict()
    given = {**dict(parse_qsl(parts.get("query") or "")), **(properties or {})}
    kind = parts["kind"]
    return Endpoint(
        kind=kind,
        host=(parts.get("host") or ("" if kind == "sqlite" else "localhost")).strip("[]"),
        port=int(parts.get("port") or PORTS.get(kind, 0)),
        database=unquote(parts.get("database") or parts.get("path") or ""),
        user=user or given.pop("user", None),
        password=password if password is not None else given.pop("password", None),
        properties={k: v for k, v in given.items() if k not in ("user", "password")},
        connect_timeout_ms=timeouts_ms[0],
        socket_timeout_ms=timeouts_ms[1],
        url=url,
    )
