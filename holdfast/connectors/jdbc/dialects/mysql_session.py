"""Logging in to MySQL or MariaDB, and what a session is told before its first statement."""

from __future__ import annotations

import ssl
from typing import Any

from holdfast.connectors.jdbc.dialects.base import Endpoint
from holdfast.connectors.jdbc.dialects.mysql_types import literal
from holdfast.connectors.jdbc.dialects.mysql_wire import Session, log_in
from holdfast.model.errors import Terminal

PATIENCE_SECONDS = 3_600
"""How long the server waits while the other side of a job is slow; by itself it would for a minute."""
_ASKED = (
    *("sql_mode", "local_infile", "max_allowed_packet", "log_bin", "binlog_format"),
    "information_schema_stats_expiry",
)
_YES = ("true", "1", "yes", "on")
_MODES_ON = ("STRICT_TRANS_TABLES", "STRICT_ALL_TABLES", "NO_AUTO_VALUE_ON_ZERO")
_MODES_OFF = ("NO_BACKSLASH_ESCAPES", "HIGH_NOT_PRECEDENCE")


def connect(endpoint: Endpoint) -> Session:
    """Log in, look at the server, and set the session up."""
    given = {name.lower(): value for name, value in endpoint.properties.items()}
    session = log_in(
        host=endpoint.host,
        port=endpoint.port,
        user=endpoint.user or "",
        password=(endpoint.password or "").encode(),
        database=endpoint.database or None,
        connect_timeout=min(max(1, endpoint.connect_timeout_ms // 1000), 31_536_000),
        read_timeout=max(1, endpoint.socket_timeout_ms // 1000),
        write_timeout=max(1, endpoint.socket_timeout_ms // 1000),
        **_tls(given),
    )
    names = ", ".join(map(literal, _ASKED))
    _, rows = session.query(f"SHOW VARIABLES WHERE variable_name IN ({names})")
    known = {str(name).lower(): str(value) for name, value in rows}
    session.bools = _is_on(given, "tinyint1isbit", "true")
    session.zero_dates_as_null = given.get("zerodatetimebehavior", "").lower() in (
        "converttonull",
        "convert_to_null",
    )
    session.can_load = known.get("local_infile", "OFF").upper() in ("ON", "1") and _is_on(
        given, "allowloadlocalinfile", "true"
    )
    session.packet_max = int(known.get("max_allowed_packet", session.packet_max))
    session.query(f"SET {', '.join(_settings(known))}")
    if known.get("log_bin") != "ON" or known.get("binlog_format") != "STATEMENT":
        session.query("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
    return session


def _settings(known: dict[str, str]) -> list[str]:
    """Errors stay errors, moments are in UTC, and nobody is cut off while rows wait at the other end."""
    modes = [mode for mode in known.get("sql_mode", "").split(",") if mode not in ("", *_MODES_OFF)]
    modes += [mode for mode in _MODES_ON if mode not in modes]
    found = [
        f"sql_mode = {literal(','.join(modes))}",
        "time_zone = '+00:00'",
        "sql_notes = 0",
        "default_storage_engine = InnoDB",
        f"net_read_timeout = {PATIENCE_SECONDS}",
        f"net_write_timeout = {PATIENCE_SECONDS}",
    ]
    if "information_schema_stats_expiry" in known:
        found.append("information_schema_stats_expiry = 0")
    return found


def _is_on(given: dict[str, str], name: str, default: str) -> bool:
    return given.get(name, default).lower() in _YES


def _tls(given: dict[str, str]) -> dict[str, Any]:
    """From the words of Connector/J and of MariaDB's driver."""
    mode = given.get("sslmode", "").lower().replace("-", "_")
    if not mode and "usessl" in given:
        mode = "required" if _is_on(given, "usessl", "false") else "disabled"
        if mode == "required" and _is_on(given, "verifyservercertificate", "false"):
            mode = "verify_ca"
    authority = given.get("serversslcert") or given.get("sslca")
    match mode:
        case "" | "preferred":
            return {}
        case "disable" | "disabled":
            return {"ssl_disabled": True}
        case "required" | "trust":
            context = ssl.create_default_context()
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            return {"ssl": context}
        case "verify_ca" | "verify_identity" | "verify_full":
            return {
                "ssl_ca": authority,
                "ssl_verify_cert": True,
                "ssl_verify_identity": mode != "verify_ca",
            }
    raise Terminal(
        f"Cannot connect: sslMode '{mode}' is not one of disabled, preferred, required, verify_ca,"
        " verify_identity. Correct the url."
    )
