"""Rows as the lines that a Console prints. Loaded with the first row: a command that prints none starts sooner."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.connectors.text_rows import block_of, rows_as_text
from holdfast.model.schema import KIND_COLUMN, RowKind

_SUBTASKS = 1 << 20
"""Task numbers of one table; those of the next table begin there."""
_KIND_NAMES = [kind.name for kind in RowKind]


def lines_of(task: int, rows_before: int, table: str, batch: pa.RecordBatch) -> str:
    """One line for each row: subtask, number of the row in it, table, kind and fields."""
    numbers = pa.array(np.arange(rows_before + 1, rows_before + 1 + batch.num_rows))
    fields = [batch.column(at) for at, f in enumerate(batch.schema) if f.name != KIND_COLUMN]
    text = rows_as_text(fields) if fields else pa.repeat(pa.scalar(""), batch.num_rows)
    lines = pc.binary_join_element_wise(
        pa.scalar(f"subtaskIndex={task % _SUBTASKS} rowIndex="),
        numbers.cast(pa.string()),
        pa.scalar(f": tableId={table} kind="),
        _kinds_of(batch),
        pa.scalar(": "),
        text,
        pa.scalar(""),
    )
    return block_of(lines)


def _kinds_of(batch: pa.RecordBatch) -> pa.Array | pa.Scalar:
    if KIND_COLUMN not in batch.schema.names:
        return pa.scalar(RowKind.INSERT.name)
    # An array that is made while the module loads would load pandas, a second of every command's start.
    return pa.array(_KIND_NAMES).take(batch.column(KIND_COLUMN))
