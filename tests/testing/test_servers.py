"""The servers that other tests stand on."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from pathlib import Path

import psycopg
import pymysql
import pytest

from holdfast.outside.clock import RealClock
from holdfast.outside.processes import launch
from holdfast.testing.servers import Database

pytestmark = pytest.mark.servers


def test_postgres_has_logical_decoding_and_prepared_transactions(postgres: Database) -> None:
    assert postgres.rows("SHOW wal_level") == [("logical",)]
    assert postgres.rows("SHOW max_prepared_transactions") == [("50",)]


def test_postgres_refuses_a_wrong_password(postgres: Database) -> None:
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(postgres.dsn().replace(postgres.password, "wrong"))


def test_mariadb_writes_a_row_binlog(mariadb: Database) -> None:
    assert mariadb.rows("SELECT @@log_bin, @@binlog_format") == [(1, "ROW")]


def test_mariadb_refuses_a_wrong_password(mariadb: Database) -> None:
    with pytest.raises(pymysql.OperationalError, match="Access denied"):
        pymysql.connect(host=mariadb.host, port=mariadb.port, user="holdfast", password="wrong")


def test_a_fresh_database_is_empty(postgres_database: Database, mariadb_database: Database) -> None:
    for database in (postgres_database, mariadb_database):
        database.execute("CREATE TABLE t (a int)", "INSERT INTO t VALUES (1)")

        assert database.rows("SELECT a FROM t") == [(1,)]


_STARTS_BOTH = """
import pathlib, sys
from holdfast.testing.servers import mariadb_server, postgres_server
with postgres_server() as one, mariadb_server() as other:
    pathlib.Path(sys.argv[1]).write_text(f"{one.port} {other.port}")
    sys.stdin.read()
"""


def test_servers_end_with_a_killed_process_and_leave_nothing(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o1777)
        ready = tmp_path / "ready"
        running = launch(
            [sys.executable, "-c", _STARTS_BOTH, str(ready)],
            log=tmp_path / "log",
            environment={"TMPDIR": folder},
        )
        running.wait_for_file(ready, timeout_ms=120_000)
        assert len(os.listdir(folder)) == 2

        os.kill(running.pid, signal.SIGKILL)

        clock = RealClock()
        until = clock.elapsed_ms() + 30_000
        while os.listdir(folder) and clock.elapsed_ms() < until:
            clock.wait(50)
        assert os.listdir(folder) == []
