"""SeaTunnel's SQL functions, family by family: what each returns, and of which type."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.transforms.applying import Given, run_one

pytestmark = pytest.mark.spark


def naive(*parts: int) -> dt.datetime:
    """A timestamp without zone."""
    year, month, day, *clock = parts
    hour, minute, second, micros = (*clock, 0, 0, 0, 0)[:4]
    return dt.datetime(year, month, day, hour, minute, second, micros, dt.UTC).replace(tzinfo=None)


COLUMNS = {
    "s": "string",
    "b": "bytes",
    "i": "int",
    "n": "int",
    "f": "double",
    "neg": "double",
    "dc": "decimal(10,4)",
    "ts": "timestamp",
    "ts2": "timestamp",
    "tz": "timestamp_tz",
    "d": "date",
    "t": "time",
    "nul": "string",
    "ok": "boolean",
    "arr": "array<int>",
    "v": "array<float>",
    "w": "array<float>",
    "js": "string",
    "rw": "row{x int, y row{z string}, m map<string,string>}",
}
ROW: dict[str, Any] = {
    "s": "Hello World",
    "b": b"\x1f\x00",
    "i": 7,
    "n": 2,
    "f": 1.57,
    "neg": -1.57,
    "dc": Decimal("12.3400"),
    "ts": naive(2020, 3, 31, 10, 11, 12, 345000),
    "ts2": naive(2020, 5, 1, 9, 0),
    "tz": dt.datetime(2020, 1, 1, tzinfo=dt.UTC),
    "d": dt.date(2020, 1, 31),
    "t": dt.time(10, 11, 12),
    "nul": None,
    "ok": True,
    "arr": [3, 1, 2],
    "v": [3.0, 4.0],
    "w": [4.0, 3.0],
    "js": '{"a":"hello","b":[10,20]}',
    "rw": {"x": 1, "y": {"z": "deep"}, "m": [("k", "v")]},
}

STRINGS: dict[str, Any] = {
    "ASCII(s)": 72,
    "BIT_LENGTH(b)": 16,
    "CHAR_LENGTH(s)": 11,
    "LENGTH(s)": 11,
    "OCTET_LENGTH(b)": 2,
    "CHAR(65)": "A",
    "CHR(66)": "B",
    "CONCAT(s, '_')": "Hello World_",
    "CONCAT(s, nul)": None,
    "CONCAT_WS(',', s, nul, 'x')": "Hello World,x",
    "HEXTORAW('00480069')": "Hi",
    "RAWTOHEX('Hi')": "00480069",
    "RAWTOHEX(b)": "1f00",
    "TO_BASE64('Hi')": "SGk=",
    "TO_BASE64(b)": "HwA=",
    "TO_BASE64('Hi', 'UTF-16BE')": "AEgAaQ==",
    "FROM_BASE64('SGk=')": "Hi",
    "FROM_BASE64(TO_BASE64(s, 'UTF-16BE'), 'UTF-16BE')": "Hello World",
    "INSERT(s, 1, 5, 'Bye')": "Bye World",
    "LCASE(s)": "hello world",
    "UPPER(s)": "HELLO WORLD",
    "LEFT(s, 3)": "Hel",
    "RIGHT(s, 3)": "rld",
    "LOCATE('o', s)": 5,
    "LOCATE('o', s, 6)": 8,
    "INSTR(s, 'o')": 5,
    "INSTR(s, 'o', 6)": 8,
    "POSITION('W', s)": 7,
    "LPAD('7', 3, '*')": "**7",
    "RPAD('7', 3)": "7  ",
    "LTRIM('xxa', 'x')": "a",
    "RTRIM('axx', 'x')": "a",
    "TRIM('xaxx', 'x')": "a",
    "TRIM('  a ')": "a",
    "REGEXP_REPLACE('Hello    World', ' +', ' ')": "Hello World",
    "REGEXP_REPLACE('Hello WWWWorld', 'w+', 'W', 'i')": "Hello World",
    "REGEXP_REPLACE('Hello WWWWorld', 'w+', 'W', 'ic')": "Hello WWWWorld",
    "REGEXP_LIKE('Hello    World', '[A-Z ]*', 'i')": True,
    "REGEXP_LIKE(s, 'WORLD$')": False,
    "REGEXP_SUBSTR('2020-10-01', '\\d{4}')": "2020",
    "REGEXP_SUBSTR('2020-10-01', '\\\\d{4}')": "2020",
    "REGEXP_SUBSTR('2020-10-01', '(\\d{4})-(\\d{2})-(\\d{2})', 1, 1, NULL, 2)": "10",
    "REGEXP_SUBSTR('a1B2b3', 'B\\d', 1, 2, 'i')": "b3",
    "REGEXP_SUBSTR('a1', 'x', 1)": None,
    "REPEAT('ab ', 2)": "ab ab ",
    "REPLACE(s, 'l')": "Heo Word",
    "REPLACE(s, 'World', 'it''s')": "Hello it's",
    "SPLIT('a;b', ';')": ["a", "b"],
    "MD5('hello world')": "5eb63bbbe01eeed093cb22bb8f5acdc3",
    "SOUNDEX('Robert')": "R163",
    "SPACE(3)": "   ",
    "SUBSTRING('[Hello]', 2)": "Hello]",
    "SUBSTR('hour', 3, 2)": "ur",
    "SUBSTRING('hour', -2)": "ur",
    "TO_CHAR(ts, 'yyyy-MM-dd HH:mm:ss')": "2020-03-31 10:11:12",
    "TO_CHAR(ok)": "true",
    "TO_CHAR(i)": "7",
    "TRANSLATE('Hello world', 'eo', 'EO')": "HEllO wOrld",
    "'a' || 'b'": "ab",
    "'\\u0041\\101\\n\\.'": "AA\n\\.",
}
NUMBERS: dict[str, Any] = {
    "ABS(-i)": 7,
    "ACOS(1)": 0.0,
    "ARRAY_MAX(arr)": 3,
    "ARRAY_MIN(arr)": 1,
    "ATAN2(0, 1)": 0.0,
    "COSH(0)": 1.0,
    "COT(1)": pytest.approx(0.6420926),
    "MOD(i, 4)": 3,
    "CEIL(f)": 2,
    "CEILING(neg)": -1,
    "FLOOR(neg)": -2,
    "EXP(0)": 1.0,
    "LN(1)": 0.0,
    "LOG(2, 8)": 3.0,
    "LOG10(100)": 2.0,
    "RADIANS(180)": pytest.approx(3.14159265),
    "SQRT(9)": 3.0,
    "ROUND(PI(), 2)": 3.14,
    "POWER(2, 3)": 8.0,
    "RAND(1) < 1 AND RANDOM() < 1": True,
    "ROUND(dc, 1)": Decimal("12.3"),
    "SIGN(neg)": -1.0,
    "TRUNC(f)": 1,
    "TRUNC(neg)": -1,
    "TRUNCATE(neg, 1)": Decimal("-1.5"),
    "TRUNC(dc, 1)": Decimal("12.3"),
    "TRUNC(d, 'MM')": dt.date(2020, 1, 1),
    "TRIM_SCALE(dc)": Decimal("12.3400"),
}
TIMES: dict[str, Any] = {
    "CURRENT_DATE = CURRENT_DATE()": True,
    "TYPEOF(CURRENT_TIME)": "time(6)",
    "TYPEOF(CURRENT_TIMESTAMP)": "timestamp_ntz",
    "TYPEOF(CURRENT_TIMESTAMP())": "timestamp_ntz",
    "TYPEOF(NOW())": "timestamp_ntz",
    "DATEADD(d, 1, 'MONTH')": dt.date(2020, 2, 29),
    "DATEADD(d, -1, 'WEEK')": dt.date(2020, 1, 24),
    "DATEADD(ts, n, 'DAY')": naive(2020, 4, 2, 10, 11, 12, 345000),
    "DATEADD(ts, n, 'YEAR')": naive(2022, 3, 31, 10, 11, 12, 345000),
    "TIMESTAMPADD(ts, 5, 'MILLISECOND')": naive(2020, 3, 31, 10, 11, 12, 350000),
    "DATEADD(t, 2, 'HOUR')": dt.time(12, 11, 12),
    "DATEADD(DAY, 1, d)": dt.datetime(2020, 2, 1, tzinfo=dt.UTC),
    "DATE_ADD(d, 1)": dt.date(2020, 2, 1),
    "DATEDIFF(ts, ts2, 'MONTH')": 2,
    "DATEDIFF(ts, ts2, 'DAY')": 31,
    "DATEDIFF(d, ts, 'YEAR')": 0,
    "DATEDIFF(ts2, ts2 + INTERVAL '90' MINUTE, 'HOUR')": 1,
    "DATEDIFF(d, DATE '2020-01-01')": 30,
    "DATE_TRUNC(ts, 'MONTH')": naive(2020, 3, 1),
    "DATE_TRUNC(ts)": naive(2020, 3, 31),
    "DATE_TRUNC('HOUR', tz)": dt.datetime(2020, 1, 1, tzinfo=dt.UTC),
    "DAYNAME(d)": "Fri",
    "MONTHNAME(d)": "Jan",
    "DAY_OF_MONTH(d)": 31,
    "DAY_OF_WEEK(d)": 5,
    "DAY_OF_YEAR(ts)": 91,
    "EXTRACT(YEAR FROM ts)": 2020,
    "EXTRACT(CENTURY FROM d)": 21,
    "EXTRACT(DECADE FROM d)": 202,
    "EXTRACT(MILLENNIUM FROM d)": 3,
    "EXTRACT(ISODOW FROM d)": 5,
    "EXTRACT(ISOYEAR FROM DATE '2021-01-01')": 2020,
    "EXTRACT(EPOCH FROM ts)": 1585649472.345,
    "EXTRACT(MICROSECONDS FROM ts)": 12345000,
    "EXTRACT(MILLISECONDS FROM ts)": 12345,
    "EXTRACT(HOUR FROM TIME '17:57:40')": 17,
    "FORMATDATETIME(ts, 'yyyy-MM-dd HH:mm:ss')": "2020-03-31 10:11:12",
    "HOUR(t) * 100 + MINUTE(ts)": 1011,
    "QUARTER(ts) * 100 + SECOND(ts)": 112,
    "WEEK(ts)": 14,
    "IS_DATE('2021-04-08 13:34:45', 'yyyy-MM-dd HH:mm:ss')": True,
    "IS_DATE('2021-13-08', 'yyyy-MM-dd')": False,
    "IS_DATE('134500', 'HHmmss')": True,
    "PARSEDATETIME('2021-04-08T13:34:45', 'yyyy-MM-dd''T''HH:mm:ss')": naive(
        2021, 4, 8, 13, 34, 45
    ),
    "PARSEDATETIME('20210408', 'yyyyMMdd')": dt.date(2021, 4, 8),
    "PARSEDATETIME('14:30:45.123', 'HH:mm:ss.SSS')": dt.time(14, 30, 45, 123000),
    "TO_DATE('2021/04/08', 'yyyy/MM/dd')": dt.date(2021, 4, 8),
    "FROM_UNIXTIME(1672502400, 'yyyy-MM-dd HH:mm:ss')": "2022-12-31 16:00:00",
    "FROM_UNIXTIME(1672502400, 'yyyy-MM-dd HH:mm:ss', 'UTC+6')": "2022-12-31 22:00:00",
    "FROM_UNIXTIME(1672502400123/1000, 'yyyy', 'Asia/Shanghai')": "2023",
    "ts2 AT TIME ZONE '+09:00'": dt.datetime(2020, 5, 1, tzinfo=dt.UTC),
    "tz AT TIME ZONE 'Pacific/Honolulu'": dt.datetime(2020, 1, 1, tzinfo=dt.UTC),
}
SYSTEM: dict[str, Any] = {
    "CAST(i AS STRING)": "7",
    "CAST(i AS VARCHAR)": "7",
    "CAST('5' AS LONG)": 5,
    "CAST(i AS BYTE)": 7,
    "CAST('Hi' AS BYTES)": b"Hi",
    "CAST('1.25' AS DECIMAL(5,2))": Decimal("1.25"),
    "CAST('2020-01-02 03:04:05' AS TIMESTAMP)": naive(2020, 1, 2, 3, 4, 5),
    "CAST('2020-01-02 03:04:05' AS DATETIME)": naive(2020, 1, 2, 3, 4, 5),
    "CAST('2020-01-02T03:04:05+01:00' AS TIMESTAMP_TZ)": dt.datetime(
        2020, 1, 2, 2, 4, 5, tzinfo=dt.UTC
    ),
    "CAST('03:04:05' AS TIME)": dt.time(3, 4, 5),
    "CAST('true' AS BOOLEAN)": True,
    "CAST(1 AS BOOLEAN)": True,
    "TRY_CAST('x' AS INT)": None,
    "COALESCE(nul, s)": "Hello World",
    "IFNULL(nul, 'z')": "z",
    "NULLIF(i, 7)": None,
    "MULTI_IF(i > 10, 'A', i > 5, 'B', 'C')": "B",
    "CASE WHEN s IN ('x') THEN 1 ELSE 0 END": 0,
    "CASE i WHEN 7 THEN 'seven' END": "seven",
    "LENGTH(UUID())": 36,
    "ARRAY(1, 2, i)": [1, 2, 7],
    "MAP('a', 1, 'b', i)": [("a", 1), ("b", 7)],
    "GET_JSON_OBJECT(js, '$.b[1]')": "20",
    "rw.y.z": "deep",
    "rw.m.k": "v",
    "rw.m['k']": "v",
    "VECTOR_DIMS(v)": 2,
    "VECTOR_NORM(v)": 5.0,
    "INNER_PRODUCT(v, w)": 24.0,
    "COSINE_DISTANCE(v, w)": pytest.approx(0.04),
    "L1_DISTANCE(v, w)": 2.0,
    "L2_DISTANCE(v, w)": pytest.approx(2**0.5),
    "VECTOR_NORMALIZE(v)": [pytest.approx(0.6), pytest.approx(0.8)],
    "VECTOR_REDUCE(v, 1, 'TRUNCATE')": [3.0],
    "TRANSFORM(arr, x -> x + 1)": [4, 2, 3],
}
ZETA: dict[str, Any] = {
    "CONCAT(s, nul)": "Hello World",
    "CONCAT(nul, nul)": "",
    "CONCAT_WS(nul, 'a', 'b')": "ab",
    "DAYNAME(d)": "Friday",
    "MONTHNAME(d)": "January",
    "TO_DATE('2021-04-08 13:34:45', 'yyyy-MM-dd HH:mm:ss')": naive(2021, 4, 8, 13, 34, 45),
    "AES_ENCRYPT('hello', 'mySecretPass', '1234567890123456')": "o7ubim+VzGv/JlOrPBoH3A==",
    "AES_DECRYPT(AES_ENCRYPT(s, 'mySecretPass'), 'mySecretPass')": "Hello World",
    "AES_DECRYPT(AES_ENCRYPT(s, 'k', '1234567890123456'), 'k', '1234567890123456')": "Hello World",
    "AES_DECRYPT(AES_ENCRYPT(s, 'base64:MTIzNDU2Nzg5MDEyMzQ1Ng=='),"
    " 'base64:MTIzNDU2Nzg5MDEyMzQ1Ng==')": "Hello World",
    "WEEK(ts)": 14,
}


def values_of(spark: SparkSession, calls: list[str], **options: Any) -> dict[str, Any]:
    """All calls in one query, by their text."""
    given = Given("t", COLUMNS, [ROW])
    parts = ", ".join(f"{call} as c{number}" for number, call in enumerate(calls))

    made = run_one(spark, "Sql", {"query": f"select {parts} from fake", **options}, given)

    return {call: made.rows[0][f"c{number}"] for number, call in enumerate(calls)}


@pytest.mark.parametrize(
    "family", [STRINGS, NUMBERS, TIMES, SYSTEM], ids=["strings", "numbers", "times", "system"]
)
def test_functions_return_what_seatunnel_says(spark: SparkSession, family: dict[str, Any]) -> None:
    assert values_of(spark, list(family)) == family


def test_with_engine_zeta_the_functions_of_both_are_seatunnels(spark: SparkSession) -> None:
    found = values_of(spark, list(ZETA), engine="ZETA")

    assert found == ZETA


def test_a_call_without_name_is_named_as_it_was_written(spark: SparkSession) -> None:
    query = "select WEEK(ts), upper(s), EXTRACT(ISODOW FROM d), i, CURRENT_TIMESTAMP from fake"

    made = run_one(spark, "Sql", {"query": query}, Given("t", COLUMNS, [ROW]))

    assert made.table.column_names == [
        *("WEEK(ts)", "upper(s)", "EXTRACT(ISODOW FROM d)", "i", "CURRENT_TIMESTAMP")
    ]


def test_the_example_with_lateral_views_works(spark: SparkSession) -> None:
    query = (
        "SELECT i, word, a, n2 FROM dual"
        " LATERAL VIEW EXPLODE ( SPLIT ( s, ' ' ) ) AS word"
        " LATERAL VIEW OUTER EXPLODE ( arr ) t2 AS a"
        " LATERAL VIEW OUTER EXPLODE ( ARRAY(1,1) ) t3 AS n2"
    )

    made = run_one(spark, "Sql", {"query": query}, Given("t", COLUMNS, [ROW]))

    assert len(made.rows) == 12
    assert made.rows[0] == {"i": 7, "word": "Hello", "a": 3, "n2": 1}
