"""JSON lines, and the envelopes of change-data tools around them (canal, debezium, maxwell)."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from holdfast.connectors.localfile.formats.byte_lines import LineBytes, line_blocks
from holdfast.connectors.localfile.formats.contract import (
    ByteStream,
    Piece,
    ReadSpec,
    WriteSpec,
)
from holdfast.connectors.localfile.formats.json_text import join_texts, json_rows, read_json_block
from holdfast.connectors.localfile.formats.kept_errors import KeptErrors
from holdfast.connectors.localfile.formats.line_writer import LineWriter
from holdfast.connectors.localfile.formats.text_values import TEXT
from holdfast.model.schema import KIND_COLUMN, RowKind

INFER_BYTES = 1024 * 1024
_ADDS = [RowKind.INSERT.value, RowKind.UPDATE_AFTER.value]


def read_json(stream: ByteStream, piece: Piece, spec: ReadSpec) -> Iterator[pa.Table]:
    """Block by block."""
    line_end = spec.options.row_delimiter.encode()
    line = 1
    for block in line_blocks(LineBytes(stream, piece, line_end), line_end):
        plain = block if line_end == b"\n" else block.replace(line_end, b"\n")
        if plain.strip():
            yield read_json_block(plain, spec.wanted_schema, spec.formats, line)
        line += plain.count(b"\n")


def infer_json(stream: ByteStream, line_end: bytes) -> pa.Schema:
    """The columns of the first megabyte, as Arrow finds them; its guesses of dates are taken back to text."""
    lines = LineBytes(stream, Piece(""), line_end)
    sample = b""
    while len(sample) < INFER_BYTES:
        line = lines.read_line()
        if not line:
            break
        sample += line.replace(line_end, b"\n")
    if not sample.strip():
        return pa.schema([])
    found = pj.read_json(
        pa.BufferReader(sample), read_options=pj.ReadOptions(block_size=len(sample) + 1)
    ).schema
    return pa.schema([pa.field(f.name, _kept_type(f.type)) for f in found])


def _kept_type(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_list(type_):
        return pa.list_(_kept_type(type_.value_type))
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(f.name, _kept_type(f.type)) for f in type_])
    known = pa.types.is_int64(type_) or pa.types.is_float64(type_) or pa.types.is_boolean(type_)
    return type_ if known else pa.string()


def write_json(file: KeptErrors, spec: WriteSpec) -> LineWriter:
    """One object in each line."""
    end = spec.options.row_delimiter
    return LineWriter(file, spec, lambda batch: join_texts(json_rows(batch, spec.formats), end))


def write_envelopes(file: KeptErrors, spec: WriteSpec) -> LineWriter:
    """One change in each line: an update is a delete of the old row and an insert of the new one."""
    return LineWriter(file, spec, lambda batch: _envelopes(batch, spec))


def _envelopes(batch: pa.RecordBatch, spec: WriteSpec) -> pa.Array:
    names = [name for name in batch.schema.names if name != KIND_COLUMN]
    rows = json_rows(batch.select(names), spec.formats)
    adds = pa.array([True] * batch.num_rows, pa.bool_())
    if KIND_COLUMN in batch.schema.names:
        adds = pc.is_in(batch.column(KIND_COLUMN), value_set=pa.array(_ADDS, pa.int8()))
    end = spec.options.row_delimiter
    kind = spec.options.file_format_type
    if kind == "debezium_json":
        added = join_texts('{"before":null,"after":', rows, ',"op":"c"}', end)
        removed = join_texts('{"before":', rows, ',"after":null,"op":"d"}', end)
        return pc.if_else(adds, added, removed)
    words = ("INSERT", "DELETE") if kind == "canal_json" else ("insert", "delete")
    word = pc.if_else(adds, pa.scalar(words[0], TEXT), pa.scalar(words[1], TEXT))
    return join_texts('{"data":', rows, ',"type":"', word, '"}', end)
