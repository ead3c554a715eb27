"""How tables are cut into splits: lazily, from a cursor, so that a position is small however many splits there are.

A position is a table and how far in it the reading is:

    {"table": "db.public.orders"}                                     not yet looked at
    {"table": …, "by": "key", "after": "41", "until": "977"}          keys up to 41 are read, 977 is the last
    {"table": …, "by": "page", "after": 128, "until": 9000}           pages of a table without key
    {"table": …, "by": "nulls"}                                       the rows whose key is null are left
    {"done": true}

The last key is looked up when a table is begun, which bounds the job; rows that come later behind it are not read.
Keys are kept as text of the database's own making. The next bound is found by walking the key's index for as many
rows as the split is to have: exact for skewed, negative, textual keys alike. Keys without index are cut by value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Protocol

from holdfast.connectors.base import Budget, Position, ReadTask
from holdfast.connectors.jdbc.dialects.base import Dialect, Key
from holdfast.connectors.jdbc.relations import Relation
from holdfast.model.errors import PositionGone
from holdfast.model.json import JsonObject

BYTES_OF_A_ROW_MIN = 64
TASKS_PER_SLOT = 4
"""So many tasks for each that can run at once: enough to even out, few enough that connecting costs little."""
DONE: Position = {"done": True}


class Look(Protocol):
    """The questions that planning asks of the database."""

    def ends(self, relation: Relation) -> tuple[str, str] | None:
        """The smallest and the largest key, None where no row has one."""
        ...

    def bound(
        self, relation: Relation, after: str | None, until: str, rows: int
    ) -> tuple[str, int] | None:
        """The key of the `rows`-th row behind `after` (or of the last) and how many rows there were."""
        ...


@dataclass
class Planned:
    """What planning found."""

    tasks: list[ReadTask]
    rows: int = 0
    end: Position | None = None


@dataclass(frozen=True)
class Planner:
    """Cuts the next splits."""

    relations: Sequence[Relation]
    look: Look
    split_size: int
    slots: int

    def plan(self, position: Position, budget: Budget) -> Planned:
        """As many splits from `position` as the budget has room for."""
        planned = Planned([])
        rows_max = max(1, min(budget.rows_max, budget.bytes_max // BYTES_OF_A_ROW_MIN))
        while (
            not position.get("done")
            and len(planned.tasks) < budget.tasks_max
            and planned.rows < rows_max
        ):
            relation = self._relation_at(position)
            rows = self._rows_of_a_task(relation, budget, rows_max - planned.rows)
            position = self._step(relation, position, rows, planned)
        planned.end = position
        return planned

    def _step(
        self, relation: Relation, position: Position, rows: int, planned: Planned
    ) -> Position:
        """One split more, or the next place to look."""
        by = position.get("by")
        if by is None:
            return self._enter(relation)
        if by == "key":
            return self._next_by_key(relation, position, rows, planned)
        if by == "page":
            return self._next_by_page(relation, position, rows, planned)
        self._add(planned, relation, {"by": str(by)}, relation.described.rows_estimate or 0)
        return self._behind(relation)

    def _relation_at(self, position: Position) -> Relation:
        path = position.get("table")
        if path is None:
            return self.relations[0]
        for relation in self.relations:
            if relation.path == path:
                return relation
        raise PositionGone(
            f"Cannot go on in table '{path}': it is not among the tables of the source any more."
            " Bring it back, or start with --restore none."
        )

    def _enter(self, relation: Relation) -> Position:
        """Where a table begins and ends, as of now."""
        table = relation.path
        if relation.key is None:
            if relation.described.pages is None or relation.is_query:
                return {"table": table, "by": "all"}
            return {"table": table, "by": "page", "after": 0, "until": relation.described.pages}
        ends = self.look.ends(relation)
        if ends is None:
            return self._behind_keys(relation)
        begun: Position = {"table": table, "by": "key", "after": None, "until": ends[1]}
        if relation.key.numeric:
            begun["from"] = ends[0]
        return begun

    def _behind_keys(self, relation: Relation) -> Position:
        assert relation.key is not None
        bounded = relation.lower is not None or relation.upper is not None
        if relation.key.nullable and not bounded:
            return {"table": relation.path, "by": "nulls"}
        return self._behind(relation)

    def _behind(self, relation: Relation) -> Position:
        index = self.relations.index(relation) + 1
        return {"table": self.relations[index].path} if index < len(self.relations) else dict(DONE)

    def _next_by_key(
        self, relation: Relation, position: Position, rows: int, planned: Planned
    ) -> Position:
        after, until = position["after"], str(position["until"])
        low = None if after is None else str(after)
        found = self._cut_by_value(relation, position)
        if found is None:
            found = self.look.bound(relation, low, until, rows)
            if found is None:
                return self._behind_keys(relation)
            bound, count = found
            bound = until if count < rows else bound
        else:
            bound, count = found
        self._add(planned, relation, {"by": "key", "after": low, "until": bound}, count)
        if bound == until:
            return self._behind_keys(relation)
        return {**position, "after": bound}

    def _cut_by_value(self, relation: Relation, position: Position) -> tuple[str, int] | None:
        """The next bound of a number without index: an even share of the way from the first to the last."""
        key = relation.key
        assert key is not None
        if key.indexed or not key.numeric or "from" not in position:
            return None
        parts = relation.splits_wanted or self.slots * TASKS_PER_SLOT
        first, last = _number(position["from"]), _number(position["until"])
        at = first if position["after"] is None else _number(position["after"])
        if first is None or last is None or at is None:
            return None
        count = (relation.described.rows_estimate or 0) // parts
        step = _step_of(key, first, last, parts)
        if at + step >= last:
            return str(position["until"]), count
        return format(at + step, "f"), count

    def _next_by_page(
        self, relation: Relation, position: Position, rows: int, planned: Planned
    ) -> Position:
        low, until = int(str(position["after"])), int(str(position["until"]))
        if low >= until:
            return self._behind(relation)
        estimate = max(relation.described.rows_estimate or 0, 1)
        per_page = max(1, estimate // max(1, until))
        bound = min(until, low + max(1, rows // per_page))
        task: JsonObject = {"by": "page", "after": low, "until": bound}
        self._add(planned, relation, task, (bound - low) * per_page)
        return {**position, "after": bound}

    def _add(self, planned: Planned, relation: Relation, task: JsonObject, rows: int) -> None:
        planned.tasks.append(ReadTask({"table": relation.path, **task}, relation.path))
        planned.rows += rows

    def _rows_of_a_task(self, relation: Relation, budget: Budget, rows_left: int) -> int:
        """At least a split's rows, more where all slots stay busy with larger ones; never over the budget."""
        aim = max(1, min(budget.tasks_max, self.slots * TASKS_PER_SLOT))
        if relation.splits_wanted:
            aim = relation.splits_wanted
        share = -(-(relation.described.rows_estimate or 0) // aim)
        wanted = max(self.split_size, min(share, budget.rows_max // aim))
        return max(1, min(wanted, rows_left))


def _number(value: Any) -> Decimal | None:
    try:
        found = Decimal(str(value))
    except InvalidOperation:
        return None
    return found if found.is_finite() else None


def _step_of(key: Key, first: Decimal, last: Decimal, parts: int) -> Decimal:
    step = (last - first) / parts
    if key.sql_type.startswith(("real", "double", "numeric", "decimal", "float")):
        return step
    return max(Decimal(1), step.to_integral_value())


def fraction_of(position: Position, relations: Sequence[Relation]) -> float | None:
    """How much of all tables lies before a position, each table counting alike."""
    if position.get("done"):
        return 1.0
    paths = [relation.path for relation in relations]
    path = position.get("table")
    if not paths or (path is not None and path not in paths):
        return None
    done = paths.index(str(path)) if path is not None else 0
    return (done + _fraction_of_table(position)) / len(paths)


def _fraction_of_table(position: Position) -> float:
    if position.get("by") == "nulls":
        return 1.0
    first = _number(position.get("from", 0))
    last, at = _number(position.get("until")), _number(position.get("after"))
    if first is None or last is None or at is None or last <= first:
        return 0.0
    return float(min(max((at - first) / (last - first), Decimal(0)), Decimal(1)))


def condition_of(dialect: Dialect, relation: Relation, task: Mapping[str, Any]) -> str:
    """The WHERE clause of one split, with the word; empty where there is nothing to say."""
    parts = [f"({relation.condition})"] if relation.condition else []
    key = relation.key
    if task["by"] == "page":
        parts.append(dialect.page_condition(int(task["after"]), int(task["until"])))
    elif task["by"] == "nulls":
        assert key is not None
        parts.append(f"{dialect.quote(key.column)} IS NULL")
    elif task["by"] == "key":
        parts += key_conditions(dialect, relation, task["after"], task["until"])
    return f" WHERE {' AND '.join(parts)}" if parts else ""


def key_conditions(
    dialect: Dialect, relation: Relation, after: str | None, until: str | None
) -> list[str]:
    """Keys above `after` and up to `until`, within the bounds that the job gives."""
    key = relation.key
    assert key is not None
    name = dialect.quote(key.column)
    limits = (
        (">", after),
        ("<=", until),
        (">=", relation.lower),
        ("<=", relation.upper),
    )
    return [
        f"{name} {sign} {dialect.key_literal(value, key.sql_type)}"
        for sign, value in limits
        if value is not None
    ]
