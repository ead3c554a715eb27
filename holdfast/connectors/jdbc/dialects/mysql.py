"""MySQL and MariaDB: binary results by whole stretches, LOAD DATA LOCAL, upserts by ON DUPLICATE KEY.

Sessions run in UTC, in strict mode and in READ COMMITTED. CREATE and DROP TABLE end a transaction here, so staging
tables are made before their rows and dropped after they were published. Locks are names of the server's (GET_LOCK)
and belong to the connection: they are given back when the transaction ends.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa
from pymysql import err

from holdfast.connectors.jdbc.dialects import mysql_catalog, mysql_errors, mysql_types, mysql_write
from holdfast.connectors.jdbc.dialects.base import (
    Described,
    Endpoint,
    Key,
    Merge,
    StageTable,
    WithoutByteFormat,
)
from holdfast.connectors.jdbc.dialects.mysql_read import decode_stretch, decoder_of
from holdfast.connectors.jdbc.dialects.mysql_session import connect
from holdfast.connectors.jdbc.dialects.mysql_wire import Session
from holdfast.model.errors import HoldfastError, SinkRejected
from holdfast.model.schema import Table

BATCH_ROWS = 32_768
LOCK_WAIT_SECONDS = 10
_ENDS = ("COMMIT", "ROLLBACK")
_BY_NUMBER = ("enum", "set", "bit")
"""Ordered by their number and compared as text, unless they are told to be numbers."""
_INEXACT = ("float", "double")
_NUMBERS = (
    *("tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "year"),
    *_BY_NUMBER,
    *_INEXACT,
)
_TEXT = "varchar(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL"


class MySql(WithoutByteFormat):
    """The dialect. See `dialects.base.Dialect` for each method's promise."""

    name = "MySQL"
    begin_sql = "START TRANSACTION"
    one_writer = False
    transactional_ddl = False
    has_schemas = False
    stage_types = ("smallint", "bigint")

    # -- connections ------------------------------------------------------------------------------

    def connect(self, endpoint: Endpoint) -> Any:
        return connect(endpoint)

    def interrupt(self, connection: Any) -> None:
        """The server notices at its next word; the thread here at once."""
        with contextlib.suppress(OSError, AttributeError):
            connection.raw._sock.shutdown(socket.SHUT_RDWR)

    def explain(self, error: BaseException) -> tuple[type[HoldfastError], str] | None:
        return mysql_errors.explain(error)

    def fetch(self, connection: Any, sql: str) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = connection.query(sql)[1]
        return rows

    def execute(self, connection: Any, sql: str) -> int:
        touched, _ = connection.query(sql)
        if sql in _ENDS:
            while connection.locks:
                connection.query(f"DO RELEASE_LOCK('{connection.locks.pop()}')")
        return int(touched)

    # -- names ------------------------------------------------------------------------------------

    def quote(self, name: str) -> str:
        return mysql_types.quote(name)

    def sql_name(self, path: str) -> str:
        return mysql_types.sql_name(path)

    def beside(self, path: str, name: str) -> str:
        database = mysql_types.split_path(path)[-2:-1]
        return ".".join(map(self.quote, [*database, name]))

    def literal(self, text: str) -> str:
        return mysql_types.literal(text)

    # -- catalog ----------------------------------------------------------------------------------

    def list_tables(self, connection: Any) -> list[str]:
        return mysql_catalog.list_tables(connection)

    def describe(self, connection: Any, path: str) -> Described | None:
        return mysql_catalog.describe(connection, path)

    def describe_query(self, connection: Any, query: str, path: str) -> Described:
        return mysql_catalog.describe_query(connection, query, path)

    def key_of(self, described: Described, column: str) -> Key | None:
        return mysql_catalog.key_of(described, column)

    # -- reading ----------------------------------------------------------------------------------

    def key_text(self, key: Key) -> str:
        name, base = self.quote(key.column), mysql_types.parse_type(key.sql_type)[0]
        if mysql_types.is_binary(key.sql_type):
            return f"HEX({name})"
        if base in _BY_NUMBER:
            name += " + 0"
        elif base in _INEXACT:
            name += " + 0e0"
        return f"CAST({name} AS CHAR)"

    def key_literal(self, text: str, sql_type: str) -> str:
        base = mysql_types.parse_type(sql_type)[0]
        if mysql_types.is_binary(sql_type):
            return f"X'{text}'"
        if base not in _NUMBERS or not mysql_types.is_number(text):
            return self.literal(text)
        return f"{text}e0" if base in _INEXACT and "e" not in text.lower() else text

    def page_condition(self, low: int, until: int | None) -> str:
        raise AssertionError("MySQL tells no pages")

    def select_list(self, described: Described) -> str:
        return ", ".join(map(self.quote, described.table.column_names))

    def read(
        self, connection: Any, sql: str, described: Described, fetch_size: int
    ) -> Iterator[pa.RecordBatch]:
        session: Session = connection
        schema = described.table.arrow_schema
        wires, stretches = session.read(sql, min(fetch_size or BATCH_ROWS, BATCH_ROWS))
        decoders = [
            decoder_of(wire, field.type, zero_as_null=session.zero_dates_as_null)
            for wire, field in zip(wires, schema, strict=True)
        ]
        for stretch in stretches:
            yield decode_stretch(stretch, wires, decoders, schema)

    # -- writing ----------------------------------------------------------------------------------

    def create_table(self, path: str, table: Table, *, with_keys: bool) -> list[str]:
        return [mysql_types.create_table(path, table, with_keys=with_keys)]

    def create_schema(self, connection: Any, path: str) -> None:
        mysql_catalog.create_database(connection, path)

    def empty_table(self, path: str) -> str:
        return f"TRUNCATE TABLE {self.sql_name(path)}"

    def create_stage(self, name: str, path: str, columns: Sequence[str], *, kinded: bool) -> str:
        types = " (hf_kind smallint, hf_seq bigint)" if kinded else ""
        extra = ", 0 AS hf_kind, 0 AS hf_seq" if kinded else ""
        listed = ", ".join(map(self.quote, columns))
        return (
            f"CREATE TABLE {name}{types} SELECT {listed}{extra} FROM {self.sql_name(path)} LIMIT 0"
        )

    def create_scratch(self, path: str, columns: Sequence[str], number: int) -> tuple[str, str]:
        name = self.beside(path, f"hf_rows_{number}")
        listed = ", ".join(map(self.quote, columns))
        source = f"SELECT {listed} FROM {self.sql_name(path)} LIMIT 0"
        return name, f"CREATE TEMPORARY TABLE {name} {source}"

    def empty_scratch(self, name: str) -> str:
        """TRUNCATE would end the transaction."""
        return f"DELETE FROM {name}"

    def drop_scratch(self, name: str) -> str:
        return f"DROP TEMPORARY TABLE {name}"

    def append(
        self,
        connection: Any,
        name: str,
        columns: Sequence[tuple[str, str]],
        batches: Iterator[pa.RecordBatch],
    ) -> int:
        first = next(batches, None)
        if first is None:
            return 0
        counted = _Counted(chain([first], batches))
        try:
            if connection.can_load:
                _load(connection, mysql_write.load_statement(name, columns, first.schema), counted)
            else:
                for batch in counted:
                    for statement in mysql_write.insert_statements(
                        name, columns, batch, connection.packet_max
                    ):
                        connection.query(statement)
        except pa.ArrowException as error:
            names = ", ".join(first.schema.names)
            raise SinkRejected(f"Cannot write columns {names}: {error}. Cast them.") from error
        return counted.rows

    def upsert(self, merge: Merge) -> list[str]:
        """ON DUPLICATE KEY goes by any unique key: where there are others, rows are looked up by the one asked for."""
        columns = ", ".join(merge.columns)
        rest = [column for column in merge.columns if column not in merge.keys]
        insert = f"INSERT INTO {merge.target} ({columns}) SELECT {columns} FROM {merge.rows} r"
        if merge.keys_are_unique and merge.keys_are_alone:
            changed = rest or list(merge.keys[:1])
            updates = ", ".join(f"{column} = VALUES({column})" for column in changed)
            return [f"{insert} ON DUPLICATE KEY UPDATE {updates}"]
        if not merge.keys_are_unique:
            return [*self.delete(merge), insert]
        same = " AND ".join(f"t.{key} = r.{key}" for key in merge.keys)
        missing = ", ".join(f"r.{column}" for column in merge.columns)
        statements = [
            f"INSERT INTO {merge.target} ({columns}) SELECT {missing} FROM {merge.rows} r"
            f" LEFT JOIN {merge.target} t ON {same} WHERE t.{merge.keys[0]} IS NULL"
        ]
        if rest:
            updates = ", ".join(f"t.{column} = r.{column}" for column in rest)
            join = f"{merge.target} t JOIN {merge.rows} r ON {same}"
            statements.insert(0, f"UPDATE {join} SET {updates}")
        return statements

    def delete(self, merge: Merge) -> list[str]:
        same = " AND ".join(f"t.{key} = r.{key}" for key in merge.keys)
        return [f"DELETE t FROM {merge.target} t JOIN {merge.rows} r ON {same}"]

    def run_each(self, connection: Any, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        with connection.raw.cursor() as cursor:
            cursor.executemany(
                mysql_types.percented(sql), [list(map(mysql_write.plain, row)) for row in rows]
            )

    def find_stages(self, connection: Any, prefix: str) -> list[StageTable]:
        found = self.fetch(
            connection,
            "SELECT table_schema, table_name FROM information_schema.tables"
            f" WHERE LEFT(table_name, {len(prefix)}) = {self.literal(prefix)} ORDER BY 1, 2",
        )
        return [StageTable(".".join(map(self.quote, row)), str(row[1])) for row in found]

    def ledger_columns(self) -> str:
        return (
            f"job_id {_TEXT}, pipeline_id integer NOT NULL, location {_TEXT},"
            " lineage varchar(100) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,"
            " epoch bigint NOT NULL, token varchar(100) NOT NULL,"
            " PRIMARY KEY (job_id, pipeline_id, location, lineage)"
        )

    def lock(self, connection: Any, number: int) -> None:
        name = f"holdfast_{number}"
        while True:
            found = self.fetch(connection, f"SELECT GET_LOCK('{name}', {LOCK_WAIT_SECONDS})")
            if found[0][0] == 1:
                break
        connection.locks.append(name)


class _Counted:
    """Batches, and how many rows of them were taken."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self.rows = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            self.rows += batch.num_rows
            yield batch


def _load(session: Session, statement: str, batches: _Counted) -> None:
    """LOAD DATA LOCAL turns errors into warnings and leaves such rows out or changes them: here they stay errors."""
    done = session.load(statement, mysql_write.csv_chunks(iter(batches)))
    if done.warnings:
        _, rows = session.query("SHOW WARNINGS LIMIT 1")
        code, said = (int(rows[0][1]), str(rows[0][2])) if rows else (1265, done.said)
        raise err.DataError(code, said)


DIALECT = MySql()
