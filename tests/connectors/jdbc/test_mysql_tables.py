"""What only MySQL and MariaDB have: their own keys, engines without transactions, unique keys beside the key."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from holdfast.connectors.base import Budget, TableBatch, is_done
from holdfast.connectors.jdbc import SINK, SOURCE
from holdfast.connectors.jdbc.targets import TargetRefused
from holdfast.model.errors import SinkRejected, Terminal
from holdfast.model.schema import Column, Table
from holdfast.testing.builders import a_context, a_scope, options_of

pytestmark = pytest.mark.servers
MUCH = 1 << 40
KEYS = {
    "above int64": ("bigint unsigned", [str(2**64 - 1 - n * 7) for n in range(30)]),
    "doubles": ("double", [f"{n} / 3e0" for n in range(30)]),
    "floats": ("float", [f"{n} / 3e0" for n in range(30)]),
    "moments": ("timestamp(6)", [f"'2024-01-01 00:00:{n:02d}.000{n:03d}'" for n in range(30)]),
    "times": ("time(3)", [f"'{n % 24}:{n}:00.5'" for n in range(30)]),
    "bytes": ("varbinary(9)", [f"X'{n * 8:02x}00ff'" for n in range(30)]),
    "bits": ("bit(9)", [f"{n * 16}" for n in range(30)]),
    "enums": ("enum('z','b','a','10','9')", ["'z'", "'b'", "'a'", "'10'", "'9'"]),
    "sets": ("set('z','b','a')", ["''", "'z'", "'b'", "'a'", "'z,b'", "'z,b,a'"]),
    "any case": (
        "varchar(20) COLLATE utf8mb4_general_ci",
        [f"'{t}'" for t in ("a", "B", "c", "D", "Ö", "z", "_", " ", "10", "9")],
    ),
    "latin1": ("varchar(20) CHARACTER SET latin1", ["'ä'", "'ö'", "'a'", "'z'"]),
    "uuids": ("uuid", [f"'{n:08x}-e89b-12d3-a456-42661417{n:04x}'" for n in range(30)]),
}


def _source(system: Any, **options: Any) -> Any:
    return SOURCE.create(options_of(SOURCE, {**system.block, **options}), a_context("source-0"))


def _sink(system: Any, **options: Any) -> Any:
    block = {**system.block, "generate_sink_sql": True, "table": "t", **options}
    return SINK.create(options_of(SINK, block), a_context())


def _write(sink: Any, table: Table, rows: list[dict[str, Any]]) -> None:
    schema = table.arrow_schema
    batch = TableBatch(table.path, pa.RecordBatch.from_pylist(rows, schema))
    part = sink.stage(a_scope(epoch=2, tables=[table]), iter([batch]))
    sink.publish({"attempt": 1, "epoch": 2, "parts": [part]})


@pytest.mark.parametrize("name", KEYS)
def test_keys_of_mysqls_own_types_are_cut_exactly(name: str, mariadb_system: Any) -> None:
    sql_type, keys = KEYS[name]
    inserts = [f"INSERT INTO t VALUES ({key}, {n})" for n, key in enumerate(keys)]
    mariadb_system.execute(f"CREATE TABLE t (k {sql_type} PRIMARY KEY, n integer)", *inserts)
    position, rows, sizes = _source(mariadb_system, table_path="t").start(), [], []

    while not is_done(position):
        source = _source(mariadb_system, table_path="t", **{"split.size": 2})
        plan = source.plan(position, Budget(4, MUCH, 1e6, 3))
        for task in plan.tasks:
            found = [n for b in source.read(task, Budget(4, MUCH, 1e6, 3)) for n in b.batch["n"]]
            rows += [n.as_py() for n in found]
            sizes.append(len(found))
        position = plan.end

    assert Counter(rows) == Counter(range(len(keys)))
    assert len(sizes) >= len(keys) // 3


CODED = Table(
    "shop.t",
    (Column("code", pa.string(), False), Column("slug", pa.string()), Column("n", pa.int32())),
    ("code",),
)


@pytest.mark.parametrize("exactly_once", [False, True])
def test_an_upsert_never_overwrites_a_row_of_another_key(
    exactly_once: bool, mariadb_system: Any
) -> None:
    mariadb_system.execute(
        "CREATE TABLE t (id integer AUTO_INCREMENT PRIMARY KEY, code varchar(9) NOT NULL UNIQUE,"
        " slug varchar(9) UNIQUE, n integer)",
        "INSERT INTO t VALUES (5, 'a', 'x', 1), (6, 'b', 'y', 2)",
    )
    sink = _sink(mariadb_system, primary_keys=["code"], is_exactly_once=exactly_once)
    sink.prepare([CODED])

    _write(sink, CODED, [{"code": "a", "slug": "x", "n": 7}, {"code": "c", "slug": "z", "n": 8}])
    with pytest.raises(SinkRejected, match="Duplicate entry 'y'"):
        _write(sink, CODED, [{"code": "d", "slug": "y", "n": 9}])

    found = mariadb_system.rows("SELECT id, code, slug, n FROM t ORDER BY id")
    assert [row[1:] for row in found] == [("a", "x", 7), ("b", "y", 2), ("c", "z", 8)]
    assert [row[0] for row in found][:2] == [5, 6]


def test_an_engine_without_transactions_is_refused_where_each_row_shall_come_once(
    mariadb_system: Any,
) -> None:
    mariadb_system.execute("CREATE TABLE t (code varchar(9), slug varchar(9), n int) ENGINE=MyISAM")
    with pytest.raises(TargetRefused, match="its engine has no transactions"):
        _sink(mariadb_system, is_exactly_once=True, enable_upsert=False).prepare([CODED])
    _sink(mariadb_system, enable_upsert=False).prepare([CODED])


def test_a_column_of_shapes_is_told_before_anything_is_read(mariadb_system: Any) -> None:
    mariadb_system.execute("CREATE TABLE t (id int primary key, place point, n int)")

    with pytest.raises(Terminal, match=r"there is no type for its column 'place' \(point\)"):
        _source(mariadb_system, table_path="t").tables()

    as_text = _source(mariadb_system, query="SELECT id, ST_AsText(place) AS place FROM t")
    assert as_text.tables()[0].column_names == ["id", "place"]


def test_a_database_is_named_by_the_option_or_before_the_table(mariadb_system: Any) -> None:
    other = f"{mariadb_system.prefix.strip('.')}_2"
    by_option = _sink(mariadb_system, database=other, primary_keys=["code"])
    by_path = _sink(mariadb_system, table=f"{other}.u", primary_keys=["code"])
    try:
        for sink in (by_option, by_path):
            sink.prepare([CODED])
            _write(sink, CODED, [{"code": "a", "slug": "x", "n": 7}])

        assert mariadb_system.rows(
            f"SELECT n FROM {other}.t UNION ALL SELECT n FROM {other}.u"
        ) == [
            (7,),
            (7,),
        ]
    finally:
        mariadb_system.execute(f"DROP DATABASE IF EXISTS {other}")
