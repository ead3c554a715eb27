"""What a Jdbc source reads: the tables and queries its options name, as the database's catalog tells them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from holdfast.connectors.jdbc.dialects.base import Described, Dialect, Endpoint, Key
from holdfast.connectors.jdbc.options import SourceOptions, TableOptions
from holdfast.model.errors import Terminal


class TableMissing(Terminal):
    """A table that the job names is not there."""

    code = "table-missing"


@dataclass(frozen=True)
class Relation:
    """One table or query, with how it is cut into splits."""

    described: Described
    from_sql: str
    """As it stands behind FROM."""
    condition: str
    """SQL that every row fulfils; empty for none."""
    key: Key | None
    is_query: bool
    splits_wanted: int | None
    lower: str | None = None
    upper: str | None = None

    @property
    def path(self) -> str:
        return self.described.table.path


def table_options(options: SourceOptions) -> list[TableOptions]:
    """Every table as if it stood in `table_list`."""
    if options.table_list:
        return [
            replace(t, where_condition=t.where_condition or options.where_condition)
            for t in options.table_list
        ]
    return [
        TableOptions(
            table_path=options.table_path,
            query=options.query,
            use_regex=options.use_regex,
            where_condition=options.where_condition,
            partition_column=options.partition_column,
            partition_lower_bound=options.partition_lower_bound,
            partition_upper_bound=options.partition_upper_bound,
            partition_num=options.partition_num,
        )
    ]


def find_relations(
    dialect: Dialect, connection: Any, options: SourceOptions, endpoint: Endpoint
) -> list[Relation]:
    """All of them, in the order of the job file, each path once."""
    found: dict[str, Relation] = {}
    for wanted in table_options(options):
        for relation in _relations_of(dialect, connection, wanted, endpoint):
            found.setdefault(relation.path, relation)
    return list(found.values())


def _relations_of(
    dialect: Dialect, connection: Any, wanted: TableOptions, endpoint: Endpoint
) -> list[Relation]:
    if wanted.query:
        query = wanted.query.strip().rstrip(";")
        described = dialect.describe_query(connection, query, wanted.table_path or "default")
        return [_relation(dialect, described, f"({query}) q", wanted, endpoint)]
    assert wanted.table_path, "checked with the options"
    paths = [wanted.table_path]
    if wanted.use_regex:
        paths = matching(wanted.table_path, dialect.list_tables(connection))
        if not paths:
            raise TableMissing(
                f"Cannot read tables like '{wanted.table_path}' at {endpoint}: no table that the user"
                " may read matches the pattern. Check table_path."
            )
    found = []
    for path in paths:
        table = dialect.describe(connection, path)
        if table is None:
            raise TableMissing(
                f"Cannot read table '{path}' at {endpoint}: there is no such table. Check table_path."
            )
        found.append(
            _relation(dialect, table, dialect.sql_name(table.table.path), wanted, endpoint)
        )
    return found


def matching(pattern: str, paths: list[str]) -> list[str]:
    """Paths that a pattern matches whole: with the database before them, or without."""
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise Terminal(
            f"Cannot read tables like '{pattern}': {error}. Correct table_path."
        ) from error
    return [
        path
        for path in paths
        if any(compiled.fullmatch(path.split(".", cut)[-1]) for cut in range(path.count(".") + 1))
    ]


def _relation(
    dialect: Dialect, described: Described, from_sql: str, wanted: TableOptions, endpoint: Endpoint
) -> Relation:
    if described.unreadable:
        raise Terminal(
            f"Cannot read '{described.table.path}' at {endpoint}: there is no type for its column"
            f" {described.unreadable}. Leave it out by a query, or convert it there, as by ST_AsText."
        )
    key = described.key
    if wanted.query or wanted.partition_column:
        key = _named_key(dialect, described, wanted, endpoint)
    return Relation(
        described,
        from_sql,
        wanted.where_condition or "",
        key,
        bool(wanted.query),
        wanted.partition_num,
        wanted.partition_lower_bound,
        wanted.partition_upper_bound,
    )


def _named_key(
    dialect: Dialect, described: Described, wanted: TableOptions, endpoint: Endpoint
) -> Key | None:
    if wanted.partition_column is None:
        return None
    found = dialect.key_of(described, wanted.partition_column)
    if found is None:
        names = ", ".join(described.table.column_names)
        raise TableMissing(
            f"Cannot cut '{described.table.path}' at {endpoint} by partition_column"
            f" '{wanted.partition_column}': its columns are {names}. Name one of them."
        )
    return found
