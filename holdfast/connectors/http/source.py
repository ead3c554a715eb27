"""Asks page by page, or again and again, and turns answers into rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from holdfast.connectors.base import (
    Budget,
    Context,
    Position,
    Probe,
    ReadPlan,
    ReadTask,
    SourceBase,
    TableBatch,
    is_done,
)
from holdfast.connectors.closing import Pending, start_call
from holdfast.connectors.http.answers import rows_of
from holdfast.connectors.http.client import Client, HttpRefused, connections
from holdfast.connectors.http.options import SourceOptions
from holdfast.connectors.http.paging import next_page, request_for
from holdfast.connectors.json_columns import batch_of
from holdfast.model.jobs import JobMode
from holdfast.model.json import Json, JsonObject
from holdfast.model.schema import Column, Table

BATCH_ROWS_MAX = 65_536


@dataclass(frozen=True, slots=True)
class Answer:
    """What one request brought."""

    rows: pa.RecordBatch
    next_page: Json
    """The next page's number or cursor; None behind the last."""


class HttpSource(SourceBase):
    """Asks in a thread of its own: a read waits for the answer as long as its budget allows, the next goes on."""

    replayable = False

    def __init__(self, options: SourceOptions, context: Context) -> None:
        self.bounded = context.mode is JobMode.BATCH
        self._options = options
        self._clock = context.clock
        self._table = _table_of(options, context)
        self._client = Client(options, context.clock)
        self._asked: Json = None
        self._pending: Pending[Answer] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """A request under way belongs to this process."""
        return {**self.__dict__, "_pending": None, "_asked": None}

    def tables(self) -> Sequence[Table]:
        return [self._table]

    def start(self) -> Position:
        paging = self._options.pageing
        if paging is None or paging.page_type == "Cursor":
            return {}
        return {"page": paging.start_page_number}

    def plan(self, position: Position, budget: Budget) -> ReadPlan | None:
        if is_done(position):
            return ReadPlan((), position, 0)
        due_ms = position.get("poll_at_ms")
        if isinstance(due_ms, int) and self._clock.now_ms() < due_ms:
            return None
        return ReadPlan((ReadTask({"at": position}, self._table.path),), None)

    def read(self, task: ReadTask, budget: Budget) -> Iterator[TableBatch]:
        position = task.payload["at"]
        assert isinstance(position, dict)
        deadline_ms = self._clock.elapsed_ms() + budget.duration_ms
        rows, size = 0, 0
        while not self._ends(position, rows, size, budget):
            answer = self._wait(position, deadline_ms)
            if answer is None:
                return
            position = self._behind(position, answer)
            yield from _slices(self._table.path, answer.rows, position)
            rows, size = rows + answer.rows.num_rows, size + answer.rows.nbytes

    def position_after(self, position: Position, reached: Sequence[JsonObject | None]) -> Position:
        return next((found for found in reversed(reached) if found is not None), position)

    def probe(self, position: Position) -> Probe:
        return Probe(
            True, f"goes on with {self.describe(position)}; earlier answers are not asked for"
        )

    def describe(self, position: Position) -> str:
        if is_done(position):
            return "done"
        page, cursor, poll = (position.get(name) for name in ("page", "cursor", "poll"))
        where = "the first request"
        if page is not None:
            where = f"page {page}"
        elif cursor is not None:
            where = f"cursor {cursor}"
        return where if poll is None else f"{where} of reading {poll}"

    def close(self) -> None:
        self._client.closed.set()
        if self._pending is not None:
            self._pending.answered.set()

    def _ends(self, position: Position, rows: int, size: int, budget: Budget) -> bool:
        if is_done(position) or self._client.closed.is_set():
            return True
        if rows and (rows >= budget.rows_max or size >= budget.bytes_max):
            return True
        due_ms = position.get("poll_at_ms")
        return isinstance(due_ms, int) and self._clock.now_ms() < due_ms

    def _wait(self, position: Position, deadline_ms: float) -> Answer | None:
        """The answer to the request at `position`, or None when it takes longer. It is not asked twice."""
        if self._pending is None or self._asked != position:
            self._asked = position
            self._pending = start_call(lambda: self._ask(position))
        pending = self._pending
        if self._client.closed.is_set():
            return None
        left_ms = max(0.0, deadline_ms - self._clock.elapsed_ms())
        self._clock.wait(left_ms, pending.answered)
        if self._client.closed.is_set() or not pending.answered.is_set():
            return None
        self._pending = None
        return pending.take()

    def _ask(self, position: Position) -> Answer:
        request = request_for(self._options, position)
        with connections() as pool:
            body = self._client.send(request, pool)
        try:
            found, parsed = rows_of(body, self._options)
            rows = batch_of(found, self._table.arrow_schema)
        except ValueError as error:
            raise HttpRefused(
                f"Cannot read the answer of {self._options.url.partition('?')[0]}: {error}."
                " Correct 'schema', 'format' or the paths into the answer."
            ) from error
        return Answer(rows, next_page(self._options, position, rows.num_rows, parsed))

    def _behind(self, position: Position, answer: Answer) -> Position:
        """The position once an answer was taken."""
        paging = self._options.pageing
        kept = {name: position[name] for name in ("poll",) if name in position}
        if paging is not None and answer.next_page is not None:
            name = "cursor" if paging.page_type == "Cursor" else "page"
            return {**kept, name: answer.next_page}
        if self.bounded:
            return {"done": True}
        poll = position.get("poll")
        again_ms = self._clock.now_ms() + self._options.poll_interval_millis
        readings = (poll if isinstance(poll, int) else 1) + 1
        return {**self.start(), "poll": readings, "poll_at_ms": again_ms}


def _slices(table: str, rows: pa.RecordBatch, position: Position) -> Iterator[TableBatch]:
    """An answer in pieces; only the last says where the read stands behind it."""
    for start in range(0, max(1, rows.num_rows), BATCH_ROWS_MAX):
        last = start + BATCH_ROWS_MAX >= rows.num_rows
        yield TableBatch(table, rows.slice(start, BATCH_ROWS_MAX), position if last else None)


def _table_of(options: SourceOptions, context: Context) -> Table:
    table = options.schema or Table("", (Column("content", pa.string()),))
    path = table.path or context.name_in_plan or "http"
    return replace(table, path=path)
