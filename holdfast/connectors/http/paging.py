"""Puts page numbers and cursors into requests, and finds out which page is next."""

from __future__ import annotations

import json

from holdfast.connectors.base import Position
from holdfast.connectors.http.client import Request
from holdfast.connectors.http.jsonpath import find_all, parse_path
from holdfast.connectors.http.options import Paging, SourceOptions
from holdfast.model.json import Json


def request_for(options: SourceOptions, position: Position) -> Request:
    """The request that is due at a position."""
    plain = Request(
        method=options.method,
        url=options.url,
        headers=options.headers,
        params=options.params,
        body=options.body,
        form=options.keep_params_as_form and options.method == "POST",
    )
    paging = options.pageing
    if paging is None or paging.field_name is None:
        return plain
    value = position.get("cursor" if paging.page_type == "Cursor" else "page")
    text = "" if value is None else str(value)
    if paging.use_placeholder_replacement:
        placed = _with_placeholders(plain, paging.field_name, text)
    else:
        placed = _with_keys(plain, paging.field_name, value)
    stands = placed != plain or _mentions(plain, paging)
    if value is None or (stands and not options.keep_page_param_as_http_param):
        return placed
    params = {**placed.params, paging.field_name: text}
    return _changed(placed, params=params)


def next_page(options: SourceOptions, position: Position, rows: int, answer: Json) -> Json:
    """The number or cursor of the next page; None when this was the last."""
    paging = options.pageing
    if paging is None:
        return None
    if paging.page_type == "Cursor":
        found = find_all(answer, parse_path(paging.cursor_response_field or "$"))
        cursor = found[0] if found else None
        return cursor if isinstance(cursor, str | int) and cursor != "" else None
    page = position.get("page")
    assert isinstance(page, int)
    return None if _is_last(paging, page, rows) else page + 1


def _is_last(paging: Paging, page: int, rows: int) -> bool:
    if paging.total_page_size is not None:
        return page >= paging.total_page_size
    return rows < (paging.batch_size or 1)


def _mentions(request: Request, paging: Paging) -> bool:
    """Whether the request already speaks of the page, so that an empty cursor leaves it as it is."""
    name = str(paging.field_name)
    texts = [*request.headers.values(), *request.params.values(), request.body or ""]
    named = name in request.params or name in request.headers
    return named or any(f"${{{name}}}" in text for text in texts)


def _with_placeholders(request: Request, name: str, text: str) -> Request:
    mark = f"${{{name}}}"
    return _changed(
        request,
        headers={key: value.replace(mark, text) for key, value in request.headers.items()},
        params={key: value.replace(mark, text) for key, value in request.params.items()},
        body=None if request.body is None else request.body.replace(mark, text),
    )


def _with_keys(request: Request, name: str, value: Json) -> Request:
    """The value of each key of that name, in headers, params and a JSON body."""
    if value is None:
        return request
    return _changed(
        request,
        headers=_replaced(request.headers, name, str(value)),
        params=_replaced(request.params, name, str(value)),
        body=_body_with(request.body, name, value),
    )


def _replaced(given: object, name: str, text: str) -> dict[str, str]:
    assert isinstance(given, dict)
    return {key: text if key == name else value for key, value in given.items()}


def _body_with(body: str | None, name: str, value: Json) -> str | None:
    if body is None or name not in body:
        return body
    try:
        found = json.loads(body)
    except json.JSONDecodeError:
        return body
    if not isinstance(found, dict) or name not in found:
        return body
    return json.dumps({**found, name: value})


def _changed(request: Request, **parts: object) -> Request:
    from dataclasses import replace

    return replace(request, **parts)  # type: ignore[arg-type]
