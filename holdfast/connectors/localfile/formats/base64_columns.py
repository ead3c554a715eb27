"""Base64 over whole columns: the bytes of all values at once, not value by value."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_SIGNS = np.frombuffer(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", dtype=np.uint8
)
_VALUES = np.full(256, 255, dtype=np.uint8)
_VALUES[_SIGNS] = np.arange(64, dtype=np.uint8)
_PAD = ord("=")
Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]


def encode_base64(column: pa.Array) -> pa.Array:
    """Bytes to text; null stays null."""
    data, offsets = _parts(column.cast(pa.large_binary()))
    sizes = np.diff(offsets)
    groups = -(-sizes // 3)
    starts = np.concatenate(([0], np.cumsum(groups)))
    padded = np.zeros(int(starts[-1]) * 3, dtype=np.uint8)
    padded[_spread(starts[:-1] * 3, sizes)] = data
    three = padded.reshape(-1, 3).astype(np.uint32)
    word = (three[:, 0] << 16) | (three[:, 1] << 8) | three[:, 2]
    signs = _SIGNS[np.stack([word >> 18, word >> 12, word >> 6, word], axis=1) & 63].reshape(-1)
    ends = starts[1:] * 4
    signs[ends[sizes % 3 == 1] - 2] = _PAD
    signs[ends[sizes % 3 != 0] - 1] = _PAD
    return _column(column, pa.large_string(), signs, starts * 4)


def decode_base64(column: pa.Array) -> pa.Array:
    """Text to bytes. Raises ValueError where a text is no base64."""
    signs, offsets = _parts(column.cast(pa.large_string()).cast(pa.large_binary()))
    sizes = np.diff(offsets)
    if np.any(sizes % 4):
        raise ValueError("expected bytes in base64, found a text of another length")
    last = offsets[1:][sizes > 0]
    pads = np.zeros(len(sizes), dtype=np.int64)
    pads[sizes > 0] = (signs[last - 1] == _PAD).astype(np.int64) + (signs[last - 2] == _PAD)
    clean = signs.copy()
    clean[offsets[1:][pads >= 1] - 1] = ord("A")
    clean[offsets[1:][pads == 2] - 2] = ord("A")
    values = _VALUES[clean]
    if np.any(values == 255):
        raise ValueError("expected bytes in base64, found a text with other signs")
    four = values.reshape(-1, 4).astype(np.uint32)
    word = (four[:, 0] << 18) | (four[:, 1] << 12) | (four[:, 2] << 6) | four[:, 3]
    all_bytes = (np.stack([word >> 16, word >> 8, word], axis=1) & 255).astype(np.uint8).reshape(-1)
    full = sizes // 4 * 3
    kept = full - pads
    starts = np.concatenate(([0], np.cumsum(full)))[:-1]
    data = all_bytes[_spread(starts, kept)]
    return _column(column, pa.large_binary(), data, np.concatenate(([0], np.cumsum(kept)))).cast(
        pa.binary()
    )


def _parts(column: pa.Array) -> tuple[Bytes, Places]:
    """The bytes of all values without gaps, and where each value ends. A null has no bytes."""
    column = column.fill_null(b"")
    _, ends, data = column.buffers()
    offsets = np.frombuffer(ends, dtype=np.int64)[column.offset : column.offset + len(column) + 1]
    held = np.frombuffer(data, dtype=np.uint8) if data is not None else np.zeros(0, np.uint8)
    return held[offsets[0] : offsets[-1]], offsets - offsets[0]


def _spread(starts: Places, sizes: Places) -> Places:
    """The place of every byte of ranges that begin at `starts`."""
    if not len(sizes):
        return np.zeros(0, dtype=np.int64)
    before = np.concatenate(([0], np.cumsum(sizes)))
    return np.arange(before[-1], dtype=np.int64) + np.repeat(starts - before[:-1], sizes)


def _column(like: pa.Array, type_: pa.DataType, data: Bytes, offsets: Places) -> pa.Array:
    validity = pa.array(like.is_valid(), pa.bool_()).buffers()[1] if like.null_count else None
    buffers = [validity, pa.py_buffer(offsets.astype(np.int64)), pa.py_buffer(data)]
    return pa.Array.from_buffers(type_, len(like), buffers)
