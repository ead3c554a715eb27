"""csv and text: values between delimiters, rows between line ends.

csv follows RFC 4180: what needs it is quoted, quotes are doubled; an empty value without quotes is null and one in
quotes is the empty text, so that both survive. text quotes nothing: a value that holds a delimiter is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

from holdfast.connectors.localfile.formats.byte_lines import LineBytes, line_blocks
from holdfast.connectors.localfile.formats.contract import (
    BLOCK_BYTES,
    ByteStream,
    Piece,
    ReadSpec,
    WriteSpec,
)
from holdfast.connectors.localfile.formats.json_text import join_texts
from holdfast.connectors.localfile.formats.kept_errors import KeptErrors
from holdfast.connectors.localfile.formats.line_writer import LineWriter
from holdfast.connectors.localfile.formats.text_values import TEXT, from_text, to_text
from holdfast.model.errors import SinkRejected

CONTENT = "content"
_NUMBER_SIGNS = set("0123456789+-.eENaInfity")
_NATIVE = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_boolean,
    pa.types.is_decimal,
    pa.types.is_string,
    pa.types.is_null,
)


# --------------------------------------------------------------------------------------------- reading


def read_csv(stream: ByteStream, piece: Piece, spec: ReadSpec) -> Iterator[pa.RecordBatch]:
    """Streams through Arrow's csv reader; types it does not parse as we write them are read as text first."""
    lines, names = _begin(stream, piece, spec)
    if lines.is_empty():
        return
    plain = _text_columns(spec)
    convert = pcsv.ConvertOptions(
        column_types={f.name: pa.string() if f.name in plain else f.type for f in spec.columns},
        include_columns=list(spec.wanted),
        include_missing_columns=True,
        null_values=_null_values(spec),
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    # With threads Arrow does not tell in which row a value is wrong; tasks run beside each other anyway.
    reading = pcsv.ReadOptions(column_names=names, block_size=BLOCK_BYTES, use_threads=False)
    parsing = _csv_options(spec, len(names))
    with (
        _telling_rows(names),
        pcsv.open_csv(pa.PythonFile(lines, "r"), reading, parsing, convert) as reader,
    ):
        for batch in reader:
            yield _convert(batch, spec)


@contextmanager
def _telling_rows(names: list[str]) -> Iterator[None]:
    """Arrow's words for what is wrong, with the row first and the column's name."""
    try:
        yield
    except pa.ArrowInvalid as error:
        said = re.sub(r"^CSV parse error: Row #(\d+): ", r"row \1: ", str(error))
        found = re.match(r"In CSV column #(\d+): (?:Row #(\d+): )?", said)
        if found is not None:
            row = f"row {found[2]}, " if found[2] else ""
            said = f"{row}column '{names[int(found[1])]}': {said[found.end() :]}"
        raise ValueError(said) from error


def read_text(stream: ByteStream, piece: Piece, spec: ReadSpec) -> Iterator[pa.RecordBatch]:
    """Block by block: by Arrow's csv reader without quotes where it can, else by splitting texts."""
    options = spec.options
    line_end = options.row_delimiter.encode()
    lines = LineBytes(stream, piece, line_end)
    _skip(lines, piece, options.skip_header_row_number)
    for block in line_blocks(lines, line_end):
        found = _read_fast(block, spec)
        yield _read_splitting(block, spec) if found is None else found


def header_names(stream: ByteStream, spec: ReadSpec) -> list[str]:
    """The names in a csv file's header line."""
    return _begin(stream, Piece(""), spec)[1]


def _begin(stream: ByteStream, piece: Piece, spec: ReadSpec) -> tuple[LineBytes, list[str]]:
    """The rows of a piece, and the names of their columns."""
    options = spec.options
    if not options.csv_use_header_line:
        lines = LineBytes(stream, piece)
        _skip(lines, piece, options.skip_header_row_number)
        return lines, spec.columns.names
    lines = LineBytes(stream, Piece(piece.name, 0, None if piece.start else piece.until))
    for _ in range(options.skip_header_row_number):
        lines.skip_line()
    header = lines.read_line()
    names = _names_in(header, spec) if header.strip() else spec.columns.names
    return (LineBytes(stream, piece) if piece.start else lines), names


def _names_in(header: bytes, spec: ReadSpec) -> list[str]:
    found = pcsv.read_csv(
        pa.BufferReader(header if header.endswith(b"\n") else header + b"\n"),
        parse_options=_csv_options(spec, 2),
    )
    return [str(name) for name in found.schema.names]


def _skip(lines: LineBytes, piece: Piece, count: int) -> None:
    if piece.start == 0:
        for _ in range(count):
            lines.skip_line()


def _csv_options(spec: ReadSpec, columns_count: int) -> pcsv.ParseOptions:
    options = spec.options
    return pcsv.ParseOptions(
        delimiter=options.delimiter_or_default,
        quote_char=options.quote_char,
        double_quote=True,
        escape_char=options.escape_char or False,
        newlines_in_values=True,
        ignore_empty_lines=columns_count > 1,
    )


def _null_values(spec: ReadSpec) -> list[str]:
    return [""] if spec.options.null_format is None else [spec.options.null_format]


def _text_columns(spec: ReadSpec) -> set[str]:
    """Columns that are read as text and parsed behind the reader: those it reads otherwise than we write."""
    options = spec.options
    if options.null_format not in (None, ""):
        return {f.name for f in spec.columns if not pa.types.is_string(f.type)}
    return {f.name for f in spec.columns if not _is_native(f.type, spec)}


def _is_native(type_: pa.DataType, spec: ReadSpec) -> bool:
    if pa.types.is_date(type_) or (pa.types.is_timestamp(type_) and type_.tz is None):
        return spec.formats.of(type_) is None
    return any(fits(type_) for fits in _NATIVE)


def _convert(batch: pa.RecordBatch, spec: ReadSpec) -> pa.RecordBatch:
    columns = [
        column if column.type == field.type else from_text(column, field.type, spec.formats)
        for column, field in zip(batch.columns, spec.wanted_schema, strict=True)
    ]
    return pa.record_batch(columns, schema=spec.wanted_schema)


def _read_fast(block: bytes, spec: ReadSpec) -> pa.Table | None:
    """None where Arrow's reader would not do it, or would do it otherwise."""
    options = spec.options
    delimiter = options.delimiter_or_default
    if len(spec.columns) < 2 or len(delimiter.encode()) != 1 or options.row_delimiter != "\n":
        return None
    plain = _text_columns(spec)
    try:
        found = pcsv.read_csv(
            pa.BufferReader(block),
            read_options=pcsv.ReadOptions(
                column_names=spec.columns.names, block_size=max(len(block) + 1, 1 << 16)
            ),
            parse_options=pcsv.ParseOptions(
                delimiter=delimiter, quote_char=False, ignore_empty_lines=False
            ),
            convert_options=pcsv.ConvertOptions(
                column_types={
                    f.name: pa.string() if f.name in plain else f.type for f in spec.columns
                },
                include_columns=list(spec.wanted),
                null_values=_null_values(spec),
                strings_can_be_null=options.null_format is not None,
            ),
        )
    except pa.ArrowInvalid:
        return None
    columns = [
        column
        if column.type == field.type
        else from_text(column.combine_chunks(), field.type, spec.formats)
        for column, field in zip(found.columns, spec.wanted_schema, strict=True)
    ]
    return pa.table(columns, schema=spec.wanted_schema)


def _read_splitting(block: bytes, spec: ReadSpec) -> pa.RecordBatch:
    """Any delimiters. A row with too few values has nulls at its end; values too many are left out."""
    options = spec.options
    end = options.row_delimiter
    whole = pa.array([block], pa.large_binary()).cast(TEXT)
    rows = pc.split_pattern(whole, end).values
    if block.endswith(end.encode()):
        rows = rows.slice(0, len(rows) - 1)
    if end == "\n":
        rows = pc.replace_substring_regex(rows, "\r$", "")
    if len(spec.columns) == 1:
        parts = {spec.columns.names[0]: rows}
    else:
        parts = _split_rows(rows, options.delimiter_or_default, spec)
    columns = []
    for field in spec.wanted_schema:
        text = parts[field.name]
        if options.null_format is not None:
            null = pc.equal(text, options.null_format)
            text = pc.if_else(null, pa.scalar(None, TEXT), text)
        columns.append(from_text(text, field.type, spec.formats))
    return pa.record_batch(columns, schema=spec.wanted_schema)


def _split_rows(rows: pa.Array, delimiter: str, spec: ReadSpec) -> dict[str, pa.Array]:
    counts = pc.list_value_length(pc.split_pattern(rows, delimiter))
    padded = pc.split_pattern(join_texts(rows, delimiter * len(spec.columns)), delimiter)
    found = {}
    for at, name in enumerate(spec.columns.names):
        if name in spec.wanted:
            there = pc.greater(counts, at)
            found[name] = pc.if_else(there, pc.list_element(padded, at), pa.scalar(None, TEXT))
    return found


# --------------------------------------------------------------------------------------------- writing


def write_delimited(file: KeptErrors, spec: WriteSpec) -> LineWriter:
    """csv or text, by the options' format."""
    options = spec.options
    rows = _csv_rows if options.file_format_type == "csv" else _text_rows
    header = None
    if options.enable_header_write:
        names = [pa.array([name], TEXT) for name in spec.schema.names]
        header = rows(names, spec)
    return LineWriter(file, spec, lambda batch: rows(_texts(batch, spec), spec), header)


def _texts(batch: pa.RecordBatch, spec: WriteSpec) -> list[pa.Array]:
    return [to_text(column, spec.formats) for column in batch.columns]


def _csv_rows(texts: list[pa.Array], spec: WriteSpec) -> pa.Array:
    options = spec.options
    columns = [
        pc.fill_null(_quoted(text, field.type, spec), options.null_format or "")
        for text, field in zip(texts, spec.schema, strict=True)
    ]
    return _joined(columns, options.delimiter_or_default, options.row_delimiter)


def _quoted(text: pa.Array, type_: pa.DataType, spec: WriteSpec) -> pa.Array:
    options = spec.options
    is_text = pa.types.is_string(type_) or pa.types.is_large_string(type_)
    if not _may_need_quotes(type_, options.delimiter_or_default):
        return text
    needs = _needs_quotes(text, spec)
    if options.csv_string_quote_mode == "NONE":
        if pc.any(pc.and_(needs, pc.not_equal(text, ""))).as_py():
            raise SinkRejected(
                "Cannot write csv: a value holds a delimiter, a quote or a line break, and"
                " csv_string_quote_mode is NONE. Use MINIMAL."
            )
        return text
    sign = options.quote_char
    if options.csv_string_quote_mode == "ALL" and is_text:
        return join_texts(sign, pc.replace_substring(text, sign, sign * 2), sign)
    if not pc.any(needs).as_py():
        return text
    enclosed = join_texts(sign, pc.replace_substring(text, sign, sign * 2), sign)
    return pc.if_else(needs, enclosed, text)


def _needs_quotes(text: pa.Array, spec: WriteSpec) -> pa.Array:
    options = spec.options
    signs = {options.delimiter_or_default, options.quote_char, "\r", "\n"}
    held = "|".join(re.escape(sign) for sign in sorted(signs))
    needs = pc.or_(pc.match_substring_regex(text, held), pc.equal(text, ""))
    if options.null_format is not None:
        needs = pc.or_(needs, pc.equal(text, options.null_format))
    return needs


def _may_need_quotes(type_: pa.DataType, delimiter: str) -> bool:
    numeric = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean)
    return not any(fits(type_) for fits in numeric) or delimiter in _NUMBER_SIGNS


def _text_rows(texts: list[pa.Array], spec: WriteSpec) -> pa.Array:
    options = spec.options
    delimiter = options.delimiter_or_default
    taken = {delimiter, options.row_delimiter, *("\r\n" if options.row_delimiter == "\n" else "")}
    pattern = "|".join(re.escape(sign) for sign in sorted(taken))
    columns = []
    for text, field in zip(texts, spec.schema, strict=True):
        if (
            _may_need_quotes(field.type, delimiter)
            and pc.any(pc.match_substring_regex(text, pattern)).as_py()
        ):
            raise SinkRejected(
                f"Cannot write column '{field.name}' as text: a value holds the field or row"
                " delimiter, and text has no quotes. Use csv, or another field_delimiter."
            )
        columns.append(pc.fill_null(text, options.null_format or ""))
    return _joined(columns, delimiter, options.row_delimiter)


def _joined(columns: list[pa.Array], delimiter: str, row_end: str) -> pa.Array:
    parts: list[Any] = []
    for column in columns:
        parts += [column, delimiter]
    parts[-1] = row_end
    return join_texts(*parts)
