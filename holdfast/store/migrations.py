"""Brings a store of any earlier release to this one, by itself. Numbered; each runs once, in a transaction."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection, Engine, func, insert, select

from holdfast.model.errors import Terminal
from holdfast.store.schema import metadata, versions

Migration = Callable[[Connection], None]


class StoreTooNew(Terminal):
    """A newer release wrote this store."""

    code = "store-too-new"


def _create_all(connection: Connection) -> None:
    metadata.create_all(connection)


MIGRATIONS: tuple[Migration, ...] = (_create_all,)
"""Migration n leads from version n to n+1. Never changed once released."""


def migrate(engine: Engine, *, now_ms: int) -> None:
    """Several masters may start at once: the first migrates, the others wait and find it done."""
    is_sqlite = engine.dialect.name == "sqlite"
    with engine.connect() as connection:
        connection.exec_driver_sql("BEGIN IMMEDIATE" if is_sqlite else "BEGIN")
        try:
            if not is_sqlite:
                connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7248104)")
            versions.create(connection, checkfirst=True)
            found = connection.execute(
                select(func.coalesce(func.max(versions.c.version), 0))
            ).scalar_one()
            if found > len(MIGRATIONS):
                raise StoreTooNew(
                    f"Cannot open the state store: it has version {found} and this release knows up to"
                    f" {len(MIGRATIONS)}. Run the release that wrote it, or a newer one."
                )
            for version in range(found, len(MIGRATIONS)):
                MIGRATIONS[version](connection)
                connection.execute(insert(versions).values(version=version + 1, at_ms=now_ms))
        except BaseException:
            connection.exec_driver_sql("ROLLBACK")
            raise
        connection.exec_driver_sql("COMMIT")
