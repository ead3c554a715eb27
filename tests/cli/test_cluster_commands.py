"""The commands of a cluster, given to a real `holdfast server`, and what they say when they are given wrongly."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from holdfast.store.store import open_store
from holdfast.testing.servers import free_port
from tests.cli.processes import Ended, Live, Shell, batch, stream


@dataclass(frozen=True)
class Server:
    """A server with a worker beside it, and a shell that knows both."""

    shell: Shell
    live: Live
    port: int

    def run(self, *arguments: str) -> Ended:
        return self.shell.run(*arguments, "--server", f"http://127.0.0.1:{self.port}")

    def lines(self, *arguments: str) -> list[str]:
        ended = self.run(*arguments)
        assert ended.code == 0, ended.err
        return ended.out.splitlines()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One for the module: it takes seconds to start."""
    shell = Shell(tmp_path_factory.mktemp("server"))
    port = free_port()
    live = shell.start(
        "server", "--port", str(port), "--slots", "2", "--tag", "zone=south",
        "--state-cleanup-delay-ms", "1000", "--job-schedule-strategy", "WAIT",
    )  # fmt: skip
    live.wait_for("A leader answers.")
    yield Server(shell, live, port)
    live.send(signal.SIGTERM)
    ended = live.end()
    assert ended.code == 0, ended.err
    assert "Traceback" not in ended.err


def test_a_job_is_submitted_waited_for_shown_and_listed(server: Server) -> None:
    server.shell.write(batch(job_id="short"), "short.conf")

    assert server.lines("submit", "short.conf", "--wait") == ["short", "FINISHED"]

    shown = json.loads(server.run("show", "short").out)
    assert (shown["jobStatus"], shown["metrics"]["SinkCommittedCount"]) == ("FINISHED", 5)
    assert "short  FINISHED" in "\n".join(server.lines("jobs", "--finished"))
    assert server.lines("jobs") == []

    named = ("submit", "short.conf", "--submission", "monday", "--wait")
    assert server.lines(*named)[0] == server.lines(*named)[0] == "short"
    assert json.loads(server.run("show", "short").out)["generation"] == 2


def test_a_running_job_is_saved_and_stopped_and_goes_on_from_its_savepoint(server: Server) -> None:
    server.shell.write(stream())
    assert server.lines("submit", "job.conf") == ["it"]
    server.live.wait_for("Attempt it/1#1 of generation 1 begins.")

    path = ""
    for _ in range(50):
        taken = server.run("savepoint", "it")
        if taken.code == 0:
            path = taken.out.strip()
            break
    assert path.startswith("savepoint/it/")
    refused = server.run("submit", "job.conf")
    assert (refused.code, "it is live" in refused.err) == (3, True)
    assert server.lines("stop", "it", "--savepoint") == ["it"]
    server.live.wait_for("Attempt it/1#1 of generation 1 stopped.")

    again = server.lines("submit", "job.conf", "--restore", f"path:{path}")
    server.live.wait_for("Attempt it/1#1 of generation 2 begins.")
    server.run("stop", "it", "--force")

    assert again == ["it"]
    shown = json.loads(server.run("show", "it").out)
    assert shown["generation"] == 2


def test_a_job_that_waits_says_for_what_and_goes_on_when_the_tags_fit(server: Server) -> None:
    server.shell.write(batch(job_id="north", env="tag_filter { zone = north }"), "north.conf")
    server.lines("submit", "north.conf")

    [line] = server.lines("jobs")
    assert line == (
        "north  PENDING  north  1:PENDING (none of 1 workers has the tags zone=north)"
    ) or line.startswith("north  PENDING")
    [worker] = server.lines("workers")
    worker_id, status, _, said = worker.split("  ", 3)
    assert (status, said) == ("ALIVE", "0 of 2 slots  zone=south")
    server.lines("update-tags", worker_id[:8], "zone=north")
    server.live.wait_for("Attempt north/1#1 of generation 1 finished.")

    assert server.lines("workers")[0].endswith("zone=north")


def test_the_store_is_measured_and_made_smaller_beside_a_running_master(server: Server) -> None:
    told = server.shell.run("state", "stats")
    whole = json.loads(server.shell.run("state", "stats", "--json").out)

    assert told.code == 0, told.err
    assert [line.split()[0] for line in told.out.splitlines()[:3]] == [
        "map",
        "running-job-state",
        "running-pipeline-state",
    ]
    assert set(whole["maps"]) >= {"finished-job-state", "finished-job-metrics"}
    assert whole["walBytes"] > 0
    compacted = server.shell.run("state", "compact")
    assert compacted.code == 0, compacted.err
    assert compacted.out.startswith("before: on disk ")


def test_a_port_that_is_taken_is_told_in_one_message(server: Server) -> None:
    ended = server.shell.run("server", "--port", str(server.port))

    assert ended.code != 0
    assert "Choose another --port." in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        (("show", "nobody"), 3, "knows none of that id"),
        (("stop", "nobody"), 3, "there is none of that id"),
        (("savepoint", "nobody"), 3, "it has no checkpoint yet"),
        (("drain", "x"), 3, "`holdfast workers` lists them"),
        (("update-tags", "x", "zone"), 3, "expected NAME=VALUE"),
        (("submit", "missing.conf"), 3, "missing.conf"),
        (("jobs", "--rows", "0"), 2, "expected a whole number from 1"),
    ],
)
def test_what_is_asked_wrongly_is_told_with_a_code(
    server: Server, given: tuple[str, ...], code: int, said: str
) -> None:
    ended = server.run(*given)

    assert (ended.code, said in ended.err) == (code, True), ended.err
    assert "Traceback" not in ended.err


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        (("server", "--slots", "0"), 2, "expected a whole number from 1"),
        (("server", "--port", "http"), 2, "expected a whole number from 0"),
        (("server", "--tag", "zone"), 3, "expected NAME=VALUE"),
        (("server", "--worker-lease-ms", "2000"), 3, "workers would give up before"),
        (("server", "--state", "mongodb://here"), 3, "Cannot open a state store of kind 'mongodb'"),
        (("server", "--host", "0.0.0.0", "--state", "postgresql://h/d"), 3, "by --advertise"),
        (("worker", "--masters", "somewhere:8080"), 3, "expected http://host:port"),
        (("worker",), 2, "--masters"),
        (("jobs", "--server", "ftp://here"), 3, "expected http://host:port"),
        (("state", "stats"), 3, "there is no such file"),
        (("state",), 2, "PART"),
    ],
)
def test_what_is_started_wrongly_ends_at_once_with_one_message(
    shell: Shell, given: tuple[str, ...], code: int, said: str
) -> None:
    ended = shell.run(*given)

    assert (ended.code, said in ended.err) == (code, True), ended.err
    assert "Traceback" not in ended.err


def test_a_cluster_that_is_not_there_is_told_with_its_address(shell: Shell) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}"
        ended = shell.run("jobs", "--server", f"{url},{url}")

    assert ended.code == 1
    assert f"Cannot ask {url}" in ended.err
    assert "Is `holdfast server` running there?" in ended.err


def test_a_worker_that_is_drained_over_the_api_ends(server: Server, tmp_path: Path) -> None:
    masters = f"http://127.0.0.1:{server.port}"
    other = server.shell.start("worker", "--masters", masters, "--tag", "name=other")
    other.wait_for("A leader answers.")

    [line] = [line for line in server.lines("workers") if "name=other" in line]
    server.lines("drain", line.split()[0])

    ended = other.end()
    assert ended.code == 0, ended.err
    assert "Stopping" in ended.err


def test_sizes_are_told_of_a_store_that_has_sorted_much(tmp_path: Path) -> None:
    """SQLite then lists a second database, for what it sorts."""
    store = open_store(f"sqlite:///{tmp_path / 'holdfast.db'}", now_ms=0)
    with store.engine.connect() as connection:
        connection.exec_driver_sql("CREATE TEMP TABLE sorted (id INTEGER)")
    from holdfast.store.sizes import measure

    assert measure(store.engine).store_bytes > 0
    store.close()
