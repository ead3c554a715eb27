"""The contract of dialects: what the Jdbc source and sink ask of one kind of database.

A dialect has no state: connections are the driver's own objects, in autocommit, opened by `connect` and handed back
in each call. Rows go in and out as Arrow batches; how (COPY, LOAD DATA, executemany) is the dialect's business.
Drivers' errors leave through `told`, which asks the dialect for the one message that the user gets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from holdfast.connectors.base import Bytes, Run
from holdfast.model.errors import HoldfastError, SinkRejected, Terminal
from holdfast.model.schema import Table


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a database is and who is asking. Never printed whole."""

    kind: str
    """The word behind `jdbc:` in the url."""
    host: str
    port: int
    database: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    connect_timeout_ms: int = 30_000
    socket_timeout_ms: int = 86_400_000
    url: str = field(default="", repr=False)
    """As it was given: for readers that hand it on."""

    def __str__(self) -> str:
        return (
            f"{self.kind}://{self.host}:{self.port}/{self.database}" if self.host else self.database
        )


@dataclass(frozen=True, slots=True)
class Key:
    """A column by which a table can be cut: its values are ordered, and it may say whether an index helps."""

    column: str
    sql_type: str
    """As the database names it: bounds are kept as text and cast back to it."""
    indexed: bool
    nullable: bool
    numeric: bool = False


@dataclass(frozen=True, slots=True)
class Described:
    """A table or the result of a query, as the database's catalog tells it."""

    table: Table
    sql_types: tuple[str, ...]
    """The database's own name of each column's type."""
    key: Key | None = None
    """The column that splits are cut by when the job names none."""
    rows_estimate: int | None = None
    pages: int | None = None
    """Where rows can be read by their physical place (PostgreSQL's ctid): how many pages there are."""
    unique_keys: tuple[frozenset[str], ...] = ()
    """Column sets that a unique index covers, the primary key among them."""
    unreadable: str = ""
    """The columns that cannot be read, and why; empty: all can."""
    transactional: bool = True
    """Whether what is written there can be rolled back."""


@dataclass(frozen=True, slots=True)
class StageTable:
    """A table that holds staged rows: its full name in SQL, and the name without the schema."""

    sql_name: str
    name: str


class Dialect(Protocol):
    """One kind of database."""

    name: str
    begin_sql: str
    """Opens a transaction that may write."""
    one_writer: bool
    """Whether only one connection can write at a time."""
    transactional_ddl: bool
    """Whether CREATE and DROP TABLE belong to the transaction they stand in."""
    has_schemas: bool
    """Whether tables lie in schemas, and these in a database; otherwise tables lie in databases."""
    stage_types: tuple[str, str]
    """The types of `hf_kind` and `hf_seq`, as `describe` would tell them."""
    byte_format: str | None
    """The wire format that `read_bytes` gives and `append_bytes` takes; None where there is none: then nobody asks for
    what is said of it below (`WithoutByteFormat`).
    """

    # -- connections ------------------------------------------------------------------------------

    def connect(self, endpoint: Endpoint) -> Any:
        """An open connection in autocommit. Called inside `told`."""
        ...

    def interrupt(self, connection: Any) -> None:
        """End whatever the connection is doing, from another thread. Never raises."""
        ...

    def explain(self, error: BaseException) -> tuple[type[HoldfastError], str] | None:
        """The kind of a driver's error and what it says, in one line, without secrets. None: not the driver's."""
        ...

    def fetch(self, connection: Any, sql: str) -> list[tuple[Any, ...]]: ...

    def execute(self, connection: Any, sql: str) -> int:
        """Run one statement; how many rows it touched."""
        ...

    # -- names ------------------------------------------------------------------------------------

    def quote(self, name: str) -> str: ...

    def sql_name(self, path: str) -> str:
        """`db.schema.table` (or less of it) as it stands in SQL."""
        ...

    def beside(self, path: str, name: str) -> str:
        """The SQL name of another table in the same schema as `path`."""
        ...

    # -- catalog ----------------------------------------------------------------------------------

    def list_tables(self, connection: Any) -> list[str]:
        """Full paths of the tables and views that the user may see, without the system's own."""
        ...

    def describe(self, connection: Any, path: str) -> Described | None:
        """A table by its path, or None where there is none. `table.path` is the full path."""
        ...

    def describe_query(self, connection: Any, query: str, path: str) -> Described:
        """The columns of a query's result; `path` is what the table is to be called."""
        ...

    def key_of(self, described: Described, column: str) -> Key | None:
        """Facts of a column as a key to cut by; None where there is no such column."""
        ...

    def byte_types(self, described: Described) -> list[str] | None:
        """What each column's type is called in the byte format; None where some column has none."""
        ...

    # -- reading ----------------------------------------------------------------------------------

    def key_text(self, key: Key) -> str:
        """SQL for a key as text that `key_literal` takes back exactly."""
        ...

    def key_literal(self, text: str, sql_type: str) -> str: ...

    def page_condition(self, low: int, until: int | None) -> str:
        """SQL for the rows of pages low to until (without it), where `Described.pages` is told."""
        ...

    def select_list(self, described: Described) -> str:
        """The columns of a SELECT whose result `read` understands."""
        ...

    def read(
        self, connection: Any, sql: str, described: Described, fetch_size: int
    ) -> Iterator[pa.RecordBatch]:
        """Rows of a SELECT over `select_list`, in batches of bounded size."""
        ...

    def read_bytes(self, connection: Any, sql: str) -> Iterator[Bytes]: ...

    def reads_beside_runs(self, described: Described, wanted: Sequence[int]) -> bool:
        """Whether `read_runs` can decode these columns."""
        ...

    def read_runs(
        self,
        connection: Any,
        sql: str,
        described: Described,
        wanted: Sequence[int],
        runs: Sequence[Run],
    ) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
        """Rows of a SELECT of all columns as they are: some decoded, and runs as the wire has them."""
        ...

    # -- writing ----------------------------------------------------------------------------------

    def create_table(self, path: str, table: Table, *, with_keys: bool) -> list[str]:
        """The statements that create `path` with the columns (and keys, comments) of `table`."""
        ...

    def create_schema(self, connection: Any, path: str) -> None:
        """The schema or database in which `path` lies, if it is missing."""
        ...

    def empty_table(self, path: str) -> str:
        """The statement that removes all rows."""
        ...

    def create_stage(self, name: str, path: str, columns: Sequence[str], *, kinded: bool) -> str:
        """The statement that creates `name` (in SQL) with some columns of `path`, typed alike, without keys;
        where `kinded`, with `hf_kind smallint` and `hf_seq bigint` behind them."""
        ...

    def create_scratch(self, path: str, columns: Sequence[str], number: int) -> tuple[str, str]:
        """A table that is gone with the connection, made like `create_stage`: its name in SQL, the statement."""
        ...

    def empty_scratch(self, name: str) -> str: ...

    def drop_scratch(self, name: str) -> str: ...

    def append(
        self,
        connection: Any,
        name: str,
        columns: Sequence[tuple[str, str]],
        batches: Iterator[pa.RecordBatch],
    ) -> int:
        """Add rows to the table `name` (in SQL); `columns`: names and the database's types, in batch order."""
        ...

    def append_bytes(
        self, connection: Any, name: str, columns: Sequence[str], chunks: Iterator[Bytes]
    ) -> int: ...

    def codes(self, type_: pa.DataType, sql_type: str) -> bool:
        """Whether `append` writes such values in the byte format, so that runs may stand beside them."""
        ...

    def upsert(self, merge: Merge) -> list[str]:
        """Statements that insert the rows of a table, or update those whose key is there."""
        ...

    def delete(self, merge: Merge) -> list[str]:
        """Statements that delete the rows whose key is in a table."""
        ...

    def run_each(self, connection: Any, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run a statement with `?` for each row of Python values."""
        ...

    def find_stages(self, connection: Any, prefix: str) -> list[StageTable]:
        """All tables whose name begins with `prefix`, in any schema."""
        ...

    def literal(self, text: str) -> str:
        """A text in SQL."""
        ...

    def ledger_columns(self) -> str:
        """The body of CREATE TABLE for the ledger: job_id, pipeline_id, location, lineage (the key), epoch, token."""
        ...

    def lock(self, connection: Any, number: int) -> None:
        """Inside a transaction: wait until no other transaction holds the lock of this number (63 bits)."""
        ...


@dataclass(frozen=True, slots=True)
class Merge:
    """What is merged where. All names as they stand in SQL."""

    target: str
    rows: str
    """A table (or a sub-select in brackets) with the columns."""
    columns: tuple[str, ...]
    keys: tuple[str, ...]
    keys_are_unique: bool
    """Whether the target has a unique index over exactly the keys."""
    keys_are_alone: bool = True
    """Whether it has no unique index but that."""


@contextmanager
def told(dialect: Dialect, action: str, endpoint: Endpoint) -> Iterator[None]:
    """Around driver calls: `Cannot <action>: <what the database said>.`"""
    try:
        yield
    except HoldfastError:
        raise
    except Exception as error:
        explained = dialect.explain(error)
        if explained is None:
            raise
        kind, said = explained
        shown = _with_next_step(kind, without_secrets(said, endpoint))
        raise kind(f"Cannot {action} at {endpoint}: {shown}") from error


def _with_next_step(kind: type[HoldfastError], said: str) -> str:
    """What a database says is no more than what it found. A dialect that knows better has said so: it ends with a
    full stop.
    """
    said = said.rstrip(" ^").replace("?. ", "? ")
    if said.endswith("."):
        return said
    if issubclass(kind, SinkRejected):
        return f"{said}. Correct what the job delivers, or the table that it goes to."
    if issubclass(kind, Terminal):
        return f"{said}. Correct the job file, or what the database lets the user do."
    return f"{said}. Try again later, or look at the server."


class WithoutByteFormat:
    """What a dialect without one says of it. Nobody gets past `byte_format`."""

    byte_format: str | None = None

    def byte_types(self, described: Described) -> list[str] | None:
        return None

    def read_bytes(self, connection: Any, sql: str) -> Iterator[Bytes]:
        raise AssertionError("there is no byte format")

    def reads_beside_runs(self, described: Described, wanted: Sequence[int]) -> bool:
        return False

    def read_runs(
        self,
        connection: Any,
        sql: str,
        described: Described,
        wanted: Sequence[int],
        runs: Sequence[Run],
    ) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
        raise AssertionError("there is no byte format")

    def append_bytes(
        self, connection: Any, name: str, columns: Sequence[str], chunks: Iterator[Bytes]
    ) -> int:
        raise AssertionError("there is no byte format")

    def codes(self, type_: pa.DataType, sql_type: str) -> bool:
        return False


def without_secrets(said: str, endpoint: Endpoint) -> str:
    secret = endpoint.password
    return said.replace(secret, "******") if secret else said


@contextmanager
def transaction(dialect: Dialect, connection: Any) -> Iterator[None]:
    """One transaction: committed at the end, rolled back by any error."""
    dialect.execute(connection, dialect.begin_sql)
    try:
        yield
    except BaseException:
        _roll_back(dialect, connection)
        raise
    dialect.execute(connection, "COMMIT")


def _roll_back(dialect: Dialect, connection: Any) -> None:
    """A connection that is gone has rolled back already; the first error is the one to show."""
    try:
        dialect.execute(connection, "ROLLBACK")
    except Exception as error:
        if dialect.explain(error) is None:
            raise


class DialectMissing(Terminal):
    """No dialect and no reader for this url."""

    code = "dialect-missing"
