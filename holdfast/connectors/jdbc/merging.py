"""What a batch of changes comes to: for each key its last change wins, so that deletes and upserts cannot collide."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.model.errors import SinkRejected
from holdfast.model.schema import KIND_COLUMN, RowKind

DELETES = (int(RowKind.UPDATE_BEFORE), int(RowKind.DELETE))
INSERTS = (int(RowKind.INSERT), int(RowKind.UPDATE_AFTER))


def split_kinds(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.Array | None]:
    """The rows without their kind column, and the kinds; None where all are inserts."""
    if KIND_COLUMN not in batch.schema.names:
        return batch, None
    kinds = batch.column(KIND_COLUMN)
    rows = batch.drop_columns([KIND_COLUMN])
    return rows, None if pc.all(pc.equal(kinds, 0)).as_py() in (True, None) else kinds


def inserts_only(rows: pa.RecordBatch, kinds: pa.Array | None, path: str) -> pa.RecordBatch:
    """Rows for a table without key: new ones and the state after updates. A delete cannot be done."""
    if kinds is None:
        return rows
    if pc.any(pc.equal(kinds, int(RowKind.DELETE))).as_py():
        raise SinkRejected(
            f"Cannot delete from table '{path}': it has no key, and a row of kind -D came."
            " Set primary_keys, or leave such rows out by a FilterRowKind transform."
        )
    return rows.filter(pc.is_in(kinds, pa.array(INSERTS, kinds.type)))


def without_befores(
    rows: pa.RecordBatch, kinds: pa.Array | None
) -> tuple[pa.RecordBatch, pa.Array | None]:
    """Leaves out the rows before updates, where keys never change."""
    if kinds is None:
        return rows, None
    kept = pc.not_equal(kinds, int(RowKind.UPDATE_BEFORE))
    return rows.filter(kept), kinds.filter(kept)


def last_of_each_key(
    rows: pa.RecordBatch, kinds: pa.Array | None, keys: Sequence[int]
) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """What to upsert and what to delete; no key is in both, none twice in one."""
    names = [f"k{index}" for index in range(len(keys))]
    columns = [rows.column(index) for index in keys]
    numbered = pa.table([*columns, pa.array(np.arange(rows.num_rows))], names=[*names, "at"])
    last = numbered.group_by(names).aggregate([("at", "max")]).column("at_max")
    kept = pa.array(np.sort(last.to_numpy()))
    whole = rows.take(kept)
    if kinds is None:
        return whole, whole.slice(0, 0)
    chosen = kinds.take(kept)
    is_delete = pc.is_in(chosen, pa.array(DELETES, chosen.type))
    return whole.filter(pc.invert(is_delete)), whole.filter(is_delete)
