"""Where rows go: the target of each upstream table, the save modes, and what a staging table beside it looks like."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from holdfast.connectors.jdbc.options import SinkOptions
from holdfast.connectors.jdbc.staging import KIND, SEQUENCE
from holdfast.connectors.jdbc.targets import TargetRefused, cased, target_keys, target_path
from holdfast.connectors.jdbc.through_spark.database import Connection, Database, Named
from holdfast.connectors.jdbc.through_spark.inserting import parse_insert
from holdfast.connectors.jdbc.through_spark.types import column_sql
from holdfast.model.errors import SinkRejected
from holdfast.model.schema import Column, Table


@dataclass(frozen=True, slots=True)
class SparkTarget:
    """A table that rows are written to."""

    named: Named
    columns: tuple[str, ...]
    """The upstream columns as the database calls them, in upstream order."""
    stage_types: tuple[str, ...]
    merge_keys: tuple[str, ...]
    """The key to merge by; empty where rows only insert."""

    @property
    def path(self) -> str:
        return self.named.path

    def create_stage_sql(self, connection: Connection, stage: Named) -> str:
        pairs = zip(self.columns, self.stage_types, strict=True)
        columns = [f"{connection.quote(name)} {sql_type}" for name, sql_type in pairs]
        columns += [
            f"{connection.quote(KIND)} INTEGER",
            f"{connection.quote(SEQUENCE)} DECIMAL(20,0) NOT NULL PRIMARY KEY",
        ]
        return f"CREATE TABLE {connection.sql_name(stage)} ({', '.join(columns)})"


def find_target(
    connection: Connection, database: Database, options: SinkOptions, table: Table
) -> SparkTarget:
    """The target as the database has it now. Names match whatever their case, as in SQL without quotes."""
    insert = parse_insert(options.query) if options.query else None
    path = insert.table if insert else target_path(options, table, has_schemas=True)
    named = connection.find_table(path)
    if named is None:
        raise TargetRefused(
            f"Cannot write to table '{path}' at {database.place}: there is no such table."
            " Create it, or set schema_save_mode = CREATE_SCHEMA_WHEN_NOT_EXIST."
        )
    known = {column.name: column for column in connection.columns(named)}
    loosely = {name.lower(): name for name in known}

    def found(name: str) -> str:
        own = name if name in known else loosely.get(name.lower())
        if own is None:
            raise SinkRejected(
                f"Cannot write to table '{path}' at {database.place}: it has no column '{name}', only"
                f" {', '.join(known)}. Add the column, or leave it out by a transform."
            )
        return own

    if insert:
        names = insert.columns or tuple(known)
        if len(names) != len(table.columns) or insert.values_count != len(names):
            raise SinkRejected(
                f"Cannot write to table '{path}' at {database.place}: the query takes {insert.values_count}"
                f" values for {len(names)} columns, and table '{table.path}' has {len(table.columns)}."
                " Name a ? for each column, or leave columns out by a transform."
            )
    else:
        names = tuple(cased(options, name) for name in table.column_names)
    columns = tuple(map(found, names))
    upserts = options.enable_upsert and not insert
    keys = tuple(map(found, target_keys(options, table))) if upserts else ()
    types = tuple(
        _text_sql(database) if _is_staged_as_text(column) else known[name].sql_type
        for column, name in zip(table.columns, columns, strict=True)
    )
    return SparkTarget(named, columns, types, keys)


def _is_staged_as_text(column: Column) -> bool:
    """Spark's writer knows no TIME. And it calls every NULL of a text by one type, which must then be the column's."""
    return bool(pa.types.is_time(column.type) or pa.types.is_string(column.type))


def _text_sql(database: Database) -> str:
    text = Column("text", pa.string())
    return column_sql(database.spark(), database.place.url, text, is_key=False)


def apply_save_modes(
    connection: Connection, database: Database, options: SinkOptions, table: Table
) -> None:
    """Bring the target of one upstream table into the shape that the job asks for; that of a query stays as it is."""
    if options.query:
        return
    path = target_path(options, table, has_schemas=True)
    named = connection.find_table(path)
    mode = options.schema_save_mode
    if mode == "ERROR_WHEN_SCHEMA_NOT_EXIST" and named is None:
        raise TargetRefused(
            f"Cannot write to table '{path}' at {database.place}: there is no such table, and"
            " schema_save_mode is ERROR_WHEN_SCHEMA_NOT_EXIST. Create it, or choose another mode."
        )
    if mode == "RECREATE_SCHEMA" and named is not None:
        connection.execute(f"DROP TABLE {connection.sql_name(named)}")
        named = None
    if named is None and mode != "IGNORE":
        connection.execute(_create_sql(connection, database, options, table, path))
        if options.data_save_mode != "CUSTOM_PROCESSING":
            return
    _apply_data_mode(connection, database, options, path)


def _create_sql(
    connection: Connection, database: Database, options: SinkOptions, table: Table, path: str
) -> str:
    keys = target_keys(options, table)
    spark, url = database.spark(), database.place.url
    columns = []
    for column in table.columns:
        named = replace(column, name=cased(options, column.name))
        is_key = named.name in keys
        required = " NOT NULL" if is_key or not column.nullable else ""
        type_ = column_sql(spark, url, named, is_key=is_key)
        columns.append(f"{connection.quote(named.name)} {type_}{required}")
    if keys and options.create_index:
        columns.append(f"PRIMARY KEY ({', '.join(map(connection.quote, keys))})")
    return f"CREATE TABLE {connection.sql_name(connection.place_for(path))} ({', '.join(columns)})"


def _apply_data_mode(
    connection: Connection, database: Database, options: SinkOptions, path: str
) -> None:
    if options.data_save_mode == "CUSTOM_PROCESSING":
        for statement in (options.custom_sql or "").split(";"):
            if statement.strip():
                connection.execute(statement)
    named = connection.find_table(path)
    if named is None:
        return
    if options.data_save_mode == "DROP_DATA":
        connection.execute(f"DELETE FROM {connection.sql_name(named)}")
    if options.data_save_mode == "ERROR_WHEN_DATA_EXISTS":
        ((count,),) = connection.fetch(f"SELECT COUNT(*) FROM {connection.sql_name(named)}")
        if count != "0":
            raise TargetRefused(
                f"Cannot write to table '{path}' at {database.place}: it holds rows, and data_save_mode"
                " is ERROR_WHEN_DATA_EXISTS. Empty it, or choose another mode."
            )
