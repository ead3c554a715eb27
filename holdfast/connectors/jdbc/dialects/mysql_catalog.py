"""MySQL's catalog: columns, keys, comments and sizes of tables, and the shape of queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pymysql import err

from holdfast.connectors.jdbc.dialects import mysql_types
from holdfast.connectors.jdbc.dialects.base import Described, Key
from holdfast.connectors.jdbc.dialects.mysql_types import literal, quote, split_path, sql_name
from holdfast.connectors.jdbc.dialects.mysql_wire import Session
from holdfast.model.schema import Column, Table

_NO_SUCH_TABLE, _NO_SUCH_DATABASE, _NO_DATABASE = 1146, 1049, 1046
_SYSTEM = "('mysql', 'information_schema', 'performance_schema', 'sys')"
_NUMERIC = ("tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "float", "double")
_EXPLAINED_ROWS = "rows"
_WITHOUT_TRANSACTIONS = ("myisam", "aria", "memory", "csv", "archive", "merge", "mrg_myisam")


def list_tables(session: Session) -> list[str]:
    _, rows = session.query(
        "SELECT table_schema, table_name FROM information_schema.tables"
        f" WHERE table_schema NOT IN {_SYSTEM} AND table_name NOT REGEXP"
        " '^(hf_[0-9a-f]{12}_|holdfast_epochs$)' AND table_type <> 'SEQUENCE' ORDER BY 1, 2"
    )
    return [".".join(row) for row in rows]


def describe(session: Session, path: str) -> Described | None:
    """A table or view by its path. The server itself says what a name means, upper and lower case included."""
    try:
        _, columns = session.query(f"SHOW FULL COLUMNS FROM {sql_name(path)}")
        _, indexes = session.query(f"SHOW INDEX FROM {sql_name(path)}")
    except err.Error as error:
        if error.args and error.args[0] in (_NO_SUCH_TABLE, _NO_SUCH_DATABASE):
            return None
        raise
    database, name = _full_path(session, path)
    _, found = session.query(
        "SELECT table_rows, table_comment, table_type, engine FROM information_schema.tables"
        f" WHERE table_schema = {literal(database)} AND table_name = {literal(name)}"
    )
    rows, comment, kind, engine = found[0] if found else (None,) * 4
    keys = _keys(indexes)
    primary = keys.pop("PRIMARY", ())
    types = [_sql_type(session, str(row[1])) for row in columns]
    table = Table(
        f"{database}.{name}",
        tuple(_column(row, type_) for row, type_ in zip(columns, types, strict=True)),
        primary,
        tuple(dict.fromkeys(keys.values())),
        comment if comment and kind != "VIEW" else None,
    )
    all_keys = [key for key in (primary, *table.unique_keys) if key]
    described = Described(
        table,
        tuple(types),
        rows_estimate=None if rows is None else int(rows),
        unique_keys=tuple(frozenset(key) for key in all_keys),
        unreadable=_unreadable(table, types),
        transactional=engine is None or str(engine).lower() not in _WITHOUT_TRANSACTIONS,
    )
    if not all_keys:
        return described
    return replace(described, key=key_of(described, all_keys[0][0]))


def describe_query(session: Session, query: str, path: str) -> Described:
    wires = session.columns_of(query)
    types = tuple(_sql_type(session, mysql_types.type_of_wire(wire)) for wire in wires)
    columns = tuple(
        Column(wire.name, mysql_types.arrow_of(type_), wire.nullable)
        for wire, type_ in zip(wires, types, strict=True)
    )
    table = Table(path, columns)
    return Described(
        table,
        types,
        rows_estimate=_rows_of_query(session, query),
        unreadable=_unreadable(table, types),
    )


def key_of(described: Described, column: str) -> Key | None:
    """Names of columns are the same in upper and lower case."""
    table = described.table
    for known, sql_type in zip(table.columns, described.sql_types, strict=True):
        if known.name.lower() == column.lower():
            leading = [key[0] for key in (table.primary_key, *table.unique_keys) if key]
            numeric = mysql_types.parse_type(sql_type)[0] in _NUMERIC
            return Key(known.name, sql_type, known.name in leading, known.nullable, numeric)
    return None


def create_database(session: Session, path: str) -> None:
    parts = split_path(path)
    if len(parts) < 2:
        return
    name = literal(parts[-2])
    _, found = session.query(
        f"SELECT 1 FROM information_schema.schemata WHERE schema_name = {name}"
    )
    if not found:
        session.query(f"CREATE DATABASE IF NOT EXISTS {quote(parts[-2])}")


def _unreadable(table: Table, sql_types: Sequence[str]) -> str:
    shapes = [
        f"'{column.name}' ({sql_type})"
        for column, sql_type in zip(table.columns, sql_types, strict=True)
        if mysql_types.is_geometry(sql_type)
    ]
    return ", ".join(shapes)


def _full_path(session: Session, path: str) -> tuple[str, str]:
    parts = split_path(path)[-2:]
    if len(parts) == 2:
        return parts[0], parts[1]
    _, rows = session.query("SELECT database()")
    return str(rows[0][0]), parts[0]


def _sql_type(session: Session, declared: str) -> str:
    return declared if session.bools else mysql_types.without_bools(declared)


def _column(row: tuple[object, ...], sql_type: str) -> Column:
    """A row of SHOW FULL COLUMNS."""
    name, declared, _, null, _, default, extra, _, comment = row
    base, options, _ = mysql_types.parse_type(str(declared))
    length = options[0] if base in ("char", "varchar") and options else None
    generated = "GENERATED" in str(extra).upper() or default is None
    return Column(
        str(name),
        mysql_types.arrow_of(sql_type),
        null == "YES",
        None if generated else str(default),
        str(comment) if comment else None,
        length,
    )


def _keys(indexes: list[tuple[object, ...]]) -> dict[str, tuple[str, ...]]:
    """Columns of the unique indexes that are over whole columns, the primary key first."""
    found: dict[str, list[str]] = {}
    partial = set()
    for row in sorted(indexes, key=lambda row: int(str(row[3]))):
        _, not_unique, name, _, column, _, _, prefix = row[:8]
        if int(str(not_unique)) == 0:
            found.setdefault(str(name), []).append(str(column))
            if prefix is not None or column is None:
                partial.add(str(name))
    whole = {name: tuple(columns) for name, columns in found.items() if name not in partial}
    return dict(sorted(whole.items(), key=lambda item: item[0] != "PRIMARY"))


def _rows_of_query(session: Session, query: str) -> int | None:
    """The largest count of the server's plan: joins are estimated far above what they give."""
    with session.raw.cursor() as cursor:
        cursor.execute(f"EXPLAIN {query}")
        names = [column[0] for column in cursor.description]
        rows = cursor.fetchall()
    if _EXPLAINED_ROWS not in names:
        return None
    at = names.index(_EXPLAINED_ROWS)
    counts = [int(row[at]) for row in rows if row[at] is not None]
    return max(counts, default=None)
