"""Files as they are: rows of bytes, the relative path they belong to, and their place in the file."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from holdfast.connectors.localfile.formats.contract import BLOCK_BYTES, ByteStream, Piece, ReadSpec

BINARY_SCHEMA = pa.schema(
    [
        pa.field("data", pa.binary()),
        pa.field("relativePath", pa.string()),
        pa.field("partIndex", pa.int64()),
    ]
)


def read_binary(stream: ByteStream, piece: Piece, spec: ReadSpec) -> Iterator[pa.RecordBatch]:
    """Chunks in order; an empty file is one empty chunk, so that it is not lost."""
    options = spec.options
    if options.binary_complete_file_mode:
        yield _batch([stream.read()], piece.name, 0, spec)
        return
    index = 0
    while True:
        block = _read_fully(stream, _block_size(options.binary_chunk_size))
        if not block and index:
            return
        size = options.binary_chunk_size
        chunks = [block[at : at + size] for at in range(0, len(block), size)] or [b""]
        yield _batch(chunks, piece.name, index, spec)
        index += len(chunks)


def _block_size(chunk: int) -> int:
    return max(1, BLOCK_BYTES // chunk) * chunk


def _read_fully(stream: ByteStream, size: int) -> bytes:
    found = b""
    while len(found) < size:
        more = stream.read(size - len(found))
        if not more:
            break
        found += more
    return found


def _batch(chunks: list[bytes], path: str, index: int, spec: ReadSpec) -> pa.RecordBatch:
    places = range(index, index + len(chunks))
    columns = [
        pa.array(chunks, pa.binary()),
        pa.array([path] * len(chunks), pa.string()),
        pa.array(places, pa.int64()),
    ]
    return pa.record_batch(columns, schema=BINARY_SCHEMA).select(list(spec.wanted))
