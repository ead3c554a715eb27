"""PostgreSQL: binary COPY both ways, splits by key or by ctid, upserts by ON CONFLICT.

Sessions run in UTC with ISO dates, so that bounds kept as text mean the same whoever reads them. Types without a
native place in Arrow (interval, inet, timetz, composite types…) are read as the text that PostgreSQL gives them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from holdfast.connectors.base import Bytes, Run, columns_in
from holdfast.connectors.jdbc.dialects import postgres_types
from holdfast.connectors.jdbc.dialects.base import (
    Described,
    Endpoint,
    Key,
    Merge,
    StageTable,
)
from holdfast.connectors.jdbc.dialects.copy_read import HEADER_SIZE, decode_rows, split_rows
from holdfast.connectors.jdbc.dialects.copy_stream import (
    HEAD_SIZE,
    Frames,
    copied,
    write_contents,
    write_frames,
)
from holdfast.connectors.jdbc.dialects.copy_write import (
    HEADER,
    ROWS_MAX,
    TRAILER,
    Encoder,
    RunEncoder,
    encode_batch,
    run_of,
)
from holdfast.connectors.jdbc.dialects.postgres_catalog import describe, describe_query, key_of
from holdfast.model.errors import (
    HoldfastError,
    SinkRejected,
    Terminal,
    Transient,
)
from holdfast.model.schema import Table

BATCH_BYTES = 2 << 20
BATCH_ROWS = 32_768
CHUNK_BYTES = 256 << 10
_PROPERTIES = {
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "applicationname": "application_name",
    "target_session_attrs": "target_session_attrs",
    "gssencmode": "gssencmode",
    "krbsrvname": "krbsrvname",
}
_TRANSIENT = ("08", "40", "53", "55", "57", "58")
_REJECTED = ("22", "23", "44")
_LOGIN_REFUSED = re.compile(
    r"(password authentication failed|no password supplied|role .* does not exist"
    r"|database .* does not exist|no pg_hba\.conf entry|permission denied|could not translate host"
    r"|failed to resolve host|server does not support SSL|invalid connection option).*",
    re.IGNORECASE,
)


class Postgres:
    """The dialect. See `dialects.base.Dialect` for each method's promise."""

    name = "PostgreSQL"
    begin_sql = "BEGIN"
    one_writer = False
    transactional_ddl = True
    has_schemas = True
    stage_types = ("smallint", "bigint")
    byte_format: str | None = "postgres-copy-messages"

    # -- connections ------------------------------------------------------------------------------

    def connect(self, endpoint: Endpoint) -> Any:
        import psycopg

        given = {name.lower(): value for name, value in endpoint.properties.items()}
        extra = {_PROPERTIES[name]: value for name, value in given.items() if name in _PROPERTIES}
        settings = {
            "timezone": "UTC",
            "datestyle": "ISO",
            "intervalstyle": "postgres",
            "extra_float_digits": "1",
            "synchronize_seqscans": "off",
            "statement_timeout": str(min(endpoint.socket_timeout_ms, 2**31 - 1)),
        }
        if "currentschema" in given:
            settings["search_path"] = given["currentschema"]
        connection = psycopg.connect(
            host=endpoint.host,
            port=endpoint.port,
            dbname=endpoint.database or None,
            user=endpoint.user,
            password=endpoint.password,
            **{"gssencmode": "disable", **extra},  # type: ignore[arg-type]
            connect_timeout=max(1, endpoint.connect_timeout_ms // 1000),
            autocommit=True,
            client_encoding="utf8",
        )
        calls = ", ".join(["set_config(%s, %s, false)"] * len(settings))
        pairs = [text for setting in settings.items() for text in setting]
        connection.execute(f"SELECT {calls}".encode(), pairs)
        return connection

    def interrupt(self, connection: Any) -> None:
        import psycopg

        try:
            connection.cancel_safe(timeout=5)
        except psycopg.Error:
            connection.close()

    def explain(self, error: BaseException) -> tuple[type[HoldfastError], str] | None:
        import psycopg

        if not isinstance(error, psycopg.Error):
            return None
        said = " ".join(str(error).split()) or "the connection was closed"
        state = error.sqlstate
        if state is None:
            refused = _LOGIN_REFUSED.search(said)
            if refused:
                return (
                    Terminal,
                    f"{refused.group()[:300]}. Check the url, the user and the password.",
                )
            return Transient, f"{said[:300]}. Check that the server runs and can be reached."
        if state.startswith(_TRANSIENT):
            return Transient, said[:500]
        if state.startswith(_REJECTED):
            return SinkRejected, said[:500]
        return Terminal, said[:500]

    def fetch(self, connection: Any, sql: str) -> list[tuple[Any, ...]]:
        return list(connection.execute(sql.encode()).fetchall())

    def execute(self, connection: Any, sql: str) -> int:
        return max(0, int(connection.execute(sql.encode()).rowcount))

    # -- names ------------------------------------------------------------------------------------

    def quote(self, name: str) -> str:
        return postgres_types.quote(name)

    def sql_name(self, path: str) -> str:
        return postgres_types.sql_name(path)

    def beside(self, path: str, name: str) -> str:
        schema = postgres_types.split_path(path)[-2:-1]
        return ".".join(map(self.quote, [*schema, name]))

    # -- catalog ----------------------------------------------------------------------------------

    def list_tables(self, connection: Any) -> list[str]:
        found = self.fetch(
            connection,
            "SELECT current_database(), n.nspname, c.relname FROM pg_class c"
            " JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition"
            r" AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'"
            r" AND c.relname !~ '^(hf_[0-9a-f]{12}_|holdfast_epochs$)'"
            " AND has_table_privilege(c.oid, 'SELECT') ORDER BY 2, 3",
        )
        return [".".join(row) for row in found]

    def describe(self, connection: Any, path: str) -> Described | None:
        return describe(connection, path)

    def describe_query(self, connection: Any, query: str, path: str) -> Described:
        return describe_query(connection, query, path)

    def key_of(self, described: Described, column: str) -> Key | None:
        return key_of(described, column)

    def byte_types(self, described: Described) -> list[str] | None:
        found = [postgres_types.byte_type(type_) for type_ in described.sql_types]
        return None if None in found else [str(name) for name in found]

    # -- reading ----------------------------------------------------------------------------------

    def key_text(self, key: Key) -> str:
        return f"{self.quote(key.column)}::text"

    def key_literal(self, text: str, sql_type: str) -> str:
        return f"{postgres_types.literal(text)}::{sql_type}"

    def page_condition(self, low: int, until: int | None) -> str:
        above = f"ctid >= '({low},0)'::tid"
        return above if until is None else f"{above} AND ctid < '({until},0)'::tid"

    def select_list(self, described: Described) -> str:
        return ", ".join(
            self.quote(column.name) + ("" if postgres_types.decoder_of(type_) else "::text")
            for column, type_ in zip(described.table.columns, described.sql_types, strict=True)
        )

    def read(
        self, connection: Any, sql: str, described: Described, fetch_size: int
    ) -> Iterator[pa.RecordBatch]:
        codes = [postgres_types.code_of(type_) for type_ in described.sql_types]
        schema = described.table.arrow_schema
        rows_max = min(fetch_size or BATCH_ROWS, BATCH_ROWS)
        for data, starts in _rows(connection, sql, rows_max):
            yield decode_rows(data, starts, codes, schema)

    def reads_beside_runs(self, described: Described, wanted: Sequence[int]) -> bool:
        """Runs are selected as they are; without a decoder a column would have to be cast."""
        return all(postgres_types.decoder_of(described.sql_types[place]) for place in wanted)

    def read_runs(
        self,
        connection: Any,
        sql: str,
        described: Described,
        wanted: Sequence[int],
        runs: Sequence[Run],
    ) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
        codes = [postgres_types.code_of(type_) for type_ in described.sql_types]
        schema = pa.schema([described.table.arrow_schema.field(place) for place in wanted])
        for data, starts in _rows(connection, sql, BATCH_ROWS):
            yield split_rows(data, starts, codes, schema, wanted, runs)

    def read_bytes(self, connection: Any, sql: str) -> Iterator[memoryview]:
        """The messages of a binary COPY, those with its header and its trailer included."""
        for frames in copied(connection, sql, rows_max=CHUNK_BYTES, bytes_max=CHUNK_BYTES):
            yield frames.messages

    # -- writing ----------------------------------------------------------------------------------

    def create_table(self, path: str, table: Table, *, with_keys: bool) -> list[str]:
        return postgres_types.create_table(path, table, with_keys=with_keys)

    def create_schema(self, connection: Any, path: str) -> None:
        parts = postgres_types.split_path(path)
        if len(parts) < 2:
            return
        schema = parts[-2]
        found = self.fetch(
            connection,
            f"SELECT 1 FROM pg_namespace WHERE nspname = {postgres_types.literal(schema)}",
        )
        if not found:
            self.execute(connection, f"CREATE SCHEMA IF NOT EXISTS {self.quote(schema)}")

    def empty_table(self, path: str) -> str:
        return f"TRUNCATE TABLE {self.sql_name(path)}"

    def create_stage(self, name: str, path: str, columns: Sequence[str], *, kinded: bool) -> str:
        listed = ", ".join(map(self.quote, columns))
        extra = ", 0::smallint AS hf_kind, 0::bigint AS hf_seq" if kinded else ""
        return (
            f"CREATE TABLE {name} AS SELECT {listed}{extra} FROM {self.sql_name(path)} WITH NO DATA"
        )

    def create_scratch(self, path: str, columns: Sequence[str], number: int) -> tuple[str, str]:
        name = f"pg_temp.hf_rows_{number}"
        return name, self.create_stage(name, path, columns, kinded=False)

    def empty_scratch(self, name: str) -> str:
        return f"TRUNCATE TABLE {name}"

    def drop_scratch(self, name: str) -> str:
        return f"DROP TABLE {name}"

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
        encoders = _encoders(first.schema, columns)
        listed = ", ".join(self.quote(column) for column, _ in columns)
        form = "csv" if encoders is None else "binary"
        contents = _contents(chain([first], batches), encoders)
        return write_contents(connection, f"COPY {name} ({listed})", contents, form=form)

    def codes(self, type_: pa.DataType, sql_type: str) -> bool:
        return postgres_types.encoder_of(type_, sql_type) is not None

    def append_bytes(
        self, connection: Any, name: str, columns: Sequence[str], chunks: Iterator[Bytes]
    ) -> int:
        listed = ", ".join(map(self.quote, columns))
        return write_frames(connection, f"COPY {name} ({listed})", chunks)

    def upsert(self, merge: Merge) -> list[str]:
        columns = ", ".join(merge.columns)
        insert = f"INSERT INTO {merge.target} ({columns}) SELECT {columns} FROM {merge.rows} r"
        if not merge.keys_are_unique:
            return [*self.delete(merge), insert]
        rest = [c for c in merge.columns if c not in merge.keys]
        updates = ", ".join(f"{c} = excluded.{c}" for c in rest)
        action = f"DO UPDATE SET {updates}" if rest else "DO NOTHING"
        keys = ", ".join(merge.keys)
        return [f"{insert} ORDER BY {keys} ON CONFLICT ({keys}) {action}"]

    def delete(self, merge: Merge) -> list[str]:
        same = " AND ".join(f"t.{key} = r.{key}" for key in merge.keys)
        return [f"DELETE FROM {merge.target} t USING {merge.rows} r WHERE {same}"]

    def run_each(self, connection: Any, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        with connection.cursor() as cursor:
            cursor.executemany(postgres_types.numbered(sql).encode(), rows)

    def find_stages(self, connection: Any, prefix: str) -> list[StageTable]:
        found = self.fetch(
            connection,
            "SELECT schemaname, tablename FROM pg_tables"
            f" WHERE starts_with(tablename, {postgres_types.literal(prefix)}) ORDER BY 1, 2",
        )
        return [StageTable(".".join(map(self.quote, row)), str(row[1])) for row in found]

    def literal(self, text: str) -> str:
        return postgres_types.literal(text)

    def ledger_columns(self) -> str:
        return (
            "job_id text NOT NULL, pipeline_id integer NOT NULL, location text NOT NULL,"
            " lineage text NOT NULL, epoch bigint NOT NULL, token text NOT NULL,"
            " PRIMARY KEY (job_id, pipeline_id, location, lineage)"
        )

    def lock(self, connection: Any, number: int) -> None:
        self.fetch(connection, f"SELECT pg_advisory_xact_lock({number})")


def _encoders(
    schema: pa.Schema, columns: Sequence[tuple[str, str]]
) -> list[Encoder | RunEncoder] | None:
    """How each column is coded; None where some column has no binary form for its target: then CSV will do."""
    found: list[Encoder | RunEncoder | None] = []
    targets = iter(columns)
    for field in schema:
        count = columns_in(field)
        if count is None:
            found.append(postgres_types.encoder_of(field.type, next(targets)[1]))
        else:
            found.append(run_of(count))
            _ = [next(targets) for _ in range(count)]
    known = [encoder for encoder in found if encoder is not None]
    return known if len(known) == len(found) else None


def _contents(
    batches: Iterator[pa.RecordBatch], encoders: Sequence[Encoder | RunEncoder] | None
) -> Iterator[bytes | pa.Buffer]:
    """What COPY is sent: the rows of many, one behind the other."""
    if encoders is not None:
        yield HEADER
    for batch in batches:
        for low in range(0, batch.num_rows, ROWS_MAX):
            yield _coded(batch.slice(low, ROWS_MAX), encoders)
    if encoders is not None:
        yield TRAILER


def _coded(piece: pa.RecordBatch, encoders: Sequence[Encoder | RunEncoder] | None) -> pa.Buffer:
    try:
        return encode_batch(piece, encoders) if encoders else postgres_types.csv_of(piece)
    except (ValueError, pa.ArrowException) as error:
        names = ", ".join(piece.schema.names)
        raise SinkRejected(f"Cannot write columns {names}: {error}. Cast them.") from error


def _rows(connection: Any, sql: str, rows_max: int) -> Iterator[tuple[bytes, np.ndarray[Any, Any]]]:
    """Rows of a COPY, with `PAD` behind them, and where each begins."""
    is_first = True
    for frames in copied(connection, sql, rows_max=rows_max, bytes_max=BATCH_BYTES):
        starts = _row_starts(frames, is_first)
        is_first = False
        if len(starts):
            yield frames.data, starts


def _row_starts(frames: Frames, is_first: bool) -> np.ndarray[Any, Any]:
    """Where rows begin: behind the header, which may come alone, and without the trailer, which no row looks like."""
    starts, size = frames.starts, len(frames.messages)
    if is_first:
        behind = int(starts[0]) + HEADER_SIZE
        is_alone = behind == (int(starts[1]) - HEAD_SIZE if len(starts) > 1 else size)
        starts = starts[1:] if is_alone else np.concatenate([[behind], starts[1:]])
    if len(starts) and frames.messages[int(starts[-1]) :] == TRAILER:
        starts = starts[:-1]
    return starts


DIALECT = Postgres()
