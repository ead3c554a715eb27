"""Two masters on a PostgreSQL of their own and two warm workers, started once for a module and whole for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.outside.ids import new_id
from holdfast.testing.file_jobs import FileJob
from holdfast.testing.live_cluster import LiveCluster, live_cluster
from holdfast.testing.servers import Database, PostgresServer, restartable_postgres

MakeJob = Callable[..., FileJob]


@pytest.fixture(scope="module")
def state_server() -> Iterator[PostgresServer]:
    with restartable_postgres() as server:
        yield server


@pytest.fixture(scope="module")
def started(
    state_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveCluster]:
    folder = tmp_path_factory.mktemp("cluster")
    state = state_server.database.dsn()
    with live_cluster(folder, masters=2, workers=2, state=state) as cluster:
        yield cluster


@pytest.fixture
def cluster(started: LiveCluster, request: pytest.FixtureRequest) -> Iterator[LiveCluster]:
    """Whole again before each test, and without live jobs after it."""
    started.revive()
    yield started
    started.revive()
    for job in started.ask("GET", "/running-jobs")["found"]:
        started.stop(job["jobId"])


@pytest.fixture
def make_job(tmp_path: Path, postgres: Database) -> MakeJob:
    """Jobs under ids of their own, each with a table."""
    unique = new_id()[:8]

    def make(kind: str = "job", **given: object) -> FileJob:
        return FileJob(tmp_path, postgres, f"{kind}-{unique}", **given)  # type: ignore[arg-type]

    return make
