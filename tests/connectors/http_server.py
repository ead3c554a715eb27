"""A real HTTP server on the loopback interface that answers what a test says, and remembers what it was asked."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from holdfast.model.json import Json
from holdfast.spec.config import ConfigObject, config_from_json
from holdfast.spec.options import read_options


@dataclass
class Seen:
    """A request as the server saw it."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: str


class _Quiet(ThreadingHTTPServer):
    """Says nothing of clients that hang up."""

    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        return None


@dataclass
class Server:
    """A real server; `answer` says what it answers."""

    answer: Callable[[Seen], tuple[int, str]] = lambda seen: (200, "[]")
    seen: list[Seen] = field(default_factory=list)
    extra: dict[str, str] = field(default_factory=dict)

    def start(self) -> None:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self) -> None:
                size = int(self.headers.get("Content-Length") or 0)
                parts = urlsplit(self.path)
                query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
                body = self.rfile.read(size).decode()
                found = Seen(self.command, parts.path, query, dict(self.headers), body)
                server.seen.append(found)
                status, text = server.answer(found)
                data = text.encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                for name, value in server.extra.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = _answer

            def log_message(self, *_: object) -> None:
                return None

        self._server = _Quiet(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/data"

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def options_of(connector: Any, given: dict[str, Json]) -> Any:
    block = config_from_json(given).value
    assert isinstance(block, ConfigObject)
    options, problems = read_options(connector.options, block, "Http")
    assert problems == []
    return options
