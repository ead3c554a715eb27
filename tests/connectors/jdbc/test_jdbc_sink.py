"""What the Jdbc sink does with save modes, kinds of rows, statements of the user's own, and trouble."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.connectors.base import Claim, TableBatch, Token
from holdfast.connectors.jdbc import SINK, SOURCE
from holdfast.connectors.jdbc.checks import check_sink
from holdfast.connectors.jdbc.staging import StageLost
from holdfast.connectors.jdbc.targets import TargetRefused
from holdfast.model.errors import SinkRejected
from holdfast.model.jobs import JobMode
from holdfast.model.json import Json
from holdfast.model.schema import KIND_COLUMN, Column, Table
from holdfast.testing.builders import a_context, a_scope, options_of

ORDERS = Table(
    "shop.orders",
    (
        Column("id", pa.int64(), False),
        Column("amount", pa.decimal128(12, 2)),
        Column("note", pa.string()),
    ),
    ("id",),
)
INSERT, BEFORE, AFTER, DELETE = range(4)


def _sink(system: Any, **options: Any) -> Any:
    block = {**system.block, "generate_sink_sql": True, "table": "orders", **options}
    return SINK.create(options_of(SINK, block), a_context())


def _batch(rows: list[tuple[int, int]], kinds: list[int] | None = None) -> TableBatch:
    columns: dict[str, Any] = {
        "id": pa.array([id_ for id_, _ in rows], pa.int64()),
        "amount": pa.array([Decimal(amount) for _, amount in rows], pa.decimal128(12, 2)),
        "note": pa.array([f"note {amount}" for _, amount in rows]),
    }
    if kinds is not None:
        columns[KIND_COLUMN] = pa.array(kinds, pa.int8())
    return TableBatch(ORDERS.path, pa.record_batch(columns))


def _write(sink: Any, *batches: TableBatch, epoch: int = 2, tables: Any = (ORDERS,)) -> Token:
    part = sink.stage(a_scope(epoch=epoch, tables=list(tables)), iter(batches))
    token: Token = {"attempt": 1, "epoch": epoch, "parts": [part]}
    sink.publish(token)
    return token


def _ids(system: Any) -> list[int]:
    return sorted(row[0] for row in system.rows("SELECT id FROM orders"))


def test_a_missing_table_is_created_with_its_key(system: Any) -> None:
    _sink(system).prepare([ORDERS])

    source = SOURCE.create(
        options_of(SOURCE, {**system.block, "table_path": "orders"}), a_context()
    )
    (made,) = source.tables()
    assert made.primary_key == ("id",)
    assert [(c.name, c.type) for c in made.columns] == [(c.name, c.type) for c in ORDERS.columns]


def test_create_index_false_creates_no_key(system: Any) -> None:
    _sink(system, create_index=False).prepare([ORDERS])
    sink = _sink(system, enable_upsert=False)
    _write(sink, _batch([(1, 1), (1, 2)]))
    assert _ids(system) == [1, 1]


@pytest.mark.parametrize(
    ("options", "left"),
    [
        ({"data_save_mode": "APPEND_DATA"}, [7]),
        ({"data_save_mode": "DROP_DATA"}, []),
        ({"schema_save_mode": "RECREATE_SCHEMA"}, []),
        ({"schema_save_mode": "IGNORE"}, [7]),
        (
            {
                "data_save_mode": "CUSTOM_PROCESSING",
                "custom_sql": "INSERT INTO orders (id) VALUES (8); INSERT INTO orders (id) VALUES (9)",
            },
            [7, 8, 9],
        ),
    ],
)
def test_save_modes_leave_what_they_say(
    options: dict[str, Any], left: list[int], system: Any
) -> None:
    _sink(system).prepare([ORDERS])
    system.execute("INSERT INTO orders (id) VALUES (7)")

    _sink(system, **options).prepare([ORDERS])

    assert _ids(system) == left


def test_save_modes_refuse_what_they_say(system: Any) -> None:
    strict = _sink(system, schema_save_mode="ERROR_WHEN_SCHEMA_NOT_EXIST")
    with pytest.raises(TargetRefused, match="there is no such table"):
        strict.prepare([ORDERS])
    with pytest.raises(TargetRefused, match="there is no such table"):
        _sink(system, schema_save_mode="IGNORE").prepare([ORDERS])
    _sink(system, data_save_mode="ERROR_WHEN_DATA_EXISTS").prepare([ORDERS])
    system.execute("INSERT INTO orders (id) VALUES (7)")
    with pytest.raises(TargetRefused, match="it holds rows"):
        _sink(system, data_save_mode="ERROR_WHEN_DATA_EXISTS").prepare([ORDERS])


CHANGES = st.lists(
    st.tuples(
        st.sampled_from([INSERT, BEFORE, AFTER, DELETE]), st.integers(0, 4), st.integers(0, 99)
    ),
    min_size=1,
    max_size=25,
)


def _model(changes: list[tuple[int, int, int]]) -> dict[int, int]:
    """Applied one by one, in order."""
    state: dict[int, int] = {}
    for kind, id_, amount in changes:
        if kind in (INSERT, AFTER):
            state[id_] = amount
        else:
            state.pop(id_, None)
    return state


@pytest.mark.parametrize("exactly_once", [False, True])
@pytest.mark.parametrize("indexed", [True, False])
def test_changes_end_as_if_applied_one_by_one(
    exactly_once: bool, indexed: bool, system: Any
) -> None:
    _sink(system, create_index=indexed).prepare([ORDERS])
    sink = _sink(system, primary_keys=["id"], is_exactly_once=exactly_once)
    epoch = iter(range(2, 10_000))

    @settings(
        max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
    )
    @given(CHANGES, st.integers(1, 9))
    def check(changes: list[tuple[int, int, int]], size: int) -> None:
        system.execute("DELETE FROM orders")
        pieces = [changes[low : low + size] for low in range(0, len(changes), size)]
        batches = [
            _batch([(i, a) for _, i, a in piece], [k for k, _, _ in piece]) for piece in pieces
        ]

        _write(sink, *batches, epoch=next(epoch))

        seen = system.rows("SELECT id, amount FROM orders")
        assert sorted((i, int(float(a))) for i, a in seen) == sorted(_model(changes).items())

    check()


@pytest.mark.parametrize(
    ("named", "kinds", "expected"),
    [
        ([], None, [1, 1, 2, 2]),
        ([], [INSERT, INSERT], [1, 2]),
        (["id"], None, [1, 2]),
    ],
)
def test_a_key_that_the_target_does_not_have_is_used_where_it_is_named_or_rows_are_changes(
    named: list[str], kinds: list[int] | None, expected: list[int], system: Any
) -> None:
    sink = _sink(system, create_index=False, primary_keys=named)
    sink.prepare([ORDERS])

    for _ in range(2):
        _write(sink, _batch([(1, 1), (2, 2)], kinds))

    assert _ids(system) == expected


def test_a_changed_key_moves_its_row(system: Any) -> None:
    sink = _sink(system)
    sink.prepare([ORDERS])
    _write(sink, _batch([(n, n) for n in range(5)]))

    moved = [(n + k, n) for n in reversed(range(5)) for k in (0, 1)]
    _write(sink, _batch(moved, [BEFORE, AFTER] * 5), epoch=3)

    assert _ids(system) == [1, 2, 3, 4, 5]


def test_rows_before_updates_are_left_out_where_keys_never_change(system: Any) -> None:
    sink = _sink(system, is_primary_key_updated=False)
    sink.prepare([ORDERS])

    _write(sink, _batch([(1, 5), (1, 5)], [INSERT, BEFORE]))

    assert _ids(system) == [1]


def test_a_delete_without_key_is_refused(system: Any) -> None:
    keyless = replace(ORDERS, primary_key=())
    sink = _sink(system)
    sink.prepare([keyless])

    with pytest.raises(SinkRejected, match="Set primary_keys"):
        _write(sink, _batch([(1, 1)], [DELETE]), tables=[keyless])


def test_a_query_runs_for_each_row(system: Any) -> None:
    _sink(system).prepare([ORDERS])
    block = {
        **system.block,
        "query": "INSERT INTO orders (id, amount, note) VALUES (? + 100, ?, replace(?, 'note', '?'))",
    }
    sink = SINK.create(options_of(SINK, block), a_context())

    _write(sink, _batch([(1, 5), (2, 6)]))

    assert sorted(system.rows("SELECT id, note FROM orders")) == [
        (101, "? 5"),
        (102, "? 6"),
    ]


def test_names_of_columns_follow_field_ide(system: Any) -> None:
    sink = _sink(system, field_ide="UPPERCASE", table="loud")
    sink.prepare([ORDERS])
    _write(sink, _batch([(1, 5)]))
    assert system.rows('SELECT "ID", "NOTE" FROM loud') == [(1, "note 5")]


def test_placeholders_name_a_table_for_each_upstream_table(system: Any) -> None:
    other = replace(ORDERS, path="shop.returns")
    sink = _sink(system, table="${table_name}_copy", enable_upsert=False)
    sink.prepare([ORDERS, other])
    batches = [_batch([(1, 1)]), replace(_batch([(2, 2)]), table=other.path), _batch([(3, 3)])]

    _write(sink, *batches, tables=[ORDERS, other])

    assert sorted(system.rows("SELECT id FROM orders_copy")) == [(1,), (3,)]
    assert system.rows("SELECT id FROM returns_copy") == [(2,)]


def test_a_constraint_rejects_the_whole_task(system: Any) -> None:
    sink = _sink(system, enable_upsert=False)
    sink.prepare([ORDERS])
    _write(sink, _batch([(1, 1)]))

    with pytest.raises(SinkRejected, match="Cannot write rows"):
        _write(sink, _batch([(2, 2)]), _batch([(1, 9)]), epoch=3)

    assert _ids(system) == [1]


def test_a_missing_column_is_told_by_name(system: Any) -> None:
    system.execute("CREATE TABLE orders (id bigint, amount decimal(12, 2))")
    with pytest.raises(SinkRejected, match="it has no column 'note'"):
        _sink(system).prepare([ORDERS])


def test_staged_rows_that_somebody_dropped_are_never_taken_as_published(system: Any) -> None:
    sink = _sink(system, is_exactly_once=True)
    sink.prepare([ORDERS])
    part = sink.stage(a_scope(epoch=2, tables=[ORDERS]), iter([_batch([(1, 1)])]))
    name = part["stages"][0]["name"]
    system.execute(f'DROP TABLE "{name}"')

    with pytest.raises(StageLost, match="is gone"):
        sink.publish({"attempt": 1, "epoch": 2, "parts": [part]})


def test_publishing_leaves_one_row_in_the_ledger(system: Any) -> None:
    sink = _sink(system, is_exactly_once=True, enable_upsert=False)
    sink.prepare([ORDERS])
    for epoch in (2, 3, 4):
        token = _write(sink, _batch([(epoch, 1)]), epoch=epoch)
        sink.publish(token)
    sink.discard(Claim("orders", 1, "sink-0-it", 2, token))

    assert system.rows("SELECT epoch FROM holdfast_epochs") == [(4,)]
    assert _ids(system) == [2, 3, 4]
    assert system.tables() == []


@pytest.mark.servers
def test_a_type_that_only_text_can_fill_is_written_as_csv(postgres_system: Any) -> None:
    postgres_system.execute("CREATE TABLE orders (id bigint, amount text, note inet)")
    sink = _sink(postgres_system, enable_upsert=False)
    batch = _batch([(1, 5)]).batch.set_column(2, "note", pa.array(["10.0.0.1"]))

    _write(sink, TableBatch(ORDERS.path, batch))

    assert postgres_system.rows("SELECT amount, host(note) FROM orders") == [("5.00", "10.0.0.1")]


@pytest.mark.servers
@pytest.mark.parametrize("exactly_once", [False, True])
def test_bytes_go_untouched_from_table_to_table(exactly_once: bool, postgres_system: Any) -> None:
    postgres_system.execute(
        "CREATE TABLE a (id bigint primary key, v numeric, w interval, x text[], y varchar(5))",
        "INSERT INTO a SELECT n, n / 7.0, n * interval '1 h', ARRAY['a', NULL], 'é' FROM generate_series(1, 99) n",
        "CREATE TABLE b (LIKE a)",
    )
    source = SOURCE.create(
        options_of(SOURCE, {**postgres_system.block, "table_path": "a"}), a_context()
    )
    (table,) = source.tables()
    sink = _sink(postgres_system, table="b", enable_upsert=False, is_exactly_once=exactly_once)
    format_ = source.byte_format(table.path)
    assert sink.accepts(format_, table)
    from holdfast.connectors.base import Budget

    plan = source.plan(source.start(), Budget(1 << 40, 1 << 40, 1e6, 4))
    scope = a_scope(epoch=2, tables=[table])
    parts = [sink.stage_bytes(scope, table.path, source.read_bytes(task)) for task in plan.tasks]
    sink.publish({"attempt": 1, "epoch": 2, "parts": parts})

    different = "SELECT count(*) FROM (SELECT * FROM a EXCEPT SELECT * FROM b) x"
    assert postgres_system.rows(different) == [(0,)]
    assert postgres_system.rows("SELECT count(*) FROM b") == [(99,)]


def test_options_that_exclude_each_other_are_told() -> None:
    url = {"url": "jdbc:postgresql://h/d"}

    def problems(**block: Any) -> str:
        return " ".join(check_sink(options_of(SINK, {**url, **block}), JobMode.BATCH))

    assert "set query, or generate_sink_sql" in problems()
    assert "exclude each other" in problems(query="x", generate_sink_sql=True)
    assert "needs custom_sql" in problems(
        generate_sink_sql=True, data_save_mode="CUSTOM_PROCESSING"
    )
    assert "jdbc:" in problems(url="postgresql://h/d", query="x")
    assert problems(generate_sink_sql=True, table="t") == ""


def test_a_database_that_the_url_does_not_lead_to_is_told() -> None:
    def problems(url: str, database: str) -> str:
        block: dict[str, Json] = {"url": url, "generate_sink_sql": True, "database": database}
        return " ".join(check_sink(options_of(SINK, block), JobMode.BATCH))

    assert "database is 'x', and the url leads to 'd'" in problems("jdbc:postgresql://h/d", "x")
    assert problems("jdbc:postgresql://h/d", "d") == ""
    assert problems("jdbc:postgresql://h/d", "${database_name}") == ""
    assert problems("jdbc:mysql://h/d", "x") == ""


@pytest.mark.servers
def test_a_query_with_too_few_places_is_told_before_anything_is_written(
    postgres_system: Any,
) -> None:
    query = "INSERT INTO orders VALUES (?, 'what?')"
    sink = SINK.create(options_of(SINK, {**postgres_system.block, "query": query}), a_context())

    with pytest.raises(TargetRefused, match=r"it has 1 places \(\?\), and the table has 2 columns"):
        sink.prepare([Table("t", (Column("id", pa.int64()), Column("name", pa.string())))])
    sink.prepare([Table("t", (Column("id", pa.int64()),))])
