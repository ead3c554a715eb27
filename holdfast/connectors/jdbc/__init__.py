"""The declarations of the Jdbc source and sink."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.connectors.base import Connector, Context
from holdfast.connectors.jdbc.checks import check_sink, check_source
from holdfast.connectors.jdbc.dialects.registry import find_dialect, is_native
from holdfast.connectors.jdbc.options import SinkOptions, SourceOptions
from holdfast.connectors.jdbc.sink import JdbcSink, promise_of
from holdfast.connectors.jdbc.source import JdbcSource
from holdfast.connectors.jdbc.through_spark.sink import SparkJdbcSink
from holdfast.connectors.jdbc.through_spark.source import SparkJdbcSource
from holdfast.connectors.jdbc.url import parse_url, url_kind


def _parts(options: SourceOptions | SinkOptions) -> tuple[Any, Any]:
    dialect = find_dialect(options.dialect or url_kind(options.url))
    assert dialect is not None, "asked before"
    connect_ms = min(options.connection_check_timeout_sec * 1000, options.connect_timeout_ms)
    endpoint = parse_url(
        options.url,
        user=options.user,
        password=options.password,
        properties=options.properties,
        timeouts_ms=(connect_ms, options.socket_timeout_ms),
    )
    return dialect, endpoint


def _create_source(options: SourceOptions, context: Context) -> Any:
    if not is_native(options.url, options.dialect):
        return SparkJdbcSource(options, context)
    return JdbcSource(options, context, *_parts(options))


def _create_sink(options: SinkOptions, context: Context) -> Any:
    if not is_native(options.url, options.dialect):
        return SparkJdbcSink(options, context)
    return JdbcSink(options, context, *_parts(options))


SOURCE = Connector(
    name="Jdbc",
    role="source",
    options=SourceOptions,
    create=_create_source,
    check=check_source,
    doc=(
        "Reads tables and queries of PostgreSQL, MySQL, MariaDB and SQLite at native speed, and of any other"
        " database through Spark and a JDBC driver.\n\n"
        "Bounded: the last split ends at the largest key that is there when the table is begun. A restart goes on"
        " at the split after the last committed one. Rows are read once each as long as keys do not change while"
        " the job runs; each split is one consistent read, the whole is not. A table without key is cut by physical"
        " place (PostgreSQL), where rows that are updated meanwhile may move, or is read in one split.\n\n"
        "Through Spark (a url of any other kind: name its class in `driver`, its jar by `jars` in env) a table is cut"
        " into `partition_num` ranges of `partition_column`, or as many as `split.size` makes, by numbers, dates and"
        " timestamps; without such a column it is one split. It is counted once, when it is begun."
    ),
)
SINK = Connector(
    name="Jdbc",
    role="sink",
    options=SinkOptions,
    create=_create_sink,
    check=check_sink,
    guarantee=promise_of,
    doc=(
        "Writes to PostgreSQL, MySQL, MariaDB and SQLite by columns (COPY, LOAD DATA), or runs a statement of"
        " your own for each row; to any other database through Spark and a JDBC driver.\n\n"
        "With `is_exactly_once`, rows are staged in tables beside the target and published with the checkpoint:"
        " exactly once. Upserts by key without it are effectively once, and visible before their checkpoint."
        " Plain appends without it are at least once. What was published is not taken back when a job is"
        " restored from an older checkpoint.\n\n"
        "Through Spark (a url of any other kind: name its class in `driver`, its jar by `jars` in env) rows are always"
        " staged and published exactly once; of statements of your own, INSERT INTO t (a, b) VALUES (?, ?) can be"
        " taken. What is created there has the types of Spark's dialect for the url."
    ),
)
__all__: Sequence[str] = ("SINK", "SOURCE")
