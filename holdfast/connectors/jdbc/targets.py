"""Where a sink's rows go: the target of each upstream table, and the save modes applied to it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from holdfast.connectors.jdbc.dialects.base import Described, Dialect, Endpoint
from holdfast.connectors.jdbc.options import SinkOptions
from holdfast.connectors.placeholders import fill, fill_names
from holdfast.model.errors import SinkRejected, Terminal
from holdfast.model.json import Json
from holdfast.model.schema import Table


class TargetRefused(Terminal):
    """A save mode, or the shape of the target, forbids to write."""

    code = "target-refused"


_QUOTED = (
    re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*\"""" + "|`[^`]*`"),
    re.compile(r"""'(?:[^'\\]|''|\\.)*'|"(?:[^"\\]|""|\\.)*\"""" + "|`[^`]*`", re.DOTALL),
)
"""Without and with backslashes that mean something: databases differ."""


def expect_value_for_each_column(query: str, table: Table) -> None:
    """A statement of the user's own takes the columns in their order."""
    columns = table.column_names
    places = [quoted.sub("", query).count("?") for quoted in _QUOTED]
    if len(columns) not in places:
        raise TargetRefused(
            f"Cannot write rows of '{table.path}' by the sink's query: it has {places[0]} places (?), and the table has"
            f" {len(columns)} columns ({', '.join(columns)}). Give each column a place, or leave columns out by a"
            " transform."
        )


@dataclass(frozen=True)
class Target:
    """A table that rows are written to."""

    path: str
    columns: tuple[str, ...]
    """The upstream columns as they are called here, in upstream order."""
    sql_types: tuple[str, ...]
    keys: tuple[str, ...]
    keys_are_unique: bool
    keys_are_alone: bool
    upserts: bool
    """Rows that only insert are merged by key too: where the job names the key, or the target has it. A key that only
    the upstream table has identifies no row here, and looking for one would read the whole target each time.
    """
    byte_types: tuple[str, ...] | None
    transactional: bool = True


def target_path(options: SinkOptions, table: Table, *, has_schemas: bool) -> str:
    """`schema.table` of the target (`database.table` where there are no schemas), or less."""
    if options.table is not None:
        path = fill(options.table, table)
    elif has_schemas and table.path.count(".") >= 2:
        path = ".".join(table.path.rsplit(".", 2)[-2:])
    else:
        path = table.name
    if options.database and not has_schemas and "." not in path:
        path = f"{fill(options.database, table)}.{path}"
    before, dot, name = path.rpartition(".")
    return f"{before}{dot}{options.table_prefix}{name}{options.table_suffix}"


def target_keys(options: SinkOptions, table: Table) -> tuple[str, ...]:
    """Key columns: those of the job, else those of the upstream table."""
    return _named_keys(options, table) or _cased(options, list(table.primary_key))


def _named_keys(options: SinkOptions, table: Table) -> tuple[str, ...]:
    """Those that the job names."""
    for entry in _patterns(options):
        pattern = str(entry.get("table", entry.get("pattern", "")))
        columns = entry.get("primary_keys", entry.get("columns"))
        if re.fullmatch(pattern, table.path) and isinstance(columns, list):
            return _cased(options, [str(column) for column in columns])
    return _cased(options, fill_names(options.primary_keys or [], table))


def _patterns(options: SinkOptions) -> list[dict[str, Json]]:
    chosen = options.multi_table_config.primary_keys if options.multi_table_config else None
    return chosen.regex if chosen else []


def cased(options: SinkOptions, name: str) -> str:
    """A column's name as `field_ide` wants it."""
    match options.field_ide:
        case "UPPERCASE":
            return name.upper()
        case "LOWERCASE":
            return name.lower()
    return name


def _cased(options: SinkOptions, names: list[str]) -> tuple[str, ...]:
    return tuple(cased(options, name) for name in names)


def find_target(
    dialect: Dialect, connection: Any, options: SinkOptions, endpoint: Endpoint, table: Table
) -> Target:
    """The target as the database has it now."""
    path = target_path(options, table, has_schemas=dialect.has_schemas)
    described = dialect.describe(connection, path)
    if described is None:
        raise TargetRefused(
            f"Cannot write to table '{path}' at {endpoint}: there is no such table."
            " Create it, or set schema_save_mode = CREATE_SCHEMA_WHEN_NOT_EXIST."
        )
    keys = target_keys(options, table)
    types = dict(zip(described.table.column_names, described.sql_types, strict=True))
    columns = _cased(options, table.column_names)
    missing = [name for name in (*columns, *keys) if name not in types]
    if missing:
        raise SinkRejected(
            f"Cannot write to table '{path}' at {endpoint}: it has no column '{missing[0]}', only"
            f" {', '.join(types)}. Add the column, or leave it out by a transform."
        )
    is_unique = frozenset(keys) in described.unique_keys
    return Target(
        path=path,
        columns=columns,
        sql_types=tuple(types[name] for name in columns),
        keys=keys,
        keys_are_unique=is_unique,
        keys_are_alone=set(described.unique_keys) <= {frozenset(keys)},
        upserts=options.enable_upsert
        and bool(keys)
        and (is_unique or bool(_named_keys(options, table))),
        byte_types=_byte_types(dialect, described, columns),
        transactional=described.transactional,
    )


def _byte_types(
    dialect: Dialect, described: Described, columns: tuple[str, ...]
) -> tuple[str, ...] | None:
    by_name = dict(zip(described.table.column_names, described.sql_types, strict=True))
    known = {column.name: column for column in described.table.columns}
    chosen = replace(
        described,
        table=replace(described.table, columns=tuple(known[name] for name in columns)),
        sql_types=tuple(by_name[name] for name in columns),
    )
    found = dialect.byte_types(chosen)
    return None if found is None else tuple(found)


# ------------------------------------------------------------------------------------------ save modes


def apply_save_modes(
    dialect: Dialect, connection: Any, options: SinkOptions, endpoint: Endpoint, table: Table
) -> None:
    """Bring the target of one upstream table into the shape that the job asks for."""
    path = target_path(options, table, has_schemas=dialect.has_schemas)
    there = dialect.describe(connection, path) is not None
    mode = options.schema_save_mode
    if mode == "ERROR_WHEN_SCHEMA_NOT_EXIST" and not there:
        raise TargetRefused(
            f"Cannot write to table '{path}' at {endpoint}: there is no such table, and"
            " schema_save_mode is ERROR_WHEN_SCHEMA_NOT_EXIST. Create it, or choose another mode."
        )
    if mode == "RECREATE_SCHEMA" and there:
        dialect.execute(connection, f"DROP TABLE {dialect.sql_name(path)}")
        there = False
    if mode in ("RECREATE_SCHEMA", "CREATE_SCHEMA_WHEN_NOT_EXIST") and not there:
        _create(dialect, connection, options, path, table)
        if options.data_save_mode != "CUSTOM_PROCESSING":
            return
    _apply_data_mode(dialect, connection, options, endpoint, path)


def _create(
    dialect: Dialect, connection: Any, options: SinkOptions, path: str, table: Table
) -> None:
    keys = target_keys(options, table)
    columns = tuple(
        replace(
            column,
            name=cased(options, column.name),
            nullable=column.nullable and cased(options, column.name) not in keys,
        )
        for column in table.columns
    )
    unique = tuple(_cased(options, list(key)) for key in table.unique_keys)
    made = replace(table, columns=columns, primary_key=keys, unique_keys=unique)
    dialect.create_schema(connection, path)
    for statement in dialect.create_table(path, made, with_keys=options.create_index):
        dialect.execute(connection, statement)


def _apply_data_mode(
    dialect: Dialect, connection: Any, options: SinkOptions, endpoint: Endpoint, path: str
) -> None:
    match options.data_save_mode:
        case "DROP_DATA":
            dialect.execute(connection, dialect.empty_table(path))
        case "CUSTOM_PROCESSING":
            for statement in (options.custom_sql or "").split(";"):
                if statement.strip():
                    dialect.execute(connection, statement)
        case "ERROR_WHEN_DATA_EXISTS":
            if dialect.fetch(connection, f"SELECT 1 FROM {dialect.sql_name(path)} LIMIT 1"):
                raise TargetRefused(
                    f"Cannot write to table '{path}' at {endpoint}: it holds rows, and data_save_mode"
                    " is ERROR_WHEN_DATA_EXISTS. Empty it, or choose another mode."
                )
