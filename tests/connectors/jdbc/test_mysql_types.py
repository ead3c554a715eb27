"""Values go to MariaDB and come back unchanged; an independent reading sees the same values in between."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pymysql
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.connectors.jdbc.dialects.base import Endpoint
from holdfast.connectors.jdbc.dialects.mysql import DIALECT
from holdfast.connectors.jdbc.dialects.mysql_wire import _walk
from holdfast.connectors.jdbc.dialects.values import ValueUnreadable
from holdfast.testing.servers import Database

pytestmark = pytest.mark.servers
SOME = settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.sampled_from(
    ["NULL", "\\N", '"', '""', '","', "a\nb\r\n", "'", "\\", "\0", "%s?", " x "]
)
MOMENTS = st.datetimes(datetime(1000, 1, 1))  # noqa: DTZ001 - as the database has it
FLOATS = st.floats(allow_nan=False, allow_infinity=False)


def _decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**precision - 1
    return st.integers(-most, most).map(lambda n: Decimal(n).scaleb(-scale, Context(prec=60)))


def _moments(digits: int) -> st.SearchStrategy[datetime]:
    step = 10 ** (6 - digits)
    return MOMENTS.map(lambda t: t.replace(microsecond=t.microsecond // step * step))


TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "tinyint(1)": (pa.bool_(), st.booleans()),
    "tinyint(4)": (pa.int8(), st.integers(-128, 127)),
    "tinyint unsigned": (pa.int16(), st.integers(0, 255)),
    "smallint": (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    "smallint unsigned": (pa.int32(), st.integers(0, 2**16 - 1)),
    "mediumint": (pa.int32(), st.integers(-(2**23), 2**23 - 1)),
    "mediumint unsigned": (pa.int32(), st.integers(0, 2**24 - 1)),
    "int": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "int unsigned zerofill": (pa.int64(), st.integers(0, 2**32 - 1)),
    "bigint": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "bigint unsigned": (pa.decimal128(20, 0), st.integers(0, 2**64 - 1).map(Decimal)),
    "float": (
        pa.float32(),
        st.floats(width=32, allow_nan=False, allow_infinity=False, allow_subnormal=False),
    ),
    "double": (pa.float64(), FLOATS),
    **{
        f"decimal({p},{s})": (pa.decimal128(p, s), _decimals(p, s))
        for p, s in ((1, 0), (9, 2), (18, 4), (18, 18), (19, 3), (38, 0), (38, 10), (38, 38))
    },
    "year": (pa.int32(), st.integers(1901, 2155)),
    "date": (pa.date32(), st.dates(date(1000, 1, 1))),
    "time(6)": (pa.time64("us"), st.times()),
    "datetime(6)": (pa.timestamp("us"), _moments(6)),
    "datetime(3)": (pa.timestamp("us"), _moments(3)),
    "datetime": (pa.timestamp("us"), _moments(0)),
    "timestamp(6)": (
        pa.timestamp("us", "UTC"),
        st.integers(1, 2**31 * 10**6 - 1).map(
            lambda us: datetime.fromtimestamp(0, UTC) + timedelta(microseconds=us)
        ),
    ),
    "char(40)": (pa.string(), TEXT.map(lambda text: text.rstrip(" "))),
    "varchar(60)": (pa.string(), TEXT),
    "longtext": (pa.string(), TEXT),
    "json": (pa.string(), st.dictionaries(st.sampled_from("abc"), TEXT).map(json.dumps)),
    "enum('a','b,c','ä')": (pa.string(), st.sampled_from(["a", "b,c", "ä"])),
    "set('x','y')": (pa.string(), st.sampled_from(["", "x", "y", "x,y"])),
    "varbinary(60)": (pa.binary(), st.binary(max_size=60)),
    "longblob": (pa.binary(), st.binary(max_size=400)),
    "bit(1)": (pa.bool_(), st.booleans()),
    "bit(20)": (pa.binary(), st.integers(0, 2**20 - 1).map(lambda n: n.to_bytes(3, "big"))),
}


@pytest.fixture
def session(mariadb_database: Database) -> Iterator[Any]:
    mariadb_database.execute(
        f"ALTER DATABASE {mariadb_database.database} CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin"
    )
    session = DIALECT.connect(_endpoint(mariadb_database))
    yield session
    session.close()


def _endpoint(database: Database, **properties: str) -> Endpoint:
    return Endpoint(
        "mysql",
        database.host,
        database.port,
        database.database,
        database.user,
        database.password,
        properties,
    )


def _seen_by_server(value: Any, type_: pa.DataType) -> Any:
    """What a text query answers for it."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    if pa.types.is_time(type_) and value is not None:
        return timedelta(
            hours=value.hour,
            minutes=value.minute,
            seconds=value.second,
            microseconds=value.microsecond,
        )
    return value


def _read(session: Any, name: str) -> pa.Table:
    described = DIALECT.describe(session, name)
    assert described is not None
    sql = f"SELECT {DIALECT.select_list(described)} FROM `{name}` ORDER BY 1"
    return pa.Table.from_batches(
        list(DIALECT.read(session, sql, described, 7)), described.table.arrow_schema
    )


@pytest.mark.parametrize("loads", [True, False], ids=["load", "insert"])
@pytest.mark.parametrize("sql_type", TYPES)
def test_values_of_every_type_are_written_and_read_exactly(
    sql_type: str, loads: bool, session: Any
) -> None:
    type_, values = TYPES[sql_type]
    session.can_load = loads
    session.query(f"CREATE TABLE t (at int, v {sql_type} NULL, last text)")

    @settings(SOME, max_examples=20 if loads else 6)
    @given(st.lists(st.none() | values, min_size=1, max_size=30), st.integers(0, 3))
    def check(rows: list[Any], sliced: int) -> None:
        session.query("DELETE FROM t")
        whole = pa.record_batch(
            [
                pa.array(range(len(rows)), pa.int32()),
                pa.array(rows, type_),
                pa.array(["z"] * len(rows)),
            ],
            ["at", "v", "last"],
        )
        batch = whole.slice(min(sliced, len(rows) - 1))
        columns = [("at", "int"), ("v", sql_type), ("last", "text")]

        DIALECT.append(session, "t", columns, iter([batch]))

        expected = batch.column("v").to_pylist()
        read = _read(session, "t")
        assert read.schema.field("v").type == type_
        assert read["v"].to_pylist() == expected
        assert set(read["last"].to_pylist()) == {"z"}
        if sql_type not in ("float", "bit(1)", "tinyint(1)"):
            seen = session.query("SELECT v FROM t ORDER BY at")[1]
            assert seen == [(_seen_by_server(value, type_),) for value in expected]

    check()


def _read_one(session: Any, sql_type: str, literal: str) -> Any:
    session.query("SET sql_mode = ''")
    session.query(f"CREATE TABLE one (v {sql_type})")
    session.query(f"INSERT INTO one VALUES ({literal})")
    return _read(session, "one").column(0).to_pylist()[0]


@pytest.mark.parametrize(
    ("sql_type", "literal"),
    [
        ("time", "'25:00:00'"),
        ("time", "'-00:00:01'"),
        ("date", "'0000-00-00'"),
        ("date", "'2024-00-10'"),
        ("datetime", "'0000-00-00 00:00:00'"),
        ("tinyint(1)", "2"),
    ],
)
def test_what_arrow_cannot_hold_is_an_error_that_names_the_column(
    sql_type: str, literal: str, session: Any
) -> None:
    with pytest.raises(ValueUnreadable, match="Cannot read column 'v'"):
        _read_one(session, sql_type, literal)


@pytest.mark.parametrize(
    ("sql_type", "literal", "expected"),
    [
        ("decimal(50,2)", "123456789012345678901234567890123456789.25", None),
        ("uuid", "'123e4567-e89b-12d3-a456-426614174000'", None),
        ("inet6", "'::1'", None),
        ("year", "0", 0),
        ("timestamp NULL", "'2024-06-01 12:00:00'", datetime(2024, 6, 1, 12, tzinfo=UTC)),
        ("binary(4)", "'ab'", b"ab\0\0"),
        ("bit(64)", "b'101'", b"\0\0\0\0\0\0\0\5"),
        ("varchar(9) CHARACTER SET latin1", "'äö'", "äö"),
    ],
)
def test_other_types_are_read_as_what_comes_closest(
    sql_type: str, literal: str, expected: Any, session: Any
) -> None:
    shown = literal.strip("'") if expected is None else expected
    assert _read_one(session, sql_type, literal) == shown


def test_settings_of_the_url_turn_zeros_to_nulls_and_bools_to_numbers(
    mariadb_database: Database,
) -> None:
    endpoint = _endpoint(
        mariadb_database, zeroDateTimeBehavior="convertToNull", tinyInt1isBit="false"
    )
    session = DIALECT.connect(endpoint)
    session.query("SET sql_mode = ''")
    session.query("CREATE TABLE t (v date, b tinyint(1))")
    session.query("INSERT INTO t VALUES ('0000-00-00', 7), ('2024-01-02', 1)")

    read = _read(session, "t")

    assert read.to_pylist() == [{"v": None, "b": 7}, {"v": date(2024, 1, 2), "b": 1}]
    session.close()


@pytest.mark.parametrize("bytes_", [250, 251, 70_000, 17 << 20])
def test_values_of_any_size_come_whole_with_their_neighbours(bytes_: int, session: Any) -> None:
    session.query("SET GLOBAL max_allowed_packet = 67108864")
    big = DIALECT.connect(_endpoint_of(session))
    big.query("CREATE TABLE t (at int, v longblob, w int)")
    big.query(
        f"INSERT INTO t VALUES (1, 'a', 1), (2, REPEAT('xy', {bytes_ // 2}), 2), (3, NULL, 3)"
    )

    read = _read(big, "t")

    assert read["w"].to_pylist() == [1, 2, 3]
    assert [value and len(value) for value in read["v"].to_pylist()] == [1, bytes_ // 2 * 2, None]
    assert read["v"][1].as_py()[-3:] == b"yxy"
    big.close()


def _endpoint_of(session: Any) -> Endpoint:
    raw = session.raw
    return Endpoint(
        "mysql", raw.host, raw.port, raw.db.decode(), raw.user.decode(), raw.password.decode()
    )


def test_queries_are_described_without_being_run(session: Any) -> None:
    session.query(
        "CREATE TABLE t (a bigint unsigned, d decimal(12,3), s varchar(9), f bit(3), p point)"
    )
    described = DIALECT.describe_query(
        session, "SELECT a, d * 2 AS d2, s, f, now(6) AS at, 1 = 1 AS yes, NULL AS n FROM t", "q"
    )

    assert described.sql_types[0] == "bigint unsigned"
    assert [column.name for column in described.table.columns] == [
        *("a", "d2", "s", "f", "at", "yes", "n")
    ]
    assert described.table.columns[4].type == pa.timestamp("us")
    assert described.unreadable == ""
    shapes = DIALECT.describe_query(session, "SELECT p FROM t", "q")
    assert shapes.unreadable == "'p' (geometry)"


@pytest.mark.parametrize(
    ("sql_type", "value"),
    [
        ("tinyint", 300),
        ("int unsigned", -1),
        ("varchar(3)", "four"),
        ("date", "2024-02-30"),
        ("decimal(4,2)", "100.00"),
        ("enum('a')", "b"),
        ("int NOT NULL", None),
        ("double", float("nan")),
    ],
)
@pytest.mark.parametrize("loads", [True, False], ids=["load", "insert"])
def test_values_that_do_not_fit_are_refused_and_never_changed(
    sql_type: str, value: Any, loads: bool, session: Any
) -> None:
    session.query(f"CREATE TABLE t (v {sql_type})")
    session.can_load = loads

    with pytest.raises(pymysql.err.Error) as told:
        DIALECT.append(session, "t", [("v", sql_type)], iter([pa.record_batch({"v": [value]})]))

    explained = DIALECT.explain(told.value)
    assert explained is not None
    assert explained[0].__name__ == "SinkRejected"


def test_a_failing_read_leaves_a_message(session: Any) -> None:
    described = DIALECT.describe_query(session, "SELECT 1 AS v", "q")
    sql = "SELECT (SELECT 1 UNION SELECT 2 FROM seq_1_to_3 WHERE seq > s.seq) FROM seq_1_to_5 s"
    with pytest.raises(pymysql.err.Error, match="Subquery returns more than 1 row"):
        list(DIALECT.read(session, sql, described, 0))


def test_batches_are_bounded_however_many_rows_there_are(session: Any) -> None:
    sql = "SELECT seq, REPEAT('x', 1000) AS w FROM seq_1_to_20000"
    described = DIALECT.describe_query(session, sql, "q")

    sizes = [batch.nbytes for batch in DIALECT.read(session, sql, described, 0)]

    assert len(sizes) > 5
    assert max(sizes) < 4 << 20


@given(st.lists(st.integers(0, 40), max_size=12), st.integers(1, 25))
def test_rows_are_found_wherever_the_network_cuts(sizes: list[int], cut: int) -> None:
    whole = b"".join(size.to_bytes(3, "little") + b"\1" + bytes(size) for size in sizes)
    incoming, at = bytearray(), 0
    starts: list[int] = []

    for low in range(0, len(whole), cut):
        incoming += whole[low : low + cut]
        at = _walk(incoming, at, starts)

    places = np.cumsum([0, *[size + 4 for size in sizes]])
    assert starts == [int(place) + 4 for place in places[:-1]]
    assert at == len(whole)
