"""SQLite, by Python's own driver: one writer at a time, values by column.

Columns are typed by what they were declared as. Integers of any declared size are read as 64 bits, which is what
SQLite keeps. New columns for exact decimals are declared `decimal_text(p,s)`, which SQLite keeps as text: its own
numbers would round them. NaN becomes NULL, as SQLite has none.
"""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.connectors.jdbc.dialects.base import (
    Described,
    Endpoint,
    Key,
    Merge,
    StageTable,
    WithoutByteFormat,
)
from holdfast.connectors.jdbc.dialects.values import ValueUnreadable
from holdfast.model.errors import HoldfastError, SinkRejected, Terminal, Transient
from holdfast.model.schema import Column, Table

BATCH_ROWS = 10_000
_LITERAL = re.compile(r"-?\d+(\.\d+)?(e[+-]?\d+)?|X?'(?:[^']|'')*'|NULL", re.IGNORECASE)
_UTC = pa.timestamp("us", "UTC")
_WORDS: tuple[tuple[str, pa.DataType], ...] = (
    ("int", pa.int64()),
    ("bool", pa.bool_()),
    ("char", pa.string()),
    ("clob", pa.string()),
    ("json", pa.string()),
    ("text", pa.string()),
    ("blob", pa.binary()),
    ("binary", pa.binary()),
    ("real", pa.float64()),
    ("floa", pa.float64()),
    ("doub", pa.float64()),
    ("timestamp_tz", _UTC),
    ("timestamptz", _UTC),
    ("timestamp", pa.timestamp("us")),
    ("datetime", pa.timestamp("us")),
    ("date", pa.date32()),
    ("time", pa.time64("us")),
)
"""By the first word that a declared type contains."""


class Sqlite(WithoutByteFormat):
    """The dialect. See `dialects.base.Dialect` for each method's promise."""

    name = "SQLite"
    begin_sql = "BEGIN IMMEDIATE"
    one_writer = True
    transactional_ddl = True
    has_schemas = False
    stage_types = ("integer", "integer")

    # -- connections ------------------------------------------------------------------------------

    def connect(self, endpoint: Endpoint) -> Any:
        timeout = max(endpoint.connect_timeout_ms, 1_000) / 1_000
        return sqlite3.connect(
            endpoint.database, timeout=timeout, isolation_level=None, check_same_thread=False
        )

    def interrupt(self, connection: Any) -> None:
        with contextlib.suppress(sqlite3.Error):
            connection.interrupt()

    def explain(self, error: BaseException) -> tuple[type[HoldfastError], str] | None:
        if not isinstance(error, sqlite3.Error):
            return None
        said = str(error)
        if isinstance(error, sqlite3.IntegrityError):
            return SinkRejected, said
        if re.search("locked|busy|interrupted|disk I/O|full", said):
            return Transient, said
        if "unable to open" in said:
            return Terminal, f"{said}. Check the path in the url and its permissions."
        return Terminal, said

    def fetch(self, connection: Any, sql: str) -> list[tuple[Any, ...]]:
        return list(connection.execute(sql).fetchall())

    def execute(self, connection: Any, sql: str) -> int:
        if sql == self.begin_sql:
            with contextlib.suppress(sqlite3.OperationalError):
                connection.execute("PRAGMA journal_mode = WAL")
        return max(0, int(connection.execute(sql).rowcount))

    # -- names ------------------------------------------------------------------------------------

    def quote(self, name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    def sql_name(self, path: str) -> str:
        return self.quote(_name(path))

    def beside(self, path: str, name: str) -> str:
        return self.quote(name)

    def literal(self, text: str) -> str:
        return "'" + text.replace("'", "''") + "'"

    # -- catalog ----------------------------------------------------------------------------------

    def list_tables(self, connection: Any) -> list[str]:
        found = self.fetch(
            connection,
            "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
            " AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name",
        )
        ours = re.compile("hf_[0-9a-f]{12}_|holdfast_epochs$")
        return [str(row[0]) for row in found if not ours.match(str(row[0]))]

    def describe(self, connection: Any, path: str) -> Described | None:
        name = _name(path)
        found = connection.execute(
            "SELECT name, type FROM sqlite_master WHERE lower(name) = lower(?)"
            " AND type IN ('table', 'view')",
            [name],
        ).fetchone()
        if found is None:
            return None
        name, kind = found
        rows = connection.execute(f"PRAGMA table_info({self.quote(name)})").fetchall()
        columns = tuple(Column(r[1], _arrow_of(r[2]), not (r[3] or r[5]), r[4]) for r in rows)
        primary = tuple(r[1] for r in sorted(rows, key=lambda r: r[5]) if r[5])
        keys = [primary] if primary else []
        keys += [key for key in self._unique_keys(connection, name) if key != primary]
        table = Table(name, columns, primary, tuple(key for key in keys if key != primary))
        types = tuple(str(r[2]).lower() for r in rows)
        described = Described(table, types, unique_keys=tuple(frozenset(key) for key in keys))
        return self._with_key(connection, described) if kind == "table" else described

    def describe_query(self, connection: Any, query: str, path: str) -> Described:
        """SQLite types no expression: the values of a first row tell, or text."""
        cursor = connection.execute(f"SELECT * FROM ({query}) q LIMIT 1")
        names = [column[0] for column in cursor.description]
        first = cursor.fetchone() or (None,) * len(names)
        words = {int: "integer", float: "real", bytes: "blob"}
        types = tuple(words.get(type(value), "text") for value in first)
        columns = tuple(Column(n, _arrow_of(t)) for n, t in zip(names, types, strict=True))
        return Described(Table(path, columns), types)

    def key_of(self, described: Described, column: str) -> Key | None:
        table = described.table
        for known, sql_type in zip(table.columns, described.sql_types, strict=True):
            if known.name.lower() == column.lower():
                leading = [key[0] for key in (table.primary_key, *table.unique_keys) if key]
                numeric = pa.types.is_integer(known.type) or pa.types.is_floating(known.type)
                return Key(known.name, sql_type, known.name in leading, known.nullable, numeric)
        return None

    def _unique_keys(self, connection: Any, name: str) -> list[tuple[str, ...]]:
        found = []
        for row in connection.execute(f"PRAGMA index_list({self.quote(name)})").fetchall():
            _, index, unique, _, partial = row
            if unique and not partial:
                columns = connection.execute(f"PRAGMA index_info({self.quote(index)})").fetchall()
                names = tuple(column[2] for column in columns)
                if None not in names:
                    found.append(names)
        return found

    def _with_key(self, connection: Any, described: Described) -> Described:
        table = described.table
        named = next((key[0] for key in (table.primary_key, *table.unique_keys) if key), None)
        estimate = None
        try:
            estimate = self.fetch(connection, f"SELECT max(_rowid_) FROM {self.quote(table.name)}")[
                0
            ][0]
            key: Key | None = Key("_rowid_", "integer", True, False, True)
        except sqlite3.OperationalError:
            key = None
        if named is not None:
            key = self.key_of(described, named)
        return Described(
            table, described.sql_types, key, estimate or 0, unique_keys=described.unique_keys
        )

    # -- reading ----------------------------------------------------------------------------------

    def key_text(self, key: Key) -> str:
        """SQLite writes a value as a literal that it reads back exactly, whatever its type."""
        return f"quote({self.quote(key.column)})"

    def key_literal(self, text: str, sql_type: str) -> str:
        return text if _LITERAL.fullmatch(text) else self.literal(text)

    def page_condition(self, low: int, until: int | None) -> str:
        raise AssertionError("SQLite tells no pages")

    def select_list(self, described: Described) -> str:
        return ", ".join(map(self.quote, described.table.column_names))

    def read(
        self, connection: Any, sql: str, described: Described, fetch_size: int
    ) -> Iterator[pa.RecordBatch]:
        cursor = connection.execute(sql)
        schema = described.table.arrow_schema
        while rows := cursor.fetchmany(min(fetch_size or BATCH_ROWS, BATCH_ROWS)):
            values = list(zip(*rows, strict=True))
            columns = [_column(v, f) for v, f in zip(values, schema, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    # -- writing ----------------------------------------------------------------------------------

    def create_table(self, path: str, table: Table, *, with_keys: bool) -> list[str]:
        lines = [
            f"{self.quote(c.name)} {_created(c.type)}{'' if c.nullable else ' NOT NULL'}"
            for c in table.columns
        ]
        if with_keys and table.primary_key:
            lines.append(f"PRIMARY KEY ({', '.join(map(self.quote, table.primary_key))})")
            lines += [f"UNIQUE ({', '.join(map(self.quote, key))})" for key in table.unique_keys]
        return [f"CREATE TABLE IF NOT EXISTS {self.sql_name(path)} ({', '.join(lines)})"]

    def create_schema(self, connection: Any, path: str) -> None:
        return None

    def empty_table(self, path: str) -> str:
        return f"DELETE FROM {self.sql_name(path)}"

    def create_stage(self, name: str, path: str, columns: Sequence[str], *, kinded: bool) -> str:
        return f"CREATE TABLE {name} AS {self._nothing_of(path, columns, kinded=kinded)}"

    def create_scratch(self, path: str, columns: Sequence[str], number: int) -> tuple[str, str]:
        name = f"temp.hf_rows_{number}"
        nothing = self._nothing_of(path, columns, kinded=False)
        return name, f"CREATE TEMP TABLE hf_rows_{number} AS {nothing}"

    def empty_scratch(self, name: str) -> str:
        return f"DELETE FROM {name}"

    def _nothing_of(self, path: str, columns: Sequence[str], *, kinded: bool) -> str:
        listed = ", ".join(map(self.quote, columns))
        extra = ", CAST(0 AS integer) AS hf_kind, CAST(0 AS integer) AS hf_seq" if kinded else ""
        return f"SELECT {listed}{extra} FROM {self.sql_name(path)} WHERE 0"

    def drop_scratch(self, name: str) -> str:
        return f"DROP TABLE {name}"

    def append(
        self,
        connection: Any,
        name: str,
        columns: Sequence[tuple[str, str]],
        batches: Iterator[pa.RecordBatch],
    ) -> int:
        listed = ", ".join(self.quote(column) for column, _ in columns)
        marks = ", ".join("?" * len(columns))
        rows = 0
        for batch in batches:
            values = zip(*(_values(column) for column in batch.columns), strict=True)
            connection.executemany(f"INSERT INTO {name} ({listed}) VALUES ({marks})", values)
            rows += batch.num_rows
        return rows

    def upsert(self, merge: Merge) -> list[str]:
        columns = ", ".join(merge.columns)
        insert = (
            f"INSERT INTO {merge.target} ({columns}) SELECT {columns} FROM {merge.rows} WHERE true"
        )
        if not merge.keys_are_unique:
            return [*self.delete(merge), insert]
        rest = [column for column in merge.columns if column not in merge.keys]
        updates = ", ".join(f"{column} = excluded.{column}" for column in rest)
        action = f"DO UPDATE SET {updates}" if rest else "DO NOTHING"
        return [f"{insert} ON CONFLICT ({', '.join(merge.keys)}) {action}"]

    def delete(self, merge: Merge) -> list[str]:
        same = " AND ".join(f"r.{key} = {merge.target}.{key}" for key in merge.keys)
        return [
            f"DELETE FROM {merge.target} WHERE EXISTS (SELECT 1 FROM {merge.rows} r WHERE {same})"
        ]

    def run_each(self, connection: Any, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        connection.executemany(sql, [[_plain(value) for value in row] for row in rows])

    def find_stages(self, connection: Any, prefix: str) -> list[StageTable]:
        found = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND substr(name, 1, ?) = ?",
            [len(prefix), prefix],
        ).fetchall()
        return [StageTable(self.quote(row[0]), str(row[0])) for row in found]

    def ledger_columns(self) -> str:
        return (
            "job_id text NOT NULL, pipeline_id integer NOT NULL, location text NOT NULL,"
            " lineage text NOT NULL, epoch integer NOT NULL, token text NOT NULL,"
            " PRIMARY KEY (job_id, pipeline_id, location, lineage)"
        )

    def lock(self, connection: Any, number: int) -> None:
        """BEGIN IMMEDIATE has taken the one lock that there is."""


def _name(path: str) -> str:
    return path.rsplit(".", 1)[-1].strip('"')


def _arrow_of(declared: str) -> pa.DataType:
    text = declared.lower()
    decimal = re.match(
        r"(?:decimal|numeric)(?:_text)?\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?$", text
    )
    if decimal:
        precision, scale = int(decimal[1] or 38), int(decimal[2] or (0 if decimal[1] else 18))
        return pa.decimal128(precision, scale) if 0 < precision <= 38 else pa.string()
    return next((type_ for word, type_ in _WORDS if word in text), pa.string())


def _created(type_: pa.DataType) -> str:
    if pa.types.is_decimal(type_):
        return f"decimal_text({type_.precision},{type_.scale})"
    if pa.types.is_timestamp(type_):
        return "timestamp_tz" if type_.tz else "timestamp"
    for fits, word in (
        (pa.types.is_boolean, "boolean"),
        (pa.types.is_integer, "bigint"),
        (pa.types.is_floating, "double"),
        (pa.types.is_date, "date"),
        (pa.types.is_time, "time"),
        (pa.types.is_binary, "blob"),
    ):
        if fits(type_):
            return word
    return "text"


# --------------------------------------------------------------------------------------------- values


def _column(values: Sequence[Any], field: pa.Field) -> pa.Array:
    try:
        return _converter(field.type)(values, field.type)
    except (ValueError, TypeError, ArithmeticError, pa.ArrowException) as error:
        raise ValueUnreadable(
            f"Cannot read column '{field.name}': a value is not of its declared type ({error})."
            " Correct the row, or cast the column in a query."
        ) from error


def _converter(type_: pa.DataType) -> Callable[[Sequence[Any], pa.DataType], pa.Array]:
    if pa.types.is_decimal(type_):
        return _decimals
    if pa.types.is_boolean(type_):
        return lambda values, t: pa.array([None if v is None else bool(int(v)) for v in values], t)
    if pa.types.is_string(type_):
        return lambda values, t: pa.array([_text(v) for v in values], t)
    if pa.types.is_binary(type_):
        return lambda values, t: pa.array(
            [v.encode() if isinstance(v, str) else v for v in values], t
        )
    if pa.types.is_temporal(type_):
        return _moments
    return lambda values, t: pa.array(values, t)


def _decimals(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    return pa.array([None if v is None else Decimal(str(v)) for v in values], type_)


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return value.decode() if isinstance(value, bytes) else str(value)


def _moments(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    """ISO text; a time is the part of a timestamp behind some day."""
    texts = pa.array([_text(v) for v in values], pa.string())
    if pa.types.is_time(type_):
        days = pc.binary_join_element_wise(pa.scalar("1970-01-01"), texts, pa.scalar(" "))
        return days.cast(pa.timestamp("us")).cast(type_)
    if pa.types.is_timestamp(type_) and type_.tz:
        plain = pc.match_substring_regex(texts, r"(Z|[+-]\d\d:?\d\d)$")
        zoned = pc.if_else(
            plain, texts, pc.binary_join_element_wise(texts, pa.scalar("Z"), pa.scalar(""))
        )
        return zoned.cast(type_)
    if pa.types.is_date(type_):
        return pc.utf8_slice_codeunits(texts, 0, 10).cast(type_)
    return texts.cast(type_)


def _values(column: pa.Array) -> list[Any]:
    """Python values as SQLite keeps them: exact numbers and moments as text."""
    type_ = column.type
    if pa.types.is_boolean(type_):
        return list(column.cast(pa.int8()).to_pylist())
    if pa.types.is_timestamp(type_) and type_.tz:
        local = pc.local_timestamp(column.cast(_UTC)).cast(pa.string())
        zoned = pc.binary_join_element_wise(local, pa.scalar("+00:00"), pa.scalar(""))
        return list(zoned.to_pylist())
    if pa.types.is_decimal(type_) or pa.types.is_temporal(type_):
        return list(column.cast(pa.string()).to_pylist())
    if pa.types.is_nested(type_):
        return [_plain(value) for value in column.to_pylist()]
    return list(column.to_pylist())


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, int | float | str | bytes):
        return value
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, list | dict | tuple):
        return json.dumps(value, default=str, ensure_ascii=False)
    return value.isoformat(" ") if hasattr(value, "hour") and hasattr(value, "year") else str(value)


DIALECT = Sqlite()
