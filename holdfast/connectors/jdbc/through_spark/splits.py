"""Cuts tables into splits: ranges of one column, evenly spread from the smallest to the largest value of it.

Where a table begins and ends, and into how many splits it is cut, is fixed when it is begun and kept in the position.
A position is `{"table", "at", "of", "from", "until", "rows"}`: split `at` of `of` comes next. Without a column to cut
by there is one split. Rows whose column is NULL are the last split.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from holdfast.connectors.base import Budget, Position, ReadPlan, ReadTask
from holdfast.model.errors import PositionGone
from holdfast.model.schema import Column, Table

BYTES_OF_A_ROW_MIN = 64
TASKS_PER_SLOT = 4
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - the wall clock of columns without zone
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Cut:
    """The column that a table is cut by."""

    column: Column
    sql: str
    """Its name, quoted."""

    @property
    def is_whole(self) -> bool:
        """Whether values between two neighbours cannot be."""
        return not (pa.types.is_floating(self.column.type) or pa.types.is_decimal(self.column.type))

    def number(self, text: str) -> Decimal | None:
        """A value, as the driver writes it, on a line of numbers. None where it has no place there."""
        try:
            if pa.types.is_date(self.column.type):
                return Decimal((date.fromisoformat(text[:10]) - _EPOCH.date()).days)
            if pa.types.is_timestamp(self.column.type):
                return Decimal((datetime.fromisoformat(text) - _EPOCH) // _MICROSECOND)
            found = Decimal(text)
        except (ValueError, InvalidOperation):
            return None
        return found if found.is_finite() else None

    def literal(self, value: Decimal) -> str:
        """It in SQL: dates and times as JDBC's escapes, which every driver turns into its own words."""
        if pa.types.is_date(self.column.type):
            return f"{{d '{_EPOCH.date() + timedelta(days=int(value))}'}}"
        if pa.types.is_timestamp(self.column.type):
            at = _EPOCH + int(value) * _MICROSECOND
            return f"{{ts '{at.isoformat(sep=' ', timespec='microseconds')}'}}"
        return format(value, "f")


@dataclass(frozen=True, slots=True)
class Relation:
    """A table or query that is read."""

    table: Table
    from_sql: str
    """As it stands behind FROM."""
    condition: str
    """SQL that every row fulfils; empty for none."""
    cut: Cut | None
    splits_wanted: int | None
    lower: str | None = None
    upper: str | None = None

    @property
    def path(self) -> str:
        return self.table.path

    def base_conditions(self) -> list[str]:
        """The job's own, and the bounds that it gives."""
        found = [f"({self.condition})"] if self.condition else []
        if self.cut is not None:
            for sign, given in ((">=", self.lower), ("<=", self.upper)):
                value = None if given is None else self.cut.number(given)
                if value is not None:
                    found.append(f"{self.cut.sql} {sign} {self.cut.literal(value)}")
        return found


@dataclass(frozen=True, slots=True)
class Extent:
    """What is there of a table when it is begun."""

    rows: int
    first: str | None = None
    last: str | None = None
    nulls: int = 0


Look = Callable[[Relation], Extent]


@dataclass(frozen=True)
class Planner:
    """Takes the next splits."""

    relations: Sequence[Relation]
    look: Look
    split_size: int
    slots: int

    def plan(self, position: Position, budget: Budget) -> ReadPlan:
        """As many splits from `position` as the budget has room for."""
        tasks: list[ReadTask] = []
        rows = 0
        rows_max = max(1, min(budget.rows_max, budget.bytes_max // BYTES_OF_A_ROW_MIN))
        while not position.get("done") and len(tasks) < budget.tasks_max and rows < rows_max:
            relation = self._relation_at(position)
            if "at" not in position:
                position = self._enter(relation)
                continue
            count = self._neighbours(relation, position, budget, rows_max - rows)
            tasks.append(_task(relation, position, count))
            rows += count * _rows_of_a_split(position)
            position = self._behind(relation, position, count)
        return ReadPlan(tuple(tasks), position, rows)

    def _relation_at(self, position: Position) -> Relation:
        path = position.get("table")
        for relation in self.relations:
            if path in (None, relation.path):
                return relation
        raise PositionGone(
            f"Cannot go on in table '{path}': it is not among the tables of the source any more."
            " Bring it back, or start with --restore none."
        )

    def _enter(self, relation: Relation) -> Position:
        extent = self.look(relation)
        if extent.rows == 0:
            return self._next_table(relation)
        begun: Position = {"table": relation.path, "at": 0, "of": 1, "rows": extent.rows}
        splits = relation.splits_wanted or -(-extent.rows // self.split_size)
        if relation.cut is None or extent.first is None or extent.last is None:
            return begun
        first, last = relation.cut.number(extent.first), relation.cut.number(extent.last)
        if first is None or last is None:
            return begun
        if relation.cut.is_whole:
            splits = min(splits, int(last - first) + 1)
        begun.update({"of": splits, "from": format(first, "f"), "until": format(last, "f")})
        return {**begun, "of": splits + 1, "nulls": True} if extent.nulls else begun

    def _behind(self, relation: Relation, position: Position, count: int) -> Position:
        at = int(str(position["at"])) + count
        if at >= int(str(position["of"])):
            return self._next_table(relation)
        return {**position, "at": at}

    def _next_table(self, relation: Relation) -> Position:
        index = list(self.relations).index(relation) + 1
        return (
            {"table": self.relations[index].path} if index < len(self.relations) else {"done": True}
        )

    def _neighbours(
        self, relation: Relation, position: Position, budget: Budget, rows_left: int
    ) -> int:
        """How many splits are read as one: as the job says, else more where all slots stay busy with them."""
        left = int(str(position["of"])) - int(str(position["at"]))
        if relation.splits_wanted:
            return 1
        share = min(budget.rows_max // (self.slots * TASKS_PER_SLOT), rows_left)
        return max(1, min(left, share // _rows_of_a_split(position)))


def _rows_of_a_split(position: Position) -> int:
    return max(1, int(str(position["rows"])) // int(str(position["of"])))


def _task(relation: Relation, position: Position, count: int) -> ReadTask:
    at = int(str(position["at"]))
    conditions = [*relation.base_conditions(), *_range(relation, position, at, at + count)]
    return ReadTask({"table": relation.path, "where": " AND ".join(conditions)}, relation.path)


def _range(relation: Relation, position: Mapping[str, Any], low: int, high: int) -> list[str]:
    """Splits low to high, without high. The first has no lower bound, the last ends at the largest value."""
    cut = relation.cut
    if cut is None or "from" not in position:
        return []
    whole = int(position["of"]) - (1 if position.get("nulls") else 0)
    parts = []
    if low < whole:
        if low > 0:
            parts.append(f"{cut.sql} > {_bound(cut, position, low, whole)}")
        parts.append(f"{cut.sql} <= {_bound(cut, position, min(high, whole), whole)}")
    found = " AND ".join(parts)
    if position.get("nulls") and high > whole:
        is_null = f"{cut.sql} IS NULL"
        found = f"(({found}) OR {is_null})" if found else is_null
    return [found]


def _bound(cut: Cut, position: Mapping[str, Any], at: int, of: int) -> str:
    first, last = Decimal(str(position["from"])), Decimal(str(position["until"]))
    if at == of:
        return cut.literal(last)
    value = first + (last - first) * at / of
    return cut.literal(value.to_integral_value() if cut.is_whole else value)


def fraction_of(position: Position, relations: Sequence[Relation]) -> float | None:
    """How much of all tables lies before a position, each table counting alike."""
    paths = [relation.path for relation in relations]
    path = position.get("table")
    if path not in paths:
        return None
    part = int(str(position.get("at", 0))) / int(str(position.get("of", 1)))
    return (paths.index(str(path)) + part) / len(paths)


__all__ = ["Cut", "Extent", "Planner", "Relation", "fraction_of"]
