"""Commands that ask a cluster: of whom, how often, and when they give up."""

from __future__ import annotations

import argparse
import io
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from holdfast.cli import client
from holdfast.cli.client import NoSuchJobThere, ask, submit_job
from holdfast.outside.clock import RealClock

Answer = Callable[[str], tuple[int, object]]


@contextmanager
def a_master(answer: Answer) -> Iterator[str]:
    """Its url. `answer` takes the path."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            status, told = answer(self.path)
            body = json.dumps(told).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *said: Any) -> None:
            return None

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def _asking(*urls: str, **given: object) -> argparse.Namespace:
    return argparse.Namespace(server=",".join(urls), **given)


def test_a_master_that_takes_calls_and_answers_none_is_not_waited_for_where_there_is_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client, "SILENT_MS", 300)
    paused = threading.Event()

    with (
        a_master(lambda path: (200, {"late": paused.wait(20)})) as first,
        a_master(lambda path: (200, {"jobId": "orders"})) as second,
    ):
        begun_ms = RealClock().elapsed_ms()
        found = ask(_asking(first, second), "GET", "/job-info/orders")
        took_ms = RealClock().elapsed_ms() - begun_ms
        paused.set()

    assert found == {"jobId": "orders"}
    assert took_ms < 5_000


def test_who_is_told_late_that_nobody_leads_asks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "LEADERLESS_MS", 600)
    calls: list[str] = []

    def answer(path: str) -> tuple[int, object]:
        calls.append(path)
        if len(calls) == 1:
            RealClock().wait(700)
            return 503, {"message": "the leader does not answer"}
        return 200, {"jobId": "orders"}

    with a_master(answer) as url:
        assert ask(_asking(url), "POST", "/submit-job") == {"jobId": "orders"}


def test_a_job_that_the_cluster_has_lost_is_not_waited_for(tmp_path: Any) -> None:
    job = tmp_path / "orders.conf"
    job.write_text("env {}")
    given = _asking(
        "", job=str(job), name=None, job_id=None, restore=None, on_missing=None,
        on_incompatible=None, variable=[], submission=None, wait=True,
    )  # fmt: skip

    def answer(path: str) -> tuple[int, object]:
        return 200, {"jobId": "orders" if path.startswith("/submit-job") else ""}

    with a_master(answer) as given.server, pytest.raises(NoSuchJobThere, match="any more"):
        submit_job(given, io.StringIO())
