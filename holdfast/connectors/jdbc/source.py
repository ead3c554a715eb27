"""The Jdbc source: reads tables and queries of a database, split by split."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from holdfast.connectors.base import (
    Budget,
    ByteFormat,
    Bytes,
    Context,
    Position,
    Probe,
    ReadPlan,
    ReadTask,
    Run,
    SourceBase,
    TableBatch,
    is_done,
)
from holdfast.connectors.jdbc.connections import Connections
from holdfast.connectors.jdbc.dialects.base import Dialect, Endpoint
from holdfast.connectors.jdbc.options import SourceOptions
from holdfast.connectors.jdbc.relations import Relation, find_relations
from holdfast.connectors.jdbc.splits import DONE, Planner, condition_of, fraction_of, key_conditions
from holdfast.model.schema import Table


class JdbcSource(SourceBase):
    """Bounded, in any mode. A split is read again with the same rows as long as nobody changed them."""

    def __init__(
        self, options: SourceOptions, context: Context, dialect: Dialect, endpoint: Endpoint
    ) -> None:
        self._options = options
        self._slots = max(1, context.parallelism)
        self._dialect = dialect
        self._connections = Connections(dialect, endpoint)
        self._found: list[Relation] | None = None

    def tables(self) -> Sequence[Table]:
        return [relation.described.table for relation in self._relations()]

    def start(self) -> Position:
        relations = self._relations()
        return {"table": relations[0].path} if relations else dict(DONE)

    def latest(self) -> Position:
        """A bounded source has nothing behind what is there now."""
        return dict(DONE)

    def plan(self, position: Position, budget: Budget) -> ReadPlan | None:
        if is_done(position):
            return ReadPlan((), dict(DONE))
        relations = self._relations()
        with self._connections.open("plan splits") as connection:
            look = _Look(self._dialect, connection)
            planner = Planner(relations, look, self._options.split_size, self._slots)
            planned = planner.plan(position, budget)
        return ReadPlan(tuple(planned.tasks), planned.end, planned.rows)

    def read(self, task: ReadTask, budget: Budget) -> Iterator[TableBatch]:
        relation = self._relation(task)
        sql = self._select(relation, task, self._dialect.select_list(relation.described))
        with self._connections.open(f"read '{relation.path}'") as connection:
            batches = self._dialect.read(
                connection, sql, relation.described, self._options.fetch_size
            )
            for batch in batches:
                yield TableBatch(relation.path, batch)

    def byte_format(self, table: str) -> ByteFormat | None:
        types = self._dialect.byte_types(self._relation_of(table).described)
        if self._dialect.byte_format is None or types is None:
            return None
        return ByteFormat(self._dialect.byte_format, tuple(types))

    def read_bytes(self, task: ReadTask) -> Iterator[Bytes]:
        relation = self._relation(task)
        with self._connections.open(f"read '{relation.path}'") as connection:
            yield from self._dialect.read_bytes(connection, self._select_as_it_is(relation, task))

    def run_format(self, table: str, wanted: Sequence[int]) -> ByteFormat | None:
        found = self.byte_format(table)
        described = self._relation_of(table).described
        if found is None or not self._dialect.reads_beside_runs(described, wanted):
            return None
        return found

    def read_runs(
        self, task: ReadTask, wanted: Sequence[int], runs: Sequence[Run]
    ) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
        relation = self._relation(task)
        sql = self._select_as_it_is(relation, task)
        with self._connections.open(f"read '{relation.path}'") as connection:
            yield from self._dialect.read_runs(connection, sql, relation.described, wanted, runs)

    def probe(self, position: Position) -> Probe:
        if is_done(position):
            return Probe(True, "everything was read; nothing will be read again")
        paths = [relation.path for relation in self._relations()]
        path = position.get("table")
        if path is not None and path not in paths:
            return Probe(False, f"table '{path}' is not among the tables of the source any more")
        return Probe(True, f"goes on {self.describe(position)}; no split is read again")

    def describe(self, position: Position) -> str:
        if is_done(position):
            return "done"
        table = f"in table {position.get('table', '(the first)')}"
        match position.get("by"):
            case "key":
                after = position["after"]
                low = "at its first key" if after is None else f"behind key {after}"
                return f"{table} {low}, up to key {position['until']}"
            case "page":
                return f"{table} at page {position['after']} of {position['until']}"
            case "nulls":
                return f"{table} at the rows without key"
        return f"{table}, at its beginning"

    def fraction(self, position: Position) -> float | None:
        if is_done(position):
            return 1.0
        return None if self._found is None else fraction_of(position, self._found)

    def close(self) -> None:
        self._connections.close()

    def _relations(self) -> list[Relation]:
        if self._found is None:
            with self._connections.open("read the catalog") as connection:
                self._found = find_relations(
                    self._dialect, connection, self._options, self._connections.endpoint
                )
        return self._found

    def _relation(self, task: ReadTask) -> Relation:
        return self._relation_of(str(task.payload["table"]))

    def _relation_of(self, path: str) -> Relation:
        return next(relation for relation in self._relations() if relation.path == path)

    def _select_as_it_is(self, relation: Relation, task: ReadTask) -> str:
        names = relation.described.table.column_names
        return self._select(relation, task, ", ".join(map(self._dialect.quote, names)))

    def _select(self, relation: Relation, task: ReadTask, columns: str) -> str:
        where = condition_of(self._dialect, relation, task.payload)
        return f"SELECT {columns} FROM {relation.from_sql}{where}"


@dataclass(frozen=True)
class _Look:
    """Planning's questions, asked over one connection."""

    dialect: Dialect
    connection: Any

    def ends(self, relation: Relation) -> tuple[str, str] | None:
        low = self._end(relation, "ASC")
        high = self._end(relation, "DESC") if low is not None else None
        return None if low is None or high is None else (low, high)

    def bound(
        self, relation: Relation, after: str | None, until: str, rows: int
    ) -> tuple[str, int] | None:
        assert relation.key is not None
        name = self.dialect.quote(relation.key.column)
        where = self._where(relation, key_conditions(self.dialect, relation, after, until))
        key = f"{self.dialect.key_text(relation.key)} AS hf_key"
        # Four times as fast as to count them; only the last stretch is counted.
        whole = self.dialect.fetch(
            self.connection,
            f"SELECT {key} FROM {relation.from_sql}{where} ORDER BY {name} LIMIT 1 OFFSET {rows - 1}",
        )
        if whole:
            return str(whole[0][0]), rows
        found = self.dialect.fetch(
            self.connection,
            f"SELECT {key}, count(*) OVER () FROM"
            f" (SELECT {name} FROM {relation.from_sql}{where} ORDER BY {name} LIMIT {rows}) s"
            f" ORDER BY {name} DESC LIMIT 1",
        )
        return (str(found[0][0]), int(found[0][1])) if found else None

    def _end(self, relation: Relation, direction: str) -> str | None:
        assert relation.key is not None
        name = self.dialect.quote(relation.key.column)
        conditions = [f"{name} IS NOT NULL", *key_conditions(self.dialect, relation, None, None)]
        found = self.dialect.fetch(
            self.connection,
            f"SELECT {self.dialect.key_text(relation.key)} AS hf_key FROM {relation.from_sql}"
            f"{self._where(relation, conditions)} ORDER BY {name} {direction} LIMIT 1",
        )
        return str(found[0][0]) if found else None

    def _where(self, relation: Relation, conditions: list[str]) -> str:
        own = [f"({relation.condition})"] if relation.condition else []
        return f" WHERE {' AND '.join([*own, *conditions])}"
