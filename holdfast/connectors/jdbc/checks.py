"""What no single option of the Jdbc connectors shows to be wrong. Connects to nothing."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.connectors.jdbc.dialects.registry import is_native, native_kinds
from holdfast.connectors.jdbc.options import SinkOptions, SourceOptions, TableOptions
from holdfast.connectors.jdbc.through_spark.inserting import parse_insert
from holdfast.connectors.jdbc.url import NO_URL, parse_url, url_is_sound, url_kind
from holdfast.model.errors import ConfigError
from holdfast.model.jobs import JobMode


def check_source(options: SourceOptions, mode: JobMode) -> Sequence[str]:
    found = [*_url_problems(options.url, options.dialect), *_driver_problems(options)]
    if options.table_list:
        if options.table_path or options.query:
            found.append(
                "table_list excludes table_path and query beside it; put them into the list"
            )
        for table in options.table_list:
            found += _table_problems(table)
    elif not options.table_path and not options.query:
        found.append("one of table_path, query, table_list is required, and all are missing")
    if options.use_kerberos:
        found.append("use_kerberos is not supported; log in with user and password")
    return found


def _table_problems(table: TableOptions) -> list[str]:
    if table.table_path or table.query:
        return []
    return ["an entry of table_list has neither table_path nor query"]


def check_sink(options: SinkOptions, mode: JobMode) -> Sequence[str]:
    found = [*_url_problems(options.url, options.dialect), *_driver_problems(options)]
    if options.query is None and not options.generate_sink_sql:
        found.append("set query, or generate_sink_sql = true with database and table")
    if options.query is not None and options.generate_sink_sql:
        found.append("query and generate_sink_sql exclude each other; take out one")
    if options.query is not None and options.is_exactly_once:
        found.append(
            "is_exactly_once needs generate_sink_sql = true: a query of your own cannot be staged"
        )
    if options.data_save_mode == "CUSTOM_PROCESSING" and not options.custom_sql:
        found.append("data_save_mode = CUSTOM_PROCESSING needs custom_sql")
    found += _database_problems(options)
    if options.use_kerberos:
        found.append("use_kerberos is not supported; log in with user and password")
    return found


def _database_problems(options: SinkOptions) -> list[str]:
    """A connection to PostgreSQL reaches one database: `database` cannot lead to another."""
    named = options.database
    if not named or "${" in named or not options.generate_sink_sql:
        return []
    is_postgres = options.url.startswith("jdbc:postgresql")
    if not is_postgres or _url_problems(options.url, options.dialect):
        return []
    reached = parse_url(options.url).database
    if reached in ("", named):
        return []
    return [f"database is '{named}', and the url leads to '{reached}'; name the same in both"]


def _driver_problems(options: SourceOptions | SinkOptions) -> list[str]:
    """What is needed, and what cannot be done, where Spark and a JDBC driver stand between."""
    if not url_is_sound(options.url) or is_native(options.url, options.dialect):
        return []
    kind = options.dialect or url_kind(options.url)
    found = []
    if not options.driver:
        found.append(
            f"jdbc:{kind} is read and written by Spark with a JDBC driver: name its class in driver,"
            f" and its jar by jars in env (without one there are {', '.join(native_kinds())})"
        )
    query = options.query if isinstance(options, SinkOptions) else None
    if query is not None and parse_insert(query) is None:
        found.append(
            f"on jdbc:{kind} a query can only be INSERT INTO <table> (<columns>) VALUES (?, …);"
            " write so, or set generate_sink_sql = true with table"
        )
    return found


def _url_problems(url: str, dialect: str | None) -> list[str]:
    if not url_is_sound(url):
        return [f"url: {NO_URL}"]
    if url.startswith(("jdbc:postgresql", "jdbc:mysql", "jdbc:mariadb", "jdbc:sqlite")):
        try:
            parse_url(url)
        except ConfigError as wrong:
            return [str(wrong)]
    return []
