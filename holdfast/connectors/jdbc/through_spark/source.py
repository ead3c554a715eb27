"""The Jdbc source of databases that only a JDBC driver speaks to: Spark reads, split by split."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

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
from holdfast.connectors.jdbc.options import SourceOptions, TableOptions
from holdfast.connectors.jdbc.relations import TableMissing, matching, table_options
from holdfast.connectors.jdbc.through_spark.database import Connection, Database, Named, place_of
from holdfast.connectors.jdbc.through_spark.splits import (
    Cut,
    Extent,
    Planner,
    Relation,
    fraction_of,
)
from holdfast.connectors.jdbc.through_spark.types import can_cut, table_of_schema
from holdfast.model.schema import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DONE: Position = {"done": True}


class SparkJdbcSource(SourceBase):
    """Bounded, in any mode. A split is read again with the same rows as long as nobody changed them."""

    def __init__(self, options: SourceOptions, context: Context) -> None:
        self._options = options
        self._slots = max(1, context.parallelism)
        self._database = Database(place_of(options), context.spark)
        self._found: list[Relation] | None = None

    def tables(self) -> Sequence[Table]:
        return [relation.table for relation in self._relations()]

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
        with self._database.connect("plan splits") as connection:

            def look(relation: Relation) -> Extent:
                return _extent(connection, relation)

            return Planner(relations, look, self._options.split_size, self._slots).plan(
                position, budget
            )

    def frame(self, spark: SparkSession, table: str, tasks: Sequence[ReadTask]) -> DataFrame:
        """One partition for each task."""
        relation = next(r for r in self._relations() if r.path == table)
        return self._load(spark, relation.from_sql, [str(task.payload["where"]) for task in tasks])

    def read(self, task: ReadTask, budget: Budget) -> Iterator[TableBatch]:
        """In the driver, for small epochs."""
        assert task.table is not None
        found = next(table for table in self.tables() if table.path == task.table)
        with self._database.told(f"read '{task.table}'"):
            rows = self.frame(self._database.spark(), task.table, [task]).toArrow()
        for batch in rows.cast(found.arrow_schema).to_batches():
            yield TableBatch(task.table, batch)

    def probe(self, position: Position) -> Probe:
        if is_done(position):
            return Probe(True, "everything was read; nothing will be read again")
        path = position.get("table")
        if path is not None and path not in [relation.path for relation in self._relations()]:
            return Probe(False, f"table '{path}' is not among the tables of the source any more")
        return Probe(True, f"goes on {self.describe(position)}; no split is read again")

    def describe(self, position: Position) -> str:
        if is_done(position):
            return "done"
        table = f"in table {position.get('table', '(the first)')}"
        if "at" not in position:
            return f"{table}, at its beginning"
        return f"{table} at split {int(str(position['at'])) + 1} of {position['of']}"

    def fraction(self, position: Position) -> float | None:
        if is_done(position):
            return 1.0
        return None if self._found is None else fraction_of(position, self._found)

    def close(self) -> None:
        self._database.close()

    def _relations(self) -> list[Relation]:
        if self._found is None:
            found: dict[str, Relation] = {}
            with self._database.connect("read the catalog") as connection:
                for wanted in table_options(self._options):
                    for relation in self._relations_of(connection, wanted):
                        found.setdefault(relation.path, relation)
            self._found = list(found.values())
        return self._found

    def _relations_of(self, connection: Connection, wanted: TableOptions) -> list[Relation]:
        if wanted.query:
            from_sql = f"({wanted.query.strip().rstrip(';')}) hf_q"
            path = wanted.table_path or "default"
            return [self._relation(connection, wanted, from_sql, path, None)]
        return [
            self._relation(connection, wanted, connection.sql_name(table), table.path, table)
            for table in self._named(connection, wanted)
        ]

    def _named(self, connection: Connection, wanted: TableOptions) -> list[Named]:
        assert wanted.table_path, "checked with the options"
        if not wanted.use_regex:
            found = connection.find_table(wanted.table_path)
            if found is None:
                raise TableMissing(
                    f"Cannot read table '{wanted.table_path}' at {self._database.place}: there is no such"
                    " table. Check table_path."
                )
            return [found]
        there = {table.path: table for table in connection.list_tables()}
        paths = matching(wanted.table_path, list(there))
        if not paths:
            raise TableMissing(
                f"Cannot read tables like '{wanted.table_path}' at {self._database.place}: no table that"
                " the user may read matches the pattern. Check table_path."
            )
        return [there[path] for path in paths]

    def _relation(
        self,
        connection: Connection,
        wanted: TableOptions,
        from_sql: str,
        path: str,
        named: Named | None,
    ) -> Relation:
        with self._database.told(f"read '{path}'"):
            frame = self._load(self._database.spark(), from_sql, ["1 = 0"])
        columns = connection.columns(named) if named else []
        keys = connection.primary_key(named) if named else []
        table = table_of_schema(frame.schema, path, columns, keys)
        return Relation(
            table,
            from_sql,
            wanted.where_condition or "",
            self._cut(connection, table, wanted),
            wanted.partition_num,
            wanted.partition_lower_bound,
            wanted.partition_upper_bound,
        )

    def _cut(self, connection: Connection, table: Table, wanted: TableOptions) -> Cut | None:
        """By the column that the job names, else by the first of the primary key, where values can be shared out."""
        name = wanted.partition_column or next(iter(table.primary_key), None)
        if name is None:
            return None
        known = {column.name.lower(): column for column in table.columns}
        column = known.get(name.lower())
        if column is None:
            raise TableMissing(
                f"Cannot cut '{table.path}' at {self._database.place} by partition_column '{name}': its"
                f" columns are {', '.join(table.column_names)}. Name one of them."
            )
        return Cut(column, connection.quote(column.name)) if can_cut(column.type) else None

    def _load(self, spark: SparkSession, from_sql: str, predicates: list[str]) -> DataFrame:
        fetch = self._options.fetch_size
        given = self._database.place.options(**({"fetchsize": str(fetch)} if fetch else {}))
        url = given.pop("url")
        return spark.read.jdbc(
            url, from_sql, predicates=[where or "1 = 1" for where in predicates], properties=given
        )


def _extent(connection: Connection, relation: Relation) -> Extent:
    """How many rows, and from where to where: one look through the table."""
    conditions = relation.base_conditions()
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    if relation.cut is None:
        ((rows,),) = connection.fetch(f"SELECT COUNT(*) FROM {relation.from_sql}{where}")
        return Extent(int(str(rows)))
    name = relation.cut.sql
    asked = f"COUNT(*), MIN({name}), MAX({name}), COUNT({name})"
    ((rows, first, last, filled),) = connection.fetch(
        f"SELECT {asked} FROM {relation.from_sql}{where}"
    )
    return Extent(int(str(rows)), first, last, int(str(rows)) - int(str(filled)))
