"""Values go to PostgreSQL and come back unchanged; an independent driver sees the same values in between."""

from __future__ import annotations

import json
import struct
import threading
import uuid
from collections.abc import Iterator
from datetime import UTC
from decimal import Context, Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.connectors.base import Bytes
from holdfast.connectors.jdbc.dialects import copy_stream
from holdfast.connectors.jdbc.dialects.base import Endpoint
from holdfast.connectors.jdbc.dialects.postgres import DIALECT
from holdfast.connectors.jdbc.dialects.postgres_types import csv_of
from holdfast.connectors.jdbc.dialects.values import ValueUnreadable
from holdfast.model.errors import Transient
from holdfast.testing.servers import Database

pytestmark = pytest.mark.servers
SOME = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def _decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**precision - 1
    return st.integers(-most, most).map(lambda n: Decimal(n).scaleb(-scale, Context(prec=60)))


TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40)
JSON = st.dictionaries(st.sampled_from("abc"), st.integers(0, 9) | st.sampled_from(["x", "é"]))
TYPES: dict[str, tuple[str, pa.DataType, st.SearchStrategy[Any]]] = {
    "boolean": ("boolean", pa.bool_(), st.booleans()),
    "smallint": ("smallint", pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    "integer": ("integer", pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "bigint": ("bigint", pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "real": ("real", pa.float32(), st.floats(width=32, allow_nan=False)),
    "double": ("double precision", pa.float64(), st.floats(allow_nan=False)),
    **{
        f"numeric({p},{s})": (f"numeric({p},{s})", pa.decimal128(p, s), _decimals(p, s))
        for p, s in (
            (1, 0),
            (9, 2),
            (18, 4),
            (18, 18),
            (19, 3),
            (38, 0),
            (38, 10),
            (38, 37),
            (38, 38),
        )
    },
    "numeric": ("numeric", pa.decimal128(38, 18), _decimals(38, 18)),
    "text": ("text", pa.string(), TEXT),
    "varchar": ("varchar(60)", pa.string(), TEXT),
    "uuid": ("uuid", pa.string(), st.uuids().map(str)),
    "json": ("json", pa.string(), JSON.map(json.dumps)),
    "jsonb": ("jsonb", pa.string(), JSON.map(json.dumps)),
    "bytea": ("bytea", pa.binary(), st.binary(max_size=40)),
    "date": ("date", pa.date32(), st.dates()),
    "time": ("time", pa.time64("us"), st.times()),
    "timestamp": ("timestamp", pa.timestamp("us"), st.datetimes()),
    "timestamptz": ("timestamptz", pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(UTC))),
    "integer[]": (
        "integer[]",
        pa.list_(pa.int32()),
        st.lists(st.none() | st.integers(-9, 9), max_size=4),
    ),
    "text[]": ("text[]", pa.list_(pa.string()), st.lists(st.none() | TEXT, max_size=4)),
    "numeric[]": (
        "numeric(20,5)[]",
        pa.list_(pa.decimal128(20, 5)),
        st.lists(st.none() | _decimals(20, 5), max_size=4),
    ),
}


@pytest.fixture(params=["socket", "libpq"])
def connection(
    postgres_database: Database, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Any]:
    """Whose stream we read ourselves, and one as an encrypted one is read."""
    if request.param == "libpq":
        monkeypatch.setattr(copy_stream, "_is_plain", lambda connection: False)
    endpoint = Endpoint(
        "postgresql",
        postgres_database.host,
        postgres_database.port,
        postgres_database.database,
        postgres_database.user,
        postgres_database.password,
    )
    connection = DIALECT.connect(endpoint)
    yield connection
    connection.close()


def _seen_by_psycopg(value: Any, name: str) -> Any:
    """PostgreSQL writes a real by the shortest text that reads back as the same 32 bits."""
    if value is None:
        return None
    if name == "real":
        return float(str(np.float32(value)))
    if name in ("json", "jsonb"):
        return json.loads(value)
    return uuid.UUID(value) if name == "uuid" else value


@pytest.mark.parametrize("name", TYPES)
def test_values_of_every_type_are_written_and_read_exactly(name: str, connection: Any) -> None:
    sql_type, type_, values = TYPES[name]
    connection.execute(f"CREATE TABLE t (at integer, v {sql_type}, last text)".encode())

    @SOME
    @given(st.lists(st.none() | values, min_size=1, max_size=30), st.integers(0, 3))
    def check(rows: list[Any], sliced: int) -> None:
        connection.execute("TRUNCATE t")
        column = pa.array(rows, type_)
        whole = pa.record_batch(
            [pa.array(range(len(rows)), pa.int32()), column, pa.array(["z"] * len(rows))],
            ["at", "v", "last"],
        )
        batch = whole.slice(min(sliced, len(rows) - 1))
        columns = [("at", "integer"), ("v", sql_type), ("last", "text")]

        DIALECT.append(connection, "t", columns, iter([batch]))

        seen = connection.execute("SELECT v, last FROM t ORDER BY at").fetchall()
        expected = batch.column("v").to_pylist()
        assert seen == [(_seen_by_psycopg(v, name), "z") for v in expected]
        described = DIALECT.describe(connection, "t")
        assert described is not None
        sql = f"SELECT {DIALECT.select_list(described)} FROM t ORDER BY at"
        read = pa.Table.from_batches(list(DIALECT.read(connection, sql, described, 7)))
        assert read.schema.field("v").type == type_
        if name == "jsonb":
            assert [v and json.loads(v) for v in read["v"].to_pylist()] == [
                v and json.loads(v) for v in expected
            ]
        else:
            assert read["v"].to_pylist() == expected

    check()


@pytest.mark.parametrize("name", [n for n in TYPES if n != "numeric"])
def test_copy_as_csv_writes_the_same_values(name: str, connection: Any) -> None:
    sql_type, type_, values = TYPES[name]
    connection.execute(f"CREATE TABLE t (at integer, v {sql_type})".encode())

    @settings(SOME, max_examples=8)
    @given(st.lists(st.none() | values, min_size=1, max_size=20))
    def check(rows: list[Any]) -> None:
        connection.execute("TRUNCATE t")
        batch = pa.record_batch(
            [pa.array(range(len(rows)), pa.int32()), pa.array(rows, type_)], ["a", "v"]
        )

        with connection.cursor() as cursor, cursor.copy("COPY t FROM STDIN (FORMAT csv)") as copy:
            copy.write(bytes(csv_of(batch)))

        seen = connection.execute("SELECT v FROM t ORDER BY at").fetchall()
        assert seen == [(_seen_by_psycopg(v, name),) for v in rows]

    check()


def _read_one(connection: Any, sql_type: str, literal: str) -> Any:
    connection.execute(f"CREATE TABLE one (v {sql_type})".encode())
    connection.execute(f"INSERT INTO one VALUES ({literal})".encode())
    described = DIALECT.describe(connection, "one")
    assert described is not None
    sql = f"SELECT {DIALECT.select_list(described)} FROM one"
    (batch,) = DIALECT.read(connection, sql, described, 0)
    return batch.column(0).to_pylist()[0]


@pytest.mark.parametrize(
    ("sql_type", "literal"),
    [
        ("date", "'infinity'"),
        ("timestamp", "'-infinity'"),
        ("timestamptz", "'infinity'"),
        ("numeric(10,2)", "'NaN'"),
        ("numeric", "'Infinity'"),
        ("numeric", "1e30"),
        ("numeric", "0.0000000000000000001"),
        ("integer[]", "'{{1,2},{3,4}}'"),
    ],
)
def test_what_arrow_cannot_hold_is_an_error_that_names_the_column(
    sql_type: str, literal: str, connection: Any
) -> None:
    with pytest.raises(ValueUnreadable, match="Cannot read column 'v'"):
        _read_one(connection, sql_type, literal)


@pytest.mark.parametrize(
    ("sql_type", "literal", "expected"),
    [
        ("interval", "'1 day 2 hours'", "1 day 02:00:00"),
        ("inet", "'10.0.0.1/8'", "10.0.0.1/8"),
        ("timetz", "'10:00:00+02'", "10:00:00+02"),
        (
            "numeric(50,2)",
            "123456789012345678901234567890123456789.25",
            "123456789012345678901234567890123456789.25",
        ),
        ("numeric(5,-2)", "12345", Decimal(12300)),
        ("char(4)", "'ab'", "ab  "),
        ("bit(3)", "'101'", "101"),
        ("oid", "4294967295", 4294967295),
        ("timestamp", "'0044-03-15 BC'::date + time '12:00'", None),
        ("money", "12.5", "$12.50"),
    ],
)
def test_types_without_a_place_in_arrow_are_read_as_text(
    sql_type: str, literal: str, expected: Any, connection: Any
) -> None:
    if expected is None:
        connection.execute(f"CREATE TABLE bc (v {sql_type})".encode())
        connection.execute(f"INSERT INTO bc VALUES ({literal})".encode())
        described = DIALECT.describe(connection, "bc")
        assert described is not None
        (batch,) = DIALECT.read(connection, "SELECT v FROM bc", described, 0)
        seen = batch.column(0).cast(pa.int64()).to_pylist()[0]
        epoch = connection.execute("SELECT extract(epoch FROM v) * 1000000 FROM bc").fetchone()[0]
        assert seen == epoch
        return
    assert _read_one(connection, sql_type, literal) == expected


def test_a_failing_read_leaves_a_message_and_no_open_connection(connection: Any) -> None:
    described = DIALECT.describe_query(connection, "SELECT 1 AS v", "q")
    with pytest.raises(psycopg.errors.DivisionByZero):
        list(
            DIALECT.read(
                connection, "SELECT 1 / (g - 3) FROM generate_series(1, 9) g", described, 0
            )
        )


def test_streams_of_one_server_are_written_to_another_as_they_are(connection: Any) -> None:
    long = "repeat('x', 3000000)"
    connection.execute("CREATE TABLE a (n integer, t text, b bytea)")
    connection.execute(
        "INSERT INTO a SELECT n, repeat('é', n % 700), decode(repeat('ff', n % 9), 'hex')"
        " FROM generate_series(1, 20000) n"
    )
    connection.execute(f"INSERT INTO a VALUES (0, {long}, NULL)")
    connection.execute("CREATE TABLE b (LIKE a)")
    for sql in ("SELECT * FROM a", "SELECT * FROM a WHERE false", "SELECT * FROM a WHERE n < 2"):
        connection.execute("TRUNCATE b")
        chunks = list(DIALECT.read_bytes(connection, sql))

        rows = DIALECT.append_bytes(connection, "b", ["n", "t", "b"], iter(chunks))

        expected = connection.execute(f"SELECT count(*) FROM ({sql}) s").fetchone()[0]
        assert rows == expected
        wrong = connection.execute(
            f"SELECT count(*) FROM ({sql} EXCEPT SELECT * FROM b) s"
        ).fetchone()[0]
        assert wrong == 0


def test_a_failing_write_leaves_the_servers_words(connection: Any) -> None:
    connection.execute("CREATE TABLE a (n integer)")
    connection.execute("CREATE TABLE b (n integer CHECK (n <> 77))")
    chunks = list(DIALECT.read_bytes(connection, "SELECT generate_series(1, 200000)"))

    with pytest.raises(psycopg.errors.CheckViolation, match="violates check constraint"):
        DIALECT.append_bytes(connection, "b", ["n"], iter(chunks))


def test_a_source_that_fails_midway_leaves_nothing_and_a_connection_that_works(
    connection: Any,
) -> None:
    connection.execute("CREATE TABLE a (n integer)")
    chunks = list(DIALECT.read_bytes(connection, "SELECT generate_series(1, 100000)"))

    def fail_midway() -> Iterator[Bytes]:
        yield chunks[0]
        raise Transient("Cannot read: the source is gone.")

    with pytest.raises(Transient, match="the source is gone"):
        DIALECT.append_bytes(connection, "a", ["n"], fail_midway())

    assert connection.execute("SELECT count(*) FROM a").fetchone() == (0,)


def test_a_connection_that_another_thread_closes_ends_a_read(connection: Any) -> None:
    reading = DIALECT.read_bytes(
        connection, "SELECT n, pg_sleep(n % 2) FROM generate_series(0, 99) n"
    )
    closer = threading.Timer(0.3, lambda: DIALECT.interrupt(connection))
    closer.start()

    with pytest.raises(psycopg.Error):
        list(reading)
    closer.join()


def test_batches_are_bounded_however_many_rows_there_are(connection: Any) -> None:
    described = DIALECT.describe_query(connection, "SELECT 1 AS v, 'x'::text AS w", "q")
    sql = "SELECT g, repeat('x', 1000) FROM generate_series(1, 20000) g"

    sizes = [batch.nbytes for batch in DIALECT.read(connection, sql, described, 0)]

    assert len(sizes) > 5
    assert max(sizes) < 4 << 20


def _messages(contents: list[bytes]) -> tuple[bytes, list[int]]:
    """Messages of a COPY, and where their contents begin."""
    starts, data = [], b""
    for content in contents:
        starts.append(len(data) + 5)
        data += b"d" + struct.pack(">I", len(content) + 4) + content
    return data, starts


@given(
    st.lists(
        st.lists(st.sampled_from([b"d", b"\0", b"\x02", b"\x07", b"x"]), max_size=30),
        min_size=1,
        max_size=20,
    ),
    st.integers(0, 40),
)
def test_messages_are_followed_whatever_their_rows_look_like(
    rows: list[list[bytes]], cut: int
) -> None:
    """Rows full of what looks like the head of a message; the last may not have come whole."""
    data, starts = _messages([b"\0\x02" + b"".join(row) for row in rows])
    size = max(len(data) - cut, 0)
    whole = [at for at, until in pairwise([*starts, len(data) + 5]) if until - 5 <= size]
    data = data[:size]

    found, following = copy_stream.follow_messages(data, 0)

    assert found.tolist() == whole
    assert following == (starts[len(whole)] - 5 if len(whole) < len(starts) else len(data))


def test_messages_of_other_kinds_end_what_is_followed() -> None:
    data, starts = _messages([b"\0\x02abc", b"\0\x02", b"\xff\xff"])

    found, following = copy_stream.follow_messages(data + b"c\0\0\0\4", 0)

    assert found.tolist() == starts[:2]
    assert following == starts[2] - 5


def test_a_server_that_says_little_by_little_is_read_to_the_end(connection: Any) -> None:
    """Less than is worth a look at a time, and a word behind the last one."""
    connection.execute("SET client_min_messages = debug5")

    sql = "SELECT n, pg_sleep(0.02) FROM generate_series(1, 10) n"
    chunks = list(DIALECT.read_bytes(connection, sql))

    connection.execute("CREATE TABLE a (n integer, nothing text)")
    assert DIALECT.append_bytes(connection, "a", ["n", "nothing"], iter(chunks)) == 10


def test_nulls_among_neighbours_of_fixed_width_are_nulls(connection: Any) -> None:
    columns = (
        "n::int AS a, CASE WHEN n % 3 > 0 THEN n END::bigint AS b, n::smallint AS c, n % 2 = 0 AS d"
    )
    for where in ("true", "n % 3 > 0", "n = 3"):
        sql = f"SELECT {columns} FROM generate_series(1, 20) n WHERE {where}"
        described = DIALECT.describe_query(connection, sql, "q")

        rows = [r for b in DIALECT.read(connection, sql, described, 0) for r in b.to_pylist()]

        assert [tuple(row.values()) for row in rows] == connection.execute(sql).fetchall()


def test_numerics_of_all_sizes_are_exact(connection: Any) -> None:
    """Those of few digits have a way of their own."""
    texts = ["0", "1", "-1", "9999999999999999", "0.0001", "-12345678.9012", "10000", "100000000"]
    for type_ in ("numeric(20,4)", "numeric(38,10)", "numeric(16,0)", "numeric(17,5)"):
        for some in (texts, [*texts, "123456789.12345"], ["0.1234", "12340000"], [texts[0]]):
            values = ", ".join(f"({text}::{type_})" for text in some if _fits(text, type_))
            sql = f"SELECT v FROM (VALUES {values}, (NULL)) t(v)"
            described = DIALECT.describe_query(connection, f"SELECT NULL::{type_} AS v", "q")

            (batch,) = DIALECT.read(connection, sql, described, 0)

            expected = [row[0] for row in connection.execute(sql).fetchall()]
            assert batch.column(0).to_pylist() == expected, (type_, some)


def _fits(text: str, type_: str) -> bool:
    precision, scale = (int(part) for part in type_[8:-1].split(","))
    return bool(abs(Decimal(text)) < 10 ** (precision - scale))
