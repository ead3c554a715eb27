"""The application: routes, and errors as JSON. A stand-by answers reads itself and hands writes to the leader."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from holdfast.api import cluster, internal, jobs, submissions
from holdfast.api.serving import Serving
from holdfast.checkpoint.document import DocumentBroken
from holdfast.master.master import NotLeading
from holdfast.master.submitting import JobRejected
from holdfast.model.errors import ConfigError, HoldfastError, Terminal, Transient
from holdfast.outside.network import HANDED_OVER, NoAnswer
from holdfast.store.commits import JobIsThere, NoSuchJob
from holdfast.store.connection import Deposed

Handler = Callable[[Serving, "Call"], object]

_STATUS: tuple[tuple[type[HoldfastError], int], ...] = (
    (NoSuchJob, 404),
    (cluster.NoSuchWorker, 404),
    (JobIsThere, 409),
    (JobRejected, 409),
    (ConfigError, 400),
    (DocumentBroken, 500),
    (Deposed, 503),
    (Transient, 503),
)


@dataclass(frozen=True)
class Call:
    """One request, read whole."""

    path: dict[str, str]
    query: dict[str, str]
    body: bytes
    content_type: str


class NoSuchPath(Terminal):
    """The API has nothing of that name, or not by that method."""

    code = "no-such-path"


class Defect(Terminal):
    """Something went wrong that nobody had thought of."""

    code = "defect"


def create_app(serving: Serving) -> Starlette:
    return Starlette(
        exception_handlers={HTTPException: _refuse},
        routes=[
            Route(serving.context_path + path, _endpoint(serving, handler), methods=[method])
            for module in (cluster, jobs, submissions, internal)
            for method, path, handler in module.ROUTES
        ],
    )


def _endpoint(serving: Serving, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        call = Call(
            {name: str(value) for name, value in request.path_params.items()},
            dict(request.query_params),
            await request.body(),
            request.headers.get("content-type", ""),
        )
        return await run_in_threadpool(_answer, serving, handler, request, call)

    return endpoint


async def _refuse(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    said = f"Cannot {request.method} {request.url.path}: {error.detail}. docs/cluster.md lists the paths."
    return _error(error.status_code, NoSuchPath(said))


def _answer(serving: Serving, handler: Handler, request: Request, call: Call) -> Response:
    try:
        return JSONResponse(handler(serving, call))
    except NotLeading as error:
        return _hand_over(serving, request, call, error)
    except HoldfastError as error:
        status = next((code for kind, code in _STATUS if isinstance(error, kind)), 400)
        return _error(status, error)
    except Exception as error:  # noqa: BLE001 - the request's outermost line: told as JSON, like everything
        said = (
            f"Cannot answer {request.url.path}: {type(error).__name__}: {error}. This is a defect."
        )
        return _error(500, Defect(said))


def _hand_over(serving: Serving, request: Request, call: Call, error: NotLeading) -> Response:
    """Writes go to the leader; a heartbeat is told where it is, so that the worker goes there itself. Once only: an
    address that does not lead to the leader would send a request round in a ring.
    """
    is_heartbeat = request.url.path.endswith("/internal/heartbeat")
    if is_heartbeat or not error.leader_url or HANDED_OVER in request.headers:
        return _error(503, error, leader=error.leader_url)
    target = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    try:
        status, body = serving.forward(error.leader_url, target, call.body, call.content_type)
    except NoAnswer as lost:
        return _error(503, lost)
    return Response(body, status, media_type="application/json")


def _error(status: int, error: HoldfastError, *, leader: str | None = None) -> Response:
    told: dict[str, object] = {"status": "fail", "code": error.code, "message": str(error)}
    if leader is not None:
        told["leader"] = leader
    return JSONResponse(told, status)
