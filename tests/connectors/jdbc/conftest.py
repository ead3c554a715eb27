"""The databases that the Jdbc connector is tested on: each test gets a fresh one."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from holdfast.testing.servers import Database


@dataclass(frozen=True)
class System:
    """A database with the few questions that the rules need."""

    block: dict[str, Any]
    execute: Callable[..., None]
    rows: Callable[[str], list[tuple[Any, ...]]]
    tables: Callable[[], Sequence[str]]
    prefix: str = ""
    """What stands before the name of a table in its path."""


def _postgres(database: Database) -> System:
    block = {"url": database.url(), "user": database.user, "password": database.password}
    names = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND starts_with(tablename, 'hf_')"
    return System(
        block,
        database.execute,
        lambda sql: list(database.rows(sql)),
        lambda: [str(row[0]) for row in database.rows(names)],
        f"{database.database}.public.",
    )


def _sqlite(folder: Path) -> System:
    path = folder / "test.db"

    def rows(sql: str) -> list[tuple[Any, ...]]:
        connection = sqlite3.connect(path, timeout=30)
        try:
            return connection.execute(sql).fetchall()
        finally:
            connection.close()

    def execute(*statements: str) -> None:
        connection = sqlite3.connect(path, timeout=30)
        with connection:
            for statement in statements:
                connection.execute(statement)
        connection.close()

    names = "SELECT name FROM sqlite_master WHERE type = 'table' AND substr(name, 1, 3) = 'hf_'"
    return System(
        {"url": f"jdbc:sqlite:{path}"}, execute, rows, lambda: [str(row[0]) for row in rows(names)]
    )


def _mariadb(database: Database) -> System:
    """Quotes and collation as the others have them: rules are told once for all systems."""
    quotes = "SET SESSION sql_mode = CONCAT(@@sql_mode, ',ANSI_QUOTES')"
    database.execute(f"ALTER DATABASE {database.database} COLLATE utf8mb4_nopad_bin")
    block = {"url": database.url(), "user": database.user, "password": database.password}

    def execute(*statements: str) -> None:
        database.execute(quotes, *statements)

    def rows(sql: str) -> list[tuple[Any, ...]]:
        with database.connect_mysql() as connection, connection.cursor() as cursor:
            cursor.execute(quotes)
            cursor.execute(sql)
            return list(cursor.fetchall())

    names = (
        "SELECT table_name FROM information_schema.tables WHERE table_schema = database()"
        " AND LEFT(table_name, 3) = 'hf_'"
    )
    found = f"{database.database}."
    return System(block, execute, rows, lambda: [str(row[0]) for row in rows(names)], found)


@pytest.fixture(
    params=[
        pytest.param("postgres", marks=pytest.mark.servers),
        pytest.param("mariadb", marks=pytest.mark.servers),
        "sqlite",
    ]
)
def system(request: pytest.FixtureRequest, tmp_path: Path) -> System:
    if request.param == "mariadb":
        return _mariadb(request.getfixturevalue("mariadb_database"))
    if request.param == "postgres":
        return _postgres(request.getfixturevalue("postgres_database"))
    return _sqlite(tmp_path)


@pytest.fixture
def mariadb_system(mariadb_database: Database) -> System:
    return _mariadb(mariadb_database)


@pytest.fixture
def postgres_system(postgres_database: Database) -> System:
    return _postgres(postgres_database)
