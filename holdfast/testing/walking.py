"""Reads a source as the epoch loop does, step by step, outside of any job: what the contract suite is made of."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256

from holdfast.connectors.base import Budget, Position, ReadPlan, Source, TableBatch, is_done
from holdfast.model.json import Json, JsonObject
from holdfast.model.schema import KIND_COLUMN

STEPS_MAX = 20_000
IDLE_STEPS_MAX = 3
"""An unbounded source that gave nothing so often in a row has given all there is."""
MUCH = 1_000_000_000_000
PATIENCE_MS = 60_000.0
POLL_MS = 300.0


@dataclass(frozen=True, slots=True)
class Step:
    """One epoch's read."""

    before: Position
    plan: ReadPlan
    batches: Sequence[TableBatch]
    rows: Sequence[str]
    after: Position
    handed_out: Position
    """`after`, as the source's own object."""


def walk(
    source: Source, position: Position, budgets: Iterable[Budget], *, idle_max: int = IDLE_STEPS_MAX
) -> Iterator[Step]:
    """Steps from `position` until the source is done or has nothing for now."""
    idle = 0
    for count, budget in enumerate(budgets):
        assert count < STEPS_MAX, f"no end after {STEPS_MAX} steps; the position is {position}"
        if is_done(position):
            return
        step = take_step(source, position, budget)
        if step is None or not step.rows:
            idle += 1
        else:
            idle = 0
        if step is not None:
            yield step
            position = step.after
        if idle >= idle_max:
            return


def take_step(source: Source, position: Position, budget: Budget) -> Step | None:
    """Plan and read once. The position handed in is a copy that went through JSON, as after a restart."""
    given = through_json(position)
    plan = source.plan(given, budget)
    assert given == position, f"plan changed the position it was given from {position} to {given}"
    if plan is None:
        return None
    batches: list[TableBatch] = []
    reached: list[JsonObject | None] = []
    for task in plan.tasks:
        last: JsonObject | None = None
        for found in source.read(task, budget):
            last = found.reached if found.reached is not None else last
            batches.append(found)
        reached.append(last)
    after = plan.end if plan.end is not None else source.position_after(given, reached)
    assert given == position, f"reading changed the position it was given to {given}"
    rows = batch_rows(batches)
    return Step(through_json(position), plan, batches, rows, through_json(after), after)


def through_json(found: JsonObject) -> JsonObject:
    """As it comes back from checkpoint storage. What JSON does not know fails here."""
    back: JsonObject = json.loads(json.dumps(found, allow_nan=False))
    assert back == found, f"{found} comes back from JSON as {back}"
    return back


def batch_rows(batches: Iterable[TableBatch]) -> list[str]:
    """Each row as a text that can be compared, counted and shown."""
    rows: list[str] = []
    for found in batches:
        batch = found.batch
        names = [name for name in batch.schema.names if name != KIND_COLUMN]
        kinds = [0] * batch.num_rows
        if KIND_COLUMN in batch.schema.names:
            kinds = batch.column(KIND_COLUMN).to_pylist()
        values = [batch.column(name).to_pylist() for name in names]
        for index, kind in enumerate(kinds):
            rows.append(row_text(found.table, kind, [column[index] for column in values]))
    return rows


def row_text(table: str, kind: int, values: Sequence[object]) -> str:
    return f"{table} {('+I', '-U', '+U', '-D')[kind]} {list(values)!r}"


def same_budget(budget: Budget) -> Iterator[Budget]:
    while True:
        yield budget


def random_budgets(seed: int, duration_ms: float) -> Iterator[Budget]:
    """Other limits at each step; the same for the same seed."""
    step = 0
    while True:
        step += 1
        rows = 1 + chance(seed, step, "rows") % 7
        size = 1 + chance(seed, step, "bytes") % 2_000
        yield Budget(rows, size, duration_ms, 1 + chance(seed, step, "tasks") % 3)


def chance(seed: int, *what: Json) -> int:
    """A number that depends on the seed and on what it is for, so that one draw more changes no other."""
    return int.from_bytes(sha256(json.dumps([seed, *what]).encode()).digest()[:6])
