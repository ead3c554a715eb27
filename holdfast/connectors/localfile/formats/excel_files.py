"""Excel (.xlsx), by openpyxl, row by row: the format knows no other way.

A sheet's numbers are doubles: whole numbers and decimals of more than 15 digits are written as text, and so is every
timestamp with a part of a second. All are read back by the column's type; an empty text comes back as null. Each sheet
begins with the names of the columns: read it with `skip_header_row_number = 1`.
"""

from __future__ import annotations

import datetime
import zipfile
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pyarrow as pa

from holdfast.connectors.localfile.formats.contract import ByteStream, Piece, ReadSpec, WriteSpec
from holdfast.connectors.localfile.formats.kept_errors import KeptErrors
from holdfast.connectors.localfile.formats.text_values import (
    TEXT,
    TextFormats,
    from_text,
    to_text,
)
from holdfast.model.errors import SinkRejected, Terminal

ISO = TextFormats()
_ROWS = 8192
_EXACT = 10**15
_FIRST_YEAR = 1901
CELL_TEXT_MAX = 32_767


def _openpyxl() -> Any:
    try:
        import openpyxl
    except ImportError as error:
        raise Terminal(
            "Cannot use Excel files: the package openpyxl is missing."
            " Install holdfast with its extra 'excel'."
        ) from error
    return openpyxl


def read_excel(stream: ByteStream, piece: Piece, spec: ReadSpec) -> Iterator[pa.RecordBatch]:
    """The rows of one sheet, by position of columns."""
    library = _openpyxl()
    try:
        book = library.load_workbook(stream, read_only=True, data_only=True)
    except (
        zipfile.BadZipFile,
        library.utils.exceptions.InvalidFileException,
        KeyError,
        pa.ArrowInvalid,
    ) as error:
        raise ValueError(f"it is no .xlsx workbook: {error}") from error
    name = spec.options.sheet_name
    if name is not None and name not in book.sheetnames:
        raise ValueError(f"it has no sheet '{name}', only {', '.join(book.sheetnames)}")
    sheets = [book[name]] if name else _first_and_its_followers(book)
    for sheet in sheets:
        rows = sheet.iter_rows(values_only=True)
        for _ in range(spec.options.skip_header_row_number):
            next(rows, None)
        while found := list(islice(rows, _ROWS)):
            yield _batch(found, spec)


def _first_and_its_followers(book: Any) -> list[Any]:
    """A sheet that grew too long goes on in `Sheet0_1`, `Sheet0_2` …, as this connector writes it."""
    first, *others = book.sheetnames
    return [book[first], *(book[o] for o in others if o.startswith(f"{first}_"))]


def _batch(rows: list[tuple[Any, ...]], spec: ReadSpec) -> pa.RecordBatch:
    columns = []
    for field in spec.wanted_schema:
        at = spec.columns.get_field_index(field.name)
        texts = [_text_of(row[at]) if at < len(row) else None for row in rows]
        null = spec.options.null_format
        if null is not None:
            texts = [None if text == null else text for text in texts]
        columns.append(_parsed(texts, field, spec))
    return pa.record_batch(columns, schema=spec.wanted_schema)


def _parsed(texts: list[str | None], field: pa.Field, spec: ReadSpec) -> pa.Array:
    if pa.types.is_integer(field.type):
        texts = [t.removesuffix(".0") if t else t for t in texts]
    elif pa.types.is_date(field.type):
        texts = [t.removesuffix(" 00:00:00") if t else t for t in texts]
    return from_text(pa.array(texts, TEXT), field.type, spec.formats)


def _text_of(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ")
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return repr(value)


class ExcelWriter:
    """Streams rows into a workbook that openpyxl keeps on disk until it is closed."""

    def __init__(self, file: KeptErrors, spec: WriteSpec) -> None:
        self._book = _openpyxl().Workbook(write_only=True)
        self._file = file
        self._spec = spec
        self._name = spec.options.sheet_name or "Sheet0"
        self._sheets = 0
        self._rows_left = 0
        self._sheet: Any = None

    def write(self, batch: pa.RecordBatch) -> None:
        columns = [_cells(column, self._spec) for column in batch.columns]
        for row in zip(*columns, strict=True):
            if not self._rows_left:
                self._begin_sheet()
            self._append([self._plain(value) for value in row])
            self._rows_left -= 1

    def close(self) -> None:
        if self._sheet is None:
            self._begin_sheet()
        self._book.save(self._file)

    def abandon(self) -> None:
        """Its files on disk go when the process ends."""

    def _begin_sheet(self) -> None:
        title = self._name if not self._sheets else f"{self._name}_{self._sheets}"
        self._sheet = self._book.create_sheet(title)
        self._sheets += 1
        self._rows_left = self._spec.options.sheet_max_rows - 1
        self._append([self._plain(name) for name in self._spec.schema.names])

    def _append(self, row: list[Any]) -> None:
        library = _openpyxl()
        try:
            self._sheet.append(row)
        except library.utils.exceptions.IllegalCharacterError as error:
            raise SinkRejected(
                "Cannot write to Excel: a text holds a control character, which a cell cannot"
                " hold. Take it out by a transform, or write another format."
            ) from error

    def _plain(self, value: Any) -> Any:
        """A text that begins like a formula stays a text."""
        if not isinstance(value, str) or not value.startswith("="):
            return value
        from openpyxl.cell import WriteOnlyCell

        cell = WriteOnlyCell(self._sheet, value=value)
        cell.data_type = "s"
        return cell


def _cells(column: pa.Array, spec: WriteSpec) -> list[Any]:
    for fits, made in _CELLS:
        if fits(column.type) and spec.formats.of(column.type) is None:
            return made(column)
    texts: list[Any] = to_text(column, spec.formats).to_pylist()
    _refuse_bad_texts(texts)
    return texts


def _integers(column: pa.Array) -> list[Any]:
    return [v if v is None or abs(v) < _EXACT else str(v) for v in column.to_pylist()]


def _decimals(column: pa.Array) -> list[Any]:
    if column.type.precision <= 15:
        return list(column.to_pylist())
    return list(to_text(column, ISO).to_pylist())


def _dates(column: pa.Array) -> list[Any]:
    return [v if v is None or v.year >= _FIRST_YEAR else v.isoformat() for v in column.to_pylist()]


def _moments(column: pa.Array) -> list[Any]:
    if column.type.tz is not None:
        return list(to_text(column, ISO).to_pylist())
    return [
        v if v is None or (v.year >= _FIRST_YEAR and not v.microsecond) else v.isoformat(" ")
        for v in column.to_pylist()
    ]


def _floats(column: pa.Array) -> list[Any]:
    finite = float("inf")
    return [
        v if v is None or -finite < v < finite else str(v)
        for v in column.cast(pa.float64()).to_pylist()
    ]


_CELLS: tuple[tuple[Any, Callable[[pa.Array], list[Any]]], ...] = (
    (pa.types.is_integer, _integers),
    (pa.types.is_float64, _floats),
    (pa.types.is_boolean, lambda column: list(column.to_pylist())),
    (pa.types.is_decimal, _decimals),
    (pa.types.is_date, _dates),
    (pa.types.is_timestamp, _moments),
)


def _refuse_bad_texts(texts: list[Any]) -> None:
    for text in texts:
        if text and len(text) > CELL_TEXT_MAX:
            raise SinkRejected(
                f"Cannot write a text of {len(text)} characters to Excel: a cell holds"
                f" {CELL_TEXT_MAX}. Write another format."
            )
