"""Every test of the store runs on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.store.store import Store, open_store
from holdfast.testing.servers import Database


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.servers)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of a database with nothing in it."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'state' / 'holdfast.db'}"
    database: Database = request.getfixturevalue("postgres_database")
    return database.dsn()


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    store = open_store(url, now_ms=0)
    yield store
    store.close()


@pytest.fixture
def led(store: Store) -> Store:
    """Its term is 1."""
    store.commits.take_lease(seen_term=0, holder="a", url="http://a", expires_at_ms=2_000)
    return store
