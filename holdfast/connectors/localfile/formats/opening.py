"""From a file to streams of plain UTF-8 or raw bytes: compression, archives, character encodings."""

from __future__ import annotations

import contextlib
import io
import tarfile
import zipfile
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from holdfast.connectors.localfile.formats.contract import ByteStream
from holdfast.connectors.localfile.options import TableOptions
from holdfast.connectors.localfile.storage import FileBroken, Storage, telling

_ENDINGS = {".gz": "gzip", ".zst": "zstd", ".lz4": "lz4", ".bz2": "bz2", ".br": "brotli"}
_PLAIN = ("utf-8", "ascii")
SPLITTABLE_ENCODINGS = (*_PLAIN, "iso8859-1", "cp1252")


def codec_of(path: str, options: TableOptions) -> str | None:
    """The compression around a text file; None for none."""
    if options.file_format_type in ("parquet", "orc", "excel", "binary"):
        return None
    if options.compress_codec is not None:
        return None if options.compress_codec == "none" else options.compress_codec
    if options.archive_compress_codec != "none":
        return None
    return next((codec for ending, codec in _ENDINGS.items() if path.endswith(ending)), None)


@contextlib.contextmanager
def opened(
    storage: Storage, path: str, options: TableOptions
) -> Iterator[Iterator[tuple[str, ByteStream]]]:
    """The streams in a file: one, or one for each file of an archive, with its name."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(telling("read", path))
        raw = stack.enter_context(storage.open(path))
        if options.archive_compress_codec == "none":
            codec = codec_of(path, options)
            stream = raw if codec is None else pa.CompressedInputStream(raw, codec)
            yield iter([("", _transcoded(stream, options))])
            return
        yield _entries(raw, path, options)


def _entries(
    raw: pa.NativeFile, path: str, options: TableOptions
) -> Iterator[tuple[str, ByteStream]]:
    kind = options.archive_compress_codec
    try:
        if kind == "gz":
            yield "", _usable(pa.CompressedInputStream(raw, "gzip"), options)
        elif kind == "zip":
            yield from _zip_entries(raw, options)
        else:
            yield from _tar_entries(raw, options, "r|gz" if kind == "tar_gz" else "r|")
    except (zipfile.BadZipFile, tarfile.TarError, pa.ArrowInvalid) as error:
        raise FileBroken(
            f"Cannot read {path}: it is no {kind} archive ({error})."
            " Replace the file, or leave it out by file_filter_pattern."
        ) from error


def _zip_entries(raw: pa.NativeFile, options: TableOptions) -> Iterator[tuple[str, ByteStream]]:
    with zipfile.ZipFile(raw) as archive:
        for entry in sorted(archive.infolist(), key=lambda item: item.filename):
            if not entry.is_dir() and not _is_hidden(entry.filename):
                with archive.open(entry) as stream:
                    yield entry.filename, _usable(stream, options)


def _tar_entries(
    raw: pa.NativeFile, options: TableOptions, mode: Any
) -> Iterator[tuple[str, ByteStream]]:
    with tarfile.open(fileobj=raw, mode=mode) as archive:
        for entry in archive:
            stream = archive.extractfile(entry) if entry.isfile() else None
            if stream is not None and not _is_hidden(entry.name):
                yield entry.name, _usable(stream, options)


def _is_hidden(name: str) -> bool:
    return any(part.startswith((".", "_")) for part in name.split("/") if part not in (".", ".."))


def _usable(stream: ByteStream, options: TableOptions) -> ByteStream:
    """Excel reads from any place: its archived files are taken into memory."""
    if options.file_format_type == "excel":
        return io.BytesIO(stream.read())
    return _transcoded(stream, options)


def _transcoded(stream: ByteStream, options: TableOptions) -> ByteStream:
    if options.file_format_type not in ("text", "csv", "json", "xml") or options.encoding in _PLAIN:
        return stream
    native = stream if isinstance(stream, pa.NativeFile) else pa.PythonFile(stream, "r")
    return pa.transcoding_input_stream(native, options.encoding, "utf8")
