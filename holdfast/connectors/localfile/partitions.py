"""Partition folders: which rows go where, found for a whole batch at once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.connectors.localfile.formats.contract import formats_of
from holdfast.connectors.localfile.formats.json_text import join_texts
from holdfast.connectors.localfile.formats.text_values import TEXT, to_text
from holdfast.connectors.localfile.listing import HIVE_NULL
from holdfast.connectors.localfile.options import SinkOptions

_ALL = "..."
_UNSAFE = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{}\[\]^|<>]|^\.")


def group_by_folder(
    batch: pa.RecordBatch, by: Sequence[str], options: SinkOptions
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The batch in parts, each with its folder below the target; order is kept within a folder."""
    if not by:
        yield "", batch
        return
    texts = [_folder_texts(batch.column(name), options) for name in by]
    encoded = _paths(texts, by, options).dictionary_encode()
    order = pc.sort_indices(encoded.indices)
    indices = encoded.indices.take(order)
    ends = pc.value_counts(indices).field("counts").to_pylist()
    sorted_batch = batch.take(order)
    at = 0
    for size in ends:
        yield encoded.dictionary[indices[at].as_py()].as_py(), sorted_batch.slice(at, size)
        at += size


def _folder_texts(column: pa.Array, options: SinkOptions) -> pa.Array:
    """The values as names of folders: escaped value by value, but each distinct value once."""
    encoded = to_text(column, formats_of(options)).fill_null(HIVE_NULL).dictionary_encode()
    safe = pa.array([_escaped(text) for text in encoded.dictionary.to_pylist()], TEXT)
    return safe.take(encoded.indices)


def _escaped(text: str) -> str:
    return _UNSAFE.sub(lambda found: "".join(f"%{b:02X}" for b in found.group().encode()), text)


def _paths(texts: list[pa.Array], by: Sequence[str], options: SinkOptions) -> pa.Array:
    expression = options.partition_dir_expression
    if _ALL in expression:
        parts = []
        for name, text in zip(by, texts, strict=True):
            parts += [f"{_escaped(name)}=", text, "/"]
        return join_texts(*parts[:-1])
    pieces = re.split(r"\$\{([kv])(\d+)\}", expression.strip("/"))
    parts = [pieces[0]]
    for which, number, behind in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
        at = int(number)
        parts += [_escaped(by[at]) if which == "k" else texts[at], behind]
    if all(isinstance(part, str) for part in parts):
        return pa.array(["".join(parts)] * len(texts[0]), TEXT)
    return join_texts(*parts)
