"""What tests may ask for: one Spark session and one of each database server, started by the first that asks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from holdfast.runtime.session import SparkHost
    from holdfast.testing.servers import Database


@pytest.fixture(scope="session")
def host() -> Iterator[SparkHost]:
    from holdfast.runtime.session import SparkHost, SparkSettings

    host = SparkHost(SparkSettings(master="local[2]", app_name="tests"))
    yield host
    host.stop()


@pytest.fixture(scope="session")
def spark(host: SparkHost) -> SparkSession:
    return host.session()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Database]:
    from holdfast.testing.servers import postgres_server

    with postgres_server() as database:
        yield database


@pytest.fixture(scope="session")
def mariadb() -> Iterator[Database]:
    from holdfast.testing.servers import mariadb_server

    with mariadb_server() as database:
        yield database


@pytest.fixture
def postgres_database(postgres: Database) -> Iterator[Database]:
    """A fresh database for this test."""
    from holdfast.testing.servers import fresh_database

    with fresh_database(postgres) as database:
        yield database


@pytest.fixture
def mariadb_database(mariadb: Database) -> Iterator[Database]:
    """A fresh database for this test."""
    from holdfast.testing.servers import fresh_database

    with fresh_database(mariadb) as database:
        yield database
