"""Real database servers for tests and benchmarks: loopback, a free port, data in a folder of their own.

Each is the child of a shell that waits for the end of its stdin, then stops the server and removes the folder: so
they end with the process that started them, also when that is killed.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg
import pymysql

from holdfast.model.errors import Terminal
from holdfast.outside.clock import RealClock
from holdfast.outside.ids import new_id
from holdfast.outside.processes import Running, launch, run

START_TIMEOUT_MS = 60_000
STOP_GRACE_MS = 30_000
_CLOCK = RealClock()
USER = "holdfast"
PASSWORD = "holdfast-pass-9d2"
_KEEP = """\
folder=$1; signal=$2; shift 2
"$@" </dev/null & server=$!
read _
kill -s "$signal" $server; wait $server; [ -e "$folder/kept" ] || rm -rf "$folder"
"""


class ServerMissing(Terminal):
    """The programs of a database server are not on this machine, or do not start."""

    code = "server-missing"


@dataclass(frozen=True, slots=True)
class Database:
    """How to reach one database of a running server."""

    kind: str
    host: str
    port: int
    user: str
    password: str
    database: str

    def url(self) -> str:
        """As a job file says it."""
        return f"jdbc:{self.kind}://{self.host}:{self.port}/{self.database}"

    def execute(self, *statements: str) -> None:
        """Run statements, each in a transaction of its own."""
        if self.kind == "postgresql":
            with psycopg.connect(self.dsn(), autocommit=True) as connection:
                for statement in statements:
                    connection.execute(statement.encode())
            return
        with self.connect_mysql() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def rows(self, query: str) -> list[tuple[object, ...]]:
        """All rows of a query."""
        if self.kind == "postgresql":
            with psycopg.connect(self.dsn(), autocommit=True) as connection:
                return list(connection.execute(query.encode()).fetchall())
        with self.connect_mysql() as connection, connection.cursor() as cursor:
            cursor.execute(query)
            return list(cursor.fetchall())

    def dsn(self) -> str:
        """As psycopg and ADBC take it."""
        return f"postgresql://{self.user}:{self.password}@{self.host}:{self.port}/{self.database}"

    def connect_mysql(self) -> pymysql.Connection[pymysql.cursors.Cursor]:
        """A connection that commits each statement."""
        return pymysql.connect(
            host=self.host,
            port=self.port,
            user=self.user,
            password=self.password,
            database=self.database,
            autocommit=True,
        )


@contextmanager
def postgres_server(settings: Mapping[str, str] | None = None) -> Iterator[Database]:
    """A PostgreSQL server with logical decoding and prepared transactions, and nothing durable about it."""
    with restartable_postgres(settings) as server:
        yield server.database


@contextmanager
def restartable_postgres(settings: Mapping[str, str] | None = None) -> Iterator[PostgresServer]:
    """The same, for those who stop and start it meanwhile."""
    programs = _postgres_programs()
    user = _server_user("postgres")
    folder = _server_folder("postgres", user)
    password = folder / "password"
    password.write_text(PASSWORD)
    password.chmod(0o644)
    _must_run(
        [
            str(programs / "initdb"),
            *("-D", str(folder / "data"), "-U", USER, "-E", "UTF8", "--locale=C", "--no-sync"),
            *("-A", "scram-sha-256", f"--pwfile={password}"),
        ],
        user,
    )
    port = free_port()
    chosen = {**_POSTGRES_SETTINGS, **(settings or {}), "unix_socket_directories": str(folder)}
    options = [text for item in chosen.items() for text in ("-c", "=".join(item))]
    command = [str(programs / "postgres"), "-D", str(folder / "data"), "-p", str(port), *options]
    database = Database("postgresql", "127.0.0.1", port, USER, PASSWORD, "postgres")
    server = PostgresServer(database, folder, command, user)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


class PostgresServer:
    """Keeps its data while it stands still."""

    def __init__(
        self, database: Database, folder: Path, command: list[str], user: str | None
    ) -> None:
        self.database = database
        self._folder = folder
        self._command = command
        self._user = user
        self._running: Running | None = None

    def start(self) -> None:
        """Until it answers."""
        self._running = running = _launch_kept(self._folder, "INT", self._command, self._user)
        _wait_until_ready(running, lambda: self.database.execute("SELECT 1"))

    def stop(self) -> None:
        """An orderly end; connections are cut."""
        running, self._running = self._running, None
        if running is None:
            return
        kept = self._folder / "kept"
        kept.touch()
        running.end(grace_ms=STOP_GRACE_MS, ask=None)
        kept.unlink(missing_ok=True)

    def kill(self) -> None:
        """SIGKILL: the next start has to recover from its log."""
        told = (self._folder / "data" / "postmaster.pid").read_text()
        os.kill(int(told.splitlines()[0]), signal.SIGKILL)
        self.stop()
        # Its children see that it has gone a moment later; until then the next one would refuse to start.
        deadline_ms = _CLOCK.elapsed_ms() + START_TIMEOUT_MS
        while _any_process_in(self._folder / "data") and _CLOCK.elapsed_ms() < deadline_ms:
            _CLOCK.wait(20)


@contextmanager
def mariadb_server(settings: Mapping[str, str] | None = None) -> Iterator[Database]:
    """A MariaDB server with a row binlog."""
    server, install = _find("mariadbd"), _find("mariadb-install-db")
    user = _server_user("mysql")
    folder = _server_folder("mariadb", user)
    _must_run(
        [
            install,
            *("--no-defaults", f"--datadir={folder / 'data'}", f"--tmpdir={folder}"),
            *("--auth-root-authentication-method=normal", "--skip-test-db"),
            *([f"--user={user}"] if user else []),
        ],
        user,
    )
    first = folder / "first.sql"
    first.write_text(
        f"CREATE USER IF NOT EXISTS '{USER}'@'%' IDENTIFIED BY '{PASSWORD}';\n"
        f"GRANT ALL ON *.* TO '{USER}'@'%' WITH GRANT OPTION;\n"
        "CREATE DATABASE IF NOT EXISTS holdfast;\n"
    )
    first.chmod(0o644)
    port = free_port()
    own = {
        "datadir": str(folder / "data"),
        "port": str(port),
        "socket": str(folder / "my.sock"),
        "pid-file": str(folder / "my.pid"),
        "tmpdir": str(folder),
        "init-file": str(first),
        **_MARIADB_SETTINGS,
        **(settings or {}),
    }
    command = [server, "--no-defaults", *(f"--{key}={value}" for key, value in own.items())]
    database = Database("mysql", "127.0.0.1", port, USER, PASSWORD, "holdfast")
    with _kept(folder, "TERM", command, user) as running:
        _wait_until_ready(running, lambda: database.execute("SELECT 1"))
        yield database


@contextmanager
def fresh_database(server: Database) -> Iterator[Database]:
    """A database of a running server that nobody else uses; gone at the end."""
    name = f"test_{new_id()[:12]}"
    server.execute(f"CREATE DATABASE {name}")
    try:
        yield replace(server, database=name)
    finally:
        force = " WITH (FORCE)" if server.kind == "postgresql" else ""
        server.execute(f"DROP DATABASE IF EXISTS {name}{force}")


_POSTGRES_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "wal_level": "logical",
    "max_wal_senders": "10",
    "max_replication_slots": "10",
    "max_prepared_transactions": "50",
    "max_connections": "200",
    "shared_buffers": "256MB",
    "max_wal_size": "4GB",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
}
_MARIADB_SETTINGS = {
    "bind-address": "127.0.0.1",
    "skip-name-resolve": "1",
    "server-id": "1",
    "log-bin": "binlog",
    "binlog-format": "ROW",
    "binlog-row-image": "FULL",
    "binlog-row-metadata": "FULL",
    "gtid-strict-mode": "ON",
    "max-connections": "200",
    "local-infile": "1",
    "innodb-flush-log-at-trx-commit": "2",
}


@contextmanager
def _kept(
    folder: Path, signal_name: str, command: list[str], user: str | None
) -> Iterator[Running]:
    """The server, as long as the block or this process lasts."""
    running = _launch_kept(folder, signal_name, command, user)
    try:
        yield running
    finally:
        running.end(grace_ms=STOP_GRACE_MS, ask=None)
        shutil.rmtree(folder, ignore_errors=True)


def _any_process_in(folder: Path) -> bool:
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and (entry / "cwd").readlink() == folder:
                return True
    return False


def _launch_kept(folder: Path, signal_name: str, command: list[str], user: str | None) -> Running:
    shell = ["/bin/sh", "-c", _KEEP, "holdfast-server", str(folder), signal_name, *command]
    return launch(shell, log=folder / "log", user=user)


def _wait_until_ready(running: Running, ask: Callable[[], None]) -> None:
    deadline_ms = _CLOCK.elapsed_ms() + START_TIMEOUT_MS
    while True:
        try:
            return ask()
        except (psycopg.OperationalError, pymysql.OperationalError) as error:
            if _CLOCK.elapsed_ms() > deadline_ms:
                raise ServerMissing(
                    f"Cannot start a database server: it does not answer ({error});"
                    f" its log ends with: {running.last_lines(10)}. Mend what it says."
                ) from error
        _CLOCK.wait(50)


def _must_run(command: list[str], user: str | None) -> None:
    done = run(command, timeout_ms=START_TIMEOUT_MS, user=user)
    if done.code:
        raise ServerMissing(
            f"Cannot run {command[0]}: it ended with code {done.code} ({done.out[-500:]})."
            " Mend what it says."
        )


def _server_user(name: str) -> str | None:
    """Servers refuse to run as root: then their own user runs them."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam(name).pw_name
    except KeyError:
        raise ServerMissing(
            f"Cannot start a database server as root: there is no user {name}."
            " Install the server's package."
        ) from None


def _server_folder(kind: str, user: str | None) -> Path:
    folder = Path(tempfile.mkdtemp(prefix=f"holdfast-{kind}-"))
    folder.chmod(0o755)
    if user is not None:
        shutil.chown(folder, user)
    return folder


def _postgres_programs() -> Path:
    """The newest installation: Debian keeps them off the PATH."""
    versions = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: int(p.parts[-3])
    )
    return versions[-1].parent if versions else Path(_find("initdb")).parent


def _find(program: str) -> str:
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"])
    found = shutil.which(program, path=path)
    if found is None:
        raise ServerMissing(
            f"Cannot start a database server: the program {program} is not on this machine."
            " Run bin/test, which installs it, or install PostgreSQL and MariaDB."
        )
    return found


def free_port() -> int:
    """One on loopback that nobody listens on now."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port
