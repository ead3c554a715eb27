"""The options of the Jdbc source and sink, by SeaTunnel's names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from holdfast.model.json import Json
from holdfast.spec.options import option

TIMEOUT_MS = 86_400_000


def _where(value: Json) -> str | None:
    if value is None:
        return None
    text = str(value).strip().rstrip(";")
    if not text[:6].lower().startswith("where") or not text[5:6].isspace():
        raise ValueError(f"expected a condition that begins with 'where', found {text!r}")
    return text[5:].strip()


@dataclass(frozen=True)
class TableOptions:
    """One table of `table_list`."""

    table_path: str | None = option(
        "The table, as `database.schema.table` or less of it.", default=None
    )
    query: str | None = option("A query to read instead of a whole table.", default=None)
    use_regex: bool = option("Whether `table_path` is a pattern over full paths.", default=False)
    where_condition: str | None = option(
        "A condition for these rows, beginning with `where`.",
        default=None,
        parse=_where,
        type_name="string",
    )
    partition_column: str | None = option("The column by which splits are cut.", default=None)
    partition_lower_bound: str | None = option("Rows below are not read.", default=None)
    partition_upper_bound: str | None = option("Rows above are not read.", default=None)
    partition_num: int | None = option("How many splits to aim at.", default=None, minimum=1)


@dataclass(frozen=True)
class SourceOptions:
    """What a Jdbc source can be told."""

    url: str = option("The JDBC url: `jdbc:postgresql://host:5432/database`.")
    driver: str | None = option(
        "The JDBC driver class. Needed where Spark reads; PostgreSQL, MySQL, MariaDB and SQLite need none.",
        default=None,
    )
    user: str | None = option("The user.", default=None, aliases=("username",))
    password: str | None = option("The password.", default=None, secret=True)
    query: str | None = option("The query to read.", default=None, identity=True)
    table_path: str | None = option(
        "The table to read, as `database.schema.table`.", default=None, identity=True
    )
    table_list: list[TableOptions] = option("Several tables.", default=[], identity=True)
    use_regex: bool = option("Whether `table_path` is a pattern over full paths.", default=False)
    where_condition: str | None = option(
        "A condition for the rows of every table, beginning with `where`.",
        default=None,
        identity=True,
        parse=_where,
        type_name="string",
    )
    partition_column: str | None = option(
        "The column by which splits are cut; by default the first of the primary key.",
        default=None,
        identity=True,
    )
    partition_lower_bound: str | None = option("Rows below are not read.", default=None)
    partition_upper_bound: str | None = option("Rows above are not read.", default=None)
    partition_num: int | None = option(
        "How many splits to aim at, where `split.size` is not what decides.",
        default=None,
        minimum=1,
    )
    split_size: int = option(
        "Rows of the smallest split. Neighbouring splits are read as one while an epoch has room.",
        default=8096,
        name="split.size",
        minimum=1,
    )
    even_factor_lower: float = option(
        "Accepted: splits are found on the key's index, evenly spread or not.",
        default=0.05,
        name="split.even-distribution.factor.lower-bound",
    )
    even_factor_upper: float = option(
        "Accepted: splits are found on the key's index, evenly spread or not.",
        default=100.0,
        name="split.even-distribution.factor.upper-bound",
    )
    sample_threshold: int = option(
        "Accepted: nothing is sampled.", default=1000, name="split.sample-sharding.threshold"
    )
    inverse_sampling_rate: int = option(
        "Accepted: nothing is sampled.", default=1000, name="split.inverse-sampling.rate"
    )
    allow_sampling: bool = option(
        "Accepted: nothing is sampled.", default=True, name="split.allow-sampling"
    )
    fetch_size: int = option("Rows of one batch; 0: chosen by size.", default=0, minimum=0)
    properties: dict[str, str] = option(
        "Properties for the driver, beside those in the url.", default={}
    )
    compatible_mode: str | None = option(
        "A database's compatibility mode, as `mysql`.", default=None
    )
    dialect: str | None = option("The dialect to speak, where the url does not tell.", default=None)
    connection_check_timeout_sec: int = option(
        "How long to wait for a connection.", default=30, minimum=1
    )
    connect_timeout_ms: int = option(
        "How long to wait for a connection.", default=TIMEOUT_MS, minimum=1
    )
    socket_timeout_ms: int = option(
        "How long one statement may take.", default=TIMEOUT_MS, minimum=1
    )
    decimal_type_narrowing: bool = option(
        "Read decimals without fraction as integers where the database has no others (Oracle).",
        default=True,
    )
    int_type_narrowing: bool = option("Read `tinyint(1)` as boolean (MySQL).", default=True)
    handle_blob_as_string: bool = option("Read BLOB columns as text (Oracle).", default=False)
    use_select_count: bool = option("Count rows instead of asking the statistics.", default=False)
    skip_analyze: bool = option("Accepted: tables are never analyzed.", default=False)
    use_kerberos: bool = option("Log in by Kerberos.", default=False)
    kerberos_principal: str | None = option("The Kerberos principal.", default=None)
    kerberos_keytab_path: str | None = option("The Kerberos keytab.", default=None)
    krb5_path: str = option("The Kerberos configuration.", default="/etc/krb5.conf")


@dataclass(frozen=True)
class KeyPatterns:
    """`multi_table_config.primary_keys`: key columns by table pattern."""

    regex: list[dict[str, Json]] = option(
        "Objects with `table` (or `pattern`) and `primary_keys` (or `columns`); the first match wins.",
        default=[],
    )


@dataclass(frozen=True)
class MultiTable:
    """Settings by table."""

    primary_keys: KeyPatterns | None = option("Keys by table pattern.", default=None)


SchemaSaveMode = Literal[
    "RECREATE_SCHEMA", "CREATE_SCHEMA_WHEN_NOT_EXIST", "ERROR_WHEN_SCHEMA_NOT_EXIST", "IGNORE"
]
DataSaveMode = Literal["DROP_DATA", "APPEND_DATA", "CUSTOM_PROCESSING", "ERROR_WHEN_DATA_EXISTS"]


@dataclass(frozen=True)
class SinkOptions:
    """What a Jdbc sink can be told."""

    url: str = option("The JDBC url: `jdbc:postgresql://host:5432/database`.")
    driver: str | None = option(
        "The JDBC driver class. Needed where Spark writes; PostgreSQL, MySQL, MariaDB and SQLite need none.",
        default=None,
    )
    user: str | None = option("The user.", default=None, aliases=("username",))
    password: str | None = option("The password.", default=None, secret=True)
    query: str | None = option(
        "A statement with a `?` for each column, run for each row. Excludes `generate_sink_sql`.",
        default=None,
    )
    generate_sink_sql: bool = option("Write to `table` of `database` by columns.", default=False)
    database: str | None = option("The database; may hold placeholders.", default=None)
    table: str | None = option(
        "The table (with its schema); may hold placeholders, and is `${table_name}` by default.",
        default=None,
    )
    table_prefix: str = option("Put before table names.", default="", name="tablePrefix")
    table_suffix: str = option("Put behind table names.", default="", name="tableSuffix")
    primary_keys: list[str] = option(
        "The key by which rows are upserted and deleted; by default the upstream table's.",
        default=[],
    )
    enable_upsert: bool = option(
        "Upsert by key. False: rows only insert, which is faster.", default=True
    )
    multi_table_config: MultiTable | None = option("Settings by table.", default=None)
    is_exactly_once: bool = option(
        "Stage rows in tables of their own and publish them with the checkpoint.", default=False
    )
    schema_save_mode: SchemaSaveMode = option(
        "What to do about the table before the first row.", default="CREATE_SCHEMA_WHEN_NOT_EXIST"
    )
    data_save_mode: DataSaveMode = option(
        "What to do about rows that are there already.", default="APPEND_DATA"
    )
    custom_sql: str | None = option("The statements of `CUSTOM_PROCESSING`.", default=None)
    create_index: bool = option("Create the keys with the table.", default=True)
    table_options: dict[str, str] = option("Words behind CREATE TABLE (…).", default={})
    field_ide: Literal["ORIGINAL", "UPPERCASE", "LOWERCASE"] = option(
        "How column names are written.", default="ORIGINAL"
    )
    batch_size: int = option("Rows of one statement of `query`.", default=1000, minimum=1)
    batch_interval_ms: int = option("Accepted: each task is one transaction.", default=0, minimum=0)
    max_retries: int = option(
        "Accepted: a failed epoch is tried again whole.", default=0, minimum=0
    )
    max_commit_attempts: int = option("Accepted: publishing repeats until it is known.", default=3)
    transaction_timeout_sec: int = option("Accepted: no transaction stays open.", default=-1)
    auto_commit: bool = option("Accepted: each task is one transaction.", default=True)
    xa_data_source_class_name: str | None = option(
        "Accepted: exactly-once needs no XA driver.", default=None
    )
    support_upsert_by_query_primary_key_exist: bool = option(
        "Accepted: upserts need no query before.", default=False
    )
    support_upsert_by_insert_only: bool = option("Write updates as inserts.", default=False)
    is_primary_key_updated: bool = option(
        "Whether updates may change keys: the row before is then deleted.", default=True
    )
    use_copy_statement: bool = option(
        "Accepted: COPY is used wherever there is one.", default=False
    )
    oracle_insert_mode: str = option("Accepted; of use for Oracle.", default="CONVENTIONAL")
    properties: dict[str, str] = option(
        "Properties for the driver, beside those in the url.", default={}
    )
    compatible_mode: str | None = option(
        "A database's compatibility mode, as `mysql`.", default=None
    )
    dialect: str | None = option("The dialect to speak, where the url does not tell.", default=None)
    connection_check_timeout_sec: int = option(
        "How long to wait for a connection.", default=30, minimum=1
    )
    connect_timeout_ms: int = option(
        "How long to wait for a connection.", default=TIMEOUT_MS, minimum=1
    )
    socket_timeout_ms: int = option(
        "How long one statement may take.", default=TIMEOUT_MS, minimum=1
    )
    use_kerberos: bool = option("Log in by Kerberos.", default=False)
    kerberos_principal: str | None = option("The Kerberos principal.", default=None)
    kerberos_keytab_path: str | None = option("The Kerberos keytab.", default=None)
    krb5_path: str = option("The Kerberos configuration.", default="/etc/krb5.conf")
    access_key_id: str | None = option("Accepted; for cloud drivers.", default=None, secret=True)
    secret_access_key: str | None = option(
        "Accepted; for cloud drivers.", default=None, secret=True
    )
    region: str | None = option("Accepted; for cloud drivers.", default=None)
