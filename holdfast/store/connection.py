"""One way to open a transaction, on both databases: the check of the term and the write are one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, Engine, create_engine, event, exc, select
from sqlalchemy.pool import StaticPool

from holdfast.model.errors import ConfigError, OutcomeUnknown, Terminal, Transient
from holdfast.store.schema import leader

CrashPoint = Callable[[str], None]
BUSY_TIMEOUT_S = 10.0
WAL_BYTES_MAX = 4 << 20
"""SQLite's log is cut to this when it begins anew."""
_TERM = select(leader.c.term).where(leader.c.id == 1)
_TERM_LOCKED = _TERM.with_for_update(read=True)


class StoreFailed(Transient):
    """The state store did not answer as it should. The same call may succeed later."""

    code = "store-failed"


class CommitUnknown(OutcomeUnknown):
    """The answer to a commit was lost: read again."""

    code = "commit-unknown"


class Deposed(Terminal):
    """Another master leads."""

    code = "deposed"

    def __init__(self, *, doing: str, term: int, found: int) -> None:
        super().__init__(
            f"Cannot {doing}: this master holds term {term} and term {found} leads. It has stepped down;"
            " nothing needs to be done."
        )
        self.term = term
        self.found = found


# A master that sleeps inside a transaction would hold the leader's row for as long as it sleeps: its session is ended,
# so that another can lead. And what has been answered must be there when the server comes back, however it is set up.
_POSTGRES_OPTIONS = (
    "-c statement_timeout=10000 -c lock_timeout=5000 -c idle_in_transaction_session_timeout=3000"
    " -c synchronous_commit=on"
)


class StateUrlWrong(ConfigError):
    """The address of the state store is none that can be used."""

    code = "state-url-wrong"


def open_engine(url: str) -> Engine:
    """`sqlite:///path` or `postgresql://…`."""
    if url.startswith("sqlite:///"):
        return _open_sqlite(url)
    scheme, _, rest = url.partition("://")
    if scheme not in ("postgresql", "postgres", "postgresql+psycopg"):
        raise StateUrlWrong(
            f"Cannot open a state store of kind '{scheme}': expected postgresql://user:password@host/database"
            " or sqlite:///file."
        )
    return create_engine(
        f"postgresql+psycopg://{rest}",
        isolation_level="AUTOCOMMIT",
        pool_pre_ping=True,
        pool_size=4,
        max_overflow=8,
        pool_timeout=BUSY_TIMEOUT_S,
        connect_args={"connect_timeout": 3, "options": _POSTGRES_OPTIONS},
    )


def _open_sqlite(url: str) -> Engine:
    path = Path(url.removeprefix("sqlite:///"))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreFailed(
            f"Cannot make the folder of the state store {path}: {error.strerror}. Mend its permissions, or name"
            " another with --state."
        ) from error
    engine = create_engine(
        url,
        isolation_level="AUTOCOMMIT",
        connect_args={"timeout": BUSY_TIMEOUT_S, "check_same_thread": False},
    )

    @event.listens_for(engine, "connect")
    def _set_pragmas(connection: object, record: object) -> None:
        cursor = connection.cursor()  # type: ignore[attr-defined]
        # Before the first table is made: what is freed can then be given back without a rewrite.
        cursor.execute("PRAGMA auto_vacuum=INCREMENTAL")
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.execute(f"PRAGMA journal_size_limit={WAL_BYTES_MAX}")
        cursor.close()

    return engine


def memory_engine() -> Engine:
    """SQLite without a file. One connection, for one thread at a time."""
    return create_engine(
        "sqlite://",
        isolation_level="AUTOCOMMIT",
        poolclass=StaticPool,
        connect_args={"check_same_thread": False},
    )


@contextmanager
def writing(
    engine: Engine, doing: str, term: int | None, crash_point: CrashPoint
) -> Iterator[Connection]:
    """A transaction that commits only while `term` leads. None: the lease itself is being written."""
    crash_point(f"before {doing}")
    is_sqlite = engine.dialect.name == "sqlite"
    try:
        with engine.connect() as connection:
            connection.exec_driver_sql("BEGIN IMMEDIATE" if is_sqlite else "BEGIN")
            try:
                if term is not None:
                    _check_term(connection, doing, term, lock=not is_sqlite)
                yield connection
            except BaseException:
                connection.exec_driver_sql("ROLLBACK")
                raise
            _commit(connection, doing)
    except exc.SQLAlchemyError as error:
        raise StoreFailed(f"Cannot {doing}: the state store said: {_words_of(error)}.") from error
    crash_point(f"after {doing}")


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """One consistent picture."""
    is_sqlite = engine.dialect.name == "sqlite"
    try:
        with engine.connect() as connection:
            begin = "BEGIN" if is_sqlite else "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
            connection.exec_driver_sql(begin)
            try:
                yield connection
            finally:
                connection.exec_driver_sql("ROLLBACK")
    except exc.SQLAlchemyError as error:
        raise StoreFailed(f"Cannot read the state store: {_words_of(error)}.") from error


def _words_of(error: exc.SQLAlchemyError) -> str:
    """Without the statement and its values."""
    return str(getattr(error, "orig", None) or error)


def _check_term(connection: Connection, doing: str, term: int, *, lock: bool) -> None:
    found = connection.execute(_TERM_LOCKED if lock else _TERM).scalar()
    if found != term:
        raise Deposed(doing=doing, term=term, found=found or 0)


def _commit(connection: Connection, doing: str) -> None:
    try:
        connection.exec_driver_sql("COMMIT")
    except exc.DBAPIError as error:
        raise CommitUnknown(
            f"Cannot tell whether '{doing}' was done: its commit got no answer ({error.orig})."
            " It is read again; nothing needs to be done."
        ) from error
