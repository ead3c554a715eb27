"""Makes requests: with timeouts, repetitions, a bounded answer, and errors that say whether to try again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

from holdfast.connectors.closing import CloseSignal, closed_error
from holdfast.connectors.http.options import Requests
from holdfast.model.errors import HoldfastError, Terminal, Transient
from holdfast.outside.clock import Clock

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse, PoolManager, Retry

ANSWER_BYTES_MAX = 256 * 1024 * 1024
"""An answer is held in memory; a larger one has to be paged."""
REDIRECTS_MAX = 5
_CHUNK_BYTES = 1024 * 1024
_SHOWN_MAX = 200


@dataclass(frozen=True, slots=True)
class Request:
    """One request, ready to be sent."""

    method: str
    url: str
    headers: Mapping[str, str]
    params: Mapping[str, str]
    body: str | None = None
    form: bool = False
    """Send `params` as a form in the body."""


class HttpFailed(Transient):
    """No answer, or one that says that a later request may be answered."""

    code = "http-failed"


class HttpRefused(Terminal):
    """An answer that will not be another one next time."""

    code = "http-refused"


@contextmanager
def connections() -> Iterator[PoolManager]:
    """Connections that stay open from request to request, until the block ends."""
    import urllib3

    with urllib3.PoolManager(num_pools=4) as pool:
        yield pool


@dataclass(frozen=True, slots=True)
class Client:
    """Sends requests the way the options say, until it is closed."""

    settings: Requests
    clock: Clock
    closed: CloseSignal = field(default_factory=CloseSignal)

    def send(self, request: Request, pool: PoolManager) -> bytes:
        """The answer's body. Tries again as the options say."""
        tries = 0
        while True:
            tries += 1
            try:
                return self._send_once(request, pool)
            except HttpFailed:
                if tries > self.settings.retry:
                    raise
            wait_ms = self.settings.retry_backoff_multiplier_ms * 2 ** min(tries - 1, 30)
            wait_ms = min(wait_ms, self.settings.retry_backoff_max_ms)
            if self.clock.wait(wait_ms, self.closed.event):
                raise closed_error(_shown(request))

    def _send_once(self, request: Request, pool: PoolManager) -> bytes:
        import urllib3

        settings = self.settings
        follows = request.method == "GET"
        try:
            answer = pool.request(
                request.method,
                _full_url(request),
                body=_body_of(request),
                headers=_headers_of(request),
                timeout=urllib3.Timeout(
                    connect=settings.connect_timeout_ms / 1000,
                    read=settings.socket_timeout_ms / 1000,
                ),
                redirect=follows,
                retries=_redirects(request) if follows else False,
                preload_content=False,
            )
            try:
                body = _read(request, answer, self.closed)
            except BaseException:
                answer.close()
                raise
            answer.release_conn()
        except urllib3.exceptions.HTTPError as error:
            raise HttpFailed(
                f"Cannot reach {_shown(request)}: {_reason(error)}."
                " Look whether the server is up and the url is right."
            ) from error
        _judge_status(request, answer.status, body)
        return body


def _read(request: Request, answer: BaseHTTPResponse, closed: CloseSignal) -> bytes:
    chunks: list[bytes] = []
    size = 0
    for chunk in answer.stream(_CHUNK_BYTES, decode_content=True):
        if closed.is_set():
            raise closed_error(_shown(request))
        chunks.append(chunk)
        size += len(chunk)
        if size > ANSWER_BYTES_MAX:
            raise HttpRefused(
                f"Cannot read {_shown(request)}: the answer has more than"
                f" {ANSWER_BYTES_MAX // 1024**2} MB. Ask for pages (option 'pageing')."
            )
    return b"".join(chunks)


def _judge_status(request: Request, status: int, body: bytes) -> None:
    if 200 <= status < 300:
        return
    said = " ".join(body[: _SHOWN_MAX * 4].decode(errors="replace").split())[:_SHOWN_MAX]
    text = f"Cannot {request.method} {_shown(request)}: the server answered {status} ({said})."
    error: HoldfastError
    if status >= 500 or status in (408, 425, 429):
        error = HttpFailed(f"{text} Try again later, or look at the server.")
    else:
        error = HttpRefused(f"{text} Correct url, parameters or credentials.")
    raise error


def _full_url(request: Request) -> str:
    if request.form or not request.params:
        return request.url
    sign = "&" if urlsplit(request.url).query else "?"
    return request.url + sign + urlencode(request.params)


def _body_of(request: Request) -> bytes | None:
    if request.method != "POST":
        return None
    if request.form:
        return urlencode(request.params).encode()
    return ("{}" if request.body is None else request.body).encode()


def _headers_of(request: Request) -> dict[str, str]:
    headers = dict(request.headers)
    if request.method == "POST" and "content-type" not in {name.lower() for name in headers}:
        kind = "application/x-www-form-urlencoded" if request.form else "application/json"
        headers["Content-Type"] = kind
    return headers


def _shown(request: Request) -> str:
    """The url without what may be a secret: user, password, query."""
    parts = urlsplit(request.url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname}{port}{parts.path}"


def _redirects(request: Request) -> Retry:
    """Repetitions are ours; the library only follows redirects. Another host is not told our headers."""
    from urllib3 import Retry

    names = [name.lower() for name in request.headers]
    return Retry(
        total=None,
        connect=0,
        read=0,
        status=0,
        other=0,
        redirect=REDIRECTS_MAX,
        remove_headers_on_redirect=names,
    )


def _reason(error: Exception) -> str:
    """The cause in words, without the url that the library puts in."""
    import urllib3

    cause = getattr(error, "reason", None) or error
    if isinstance(
        cause, urllib3.exceptions.NewConnectionError | urllib3.exceptions.NameResolutionError
    ):
        cause = cause.__cause__ or cause
    if isinstance(cause, urllib3.exceptions.ReadTimeoutError):
        return "no answer in time"
    if isinstance(cause, urllib3.exceptions.ConnectTimeoutError):
        return "no connection in time"
    text = str(cause)
    return text.rsplit(": ", 1)[-1].strip() if text else type(cause).__name__
