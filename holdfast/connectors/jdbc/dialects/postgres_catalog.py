"""PostgreSQL's catalog: columns, keys, comments and sizes of tables, and the shape of queries."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from holdfast.connectors.jdbc.dialects import postgres_types
from holdfast.connectors.jdbc.dialects.base import Described, Key
from holdfast.model.schema import Column, Table

ROW_SIZE_GUESS = 100
"""Bytes of a row, for tables that were never analyzed."""
_NUMERIC = ("smallint", "integer", "bigint", "numeric", "real", "double precision")


def describe(connection: Any, path: str) -> Described | None:
    """A table, view or foreign table by its path."""
    name = postgres_types.sql_name(path)
    found = connection.execute(
        "SELECT c.oid, current_database(), n.nspname, c.relname, c.relkind::text,"
        " c.reltuples::bigint, obj_description(c.oid, 'pg_class'),"
        " CASE WHEN c.relkind IN ('r', 'm') THEN pg_relation_size(c.oid) END,"
        " current_setting('block_size')::int"
        " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE c.oid = to_regclass(%s) AND c.relkind IN ('r', 'p', 'v', 'm', 'f')",
        [name],
    ).fetchone()
    if found is None:
        return None
    oid, database, schema, table, _, tuples, comment, size, block = found
    columns = _columns(connection, oid)
    keys = _unique_keys(connection, oid)
    primary = next((names for is_primary, names in keys if is_primary), ())
    full = Table(
        ".".join((database, schema, table)),
        tuple(column for column, _ in columns),
        tuple(primary),
        tuple(tuple(names) for is_primary, names in keys if not is_primary),
        comment,
    )
    estimate = tuples if tuples >= 0 else (None if size is None else size // ROW_SIZE_GUESS)
    found_types = tuple(type_ for _, type_ in columns)
    described = Described(
        full,
        found_types,
        rows_estimate=estimate,
        pages=None if size is None else -(-size // block),
        unique_keys=tuple(frozenset(names) for _, names in keys),
    )
    first = next((names[0] for _, names in keys), None)
    return described if first is None else replace(described, key=key_of(described, first))


def key_of(described: Described, column: str) -> Key | None:
    """Facts of a column as a key to cut by; None where there is no such column."""
    for known, sql_type in zip(described.table.columns, described.sql_types, strict=True):
        if known.name == column:
            indexed = any(names[0] == column for names in _leading(described))
            base = postgres_types.parse_sql_type(sql_type)[0]
            return Key(column, sql_type, indexed, known.nullable, base in _NUMERIC)
    return None


def _leading(described: Described) -> list[tuple[str, ...]]:
    table = described.table
    return [names for names in (table.primary_key, *table.unique_keys) if names]


def describe_query(connection: Any, query: str, path: str) -> Described:
    """The columns of a query's result. The query is planned and not run."""
    cursor = connection.execute(f"SELECT * FROM ({query}) q LIMIT 0".encode())
    result = cursor.pgresult
    codes = [(result.ftype(i), result.fmod(i)) for i in range(result.nfields)]
    names = [column.name for column in cursor.description]
    types = connection.execute(
        "SELECT format_type(oid, mod) FROM unnest(%s::oid[], %s::int[])"
        " WITH ORDINALITY AS t(oid, mod, at) ORDER BY at",
        [[oid for oid, _ in codes], [mod for _, mod in codes]],
    ).fetchall()
    sql_types = tuple(str(row[0]) for row in types)
    columns = tuple(
        Column(name, postgres_types.arrow_of(type_))
        for name, type_ in zip(names, sql_types, strict=True)
    )
    plan = connection.execute(f"EXPLAIN (FORMAT JSON) {query}".encode()).fetchone()[0]
    plan = json.loads(plan) if isinstance(plan, str) else plan
    return Described(
        Table(path, columns), sql_types, rows_estimate=int(plan[0]["Plan"]["Plan Rows"])
    )


def _columns(connection: Any, oid: int) -> list[tuple[Column, str]]:
    """A domain is read as the type under it."""
    rows = connection.execute(
        "SELECT a.attname, CASE WHEN t.typtype = 'd' THEN format_type(t.typbasetype, t.typtypmod)"
        " ELSE format_type(a.atttypid, a.atttypmod) END, a.attnotnull,"
        " col_description(a.attrelid, a.attnum), pg_get_expr(d.adbin, d.adrelid), a.attgenerated <> ''"
        " FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid"
        " LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum"
        " WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum",
        [oid],
    ).fetchall()
    found = []
    for name, sql_type, not_null, comment, default, generated in rows:
        base, arguments, _ = postgres_types.parse_sql_type(sql_type)
        length = arguments[0] if base.startswith("character") and arguments else None
        type_ = postgres_types.arrow_of(sql_type)
        shown = None if generated else default
        found.append((Column(name, type_, not not_null, shown, comment, length), str(sql_type)))
    return found


def _unique_keys(connection: Any, oid: int) -> list[tuple[bool, list[str]]]:
    """Columns of unique indexes that hold for every row, the primary key first."""
    rows = connection.execute(
        "SELECT i.indisprimary, array_agg(a.attname ORDER BY k.at) FROM pg_index i"
        " CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k(number, at)"
        " JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number"
        " WHERE i.indrelid = %s AND i.indisunique AND i.indisvalid AND i.indpred IS NULL"
        " AND i.indexprs IS NULL AND k.at <= i.indnkeyatts"
        " GROUP BY i.indexrelid, i.indisprimary ORDER BY 1 DESC, i.indexrelid",
        [oid],
    ).fetchall()
    return [(bool(primary), list(names)) for primary, names in rows]
