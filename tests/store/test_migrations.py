"""A store of any earlier release becomes one of this release by itself."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, inspect
from sqlalchemy.pool import StaticPool

from holdfast.model.jobs import Outcome
from holdfast.store import migrations
from holdfast.store.connection import StateUrlWrong, StoreFailed, open_engine
from holdfast.store.migrations import MIGRATIONS, StoreTooNew, migrate
from holdfast.store.rows import submitted_to_text
from holdfast.store.schema import metadata
from holdfast.store.store import open_store
from holdfast.testing.builders import a_submitted_job


def make_version(url: str, version: int, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """A store as the release that knew so many versions left it."""
    engine = open_engine(url)
    with monkeypatch.context() as patched:
        patched.setattr(migrations, "MIGRATIONS", MIGRATIONS[:version])
        migrate(engine, now_ms=1)
    return engine


def versions_of(engine: Engine) -> list[int]:
    with engine.connect() as connection:
        found = connection.exec_driver_sql("SELECT version FROM versions ORDER BY version")
        return [row[0] for row in found]


def shape_of(engine: Engine) -> object:
    """Tables with their columns and indexes, in words that both ways of making them give."""
    found = inspect(engine)
    return {
        table: (
            [(c["name"], str(c["type"]), c["nullable"]) for c in found.get_columns(table)],
            found.get_pk_constraint(table)["constrained_columns"],
            sorted((str(i["name"]), i["column_names"]) for i in found.get_indexes(table)),
        )
        for table in sorted(found.get_table_names())
    }


@pytest.mark.parametrize("version", range(len(MIGRATIONS) + 1))
def test_a_store_of_every_version_is_brought_to_this_one(
    url: str, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_version(url, version, monkeypatch).dispose()
    open_store(url, now_ms=2).close()
    store = open_store(url, now_ms=3)

    assert versions_of(store.engine) == list(range(1, len(MIGRATIONS) + 1))
    assert store.reads.observe(expired_before_ms=0).jobs == []
    store.close()


def test_the_tables_are_as_the_schema_says(url: str) -> None:
    """Migrations are frozen text; this is what keeps them and the schema together."""
    store = open_store(url, now_ms=0)
    found = shape_of(store.engine)
    metadata.drop_all(store.engine)
    metadata.create_all(store.engine)

    assert found == shape_of(store.engine)
    store.close()


def test_a_store_of_version_1_keeps_its_data(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = make_version(url, 1, monkeypatch)
    submitted = submitted_to_text(a_submitted_job()).replace("'", "''").replace("%", "%%")
    with engine.connect() as connection:
        for statement in (
            "INSERT INTO leader VALUES (1, 7, 'old', 'http://old', 5)",
            f"INSERT INTO jobs VALUES ('orders', 1, 's', '{submitted}', 3, 'RUN', 3, NULL, NULL, '', NULL)",
            f"INSERT INTO jobs VALUES ('done', 4, 's', '{submitted}', 1, 'RUN', 1, 'FINISHED', 2, '', NULL)",
            "INSERT INTO attempts VALUES ('orders', 1, 1, 1, 'w', 4, FALSE, 5, 6, 'lost', 'fell silent')",
            "INSERT INTO attempts VALUES ('orders', 1, 1, 2, 'w', 7, TRUE, NULL, NULL, NULL, '')",
            "INSERT INTO cleanups VALUES ('done', 4, 62, 1, 'no')",
            "INSERT INTO metrics VALUES ('orders', 1, 1, '{\"tip\": 3}', 9)",
            "INSERT INTO events (job_id, generation, at_ms, said) VALUES ('orders', 1, 6, 'lost')",
        ):
            connection.exec_driver_sql(statement)
    engine.dispose()

    store = open_store(url, now_ms=9)

    found = store.reads.observe(expired_before_ms=0)
    assert found.lease is not None
    assert found.lease.term == 7
    assert [job.submitted.name for job in found.jobs] == ["orders"]
    assert [(a.key.number, a.alone, a.advanced, a.is_open) for a in found.attempts] == [
        (1, False, False, False),
        (2, True, False, True),
    ]
    assert [(c.job_id, c.generation, c.tries) for c in found.cleanups] == [("done", 4, 1)]
    assert [j.id for j in store.reads.jobs(outcome=Outcome.FINISHED, live=False)] == ["done"]
    assert store.reads.metrics("orders", 1) == {1: {"tip": 3}}
    store.commits.record_event(7, "orders", 1, "migrated", at_ms=9)
    assert [said for _, said in store.reads.events("orders")] == ["migrated", "lost"]
    store.close()


def test_masters_that_start_at_once_migrate_once(url: str) -> None:
    together = threading.Barrier(4)
    wrong: list[BaseException] = []

    def start() -> None:
        together.wait(10)
        try:
            open_store(url, now_ms=1).close()
        except BaseException as error:  # noqa: BLE001 - told by the test
            wrong.append(error)

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert wrong == []
    engine = open_engine(url)
    assert versions_of(engine) == list(range(1, len(MIGRATIONS) + 1))
    engine.dispose()


def test_a_migration_that_fails_leaves_the_store_as_it_was(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = make_version(url, 1, monkeypatch)
    before = shape_of(engine)

    def half(connection: object) -> None:
        MIGRATIONS[1](connection)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(migrations, "MIGRATIONS", (MIGRATIONS[0], half))
        with pytest.raises(KeyboardInterrupt):
            migrate(engine, now_ms=2)

    assert shape_of(engine) == before
    assert versions_of(engine) == [1]
    engine.dispose()


def test_a_store_of_a_newer_release_is_refused_and_not_touched(url: str) -> None:
    store = open_store(url, now_ms=0)
    with store.engine.connect() as connection:
        connection.exec_driver_sql("INSERT INTO versions VALUES (99, 0)")
    store.close()

    with pytest.raises(StoreTooNew, match=f"version 99 .* knows up to {len(MIGRATIONS)}"):
        open_store(url, now_ms=1)


def test_an_address_that_is_none_is_told() -> None:
    with pytest.raises(StateUrlWrong, match="of kind 'mysql'"):
        open_store("mysql://root@localhost/x", now_ms=0)


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(StoreFailed, match="Cannot make the folder"):
        open_store(f"sqlite:///{tmp_path}/file/below/holdfast.db", now_ms=0)


def test_a_file_that_is_no_store_is_told(tmp_path: Path) -> None:
    (tmp_path / "holdfast.db").write_bytes(b"something else entirely" * 100)

    with pytest.raises(StoreFailed, match="not a database"):
        open_store(f"sqlite:///{tmp_path}/holdfast.db", now_ms=0)


def test_a_store_in_memory_has_the_tables_too() -> None:
    engine = create_engine("sqlite://", poolclass=StaticPool, isolation_level="AUTOCOMMIT")
    migrate(engine, now_ms=0)

    assert versions_of(engine)[-1] == len(MIGRATIONS)
