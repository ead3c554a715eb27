"""Columns that no transform touches go past Spark, and come out as if they had not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast.connectors.base import Run, columns_in
from holdfast.decide.restore import RestoreRequest
from holdfast.model.ends import JobEnd
from holdfast.outside.clock import RealClock
from holdfast.outside.files import LocalFiles
from holdfast.runtime import frames
from holdfast.runtime.catalog import Catalog
from holdfast.runtime.passing import (
    ROW_COLUMN,
    Passing,
    Shelf,
    find_passing,
    join_again,
    send_less,
)
from holdfast.runtime.session import SparkHost
from holdfast.runtime.stop import StopSignal
from holdfast.runtime.watch import NoWatch
from holdfast.solo import run_job
from holdfast.spec.parse import parse_job
from holdfast.testing.servers import Database
from holdfast.worker.attempts import WorkerOutside

ROWS = 30_000
"""More than an epoch that stays in the driver has."""


@pytest.fixture
def leaf(spark: SparkSession) -> Iterator[DataFrame]:
    """What a reader gives; nothing is read for a plan."""
    columns = "a bigint, b string, c decimal(12,2), d timestamp_ntz"
    frame = spark.range(1).mapInArrow(lambda batches: batches, columns)
    frame.createOrReplaceTempView("leaf")
    yield frame
    spark.catalog.dropTempView("leaf")


@pytest.mark.spark
@pytest.mark.parametrize(
    ("query", "names", "handed_on", "computed_with"),
    [
        ("select a, b, c * 2 as c from leaf", "a b c", (0, 1, None), (2,)),
        ("select d as x, b as y from leaf where a > 1", "x y", (3, 1), (0,)),
        ("select * from leaf where a > 1 and c < 5", "a b c d", (0, 1, 2, 3), (0, 2)),
        ("select d, d as e, upper(b) as b, 7 as n from leaf", "d e b n", (3, 3, None, None), (1,)),
        ("select *, a + 1 as e from leaf", "a b c d e", (0, 1, 2, 3, None), (0,)),
        ("select e, c, d from (select a + 1 as e, * from leaf)", "e c d", (None, 2, 3), (0,)),
    ],
)
def test_what_is_only_handed_on_is_found(
    leaf: DataFrame,
    query: str,
    names: str,
    handed_on: Sequence[int | None],
    computed_with: Sequence[int],
) -> None:
    found = find_passing(leaf.sparkSession.sql(query), leaf)

    assert found == Passing(tuple(names.split()), tuple(handed_on), tuple(computed_with))


@pytest.mark.spark
@pytest.mark.parametrize(
    "query",
    [
        "select distinct a, b from leaf",
        "select * from leaf order by a",
        "select * from leaf limit 5",
        "select b, c, count(*) from leaf group by b, c",
        "select x.* from leaf x join leaf y on x.a = y.a",
        "select a, b, c from leaf lateral view explode(array(1, 2)) as n",
        "select * from leaf union all select * from leaf",
        "select b, a + 1 as a from leaf",
        "select 1 as a, 2 as b from leaf",
    ],
)
def test_where_rows_may_change_places_or_it_is_not_worth_it_nothing_goes_past(
    leaf: DataFrame, query: str
) -> None:
    assert find_passing(leaf.sparkSession.sql(query), leaf) is None


@pytest.mark.spark
def test_a_function_in_python_keeps_all_columns_in_spark(leaf: DataFrame) -> None:
    twice = F.udf(lambda value: value * 2, "bigint")

    assert find_passing(leaf.withColumn("a", twice("a")), leaf) is None


def test_neighbours_go_as_one_run() -> None:
    passing = Passing(("a", "b", "x", "c", "e", "d"), (0, 1, None, 2, 4, 3), (0,), as_runs=True)

    assert passing.runs == [Run(0, 2), Run(2, 1), Run(4, 1), Run(3, 1)]
    assert passing.places() == [0, None, 1, 2, 3]
    schema = passing.schema(pa.schema([(name, pa.int64()) for name in "abcdex"]))
    assert [columns_in(field) for field in schema] == [2, None, 1, 1, 1]


class FolderShelf(Shelf):
    """One that is nobody's task."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._prefix, self._number, self._taken = folder, "t-", -1, None


@pytest.mark.parametrize("kept", ["all", "none", "some", "one"])
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_rows_find_what_was_put_aside_of_them(tmp_path: Path, kept: str, size: int) -> None:
    """However the batches are cut on their way, and whatever filters leave."""
    passing = Passing(("text", "double", "number"), (1, None, 0), (0,))
    pieces = [(low, min(low + 100, 950)) for low in range(0, 950, 100)]
    texts = [None if n % 7 == 0 else f"row {n}" for n in range(950)]
    numbers = pa.array(range(950), pa.int64())
    rest = pa.record_batch({"number": numbers, "text": pa.array(texts)})
    wanted = pa.record_batch({"number": numbers})
    pairs = [(wanted.slice(a, b - a), rest.slice(a, b - a)) for a, b in pieces]

    sent = pa.Table.from_batches(list(send_less(iter(pairs), FolderShelf(tmp_path))))
    there = {"all": range(950), "none": [], "some": range(3, 950, 13), "one": [511]}[kept]
    left = sent.take(pa.array(list(there), pa.int64())).combine_chunks()
    computed = pa.table({"double": [n * 2 for n in there], ROW_COLUMN: left.column(ROW_COLUMN)})
    schema = pa.schema({"text": pa.string(), "double": pa.int32(), "number": pa.int64()})
    batches = computed.to_batches(max_chunksize=size)
    joined = list(join_again(batches, passing, schema, FolderShelf(tmp_path)))

    rows = [row for batch in joined for row in batch.to_pylist()]
    assert rows == [{"text": texts[n], "double": n * 2, "number": n} for n in there]
    assert all(batch.schema == schema for batch in joined)
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"


def test_numbers_of_rows_are_read_where_a_slice_begins(tmp_path: Path) -> None:
    shelf = FolderShelf(tmp_path)
    numbers = shelf.put(pa.record_batch({"n": pa.array(range(10))}))
    passing = Passing(("n",), (0,), ())
    batch = pa.record_batch({ROW_COLUMN: numbers}).slice(4, 3)

    (joined,) = join_again([batch], passing, pa.schema({"n": pa.int64()}), FolderShelf(tmp_path))

    assert joined.column("n").to_pylist() == [4, 5, 6]
    assert np.array_equal(numbers.to_numpy(), np.arange(10))


SOURCE_TABLE = f"""
CREATE TABLE orders AS
SELECT n::bigint AS id, (n * 7)::int AS customer,
  CASE WHEN n % 5 > 0 THEN (n / 7.0)::numeric(12, 2) END AS amount,
  CASE WHEN n % 3 > 0 THEN 'naïve ' || n END AS name, n % 2 = 0 AS paid,
  timestamp '2020-01-01' + n * interval '1 minute' AS ordered_at,
  CASE WHEN n % 4 > 0 THEN timestamptz '2020-01-01 00:00+00' + n * interval '1 s' END AS paid_at,
  date '2020-01-01' + n AS due, n * 0.1::float8 AS weight, time '10:00' + n * interval '1 s' AS at,
  ('x' || n)::bytea AS raw, ARRAY[n, NULL]::int[] AS tags
FROM generate_series(1, {ROWS}) n
"""
QUERIES = {
    "a projection and a filter": (
        "select id, customer, amount, name || '!' as name, paid, ordered_at, paid_at, due,"
        " weight * 2 as weight, at, raw, tags from orders where id % 100 <> 1",
        "SELECT id, customer, amount, name || '!' AS name, paid, ordered_at, paid_at, due,"
        " weight * 2 AS weight, at, raw, tags FROM orders WHERE id % 100 <> 1",
    ),
    "other names in another order": (
        "select due as day, at, id, coalesce(amount, 0) as amount, name as who, paid_at from orders",
        "SELECT due AS day, at, id, coalesce(amount, 0) AS amount, name AS who, paid_at FROM orders",
    ),
    "a filter that leaves single rows": (
        "select * from orders where id in (1, 8095, 8096, 8097, 29999)",
        "SELECT * FROM orders WHERE id IN (1, 8095, 8096, 8097, 29999)",
    ),
    "a filter that leaves none": (
        "select * from orders where id < 0",
        "SELECT * FROM orders WHERE id < 0",
    ),
}


@pytest.mark.spark
@pytest.mark.servers
@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("target", ["of one kind", "of other types"])
def test_a_job_leaves_the_rows_that_the_query_says(
    postgres_database: Database,
    host: SparkHost,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    query: str,
    target: str,
) -> None:
    """Between tables whose columns are coded alike they go as the wire has them, else as Arrow."""
    query, expected = QUERIES[query]
    postgres_database.execute(SOURCE_TABLE, f"CREATE TABLE target AS {expected} LIMIT 0")
    if target == "of other types":
        postgres_database.execute("ALTER TABLE target ALTER id TYPE numeric(20)")
    seen = _watch_passing(monkeypatch)

    assert _run(postgres_database, host, tmp_path, query) is JobEnd.FINISHED

    assert seen
    assert all(one.as_runs == (target == "of one kind") for one in seen)
    lacking = f"({expected}) EXCEPT ALL SELECT * FROM target"
    surplus = f"SELECT * FROM target EXCEPT ALL ({expected})"
    assert postgres_database.rows(f"{lacking} LIMIT 5") == []
    assert postgres_database.rows(f"{surplus} LIMIT 5") == []


def _watch_passing(monkeypatch: pytest.MonkeyPatch) -> list[Passing]:
    """What each epoch was found to hand on."""
    seen: list[Passing] = []
    send = frames._reader_of

    def watched(reading: frames._Reading, passing: Passing | None) -> frames._InArrow:
        if passing is not None:
            seen.append(passing)
        return send(reading, passing)

    monkeypatch.setattr(frames, "_reader_of", watched)
    return seen


def _run(database: Database, host: SparkHost, folder: Path, query: str) -> JobEnd:
    at = f'url = "{database.url()}", user = {database.user}, password = "{database.password}"'
    text = f"""
    env {{ job.mode = BATCH, parallelism = 2 }}
    source {{ Jdbc {{ {at}, table_path = "{database.database}.public.orders" }} }}
    transform {{ Sql {{ query = "{query}" }} }}
    sink {{ Jdbc {{ {at}, generate_sink_sql = true, database = "{database.database}", table = "public.target" }} }}
    """
    parsed = parse_job(text, name="past.conf", variables={}, catalog=Catalog())
    assert parsed.spec is not None, parsed.problems
    files, stop = LocalFiles(folder / "checkpoints"), StopSignal()
    outside = WorkerOutside(files, Catalog(), host, RealClock(), NoWatch(), stop)
    return run_job("past", parsed.spec, RestoreRequest(), outside).end
