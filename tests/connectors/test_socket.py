"""The rules by which lines are read from a socket."""

from __future__ import annotations

import pickle
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from holdfast.connectors.base import Budget, Context, Position, TableBatch, is_done
from holdfast.connectors.socket import SOURCE, NotConnected, Options, SocketSource
from holdfast.model.errors import Terminal, Transient
from holdfast.model.jobs import JobMode
from holdfast.outside.clock import RealClock
from holdfast.testing.source_contract import SOURCE_RULES, SourceCase

PATIENT = Budget(rows_max=10**6, bytes_max=10**9, duration_ms=30_000, tasks_max=1)


class Server:
    """Accepts connections one after the other; the test decides what each gets."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._listening.settimeout(30)
        self.port = int(self._listening.getsockname()[1])

    def accept(self) -> socket.socket:
        return self._listening.accept()[0]

    def close(self) -> None:
        self._listening.close()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


@contextmanager
def feeding(server: Server, *parts: bytes) -> Iterator[None]:
    """A peer that sends the parts and closes."""

    def run() -> None:
        with server.accept() as peer:
            for part in parts:
                peer.sendall(part)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield
    thread.join(30)


def a_source(server: Server, mode: JobMode = JobMode.BATCH) -> SocketSource:
    context = Context("job", 1, "source-0-socket", mode, 1, RealClock(), "lines")
    made: SocketSource = SOURCE.create(Options(host="127.0.0.1", port=server.port), context)
    return made


def read(
    source: SocketSource, position: Position, budget: Budget = PATIENT
) -> tuple[list[Any], Position]:
    plan = source.plan(position, budget)
    assert plan is not None
    found: list[TableBatch] = [b for task in plan.tasks for b in source.read(task, budget)]
    rows = [value for batch in found for value in batch.batch.column("value").to_pylist()]
    reached = [batch.reached for batch in found][-1:]
    return rows, source.position_after(position, reached)


def test_a_batch_reads_each_line_and_is_done_when_the_server_closes(server: Server) -> None:
    source = a_source(server)
    with feeding(server, b"one\r\ntw", b"o\n\nth\xc3\xa4", b"t\n\xff\nlast"):
        rows, position = [], source.start()
        while not is_done(position):
            more, position = read(source, position)
            rows += more

    assert rows == ["one", "two", "", "thät", "\ufffd", "last"]
    assert position == {"lines": 6, "done": True}
    assert source.describe(position) == "done, 6 lines read"


def test_a_server_that_says_nothing_leaves_a_batch_done_with_no_rows(server: Server) -> None:
    source = a_source(server)
    with feeding(server):
        rows, position = read(source, source.start())

    assert rows == []
    assert is_done(position)


def test_a_read_ends_at_the_budget_and_the_next_one_goes_on_with_the_next_line(
    server: Server,
) -> None:
    source = a_source(server)
    few_rows = Budget(rows_max=3, bytes_max=10**9, duration_ms=30_000, tasks_max=1)
    few_bytes = Budget(rows_max=100, bytes_max=20, duration_ms=30_000, tasks_max=1)
    lines = [f"line-{i:03d}" for i in range(10)]
    with feeding(server, "\n".join(lines).encode()):
        first, position = read(source, source.start(), few_rows)
        second, position = read(source, position, few_bytes)
        rest: list[Any] = []
        while not is_done(position):
            more, position = read(source, position)
            rest += more

    assert first == lines[:3]
    assert second == lines[3:6]
    assert first + second + rest == lines


def test_a_read_ends_when_its_time_is_over_though_nothing_comes(server: Server) -> None:
    source = a_source(server, JobMode.STREAMING)
    short = Budget(rows_max=10, bytes_max=100, duration_ms=50, tasks_max=1)

    rows, position = read(source, source.start(), short)

    assert rows == []
    assert position == {"lines": 0}
    source.close()


def test_a_stream_connects_again_when_the_server_has_closed(server: Server) -> None:
    source = a_source(server, JobMode.STREAMING)
    with feeding(server, b"a\n"):
        rows, position = read(source, source.start())
    with feeding(server, b"b\n"):
        more, position = read(source, position)

    assert (rows, more) == (["a"], ["b"])
    assert position == {"lines": 2}
    assert not source.bounded


def test_close_ends_a_read_that_waits_for_lines(server: Server) -> None:
    source = a_source(server, JobMode.STREAMING)
    ended = threading.Event()

    def wait() -> None:
        read(source, source.start(), Budget(10, 100, 3_600_000, 1))
        ended.set()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    with server.accept():
        source.close()
        assert ended.wait(30)


@pytest.mark.parametrize("mode", [JobMode.BATCH, JobMode.STREAMING])
def test_a_connection_that_breaks_is_no_end(server: Server, mode: JobMode) -> None:
    """F041: a batch would have been done, with rows missing."""
    source = a_source(server, mode)

    short = Budget(rows_max=10, bytes_max=100, duration_ms=200, tasks_max=1)
    rows, _ = read(source, source.start(), short)
    with server.accept() as peer:
        peer.sendall(b"one\ntwo\n")
        rows, _ = read(source, source.start(), short)
        # Closed so, it resets.
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    assert rows == ["one", "two"]
    with pytest.raises(NotConnected, match="the connection broke"):
        read(source, source.start())
    source.close()


def test_a_peer_that_vanishes_without_a_word_is_asked_for(server: Server) -> None:
    """F041."""
    source = a_source(server)
    with feeding(server, b"one\n"):
        read(source, source.start())
    made = source._connect()

    kept = made._connection
    assert kept.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    assert kept.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) <= 60
    made.close()


def test_a_server_that_is_not_there_is_worth_another_try(server: Server) -> None:
    server.close()

    with pytest.raises(Transient, match=r"Cannot connect to 127\.0\.0\.1:\d+: Connection refused"):
        read(a_source(server), {"lines": 0})


def test_what_has_no_line_end_is_refused_before_it_fills_the_memory(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.connectors.socket.LINE_BYTES_MAX", 100_000)
    source = a_source(server)

    with feeding(server, b"x" * 150_000), pytest.raises(Terminal, match="without a line end"):
        read(source, source.start())


def test_a_copy_for_an_executor_leaves_the_connection_behind(server: Server) -> None:
    source = a_source(server)
    with feeding(server, b"a\nb\n"):
        read(source, source.start(), Budget(1, 100, 30_000, 1))

        copy = pickle.loads(pickle.dumps(source))

    assert copy.tables() == source.tables()


class Repeating:
    """Serves the same lines to everyone who connects."""

    def __init__(self, lines: bytes) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        self._lines = lines
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                peer, _ = self._listening.accept()
            except OSError:
                return
            with peer:
                peer.sendall(self._lines)

    def close(self) -> None:
        self._listening.close()


@pytest.mark.parametrize("rule", SOURCE_RULES, ids=str)
def test_it_keeps_the_contract_of_sources(rule: Any) -> None:
    server = Repeating(b"".join(b"line %d\n" % i for i in range(20)))
    context = Context("job", 1, "source-0-socket", JobMode.BATCH, 1, RealClock(), "lines")
    options = Options(host="127.0.0.1", port=server.port)
    case = SourceCase(make=lambda: SOURCE.create(options, context), idle_max=50)
    reason = rule.applies(case)
    try:
        if reason is not None:
            pytest.skip(reason)
        rule.check(case)
    finally:
        server.close()
