"""Posts rows as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from holdfast.connectors.base import Context, Guarantee, SinkBase, StageScope, TableBatch
from holdfast.connectors.closing import closed_error, start_call
from holdfast.connectors.http.client import Client, HttpRefused, Request, connections
from holdfast.connectors.http.options import SinkOptions
from holdfast.connectors.placeholders import fill
from holdfast.model.errors import SinkRejected
from holdfast.model.json import JsonObject
from holdfast.model.schema import KIND_COLUMN, RowKind, Table

if TYPE_CHECKING:
    from urllib3 import PoolManager

ROWS_PER_TEXT_MAX = 8_192
"""So many rows are turned into text at a time."""


class HttpSink(SinkBase):
    """Sends as it stages."""

    guarantee = Guarantee.AT_LEAST_ONCE
    condition = "rows are sent before their checkpoint exists; after a failure some are sent again"

    def __init__(self, options: SinkOptions, context: Context) -> None:
        self._options = options
        self._clock = context.clock
        self._location = context.location
        self._client = Client(options, context.clock)

    def stage(self, scope: StageScope, batches: Iterator[TableBatch]) -> JsonObject | None:
        rows = 0
        with connections() as pool:
            for found in batches:
                self._refuse_deletions(found)
                for body in self._bodies(found.batch):
                    self._send(scope.tables[found.table], body, pool)
                rows += found.batch.num_rows
        return {"rows": rows} if rows else None

    def close(self) -> None:
        self._client.closed.set()

    def _bodies(self, batch: pa.RecordBatch) -> Iterator[str]:
        """One row each, or arrays of them."""
        from holdfast.connectors.json_text import rows_as_json

        size = self._options.batch_size if self._options.array_mode else 1
        step = max(size, ROWS_PER_TEXT_MAX // size * size)
        for start in range(0, batch.num_rows, step):
            texts = rows_as_json(batch.slice(start, step)).to_pylist()
            if self._options.array_mode:
                yield from (
                    f"[{','.join(texts[at : at + size])}]" for at in range(0, len(texts), size)
                )
            else:
                yield from texts

    def _send(self, table: Table, body: str, pool: PoolManager) -> None:
        options = self._options
        url = fill(options.url, table)
        request = Request("POST", url, options.headers, options.params, body)
        pending = start_call(lambda: self._client.send(request, pool))
        while not self._clock.wait(100, pending.answered):
            if self._client.closed.is_set():
                raise closed_error(f"sending rows at {self._location}")
        try:
            pending.take()
        except HttpRefused as error:
            raise SinkRejected(str(error)) from error
        if options.request_interval_ms and self._clock.wait(
            options.request_interval_ms, self._client.closed.event
        ):
            raise closed_error(f"sending rows at {self._location}")

    def _refuse_deletions(self, found: TableBatch) -> None:
        if KIND_COLUMN not in found.batch.schema.names:
            return
        import pyarrow.compute as pc

        kinds = found.batch.column(KIND_COLUMN)
        taken = pa.array([RowKind.INSERT.value, RowKind.UPDATE_AFTER.value], pa.int8())
        refused = pc.sum(pc.invert(pc.is_in(kinds, value_set=taken))).as_py()
        if refused:
            raise SinkRejected(
                f"Cannot send {refused} rows of table '{found.table}' at {self._location}: they delete or"
                " take back rows, which a POST of the row does not say."
                " Put FilterRowKind before this sink, or RowKindExtractor to send the kind as a field."
            )
