"""Brings a store of any earlier release to this one, by itself. Numbered; each runs once, in a transaction.

What is written here is frozen: `store/schema.py` says how the tables are now, and a test compares the two.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection, Engine, exc, func, insert, select

from holdfast.model.errors import Terminal
from holdfast.store.connection import StoreFailed
from holdfast.store.schema import versions

Migration = Callable[[Connection], None]
MIGRATING_KEY = 7_248_104
"""Of the lock that keeps several masters on one PostgreSQL apart while one of them migrates."""


class StoreTooNew(Terminal):
    """A newer release wrote this store."""

    code = "store-too-new"


def _create_tables(connection: Connection) -> None:
    """Version 1."""
    serial = "INTEGER" if connection.dialect.name == "sqlite" else "SERIAL"
    for statement in _VERSION_1:
        connection.exec_driver_sql(statement.format(serial=serial))


_VERSION_1 = (
    """CREATE TABLE leader (
        id INTEGER NOT NULL PRIMARY KEY, term BIGINT NOT NULL, holder TEXT NOT NULL, url TEXT NOT NULL,
        expires_at_ms BIGINT NOT NULL)""",
    """CREATE TABLE jobs (
        job_id TEXT NOT NULL, generation INTEGER NOT NULL, submission TEXT NOT NULL, submitted TEXT NOT NULL,
        submitted_at_ms BIGINT NOT NULL, goal TEXT NOT NULL, goal_at_ms BIGINT NOT NULL, outcome TEXT,
        ended_at_ms BIGINT, reason TEXT NOT NULL, savepoint TEXT, PRIMARY KEY (job_id, generation))""",
    "CREATE INDEX jobs_by_outcome ON jobs (outcome, ended_at_ms)",
    """CREATE TABLE attempts (
        job_id TEXT NOT NULL, generation INTEGER NOT NULL, pipeline_id INTEGER NOT NULL, number INTEGER NOT NULL,
        worker_id TEXT NOT NULL, planned_at_ms BIGINT NOT NULL, alone BOOLEAN NOT NULL, started_at_ms BIGINT,
        ended_at_ms BIGINT, ended_how TEXT, reason TEXT NOT NULL,
        PRIMARY KEY (job_id, generation, pipeline_id, number))""",
    """CREATE TABLE cleanups (
        job_id TEXT NOT NULL, generation INTEGER NOT NULL, due_at_ms BIGINT NOT NULL, tries INTEGER NOT NULL,
        last_error TEXT NOT NULL, PRIMARY KEY (job_id, generation))""",
    """CREATE TABLE metrics (
        job_id TEXT NOT NULL, generation INTEGER NOT NULL, pipeline_id INTEGER NOT NULL, observed TEXT NOT NULL,
        at_ms BIGINT NOT NULL, PRIMARY KEY (job_id, generation, pipeline_id))""",
    """CREATE TABLE workers (
        worker_id TEXT NOT NULL PRIMARY KEY, heartbeat TEXT NOT NULL, heard_at_ms BIGINT NOT NULL)""",
    """CREATE TABLE events (
        id {serial} NOT NULL PRIMARY KEY, job_id TEXT NOT NULL, generation INTEGER NOT NULL, at_ms BIGINT NOT NULL,
        said TEXT NOT NULL)""",
    "CREATE INDEX events_by_job ON events (job_id, generation, id)",
)


def _add_indexes(connection: Connection) -> None:
    """Version 2: what is looked for often is found by an index, and what is overwritten every second stays small."""
    is_sqlite = connection.dialect.name == "sqlite"
    for statement in _VERSION_2 if is_sqlite else (*_VERSION_2, *_VERSION_2_POSTGRES):
        connection.exec_driver_sql(statement)


_VERSION_2 = (
    "CREATE INDEX jobs_by_end ON jobs (ended_at_ms)",
    "CREATE INDEX jobs_live ON jobs (submitted_at_ms) WHERE outcome IS NULL",
    "ALTER TABLE attempts ADD COLUMN advanced BOOLEAN DEFAULT FALSE NOT NULL",
    "CREATE INDEX attempts_open ON attempts (worker_id) WHERE ended_how IS NULL",
)
# Half-empty pages leave room for the next version of a row beside the one before; what cannot be reused at once is
# collected after some hundred updates, and not after a fifth of a table that only ever has a few rows.
_OVERWRITTEN = (
    "fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500,"
    " autovacuum_vacuum_cost_delay = 0"
)
_OVERWRITTEN_LONG = (
    "toast.autovacuum_vacuum_scale_factor = 0, toast.autovacuum_vacuum_threshold = 500,"
    " toast.autovacuum_vacuum_cost_delay = 0"
)
_VERSION_2_POSTGRES = (
    f"ALTER TABLE metrics SET ({_OVERWRITTEN}, {_OVERWRITTEN_LONG})",
    f"ALTER TABLE workers SET ({_OVERWRITTEN}, {_OVERWRITTEN_LONG})",
    f"ALTER TABLE leader SET ({_OVERWRITTEN})",
)

MIGRATIONS: tuple[Migration, ...] = (_create_tables, _add_indexes)
"""Migration n leads from version n to n+1. Never changed once released."""


def migrate(engine: Engine, *, now_ms: int) -> None:
    """Several masters may start at once: the first migrates, the others wait and find it done."""
    is_sqlite = engine.dialect.name == "sqlite"
    try:
        with engine.connect() as connection:
            connection.exec_driver_sql("BEGIN IMMEDIATE" if is_sqlite else "BEGIN")
            try:
                if not is_sqlite:
                    connection.exec_driver_sql("SET LOCAL lock_timeout = 0")
                    connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({MIGRATING_KEY})")
                _migrate(connection, now_ms)
            except BaseException:
                connection.exec_driver_sql("ROLLBACK")
                raise
            connection.exec_driver_sql("COMMIT")
    except exc.SQLAlchemyError as error:
        said = getattr(error, "orig", None) or error
        raise StoreFailed(
            f"Cannot open the state store: {said}. Mend what it says, or name another with --state."
        ) from error


def _migrate(connection: Connection, now_ms: int) -> None:
    versions.create(connection, checkfirst=True)
    newest = select(func.coalesce(func.max(versions.c.version), 0))
    found = connection.execute(newest).scalar_one()
    if found > len(MIGRATIONS):
        raise StoreTooNew(
            f"Cannot open the state store: it has version {found} and this release knows up to"
            f" {len(MIGRATIONS)}. Run the release that wrote it, or a newer one."
        )
    for version in range(found, len(MIGRATIONS)):
        MIGRATIONS[version](connection)
        connection.execute(insert(versions).values(version=version + 1, at_ms=now_ms))
