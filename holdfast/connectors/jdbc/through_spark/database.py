"""A database behind a JDBC driver: connections in Spark's JVM, and what the driver tells of its catalog."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from holdfast.connectors.jdbc.options import SinkOptions, SourceOptions
from holdfast.model.errors import HoldfastError, Terminal, Transient
from holdfast.spec.redact import redact_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_JDBC = "org.apache.spark.sql.execution.datasources.jdbc.JDBCOptions"
_TERMINAL_STATES = ("0A", "21", "22", "23", "28", "42")
"""SQLSTATE classes of what the same statement meets again; connections (08) and deadlocks (40) pass."""
_SIZED_TYPES = (1, 12, -15, -9, -2, -3)
"""CHAR, VARCHAR, NCHAR, NVARCHAR, BINARY, VARBINARY, as java.sql.Types has them."""
_EXACT_TYPES = (2, 3)


class DriverMissing(Terminal):
    """Spark's JVM has no such JDBC driver."""

    code = "driver-missing"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a database is, by which driver, and who is asking. Never printed whole."""

    url: str = field(repr=False)
    driver: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    connect_timeout_ms: int = 30_000
    statement_timeout_ms: int = 86_400_000

    def __str__(self) -> str:
        return self.without_secrets(self.url)

    def without_secrets(self, said: str) -> str:
        return redact_text(said, [self.password] if self.password else [])

    def options(self, **more: str) -> dict[str, str]:
        """For Spark's reader and writer. A TIMESTAMP without zone stays one, whatever the JVM's zone."""
        found = {
            **self.properties,
            "url": self.url,
            "driver": self.driver,
            "queryTimeout": str(math.ceil(self.statement_timeout_ms / 1000)),
            "preferTimestampNTZ": "true",
            **more,
        }
        logged_in = {"user": self.user, "password": self.password}
        return {**found, **{name: value for name, value in logged_in.items() if value is not None}}


def place_of(options: SourceOptions | SinkOptions) -> Place:
    assert options.driver, "checked with the options"
    connect_ms = min(options.connection_check_timeout_sec * 1000, options.connect_timeout_ms)
    return Place(
        options.url,
        options.driver,
        options.user,
        options.password,
        options.properties,
        connect_ms,
        options.socket_timeout_ms,
    )


@dataclass(frozen=True, slots=True)
class Named:
    """A table as the catalog names it."""

    catalog: str | None
    schema: str | None
    name: str

    @property
    def path(self) -> str:
        return ".".join(part for part in (self.catalog, self.schema, self.name) if part)

    def beside(self, name: str) -> Named:
        return Named(self.catalog, self.schema, name)


@dataclass(frozen=True, slots=True)
class CatalogColumn:
    """A column as the catalog tells it."""

    name: str
    sql_type: str
    nullable: bool


class Database:
    """Opens connections, and ends them from another thread."""

    def __init__(self, place: Place, spark: Callable[[], SparkSession]) -> None:
        self.place = place
        self.spark = spark
        self._lock = threading.Lock()
        self._open: list[Any] = []

    def __reduce__(self) -> tuple[Any, ...]:
        return (Database, (self.place, self.spark))

    @contextmanager
    def connect(self, action: str) -> Iterator[Connection]:
        """A connection in autocommit for one piece of work; what the driver says becomes `Cannot <action> …`."""
        self.spark()  # Whoever starts it imports PySpark in another thread, which two must not do at once.
        with self.told("connect"):
            opened = self._connect()
        with self._lock:
            self._open.append(opened)
        try:
            with self.told(action):
                yield Connection(opened)
        finally:
            with self._lock:
                self._open.remove(opened)
            with self.told("close the connection"):
                opened.close()

    def close(self) -> None:
        """End whatever is under way: the threads that wait there get an error."""
        with self._lock:
            opened = list(self._open)
        for connection in opened:
            with self.told("close the connection"):
                connection.close()

    @contextmanager
    def told(self, action: str) -> Iterator[None]:
        """Around calls into the JVM."""
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        try:
            yield
        except Py4JJavaError as error:
            raise self._explained(action, error.java_exception, str(error)) from error
        except PySparkException as error:
            origin = getattr(error, "_origin", None)
            raise self._explained(action, origin, str(error)) from error

    def _explained(self, action: str, thrown: Any, text: str) -> HoldfastError:
        where = f"Cannot {action} at {self.place}"
        cause = thrown
        while cause is not None:
            name, said = cause.getClass().getName(), str(cause.getMessage() or "")
            if name.endswith("ClassNotFoundException") or "No suitable driver" in said:
                return DriverMissing(
                    f"{where}: Spark has no JDBC driver {self.place.driver}."
                    " Name its jar by `jars` in env, and check the class in `driver`."
                )
            if "could not open a JDBC connection" in said:
                return Terminal(
                    f"{where}: the JDBC driver {self.place.driver} takes no such url."
                    " Check url and driver."
                )
            if "SQL" in name and "Exception" in name and hasattr(cause, "getSQLState"):
                said = self.place.without_secrets(" ".join(said.split())).rstrip(".")
                return _kind_of(name, str(cause.getSQLState() or ""))(f"{where}: {said}.")
            cause = cause.getCause()
        first = next(iter(text.splitlines()), "no reason was given")
        return Transient(f"{where}: {self.place.without_secrets(first)}")

    def _connect(self) -> Any:
        """By the driver that the options name, with Spark's own way around class loaders and logins."""
        jvm: Any = self.spark()._jvm
        given = jvm.java.util.HashMap()
        for name, value in self.place.options(dbtable="unused").items():
            given.put(name, value)
        parts = jvm
        for part in _JDBC.split("."):
            parts = getattr(parts, part)
        options = parts(jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(given))
        jvm.java.sql.DriverManager.setLoginTimeout(math.ceil(self.place.connect_timeout_ms / 1000))
        dialect = jvm.org.apache.spark.sql.jdbc.JdbcDialects.get(self.place.url)
        return dialect.createConnectionFactory(options).apply(-1)


class Connection:
    """A java.sql.Connection with the few questions that planning and publishing ask."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._about = inner.getMetaData()

    def fetch(self, sql: str) -> list[tuple[str | None, ...]]:
        """Rows of text."""
        statement = self._inner.createStatement()
        try:
            return _rows(statement.executeQuery(sql))
        finally:
            statement.close()

    def execute(self, sql: str) -> int:
        """How many rows it touched."""
        statement = self._inner.createStatement()
        try:
            statement.execute(sql)
            return int(statement.getUpdateCount())
        finally:
            statement.close()

    def execute_unless(self, is_there: Callable[[], bool], sql: str) -> None:
        """Make something that another may make at the same moment: who comes second finds it there."""
        from py4j.protocol import Py4JJavaError

        if is_there():
            return
        try:
            self.execute(sql)
        except Py4JJavaError:
            if not is_there():
                raise

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self._inner.setAutoCommit(False)
        try:
            yield
        except BaseException:
            self._inner.rollback()
            raise
        else:
            self._inner.commit()
        finally:
            self._inner.setAutoCommit(True)

    def quote(self, name: str) -> str:
        sign = str(self._about.getIdentifierQuoteString()).strip()
        return f"{sign}{name.replace(sign, sign * 2)}{sign}" if sign else name

    def sql_name(self, table: Named) -> str:
        parts = (table.catalog, table.schema, table.name)
        return ".".join(self.quote(part) for part in parts if part)

    def find_table(self, path: str) -> Named | None:
        """A table or view by its path: as it is written, else as the database writes names without quotes."""
        for catalog, schema, name in self._readings(path):
            for cased in (str, str.upper, str.lower):
                wanted = [part and cased(part) for part in (catalog, schema, name)]
                for found in self._tables(*wanted):
                    if found.name == wanted[2] and wanted[1] in (None, found.schema):
                        return Named(wanted[0], found.schema, found.name)
        return None

    def place_for(self, path: str) -> Named:
        """Where a table that is not there yet would be made."""
        catalog, schema, name = self._readings(path)[0]
        return Named(catalog, schema, name)

    def list_tables(self) -> list[Named]:
        """Tables and views that the user may see, without the system's own."""
        return self._tables(None, None, "%")

    def columns(self, table: Named) -> list[CatalogColumn]:
        found = self._about.getColumns(
            table.catalog, self._pattern(table.schema), self._pattern(table.name), None
        )
        rows = _rows(
            found, "COLUMN_NAME", "TYPE_NAME", "DATA_TYPE", "COLUMN_SIZE", "DECIMAL_DIGITS", "NULLABLE"
        )  # fmt: skip
        return [CatalogColumn(str(row[0]), _type_sql(row), nullable=row[5] != "0") for row in rows]

    def primary_key(self, table: Named) -> list[str]:
        found = self._about.getPrimaryKeys(table.catalog, table.schema, table.name)
        rows = _rows(found, "KEY_SEQ", "COLUMN_NAME")
        return [str(name) for _, name in sorted(rows, key=lambda row: int(str(row[0])))]

    def _readings(self, path: str) -> Sequence[tuple[str | None, str | None, str]]:
        """What the parts of a path may be."""
        parts = path.split(".")
        if len(parts) == 1:
            return [(None, self._inner.getSchema(), path), (None, None, path)]
        if len(parts) == 2:
            return [(None, parts[0], parts[1]), (parts[0], None, parts[1])]
        return [(parts[-3], parts[-2], parts[-1]), (None, parts[-2], parts[-1])]

    def _tables(self, catalog: str | None, schema: str | None, name: str | None) -> list[Named]:
        kinds = None if name != "%" else self._kinds()
        pattern = name if name == "%" else self._pattern(name)
        found = self._about.getTables(catalog, self._pattern(schema), pattern, kinds)
        rows = _rows(found, "TABLE_SCHEM", "TABLE_NAME")
        return [Named(catalog, row[0] or None, str(row[1])) for row in rows]

    def _kinds(self) -> Any:
        from pyspark import SparkContext

        gateway: Any = SparkContext._gateway
        kinds = gateway.new_array(gateway.jvm.java.lang.String, 2)
        kinds[0], kinds[1] = "TABLE", "VIEW"
        return kinds

    def _pattern(self, name: str | None) -> str | None:
        """The catalog's questions take LIKE patterns."""
        if name is None:
            return None
        escape = str(self._about.getSearchStringEscape() or "")
        for sign in (escape, "_", "%"):
            name = name.replace(sign, escape + sign) if sign and escape else name
        return name


def _rows(found: Any, *columns: str) -> list[tuple[str | None, ...]]:
    """All rows of a result, as text. Each cell is a call into the JVM: for small results only."""
    try:
        labels = columns or range(1, found.getMetaData().getColumnCount() + 1)
        rows = []
        while found.next():
            rows.append(tuple(found.getString(label) for label in labels))
        return rows
    finally:
        found.close()


def _type_sql(row: Sequence[str | None]) -> str:
    """The type as it stands in CREATE TABLE."""
    _, name, number, size, digits, _ = row
    base = str(name).replace(" identity", "").replace(" IDENTITY", "")
    if "()" in base:
        return base.replace("()", f"({size})")
    if "(" in base or int(str(size or 0)) <= 0:
        return base
    if int(str(number)) in _SIZED_TYPES:
        return f"{base}({size})"
    if int(str(number)) in _EXACT_TYPES and int(str(digits or 0)) >= 0:
        return f"{base}({size},{digits or 0})"
    return base


def _kind_of(name: str, state: str) -> type[HoldfastError]:
    if "NonTransientConnection" in name or "Recoverable" in name:
        return Transient
    return Terminal if state[:2] in _TERMINAL_STATES else Transient
