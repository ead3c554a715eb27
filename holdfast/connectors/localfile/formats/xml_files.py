"""XML: `<RECORDS><RECORD><a>1</a>…`, or values in attributes. A null is left out; an empty text is not.

Rows are read one by one by Python's own event parser: XML has no faster way that keeps memory bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.connectors.localfile.formats.contract import ByteStream, Piece, ReadSpec, WriteSpec
from holdfast.connectors.localfile.formats.json_text import join_texts
from holdfast.connectors.localfile.formats.kept_errors import KeptErrors
from holdfast.connectors.localfile.formats.line_writer import LineWriter
from holdfast.connectors.localfile.formats.text_values import TEXT, from_text, to_text
from holdfast.model.errors import SinkRejected

_ROWS = 8192
_SIGNS = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\r": "&#13;"}
_ATTRIBUTE_SIGNS = {**_SIGNS, "\n": "&#10;", "\t": "&#9;"}
_NO_XML = "[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]"
_NAME = r"^[A-Za-z_][\w.\-]*$"


def read_xml(stream: ByteStream, piece: Piece, spec: ReadSpec) -> Iterator[pa.RecordBatch]:
    """Rows by their tag, wherever it stands."""
    tag = spec.options.xml_row_tag
    own = None if spec.options.encoding == "utf-8" else "utf-8"
    parser = ElementTree.XMLParser(encoding=own)
    rows: list[dict[str, str]] = []
    try:
        path: list[Any] = []
        for event, element in ElementTree.iterparse(stream, events=("start", "end"), parser=parser):
            if event == "start":
                path.append(element)
                continue
            path.pop()
            if _local(element.tag) != tag:
                continue
            rows.append(_row(element, spec))
            element.clear()
            if path:
                path[-1].clear()
            if len(rows) == _ROWS:
                yield _batch(rows, spec)
                rows = []
    except ElementTree.ParseError as error:
        raise ValueError(f"it is no well-formed XML: {error}") from error
    if rows:
        yield _batch(rows, spec)


def _row(element: Any, spec: ReadSpec) -> dict[str, str]:
    if spec.options.xml_use_attr_format:
        return dict(element.attrib)
    return {_local(child.tag): child.text or "" for child in element}


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]


def _batch(rows: list[dict[str, str]], spec: ReadSpec) -> pa.RecordBatch:
    columns = []
    for field in spec.wanted_schema:
        text = pa.array([row.get(field.name) for row in rows], TEXT)
        null = spec.options.null_format
        if null is not None:
            text = pc.if_else(pc.equal(text, null), pa.scalar(None, TEXT), text)
        columns.append(from_text(text, field.type, spec.formats))
    return pa.record_batch(columns, schema=spec.wanted_schema)


def write_xml(file: KeptErrors, spec: WriteSpec) -> LineWriter:
    """Columns become tags or attributes; the rows of a batch are one join of texts."""
    options = spec.options
    for name in spec.schema.names:
        if not pc.match_substring_regex(pa.scalar(name), _NAME).as_py():
            raise SinkRejected(
                f"Cannot write column '{name}' to XML: its name is no name of a tag."
                " Rename it by a transform, or write another format."
            )
    head = (
        f'<?xml version="1.0" encoding="{options.encoding.upper()}"?>\n<{options.xml_root_tag}>\n'
    )
    tail = f"</{options.xml_root_tag}>\n"
    rows = _attribute_rows if options.xml_use_attr_format else _tag_rows
    return LineWriter(
        file, spec, lambda batch: rows(batch, spec), pa.array([head], TEXT), pa.array([tail], TEXT)
    )


def _tag_rows(batch: pa.RecordBatch, spec: WriteSpec) -> pa.Array:
    tag = spec.options.xml_row_tag or "RECORD"
    parts: list[Any] = [f"<{tag}>"]
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        text = _escaped(to_text(column, spec.formats), name, _SIGNS)
        parts.append(pc.fill_null(join_texts(f"<{name}>", text, f"</{name}>"), ""))
    return join_texts(*parts, f"</{tag}>\n")


def _attribute_rows(batch: pa.RecordBatch, spec: WriteSpec) -> pa.Array:
    tag = spec.options.xml_row_tag or "RECORD"
    parts: list[Any] = [f"<{tag}"]
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        text = _escaped(to_text(column, spec.formats), name, _ATTRIBUTE_SIGNS)
        parts.append(pc.fill_null(join_texts(f' {name}="', text, '"'), ""))
    return join_texts(*parts, "/>\n")


def _escaped(text: pa.Array, name: str, signs: dict[str, str]) -> pa.Array:
    if pc.any(pc.match_substring_regex(text, _NO_XML)).as_py():
        raise SinkRejected(
            f"Cannot write column '{name}' to XML: a text holds a control character that XML"
            " cannot hold. Take it out by a transform, or write another format."
        )
    for sign, escaped in signs.items():
        text = pc.replace_substring(text, sign, escaped)
    return text
