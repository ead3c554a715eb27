"""What a format is to source and sink: a reader and a writer, and what both are told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from holdfast.connectors.localfile.formats.text_values import TextFormats
from holdfast.connectors.localfile.options import SinkOptions, TableOptions, TextOptions

ROWS_PER_BATCH_MAX = 65_536
BLOCK_BYTES = 4 * 1024 * 1024
"""Text is read in blocks of about this size: what bounds the memory of a read, beside one row."""
ByteStream = Any
"""Something with `read(size) -> bytes`: an Arrow stream or a Python file."""


@dataclass(frozen=True)
class ReadSpec:
    """How the files of one table are read."""

    options: TableOptions
    columns: pa.Schema
    """Of the file, all of them, in their order."""
    wanted: tuple[str, ...]
    """Those to deliver, in this order."""

    @property
    def formats(self) -> TextFormats:
        return formats_of(self.options)

    @property
    def wanted_schema(self) -> pa.Schema:
        return pa.schema([self.columns.field(name) for name in self.wanted])


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a file: bytes of text, row groups of parquet, stripes of orc."""

    name: str
    """For messages, and the relative path of binary rows."""
    start: int = 0
    until: int | None = None
    """None: to the end."""


@dataclass(frozen=True)
class WriteSpec:
    """How a file is written."""

    options: SinkOptions
    schema: pa.Schema
    buffer_bytes_max: int = field(default=64 * 1024 * 1024)
    """What a writer may hold back (a row group)."""

    @property
    def formats(self) -> TextFormats:
        return formats_of(self.options)


class FileWriter(Protocol):
    """Writes batches of one schema into one open file."""

    def write(self, batch: pa.RecordBatch) -> None: ...

    def close(self) -> None:
        """Write what is held back and the format's end. May close the file."""
        ...

    def abandon(self) -> None:
        """The file is given up: write nothing more, not even when this object goes."""
        ...


def formats_of(options: TextOptions) -> TextFormats:
    return TextFormats(options.date_format, options.datetime_format, options.time_format)
