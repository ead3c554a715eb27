"""Splits cover every row exactly once, whatever the keys are like and wherever the reading was cut."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from holdfast.connectors.base import Budget, is_done
from holdfast.connectors.jdbc import SOURCE
from holdfast.model.errors import PositionGone, Terminal, Transient
from holdfast.testing.builders import a_context, options_of

MUCH = 1 << 40
KEYS = {
    "negative": ("bigint primary key", [str(n * 37 - 500) for n in range(60)]),
    "skewed": ("integer", [*["7"] * 30, *map(str, range(20)), "1000000"]),
    "with nulls": ("integer unique", [*map(str, range(30)), *["NULL"] * 10]),
    "only nulls": ("integer unique", ["NULL"] * 5),
    "none at all": ("integer primary key", []),
    "texts": (
        "varchar(40) primary key",
        [f"'{t}'" for t in ("", "a", "A", "ä", "a''b", "10", "9", "\\x", "zz")],
    ),
    "numerics": ("decimal(20,4) primary key", [f"{n}.{n:04d}" for n in range(40)]),
    "dates": (
        "date primary key",
        [f"'2024-{m:02d}-{d:02d}'" for m in range(1, 13) for d in (1, 9, 28)],
    ),
}
POSTGRES_KEYS = {
    "uuids": ("uuid primary key", [f"md5('{n}')::uuid" for n in range(40)]),
    "moments": (
        "timestamptz primary key",
        [f"'2024-01-01 00:00+00'::timestamptz + {n} * interval '1.000001 s'" for n in range(40)],
    ),
    "doubles": ("double precision primary key", [f"{n} / 3.0::float8" for n in range(40)]),
    "words": ("text primary key", [f"md5('{n}')" for n in range(40)]),
}


def _source(system: Any, **options: Any) -> Any:
    block = {**system.block, **options}
    return SOURCE.create(options_of(SOURCE, block), a_context("source-0-jdbc"))


def _read_all(
    source: Any, budget: Budget, *, fresh: Any = None
) -> tuple[list[Any], list[int], int]:
    """Rows by `n`, rows of each task, and the size of the largest position."""
    position = source.start()
    rows: list[Any] = []
    sizes: list[int] = []
    largest = 0
    while not is_done(position):
        source = fresh() if fresh else source
        plan = source.plan(position, budget)
        for task in plan.tasks:
            found = [n for b in source.read(task, budget) for n in b.batch.column("n").to_pylist()]
            rows += found
            sizes.append(len(found))
        position = plan.end
        largest = max(largest, len(str(position)))
    return rows, sizes, largest


def _fill(system: Any, sql_type: str, keys: list[str]) -> None:
    system.execute(
        f"CREATE TABLE t (k {sql_type}, n integer)",
        *[f"INSERT INTO t VALUES ({key}, {index})" for index, key in enumerate(keys)],
    )


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("rows_max", [1, 7, MUCH])
def test_every_row_is_read_exactly_once(name: str, rows_max: int, system: Any) -> None:
    sql_type, keys = KEYS[name]
    _fill(system, sql_type, keys)
    options: dict[str, Any] = {"table_path": "t", "split.size": 4}
    if sql_type == "integer":
        options["partition_column"] = "k"

    rows, _, largest = _read_all(_source(system, **options), Budget(rows_max, MUCH, 1e6, 3))

    assert Counter(rows) == Counter(range(len(keys)))
    assert largest < 300


@pytest.mark.servers
@pytest.mark.parametrize("name", POSTGRES_KEYS)
def test_keys_of_postgres_own_types_are_cut_exactly(name: str, postgres_system: Any) -> None:
    sql_type, keys = POSTGRES_KEYS[name]
    _fill(postgres_system, sql_type, keys)

    source = _source(postgres_system, table_path="t", **{"split.size": 3})
    rows, sizes, _ = _read_all(
        source, Budget(9, MUCH, 1e6, 3), fresh=lambda: _source(postgres_system, table_path="t")
    )

    assert Counter(rows) == Counter(range(len(keys)))
    assert len(sizes) >= 5


def test_rows_that_come_behind_the_last_key_are_not_read(system: Any) -> None:
    _fill(system, "integer primary key", [str(n) for n in range(10)])
    source = _source(system, table_path="t", **{"split.size": 2})
    budget = Budget(2, MUCH, 1e6, 1)
    first = source.plan(source.start(), budget)

    system.execute("INSERT INTO t VALUES (99, 99)")

    position, rows = first.end, []
    while not is_done(position):
        plan = source.plan(position, budget)
        rows += [
            n for t in plan.tasks for b in source.read(t, budget) for n in b.batch["n"].to_pylist()
        ]
        position = plan.end
    assert sorted(rows) == list(range(2, 10))


@pytest.mark.parametrize("index", ["primary key", ""])
def test_a_query_is_cut_by_its_partition_column(index: str, system: Any) -> None:
    _fill(system, f"integer {index}", [str(n) for n in range(-20, 100)])

    rows, sizes, _ = _read_all(
        _source(
            system,
            query="SELECT k AS kk, n FROM t WHERE n >= 10",
            partition_column="kk",
            partition_num=5,
        ),
        Budget(MUCH, MUCH, 1e6, 8),
    )

    assert sorted(rows) == list(range(10, 120))
    assert 5 <= len(sizes) <= 7


def test_conditions_and_bounds_leave_rows_out(system: Any) -> None:
    _fill(system, "integer", [str(n) for n in range(50)])

    rows, _, _ = _read_all(
        _source(
            system,
            table_path="t",
            where_condition="where n <> 20 or n = 9",
            partition_column="k",
            partition_lower_bound="5",
            partition_upper_bound="40",
        ),
        Budget(MUCH, MUCH, 1e6, 8),
    )

    assert sorted(rows) == [n for n in range(5, 41) if n != 20]


def test_a_pattern_names_several_tables(system: Any) -> None:
    system.execute(
        *[f"CREATE TABLE {name} (n integer)" for name in ("sales_1", "sales_2", "other")]
    )

    tables = _source(system, table_path="sales_\\d", use_regex=True).tables()

    assert [table.name for table in tables] == ["sales_1", "sales_2"]


def test_the_catalog_tells_keys_and_nullability(system: Any) -> None:
    system.execute(
        "CREATE TABLE t (a integer, b varchar(9) not null, c integer, primary key (a, b), unique (c))"
    )

    (table,) = _source(system, table_path="t").tables()

    assert table.primary_key == ("a", "b")
    assert table.unique_keys == (("c",),)
    assert [column.nullable for column in table.columns] == [False, False, True]


@pytest.mark.servers
def test_comments_and_lengths_come_with_the_table(postgres_system: Any) -> None:
    postgres_system.execute(
        "CREATE TABLE t (b varchar(9))",
        "COMMENT ON TABLE t IS 'of t'",
        "COMMENT ON COLUMN t.b IS 'of b'",
    )

    (table,) = _source(postgres_system, table_path="t").tables()

    assert (table.comment, table.columns[0].comment, table.columns[0].length) == ("of t", "of b", 9)


@pytest.mark.servers
def test_a_table_without_key_is_cut_by_its_pages(postgres_system: Any) -> None:
    postgres_system.execute(
        "CREATE TABLE t AS SELECT n, repeat('x', 500) AS filler FROM generate_series(0, 999) n",
        "ANALYZE t",
    )

    rows, sizes, _ = _read_all(
        _source(postgres_system, table_path="t", **{"split.size": 100}), Budget(MUCH, MUCH, 1e6, 8)
    )

    assert Counter(rows) == Counter(range(1000))
    assert len(sizes) >= 5


def test_a_position_in_a_table_that_is_gone_is_refused(system: Any) -> None:
    _fill(system, "integer primary key", ["1"])
    source = _source(system, table_path="t")

    probe = source.probe({"table": "no.such", "by": "key", "after": "1", "until": "2"})

    assert not probe.readable
    with pytest.raises(PositionGone, match="not among the tables"):
        source.plan({"table": "no.such"}, Budget(1, 1, 1, 1))


def test_a_missing_table_is_one_clear_message(system: Any) -> None:
    with pytest.raises(Terminal, match=r"Cannot read table 'nowhere'.*there is no such table"):
        _source(system, table_path="nowhere").tables()


@pytest.mark.servers
def test_login_troubles_are_told_without_secrets(postgres_system: Any) -> None:
    wrong = {**postgres_system.block, "password": "hush-hush"}
    with pytest.raises(Terminal, match="password authentication failed") as told:
        SOURCE.create(options_of(SOURCE, {**wrong, "table_path": "t"}), a_context()).tables()
    assert "hush" not in str(told.value)

    nobody = {"url": "jdbc:postgresql://127.0.0.1:1/x", "user": "u", "password": "hush-hush"}
    with pytest.raises(
        Transient, match=r"Cannot connect at postgresql://127.0.0.1:1/x"
    ) as told_too:
        SOURCE.create(options_of(SOURCE, {**nobody, "table_path": "t"}), a_context()).tables()
    assert "hush" not in str(told_too.value)


@pytest.mark.servers
def test_a_table_that_may_not_be_read_is_one_clear_message(postgres_system: Any) -> None:
    postgres_system.execute(
        "CREATE TABLE t (n integer primary key)",
        "DROP ROLE IF EXISTS guest",
        "CREATE ROLE guest LOGIN PASSWORD 'guest'",
    )
    source = _source(postgres_system, user="guest", password="guest", table_path="t")

    with pytest.raises(Terminal, match="permission denied for table t"):
        source.plan(source.start(), Budget(1, MUCH, 1, 1))
    postgres_system.execute("DROP ROLE guest")
