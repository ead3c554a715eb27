"""Prints rows on the terminal that the job was started from."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.connectors.base import (
    Connector,
    Context,
    Guarantee,
    SinkBase,
    StageScope,
    TableBatch,
)
from holdfast.connectors.closing import CloseSignal
from holdfast.connectors.text_rows import block_of, rows_as_text
from holdfast.model.json import JsonObject
from holdfast.model.schema import KIND_COLUMN, RowKind
from holdfast.spec.options import option

ROWS_PER_WRITE_MAX = 16_384
_KIND_NAMES = [kind.name for kind in RowKind]


@dataclass(frozen=True)
class Options:
    """What a Console can be told."""

    print_data: bool = option(
        "Whether rows are printed; they are counted in any case.",
        default=True,
        name="log.print.data",
    )
    delay_ms: int = option(
        "Milliseconds to wait after each row.", default=0, name="log.print.delay.ms", minimum=0
    )


class ConsoleSink(SinkBase):
    """Prints as it stages."""

    guarantee = Guarantee.AT_LEAST_ONCE
    condition = "rows are printed before their checkpoint exists; after a crash some come again"
    one_task = True
    """There is one terminal, and rows are to come in order."""

    def __init__(self, options: Options, context: Context) -> None:
        self._options = options
        self._clock = context.clock
        self._rows_before: dict[int, int] = {}
        self._closed = CloseSignal()

    def stage(self, scope: StageScope, batches: Iterator[TableBatch]) -> JsonObject | None:
        staged = 0
        for found in batches:
            staged += found.batch.num_rows
            if self._options.print_data:
                self._print(scope.task, found)
        return {"rows": staged} if staged else None

    def close(self) -> None:
        self._closed.set()

    def _print(self, task: int, found: TableBatch) -> None:
        step = 1 if self._options.delay_ms else ROWS_PER_WRITE_MAX
        for start in range(0, found.batch.num_rows, step):
            rows = found.batch.slice(start, step)
            before = self._rows_before.get(task, 0)
            write_block(block_of(lines_of(task, before, found.table, rows)))
            self._rows_before[task] = before + rows.num_rows
            if self._options.delay_ms:
                self._clock.wait(self._options.delay_ms, self._closed.event)


def lines_of(subtask: int, rows_before: int, table: str, batch: pa.RecordBatch) -> pa.Array:
    """One line for each row: subtask, number of the row in it, table, kind and fields."""
    numbers = pa.array(np.arange(rows_before + 1, rows_before + 1 + batch.num_rows))
    fields = [batch.column(at) for at, f in enumerate(batch.schema) if f.name != KIND_COLUMN]
    text = rows_as_text(fields) if fields else pa.repeat(pa.scalar(""), batch.num_rows)
    return pc.binary_join_element_wise(
        pa.scalar(f"subtaskIndex={subtask} rowIndex="),
        numbers.cast(pa.string()),
        pa.scalar(f": tableId={table} kind="),
        _kinds_of(batch),
        pa.scalar(": "),
        text,
        pa.scalar(""),
    )


def write_block(block: str) -> None:
    """Whole lines at once, so that a live display can put them above itself."""
    sys.stdout.write(block)
    sys.stdout.flush()


def _kinds_of(batch: pa.RecordBatch) -> pa.Array | pa.Scalar:
    if KIND_COLUMN not in batch.schema.names:
        return pa.scalar(RowKind.INSERT.name)
    # An array that is made while the module loads would load pandas, a second of every command's start.
    return pa.array(_KIND_NAMES).take(batch.column(KIND_COLUMN))


SINK = Connector(
    name="Console",
    role="sink",
    options=Options,
    create=ConsoleSink,
    doc="""Prints each row as a line on standard output:

    subtaskIndex=0 rowIndex=1: tableId=fake kind=INSERT: CpiOd, 8520946

Nulls are shown as `null`, arrays and rows as `[a, b]`, maps as `{k=v}`, bytes in hex.

Guarantee: **at-least-once**. Rows are printed while they are staged, so that they are seen at once and no epoch is
held in memory; what was printed cannot be taken back, so after a crash the rows since the last checkpoint are
printed again. `rowIndex` counts from 1 in each attempt.""",
)
