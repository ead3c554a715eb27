"""Databases that only a JDBC driver speaks to, shown on Apache Derby, which PySpark brings.

Derby runs inside Spark's JVM, in memory; each test gets a fresh database.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from datetime import date, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from holdfast.connectors.base import Budget, Context, TableBatch
from holdfast.connectors.jdbc import SINK, SOURCE
from holdfast.connectors.jdbc.relations import TableMissing
from holdfast.connectors.jdbc.sink import promise_of
from holdfast.connectors.jdbc.through_spark.database import Database, DriverMissing, Place
from holdfast.connectors.jdbc.through_spark.inserting import parse_insert
from holdfast.model.errors import HoldfastError, SinkRejected, Terminal
from holdfast.model.schema import KIND_COLUMN, Column, RowKind, Table
from holdfast.testing.builders import a_context, a_scope, a_token, options_of
from holdfast.testing.sink_contract import SINK_RULES, SinkCase
from holdfast.testing.source_contract import SOURCE_RULES, SourceCase
from holdfast.testing.walking import MUCH, row_text, same_budget, walk

pytestmark = pytest.mark.spark
DRIVER = "org.apache.derby.iapi.jdbc.AutoloadedDriver"
_numbers = itertools.count(1)


def session() -> SparkSession:
    """By name: copies of connectors find it again."""
    found = SparkSession._instantiatedSession
    assert found is not None
    return found


def here(location: str = "source-0-jdbc") -> Context:
    return on_spark(a_context(location))


def on_spark(context: Context) -> Context:
    return replace(context, spark=session)


@dataclass(frozen=True)
class Derby:
    block: dict[str, Any]
    database: Database

    def execute(self, *statements: str) -> None:
        with self.database.connect("prepare a test") as connection:
            for statement in statements:
                connection.execute(statement)

    def rows(self, sql: str) -> list[tuple[str | None, ...]]:
        with self.database.connect("look") as connection:
            return connection.fetch(sql)

    def staged(self) -> list[str]:
        with self.database.connect("look") as connection:
            names = [table.name for table in connection.list_tables()]
        return [name for name in names if name.startswith("hf_")]


@pytest.fixture
def derby(spark: SparkSession) -> Derby:
    url = f"jdbc:derby:memory:test{next(_numbers)}"
    database = Database(Place(f"{url};create=true", DRIVER), session)
    with database.connect("create the database"):
        pass
    return Derby({"url": url, "driver": DRIVER}, database)


@pytest.mark.parametrize("rule", SOURCE_RULES, ids=str)
@pytest.mark.parametrize("shape", ["keyed", "without key", "by date", "several tables"])
def test_the_source_keeps_the_contract_of_sources(rule: Any, shape: str, derby: Derby) -> None:
    key = "" if shape == "without key" else "primary key"
    derby.execute(f"CREATE TABLE t (id bigint {key}, day date, text varchar(20))")
    days = [f"2024-02-{i % 25 + 1:02}" for i in range(25)]
    rows = [(i * i - 30, days[i], f"row {i}") for i in range(25)]
    derby.execute(*[f"INSERT INTO t VALUES {row!r}" for row in rows])
    expected = [row_text("APP.T", 0, (n, date.fromisoformat(day), text)) for n, day, text in rows]
    block: dict[str, Any] = {**derby.block, "table_path": "t", "split.size": 1}
    if shape == "by date":
        derby.execute("INSERT INTO t VALUES (1000, NULL, 'no day')")
        expected.append(row_text("APP.T", 0, (1000, None, "no day")))
        block["partition_column"] = "DAY"
    if shape == "several tables":
        coded = [("x" * i, i) for i in range(1, 5)]
        derby.execute(
            "CREATE TABLE u (code varchar(20) not null primary key, n integer)",
            *[f"INSERT INTO u VALUES {row!r}" for row in coded],
            "CREATE TABLE empty_one (id bigint primary key)",
        )
        tables = [{"table_path": name} for name in ("APP.u", "empty_one", "t")]
        del block["table_path"]
        block["table_list"] = tables
        expected += [row_text("APP.U", 0, row) for row in coded]

    def make() -> Any:
        return SOURCE.create(options_of(SOURCE, block), here())

    unit = 25 if shape == "without key" else 5
    case = SourceCase(make, rows=expected, ordered=False, unit_rows_max=unit)
    if rule.applies(case) is None:
        rule.check(case)


@pytest.mark.parametrize("rule", SINK_RULES, ids=str)
@pytest.mark.parametrize("by_key", [True, False], ids=["by key", "append"])
def test_the_sink_keeps_the_contract_of_sinks(rule: Any, by_key: bool, derby: Derby) -> None:
    block = {**derby.block, "generate_sink_sql": True, "table": "t", "enable_upsert": by_key}
    options = options_of(SINK, block)

    def visible() -> list[int]:
        return [int(str(row[0])) for row in derby.rows('SELECT "id" FROM "t"')]

    case = SinkCase(
        make=lambda context: SINK.create(options, on_spark(context)),
        visible=visible,
        leftovers=derby.staged,
        declared=promise_of(options),
    )
    if rule.applies(case) is None:
        rule.check(case)


def sink_job(derby: Derby, name: str, **more: Any) -> Any:
    return options_of(SINK, {**derby.block, "generate_sink_sql": True, "table": name, **more})


def staged_once(derby: Derby, rows: pa.Table, **more: Any) -> None:
    """One epoch through the sink, as the loop does it."""
    table = Table(
        "src.t",
        tuple(Column(f.name, f.type, f.nullable) for f in rows.schema if f.name != KIND_COLUMN),
        primary_key=more.pop("primary_key", ()),
    )
    sink = SINK.create(sink_job(derby, "t", **more), here("sink-0-jdbc"))
    sink.prepare([table])
    scope = a_scope(tables=[table], context=here("sink-0-jdbc"))
    batches = (TableBatch("src.t", batch) for batch in rows.to_batches())
    part = sink.stage(scope, batches)
    assert part is not None
    sink.publish(a_token([part]))


TYPES = pa.table(
    {
        "id": pa.array([1, 2], pa.int64()),
        "tiny": pa.array([-128, None], pa.int16()),
        "four": pa.array([2**31 - 1, None], pa.int32()),
        "exact": pa.array([Decimal("12345678901234567890123.12345678"), None], pa.decimal128(31, 8)),
        "near": pa.array([1.5, None], pa.float32()),
        "far": pa.array([1e-300, None], pa.float64()),
        "flag": pa.array([True, None], pa.bool_()),
        "text": pa.array(["ä漢'", None], pa.string()),
        "raw": pa.array([b"\x00\xff", None], pa.binary()),
        "day": pa.array([date(1, 1, 1), None], pa.date32()),
        "hour": pa.array([time(23, 59, 59), None], pa.time64("us")),
        # In Europe this wall clock time was skipped, and the other came twice.
        "at": pa.array(["2024-03-31 02:30:15.123456", "2024-10-27 02:30:00"]).cast(pa.timestamp("us")),
    }
)  # fmt: skip


def test_wall_clock_times_are_those_of_a_zone_without_summer_time(spark: SparkSession) -> None:
    """Else drivers shift those that the machine's zone skips."""
    jvm: Any = spark._jvm

    assert jvm.java.util.TimeZone.getDefault().getID() == "UTC"


def test_a_text_that_is_too_long_is_refused_and_never_cut(derby: Derby) -> None:
    derby.execute("CREATE TABLE t (id bigint primary key, name varchar(3))")

    with pytest.raises(Terminal, match="truncation"):
        staged_once(derby, pa.table({"id": [1], "name": ["longer"]}), primary_keys=["id"])

    assert derby.rows("SELECT * FROM t") == []


def test_every_type_goes_there_and_back_exactly(derby: Derby) -> None:
    staged_once(derby, TYPES, primary_key=("id",))

    source = SOURCE.create(options_of(SOURCE, {**derby.block, "table_path": "t"}), here())
    steps = walk(source, source.start(), same_budget(Budget(MUCH, MUCH, MUCH, 9)), idle_max=1)
    batches = [found.batch for step in steps for found in step.batches]

    found = pa.Table.from_batches(batches)
    assert found.schema.types == TYPES.schema.types
    assert found.to_pylist() == TYPES.to_pylist()


def test_changes_are_merged_by_key_and_the_last_one_counts(derby: Derby) -> None:
    derby.execute("CREATE TABLE t (ID bigint primary key, NAME varchar(20))")
    derby.execute("INSERT INTO t VALUES (1, 'old'), (2, 'old'), (3, 'stays')")
    kinds = [RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER, RowKind.DELETE, RowKind.INSERT,
             RowKind.INSERT, RowKind.DELETE]  # fmt: skip
    rows = pa.table(
        {
            "id": pa.array([1, 1, 2, 4, 5, 5], pa.int64()),
            "name": ["old", "new", "old", None, "five", "five"],
            KIND_COLUMN: pa.array([int(kind) for kind in kinds], pa.int8()),
        }
    )

    staged_once(derby, rows, primary_keys=["id"])

    assert derby.rows("SELECT id, name FROM t ORDER BY id") == [
        ("1", "new"), ("3", "stays"), ("4", None)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("source", "kind", "said"),
    [
        ({"table_path": "gone"}, TableMissing, "there is no such table. Check table_path"),
        ({"query": "selec 1"}, Terminal, "Syntax error"),
        ({"table_path": "t", "partition_column": "nope"}, TableMissing, "its columns are ID, NAME"),
        ({"table_path": "t", "driver": "no.such.Driver"}, DriverMissing, "no JDBC driver no.such.Driver"),
        ({"table_path": "t", "url": "jdbc:nosql://x"}, Terminal, "takes no such url. Check url and driver"),
        ({"table_path": "t", "url": "jdbc:derby:/gone;password=hunter2"}, HoldfastError, "not found"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_one_message(
    derby: Derby, source: dict[str, str], kind: type[HoldfastError], said: str
) -> None:
    derby.execute("CREATE TABLE t (id bigint primary key, name varchar(20))")

    with pytest.raises(kind) as told:
        SOURCE.create(options_of(SOURCE, {**derby.block, **source}), here()).tables()

    assert str(told.value).startswith("Cannot ")
    assert said in str(told.value)
    assert "hunter2" not in str(told.value)
    assert "\n" not in str(told.value)


def test_an_insert_of_the_jobs_own_is_staged_too(derby: Derby) -> None:
    derby.execute("CREATE TABLE t (n bigint, other varchar(9) default 'x', name varchar(9))")

    staged_once(
        derby,
        pa.table({"id": [1, 2], "title": ["a", None]}),
        generate_sink_sql=False,
        query="insert into t (n, name) values (?, ?)",
    )

    assert derby.rows("SELECT * FROM t ORDER BY n") == [("1", "x", "a"), ("2", "x", None)]


def test_an_insert_with_too_few_columns_is_refused(derby: Derby) -> None:
    derby.execute("CREATE TABLE t (n bigint)")

    with pytest.raises(
        SinkRejected, match=r"takes 1 values for 1 columns, and table 'src\.t' has 2"
    ):
        staged_once(derby, pa.table({"id": [1], "title": ["a"]}), query="INSERT INTO t VALUES (?);")


@pytest.mark.parametrize(
    "query",
    [
        "update t set a = ? where b = ?",
        "insert into t values (?, upper(?))",
        "insert into t select ?",
    ],
)
def test_other_statements_are_not_taken_for_an_insert(query: str) -> None:
    assert parse_insert(query) is None
