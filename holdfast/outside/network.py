"""Calls between our processes, behind a protocol: the simulator loses, repeats, delays and reorders them."""

from __future__ import annotations

import json
from typing import Protocol

from holdfast.model.errors import Transient
from holdfast.model.json import JsonObject

TIMEOUT_MS = 1_000
"""Of a heartbeat: well below a worker's lease, so that another master can still be asked."""
HAND_OVER_TIMEOUT_MS = 10_000
CLIENT_TIMEOUT_MS = 30_000
HANDED_OVER = "X-Holdfast-Handed-Over"
"""The header of what another master has handed over."""


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


def forward(url: str, target: str, body: bytes, content_type: str) -> tuple[int, bytes]:
    """Hand a request of a client to another master as it is."""
    import urllib3

    base = urllib3.util.parse_url(url)
    whole = f"{base.scheme}://{base.netloc}{target}"
    headers = {"Content-Type": content_type or "application/json", HANDED_OVER: "1"}
    try:
        answer = urllib3.request(
            "POST",
            whole,
            body=body,
            headers=headers,
            timeout=HAND_OVER_TIMEOUT_MS / 1000,
            retries=False,
        )
    except urllib3.exceptions.HTTPError as error:
        raise NoAnswer(f"Cannot hand the request to the leader at {url}: {error}.") from error
    return answer.status, answer.data


def call_api(
    method: str, url: str, target: str, body: bytes, *, timeout_ms: int = CLIENT_TIMEOUT_MS
) -> tuple[int, JsonObject]:
    """One call of a client. A list comes back as `found`."""
    import urllib3

    whole = url.rstrip("/") + target
    try:
        answer = urllib3.request(
            method, whole, body=body or None, timeout=timeout_ms / 1000, retries=False
        )
        found = json.loads(answer.data or b"{}")
    except (urllib3.exceptions.HTTPError, ValueError) as error:
        raise NoAnswer(
            f"Cannot ask {url}: {error}. Is `holdfast server` running there? --server names another."
        ) from error
    return answer.status, found if isinstance(found, dict) else {"found": found}
