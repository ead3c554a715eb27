"""What Http can be told, as source and as sink."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from holdfast.connectors.http.jsonpath import parse_path
from holdfast.model.jobs import JobMode
from holdfast.model.schema import Table
from holdfast.spec.options import option
from holdfast.spec.schema_block import parse_schema


@dataclass(frozen=True)
class Requests:
    """How requests are made: the same for both ends."""

    url: str = option("Where to ask: http or https.", identity=True)
    headers: dict[str, str] = option("Headers of each request.", default={}, secret=True)
    params: dict[str, str] = option(
        "Parameters, put behind the url as its query.", default={}, secret=True
    )
    retry: int = option(
        "How often a request is tried again after it failed: no connection, no answer in time, or an"
        " answer of 429 or 5xx.",
        default=0,
        minimum=0,
    )
    retry_backoff_multiplier_ms: int = option(
        "Milliseconds before the first repetition; twice as long before each further one.",
        default=100,
        minimum=0,
    )
    retry_backoff_max_ms: int = option(
        "The longest wait before a repetition.", default=10_000, minimum=0
    )
    connect_timeout_ms: int = option(
        "How long making a connection may take.", default=12_000, minimum=1
    )
    socket_timeout_ms: int = option(
        "How long the server may be silent before a request counts as failed.",
        default=60_000,
        minimum=1,
    )


@dataclass(frozen=True)
class Paging:
    """How one reading is spread over several requests."""

    page_field: str | None = option(
        "Name of the page's number in the request: a key of params, headers or body that is given the"
        " number, or a placeholder `${name}` there.",
        default=None,
    )
    page_type: Literal["PageNumber", "Cursor"] = option(
        "Whether pages are numbered, or each answer names the next.", default="PageNumber"
    )
    total_page_size: int | None = option(
        "Number of the last page. Not given: see `batch_size`.", default=None, minimum=1
    )
    batch_size: int | None = option(
        "Rows of a full page: a page with fewer is the last. With neither this nor `total_page_size`,"
        " an empty page is the last.",
        default=None,
        minimum=1,
    )
    start_page_number: int = option("Number of the first page.", default=1)
    use_placeholder_replacement: bool = option(
        "Put the number in place of `${page_field}` wherever that stands in params, headers and body.",
        default=False,
    )
    cursor_field: str | None = option("As `page_field`, for the cursor.", default=None)
    cursor_response_field: str | None = option(
        "JSONPath of the next cursor in an answer; none or null there ends the reading.",
        default=None,
    )

    @property
    def field_name(self) -> str | None:
        return self.cursor_field if self.page_type == "Cursor" else self.page_field


@dataclass(frozen=True)
class SourceOptions(Requests):
    """The options of the source."""

    schema: Table | None = option(
        "The rows of an answer in JSON.", default=None, parse=parse_schema, type_name="schema"
    )
    format: Literal["text", "json"] = option(
        "`text`: an answer is a row with the column `content`. `json`: an object is a row, an array"
        " holds rows; `schema` says which fields are read.",
        default="text",
    )
    method: Literal["GET", "POST"] = option("How to ask.", default="GET")
    body: str | None = option(
        "The body of a POST; JSON unless a header says otherwise.", default=None, secret=True
    )
    content_json: str | None = option(
        "JSONPath of the rows in an answer, e.g. `$.store.book.*`. Goes before `json_field`.",
        default=None,
        aliases=("content_field",),
    )
    json_field: dict[str, str] = option(
        "JSONPath of each field, e.g. `$.store.book[*].title`, where rows are not one object each.",
        default={},
    )
    json_filed_missed_return_null: bool = option(
        "A field that `json_field` does not find is null, instead of an error.",
        default=False,
        aliases=("json_field_missed_return_null",),
    )
    enable_multi_lines: bool = option("Each line of an answer stands by itself.", default=False)
    pageing: Paging | None = option("Read page by page.", default=None)
    poll_interval_millis: int = option(
        "STREAMING: milliseconds between the end of a reading and the next.",
        default=1000,
        minimum=0,
    )
    keep_params_as_form: bool = option(
        "POST: send params as a form in place of the body.", default=False
    )
    keep_page_param_as_http_param: bool = option(
        "Put the page's number into params, whether or not its name stands there.", default=False
    )


@dataclass(frozen=True)
class SinkOptions(Requests):
    """The options of the sink. `url` may hold placeholders such as `${table_name}`."""

    array_mode: bool = option(
        "Send arrays of up to `batch_size` rows in place of one row at a time.", default=False
    )
    batch_size: int = option("Rows of a request in array mode.", default=1, minimum=1)
    request_interval_ms: int = option("Milliseconds between two requests.", default=0, minimum=0)


def check_source(options: SourceOptions, mode: JobMode) -> Sequence[str]:
    """Problems that no single option shows."""
    found = _check_url(options.url)
    if options.format == "json" and options.schema is None:
        found.append("'format' is json and 'schema' is missing")
    if options.format == "text" and options.schema is not None and not _is_text(options.schema):
        found.append("'format' is text: its schema has one column of type string (or set json)")
    if options.json_field and options.schema is not None:
        names = set(options.schema.column_names)
        stray = sorted(names.symmetric_difference(options.json_field))
        if stray:
            found.append(f"'json_field' and 'schema' differ in field '{stray[0]}'")
    if options.body is not None and options.method == "GET":
        found.append("'body' needs 'method' POST")
    paths = {**options.json_field}
    if options.content_json:
        paths["content_json"] = options.content_json
    return found + _check_paths(paths) + _check_paging(options)


def check_sink(options: SinkOptions, mode: JobMode) -> Sequence[str]:
    """Problems that no single option shows."""
    found = _check_url(options.url)
    if options.batch_size > 1 and not options.array_mode:
        found.append("'batch_size' needs 'array_mode'")
    return found


def _check_url(url: str) -> list[str]:
    if url.lower().startswith(("http://", "https://")):
        return []
    return ["'url' begins neither with http:// nor with https://"]


def _is_text(schema: Table) -> bool:
    return len(schema.columns) == 1 and pa.types.is_string(schema.columns[0].type)


def _check_paging(options: SourceOptions) -> list[str]:
    paging = options.pageing
    if paging is None:
        return []
    if paging.page_type == "PageNumber":
        return [] if paging.page_field else ["'pageing.page_field' is missing"]
    missing = [n for n in ("cursor_field", "cursor_response_field") if not getattr(paging, n)]
    if missing:
        return [f"'pageing.{missing[0]}' is missing: page_type is Cursor"]
    return _check_paths({"cursor_response_field": paging.cursor_response_field or ""})


def _check_paths(paths: dict[str, str]) -> list[str]:
    found = []
    for name, path in paths.items():
        try:
            parse_path(path)
        except ValueError as error:
            found.append(f"'{name}': {error}")
    return found
