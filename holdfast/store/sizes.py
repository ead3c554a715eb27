"""How big the store is, by kind of fact, and making it smaller. Works beside a running master; decides nothing.

The kinds have the names under which Zeta keeps its maps, so that people find what they know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Column, ColumnElement, Connection, Engine, Table, and_, exc, func, select

from holdfast.store.connection import StoreFailed, reading
from holdfast.store.schema import attempts, cleanups, events, jobs, metadata, metrics

PAGES_AT_ONCE = 1_000
"""So many free pages SQLite gives back at a time, so that nobody waits long."""


@dataclass(frozen=True, slots=True)
class Size:
    """Of one kind of fact: what its rows hold, without what a database adds."""

    name: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class StoreSizes:
    kinds: tuple[Size, ...]
    store_bytes: int
    """On disk, with indexes and free room."""
    wal_bytes: int | None
    """The log written ahead. None where the database does not tell."""


def measure(engine: Engine) -> StoreSizes:
    """Counts every row: for people, not for every tick."""
    live, ended = jobs.c.outcome.is_(None), jobs.c.outcome.is_not(None)
    with reading(engine) as tx:
        kinds = (
            _size(tx, "running-job-state", [(jobs, live)]),
            _size(tx, "running-pipeline-state", [(attempts, live)]),
            _size(tx, "running-job-metrics", [(metrics, live)]),
            _size(tx, "finished-job-state", [(jobs, ended), (attempts, ended), (cleanups, ended)]),
            _size(tx, "finished-job-metrics", [(metrics, ended)]),
            _size(tx, "job-events", [(events, live), (events, ended)]),
        )
        store_bytes, wal_bytes = _on_disk(tx)
    return StoreSizes(kinds, store_bytes, wal_bytes)


def _size(tx: Connection, name: str, parts: Sequence[tuple[Table, ColumnElement[bool]]]) -> Size:
    found = [_count(tx, table, which) for table, which in parts]
    return Size(name, sum(rows for rows, _ in found), sum(size for _, size in found))


def _count(tx: Connection, table: Table, which: ColumnElement[bool]) -> tuple[int, int]:
    texts = [column for column in table.c if _is_text(column)]
    numbers = 8 * (len(table.c) - len(texts))
    length = func.octet_length if tx.dialect.name == "postgresql" else func.length
    held = sum((func.coalesce(length(text), 0) for text in texts), start=func.abs(numbers))
    query = select(func.count(), func.coalesce(func.sum(held), 0)).select_from(table)
    if table is not jobs:
        same = and_(jobs.c.job_id == table.c.job_id, jobs.c.generation == table.c.generation)
        query = query.join(jobs, same)
    rows, size = tx.execute(query.where(which)).one()
    return int(rows), int(size)


def _is_text(column: Column[object]) -> bool:
    return column.type.python_type is str


def _on_disk(tx: Connection) -> tuple[int, int | None]:
    if tx.dialect.name == "sqlite":
        pages = tx.exec_driver_sql("PRAGMA page_count").scalar_one()
        page_bytes = tx.exec_driver_sql("PRAGMA page_size").scalar_one()
        # There is a second one for what SQLite sorts, as soon as it has sorted much.
        files = tx.exec_driver_sql("PRAGMA database_list")
        path = next(row.file for row in files if row.name == "main")
        log = Path(f"{path}-wal")
        return pages * page_bytes, log.stat().st_size if path and log.exists() else 0
    names = ", ".join(f"'{table.name}'" for table in metadata.sorted_tables)
    found = tx.exec_driver_sql(
        "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0) FROM pg_class c"
        " JOIN pg_namespace n ON n.oid = c.relnamespace"
        f" WHERE c.relkind = 'r' AND n.nspname = current_schema() AND c.relname IN ({names})"
    ).scalar_one()
    may_look = tx.exec_driver_sql("SELECT pg_has_role(current_user, 'pg_monitor', 'member')")
    if not may_look.scalar_one():
        return int(found), None
    log_bytes = tx.exec_driver_sql("SELECT coalesce(sum(size), 0) FROM pg_ls_waldir()")
    return int(found), int(log_bytes.scalar_one())


def tidy(engine: Engine) -> None:
    """A little at a time, from a running master. PostgreSQL tidies by itself, as its tables were told to."""
    if engine.dialect.name == "sqlite":
        _run(
            engine, f"PRAGMA incremental_vacuum({PAGES_AT_ONCE})", "PRAGMA wal_checkpoint(PASSIVE)"
        )


def compact(engine: Engine) -> None:
    """All that can be given back. Others wait meanwhile."""
    if engine.dialect.name == "sqlite":
        # A store of an older release learns by this rewrite to give back what is freed.
        _run(
            engine,
            "PRAGMA auto_vacuum=INCREMENTAL",
            "VACUUM",
            "PRAGMA wal_checkpoint(TRUNCATE)",
        )
        return
    names = [table.name for table in metadata.sorted_tables]
    limits = ["SET statement_timeout = 0", "SET lock_timeout = '30s'"]
    back = ["RESET statement_timeout", "RESET lock_timeout"]
    _run(engine, *limits, *(f"VACUUM (FULL, ANALYZE) {name}" for name in names), *back)


def _run(engine: Engine, *statements: str) -> None:
    try:
        with engine.connect() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement).close()
    except exc.SQLAlchemyError as error:
        said = getattr(error, "orig", None) or error
        raise StoreFailed(f"Cannot make the state store smaller: {said}.") from error
