"""What an answer holds: rows as JSON values, and the answer itself for whoever looks for a cursor."""

from __future__ import annotations

import json

from holdfast.connectors.http.jsonpath import Path, find_all, parse_path, split_rows
from holdfast.connectors.http.options import SourceOptions
from holdfast.model.json import Json, JsonObject


def rows_of(body: bytes, options: SourceOptions) -> tuple[list[Json], Json]:
    """Rows, and the parsed answer (None for text). Raises ValueError where it is not what the options say."""
    text = body.decode(errors="replace")
    parts = [line for line in text.splitlines() if line] if options.enable_multi_lines else [text]
    if options.format == "text":
        return [[part] for part in parts if part], _parsed_or_none(text, options)
    documents = [_parse(part) for part in parts if part.strip()]
    rows = [row for document in documents for row in _rows_in(document, options)]
    return rows, documents[-1] if documents else None


def _parsed_or_none(text: str, options: SourceOptions) -> Json:
    """Text is looked into only for a cursor."""
    if options.pageing is None or options.pageing.page_type != "Cursor":
        return None
    return _parse(text)


def _parse(text: str) -> Json:
    try:
        found: Json = json.loads(text)
    except json.JSONDecodeError as error:
        shown = " ".join(text.split())[:60]
        raise ValueError(f"expected JSON, found {shown!r} ({error.msg})") from error
    return found


def _rows_in(document: Json, options: SourceOptions) -> list[Json]:
    if options.content_json:
        found = find_all(document, parse_path(options.content_json))
        return found[0] if len(found) == 1 and isinstance(found[0], list) else found
    if options.json_field:
        return _picked(document, options)
    return document if isinstance(document, list) else [document]


def _picked(document: Json, options: SourceOptions) -> list[Json]:
    """Rows put together from a path for each field."""
    names = list(options.json_field)
    shared, rests = split_rows([parse_path(path) for path in options.json_field.values()])
    rows: list[Json] = []
    for item in find_all(document, shared):
        row: JsonObject = {}
        for name, rest in zip(names, rests, strict=True):
            row[name] = _value_at(item, rest, name, options)
        rows.append(row)
    return rows


def _value_at(item: Json, rest: Path, name: str, options: SourceOptions) -> Json:
    found = find_all(item, rest)
    if not found and not options.json_filed_missed_return_null:
        path = options.json_field[name]
        raise ValueError(f"field '{name}': there is nothing at {path} in some row")
    if any(step.is_every or step.deep for step in rest):
        return found
    return found[0] if found else None
