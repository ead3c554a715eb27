"""Files that are lines of text: the bytes go from Arrow's buffer to the file, compressed and encoded on the way."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from holdfast.connectors.localfile.formats.contract import WriteSpec
from holdfast.connectors.localfile.formats.json_text import lines_of
from holdfast.connectors.localfile.formats.kept_errors import KeptErrors
from holdfast.model.errors import SinkRejected

ToLines = Callable[[pa.RecordBatch], pa.Array]
"""Rows as text, each with its line end."""


class LineWriter:
    """Writes what `to_lines` makes of each batch, between an optional head and tail."""

    def __init__(
        self,
        file: KeptErrors,
        spec: WriteSpec,
        to_lines: ToLines,
        head: Any = None,
        tail: Any = None,
    ) -> None:
        self._spec = spec
        self._to_lines = to_lines
        self._tail = tail
        codec = spec.options.compress_codec
        self._file: Any = file
        if codec not in (None, "none"):
            self._file = pa.CompressedOutputStream(pa.PythonFile(file, "w"), codec)
        if head is not None:
            self._put(head)

    def write(self, batch: pa.RecordBatch) -> None:
        self._put(self._to_lines(batch))

    def close(self) -> None:
        if self._tail is not None:
            self._put(self._tail)
        self._file.close()

    def abandon(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._file.close()

    def _put(self, lines: pa.Array) -> None:
        data = lines_of(lines)
        encoding = self._spec.options.encoding
        if encoding != "utf-8":
            try:
                data = data.decode().encode(encoding)
            except UnicodeEncodeError as error:
                raise SinkRejected(
                    f"Cannot write a text as {encoding}: it holds {error.object[error.start]!r}."
                    " Set 'encoding' to UTF-8."
                ) from error
        self._file.write(data)
