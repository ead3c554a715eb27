"""Prints rows while they are staged: here, or through the relay where the stage runs on an executor."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from holdfast.connectors.base import Context, Guarantee, SinkBase, StageScope, TableBatch
from holdfast.connectors.closing import CloseSignal
from holdfast.connectors.console.options import Options
from holdfast.connectors.console.relay import (
    Address,
    Counter,
    OutputGone,
    Relay,
    RelayClient,
)
from holdfast.model.json import JsonObject

ROWS_PER_WRITE_MAX = 16_384


class ConsoleSink(SinkBase):
    """Prints as it stages."""

    guarantee = Guarantee.AT_LEAST_ONCE
    condition = "rows are printed before their checkpoint exists; after a crash some come again"
    one_task = True
    """There is one terminal, and rows are to come in order."""

    def __init__(self, options: Options, context: Context) -> None:
        self._options = options
        self._clock = context.clock
        self._closed = CloseSignal()
        self._counter = Counter()
        self._relay: Relay | None = None
        self._away: Address | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Whoever packs a sink is about to send it to an executor: its copy finds the way back to this terminal."""
        away = self._away
        if away is None and self._options.print_data:
            self._relay = self._relay or Relay(self._counter, write_block)
            away = self._relay.address
        parts = {"_options": self._options, "_clock": self._clock, "_closed": self._closed}
        return {**parts, "_relay": None, "_away": away, "_counter": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _counter=Counter())

    def stage(self, scope: StageScope, batches: Iterator[TableBatch]) -> JsonObject | None:
        if not self._options.print_data:
            rows = sum(found.batch.num_rows for found in batches)
        elif self._away is None:
            rows = self._stage_here(scope.task, batches)
        else:
            rows = self._stage_away(self._away, scope.task, batches)
        return {"rows": rows} if rows else None

    def close(self) -> None:
        self._closed.set()
        if self._relay is not None:
            self._relay.close()

    def _stage_here(self, task: int, batches: Iterator[TableBatch]) -> int:
        from holdfast.connectors.console.lines import lines_of

        staged = 0
        for found, rows in self._pieces(batches):
            write_block(lines_of(task, self._counter.of(task), found.table, rows))
            self._counter.add(task, rows.num_rows)
            self._pause()
            staged += rows.num_rows
        return staged

    def _stage_away(self, address: Address, task: int, batches: Iterator[TableBatch]) -> int:
        from holdfast.connectors.console.lines import lines_of

        staged = 0
        terminal = RelayClient(address, task)
        try:
            for found, rows in self._pieces(batches):
                block = lines_of(task, terminal.rows_before, found.table, rows)
                terminal.write(block, rows.num_rows)
                self._pause()
                staged += rows.num_rows
        finally:
            terminal.close()
        return staged

    def _pieces(self, batches: Iterator[TableBatch]) -> Iterator[tuple[TableBatch, pa.RecordBatch]]:
        """What is printed at a time: many rows, or each by itself where there is a wait behind it."""
        step = 1 if self._options.delay_ms else ROWS_PER_WRITE_MAX
        for found in batches:
            for start in range(0, found.batch.num_rows, step):
                yield found, found.batch.slice(start, step)

    def _pause(self) -> None:
        if self._options.delay_ms:
            self._clock.wait(self._options.delay_ms, self._closed.event)


def write_block(block: str) -> None:
    """Whole lines at once, so that a live display can put them above itself."""
    try:
        sys.stdout.write(block)
        sys.stdout.flush()
    except OSError as error:
        raise OutputGone.told(error.strerror or str(error)) from error
