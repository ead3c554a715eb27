"""The Sql transform: which tables a query reads, how kinds travel through it, what is said when it is wrong."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from holdfast.model.errors import ConfigError
from holdfast.transforms.base import TableFrame
from tests.transforms.applying import Given, create, problems_of, run, run_one

pytestmark = pytest.mark.spark

COLUMNS = {"id": "int", "name": "string", "tags": "array<string>"}
ROWS = [{"id": 1, "name": "a,b", "tags": ["x", "y"]}, {"id": 2, "name": "c", "tags": []}]
KINDS = ["+U", "-D"]


def given(**changed: Any) -> Given:
    return Given(
        **{"path": "db.people", "columns": COLUMNS, "rows": ROWS, "key": ("id",), **changed}
    )


def changed() -> Given:
    return given(
        rows=[{**row, "__kind": kind} for row, kind in zip(ROWS, KINDS, strict=True)], kinds=True
    )


def sql(spark: SparkSession, query: str, one: Given, **options: Any) -> Any:
    return run_one(spark, "Sql", {"query": query, **options}, one)


@pytest.mark.parametrize("name", ["fake", "dual", "people", "db.people", "DUAL", "`db.people`"])
def test_from_names_the_input_its_table_or_dual(spark: SparkSession, name: str) -> None:
    made = sql(spark, f"select id + 1 as id from {name} where id > 1", given())

    assert made.rows == [{"id": 3}]
    assert made.table.path == "db.people"


@pytest.mark.parametrize(
    ("query", "ids", "kinds"),
    [
        ("select id from fake where id > 0", [1, 2], KINDS),
        ("select * from fake", [1, 2], KINDS),
        ("select *, id * 2 as twice from fake f", [1, 2], KINDS),
        ("select f.* except (tags) from fake f", [1, 2], KINDS),
        ("select f.id from fake as f where f.name = 'c'", [2], ["-D"]),
        ("select id from (select id, name from fake where id < 2) t", [1], ["+U"]),
        ("select id from fake order by id desc", [2, 1], KINDS[::-1]),
        ("select id, t from fake lateral view explode(tags) x as t", [1, 1], ["+U", "+U"]),
        ("select id, explode(tags) as t from fake", [1, 1], ["+U", "+U"]),
        ("select id from fake union all select -id from dual", [1, 2, -1, -2], KINDS * 2),
    ],
)
def test_kinds_travel_through_what_works_row_by_row(
    spark: SparkSession, query: str, ids: list[int], kinds: list[str]
) -> None:
    made = sql(spark, query, changed())

    assert [row["id"] for row in made.rows] == ids
    assert [row["__kind"] for row in made.rows] == kinds
    assert made.arrow.column_names[-1] == "__kind"


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("select count(*) as n from fake", r"COUNT\(\)"),
        ("select name, max(id) as id from fake group by name", "GROUP BY"),
        ("select distinct name from fake", "DISTINCT"),
        ("select a.id from fake a join fake b on a.id = b.id", "JOIN"),
        ("select id, row_number() over (order by id) as n from fake", "a window function"),
        ("select id from fake limit 1", "LIMIT"),
        ("select id from fake union select id from fake", r"UNION \(write UNION ALL\)"),
        ("with c as (select id from fake) select id from c", "WITH"),
        ("select n from (select count(*) as n from fake) t", r"COUNT\(\)"),
        ("select multi_if(count(*) > 1, 'many', 'few') as n from fake", r"COUNT\(\)"),
        ("select id from fake where id in (select id from fake)", "a subquery"),
    ],
)
def test_what_needs_several_rows_is_fine_for_inserts_and_refused_for_kinds(
    spark: SparkSession, query: str, named: str
) -> None:
    assert sql(spark, query, given()).rows

    with pytest.raises(ConfigError, match=f"its query has {named}, and the rows .* carry kinds"):
        sql(spark, query, changed())


def test_keys_do_not_survive_what_multiplies_rows(spark: SparkSession) -> None:
    plain = sql(spark, "select id, name from fake", given())
    exploded = sql(spark, "select id, explode(tags) as tag from fake", given())

    assert plain.table.primary_key == ("id",)
    assert exploded.table.primary_key == ()


def test_a_query_is_applied_to_every_table_of_its_input(spark: SparkSession) -> None:
    tables = [given(path="db.a"), given(path="db.b"), given(path="db.c")]
    options = {
        "query": "select id from fake",
        "table_transform": [{"table_path": "db.b", "query": "select name from dual"}],
        "table_match_regex": "db.[ab]",
    }

    made = run(spark, "Sql", options, tables)

    assert [one.table.column_names for one in made] == [["id"], ["name"], [*COLUMNS]]


def test_a_query_that_names_one_table_leaves_the_others(spark: SparkSession) -> None:
    made = run(
        spark,
        "Sql",
        {"query": "select id from db.b"},
        [given(path="db.a"), given(path="db.b")],
    )

    assert [one.table.column_names for one in made] == [[*COLUMNS], ["id"]]


def orders(*rows: dict[str, int]) -> Given:
    return Given("orders", {"no": "int", "person": "int"}, list(rows), output="orders")


JOIN = "select p.name, o.no from people p left join orders o on o.person = p.id order by p.id"


def test_several_inputs_are_joined_within_an_epoch(spark: SparkSession) -> None:
    (made,) = run(spark, "Sql", {"query": JOIN}, [given(), orders({"no": 7, "person": 2})])

    assert made.rows == [{"name": "a,b", "no": None}, {"name": "c", "no": 7}]
    assert made.table.primary_key == ()


def test_a_table_without_rows_in_an_epoch_is_empty_in_a_join(spark: SparkSession) -> None:
    transform = create("Sql", {"query": JOIN})
    tables = [given(), orders({"no": 7, "person": 2})]
    transform.apply([one.frame(spark, empty=True) for one in tables])

    (only_people,) = transform.apply([tables[0].frame(spark)])
    (only_orders,) = transform.apply([tables[1].frame(spark)])

    assert [row.no for row in only_people.frame.collect()] == [None, None]
    assert only_orders.frame.collect() == []


def test_a_union_of_two_inputs_carries_kinds(spark: SparkSession) -> None:
    other = Given("orders", {"id": "int"}, [{"id": 9, "__kind": "-D"}], output="orders", kinds=True)
    query = "select id from people union all select id from orders"

    inserts = Given("orders", {"id": "int"}, [{"id": 9}], output="orders")

    (made,) = run(spark, "Sql", {"query": query}, [changed(), other])
    (mixed,) = run(spark, "Sql", {"query": query}, [changed(), inserts])

    assert [row["__kind"] for row in made.rows] == [*KINDS, "-D"]
    assert [row["__kind"] for row in mixed.rows] == [*KINDS, "+I"]


def test_views_are_gone_when_the_query_is_planned(spark: SparkSession) -> None:
    sql(spark, "select id from fake order by id", given())

    assert spark.catalog.listTables() == []


def test_an_input_that_the_query_does_not_read_is_refused(spark: SparkSession) -> None:
    with pytest.raises(ConfigError, match="does not read 'other', which comes in"):
        run(
            spark,
            "Sql",
            {"query": JOIN},
            [given(), orders(), given(path="x", output="other")],
        )
    with pytest.raises(ConfigError, match="reads 'fake' and not 'other'"):
        run(
            spark,
            "Sql",
            {"query": "select * from fake"},
            [given(), given(path="x", output="other")],
        )


def test_a_name_that_stands_for_several_tables_is_refused_in_a_join(spark: SparkSession) -> None:
    tables = [given(path="a"), given(path="b"), orders()]

    with pytest.raises(ConfigError, match=r"'fake' stands for several tables \(a, b\)"):
        run(spark, "Sql", {"query": "select * from fake f join orders o on 1 = 1"}, tables)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("select nme from fake", r"no column 'nme' \(there is id, name, tags\)\. Did you mean 'n"),
        ("select f.nme from fake f order by id", "no column 'f.nme' .* Did you mean 'name'"),
        ("select foo(id) from fake", "no function 'foo'"),
        ("select id from fakee", "reads 'fakee', and there is fake, db.people. Did you mean 'fake"),
        ("select id + tags from fake", "table 'db.people': Cannot resolve"),
        ("select id, id from fake", "two columns the name 'id'"),
    ],
)
def test_what_is_wrong_with_names_is_told_in_one_line(
    spark: SparkSession, query: str, said: str
) -> None:
    with pytest.raises(ConfigError, match=said) as raised:
        sql(spark, query, given())

    assert "\n" not in str(raised.value)
    assert "SQLSTATE" not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "option 'query' is required"),
        ({"query": "select a,\n b c d from x"}, "line 2, position 6 near 'd'"),
        ({"query": "selec a from x"}, "line 1, position 12 near 'from'"),
        ({"query": "select 'a from x"}, "quote that is not closed"),
        ({"query": "insert into x select 1"}, "it is no SELECT"),
        ({"query": "select 1; select 2 from x"}, "2 statements"),
        ({"query": "select 1"}, "reads no table"),
        ({"query": "select murmur64(a) from x"}, "no MURMUR64. XXHASH64"),
        ({"query": "select dateadd(a, 1, 'EON') from x"}, "does not know the unit 'EON'"),
        ({"query": "select regexp_like(a, 'b', 'q') from x"}, "does not know the flag 'q'"),
        ({"query": "select multi_if(a, b) from x"}, "MULTI_IF takes pairs"),
        ({"query": "select week((select max(d) from y)) from x"}, "a SELECT stands within"),
        (
            {"table_transform": [{"table_path": "a", "query": "select 1 from a, b"}]},
            "reads several",
        ),
    ],
)
def test_a_query_is_checked_without_spark(options: Any, said: str) -> None:
    (problem,) = problems_of("Sql", options)

    assert said in problem


def test_transforms_of_several_pipelines_share_no_view(spark: SparkSession) -> None:
    query = {"query": "select id from fake order by id"}
    one, other = create("Sql", query), create("Sql", query)
    frames: list[TableFrame] = [given().frame(spark), given(rows=ROWS[:1]).frame(spark)]

    (first,), (second,) = one.apply(frames[:1]), other.apply(frames[1:])

    assert (first.frame.count(), second.frame.count()) == (2, 1)


def test_a_frame_that_spark_keeps_is_kept_behind_a_view_and_read_from_there(
    spark: SparkSession,
) -> None:
    transform = create("Sql", {"query": "select id from fake order by id"})
    kept = given().frame(spark)
    kept.frame.persist()

    (made,) = transform.apply([kept])

    plan: Any = made.frame
    assert kept.frame.storageLevel.useMemory
    assert "InMemoryTableScan" in plan._jdf.queryExecution().executedPlan().toString()
    kept.frame.unpersist()


def test_what_is_made_by_chance_is_made_anew_in_each_epoch(spark: SparkSession) -> None:
    transform = create("Sql", {"query": "select uuid() as u from fake"})
    epochs = [transform.apply([given().frame(spark)])[0].frame.toArrow() for _ in range(2)]

    texts = {text for rows in epochs for text in rows.column("u").to_pylist()}

    assert len(texts) == 4
