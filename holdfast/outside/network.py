"""Calls between our processes, behind a protocol: the simulator loses, repeats, delays and reorders them."""

from __future__ import annotations

import json
from typing import Protocol

from holdfast.model.errors import Transient
from holdfast.model.json import JsonObject

TIMEOUT_MS = 2_000


class NoAnswer(Transient):
    """Nobody answered: the call may or may not have arrived."""

    code = "no-answer"


class Network(Protocol):
    def call(self, url: str, path: str, body: JsonObject) -> tuple[int, JsonObject]:
        """Post JSON; the status and what came back. Raises NoAnswer."""
        ...


class HttpNetwork:
    """HTTP with kept connections. One for a process; any thread may call."""

    def __init__(self, timeout_ms: int = TIMEOUT_MS) -> None:
        import urllib3

        self._pool = urllib3.PoolManager(
            num_pools=8,
            maxsize=4,
            timeout=urllib3.Timeout(connect=timeout_ms / 1000, read=timeout_ms / 1000),
            retries=False,
        )

    def call(self, url: str, path: str, body: JsonObject) -> tuple[int, JsonObject]:
        import urllib3

        try:
            answer = self._pool.request(
                "POST",
                url.rstrip("/") + path,
                body=json.dumps(body).encode(),
                headers={"Content-Type": "application/json"},
            )
            found = json.loads(answer.data or b"{}")
        except (urllib3.exceptions.HTTPError, ValueError) as error:
            raise NoAnswer(f"Cannot call {url}{path}: {error}.") from error
        return answer.status, found if isinstance(found, dict) else {"found": found}
