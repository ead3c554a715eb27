"""What a job file may say about files: the options of the source, of each of its tables, and of the sink."""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from holdfast.connectors.localfile.formats.java_patterns import (
    parse_pattern as parse_moment_pattern,
)
from holdfast.model.jobs import JobMode
from holdfast.model.json import Json, JsonObject
from holdfast.model.schema import Table
from holdfast.spec.options import declared_options, option
from holdfast.spec.schema_block import parse_schema

SourceFormat = Literal["text", "csv", "parquet", "orc", "json", "xml", "excel", "binary"]
SinkFormat = Literal[
    "csv",
    "text",
    "parquet",
    "orc",
    "json",
    "xml",
    "excel",
    "binary",
    "canal_json",
    "debezium_json",
    "maxwell_json",
]
STREAM_CODECS = ("none", "gzip", "zstd", "lz4", "bz2", "brotli")
"""That compress a text file as a whole. A codec of parquet and orc lies inside the file."""
CODECS = {
    "parquet": ("none", "snappy", "gzip", "zstd", "lz4", "brotli"),
    "orc": ("none", "snappy", "zlib", "zstd", "lz4"),
    "excel": ("none",),
    "binary": ("none",),
}
LINE_ENDS = ("\n", "\r\n")
LINES = ("text", "csv", "json")
ENVELOPES = ("canal_json", "debezium_json", "maxwell_json")
_UNSUPPORTED: JsonObject = {
    "sync_mode": "full",
    "post_sync_action": "none",
    "markdown_rag_metadata_enabled": False,
    "pdf_rag_metadata_enabled": False,
}


def parse_char_code(found: Json) -> str:
    r"""A delimiter, with `\t`, `\001` and `\u0001` as people write them."""
    if not isinstance(found, str) or not found:
        raise ValueError("expected a text that is not empty")
    plain = re.sub(r"\\([0-7]{1,3})(?!\d)", lambda m: chr(int(m.group(1), 8)), found)
    plain = re.sub(r"\\u([0-9a-fA-F]{4})", lambda m: chr(int(m.group(1), 16)), plain)
    return plain.replace("\\t", "\t").replace("\\n", "\n").replace("\\r", "\r")


def parse_duration_ms(found: Json) -> int:
    """`10S`, `500MS`, `PT10S`, `2M` (minutes), or a number of milliseconds."""
    text = str(found).strip().upper().removeprefix("PT")
    match = re.fullmatch(r"(\d+)\s*(MS|S|M|H|D)?", text)
    if not match or not int(match.group(1)):
        raise ValueError(f"expected a duration above 0 (10S, 500MS, 1H), found {found!r}")
    unit = {"MS": 1, "S": 1000, "M": 60_000, "H": 3_600_000, "D": 86_400_000, None: 1}
    return int(match.group(1)) * unit[match.group(2)]


def parse_encoding(found: Json) -> str:
    try:
        return codecs.lookup(str(found)).name
    except LookupError:
        raise ValueError(f"{found!r} is not the name of a character encoding") from None


def parse_pattern(found: Json) -> str:
    try:
        re.compile(str(found))
    except re.error as error:
        raise ValueError(f"{found!r} is not a regular expression: {error}") from None
    return str(found)


def parse_one_char(found: Json) -> str:
    if not isinstance(found, str) or len(found.encode()) != 1:
        raise ValueError(f"expected one ASCII character, found {found!r}")
    return found


def parse_codec(found: Json) -> str:
    text = str(found).lower()
    return {"gz": "gzip", "zst": "zstd"}.get(text, text)


def parse_file_schema(found: Json) -> Table:
    """A schema block; one that only names the table leaves the columns to the files."""
    if isinstance(found, dict) and "table" in found and not {"fields", "columns"} & set(found):
        return Table(str(found["table"]), ())
    return parse_schema(found)


@dataclass(frozen=True)
class TextOptions:
    """How values are written in formats that are text. Of source and sink alike."""

    field_delimiter: str | None = option(
        "Between two values: `\\001` for text, `,` for csv unless given. csv takes one character.",
        default=None,
        aliases=("delimiter",),
        parse=parse_char_code,
        type_name="string",
    )
    row_delimiter: str = option(
        "Between two rows of text, csv and json.",
        default="\n",
        parse=parse_char_code,
        type_name="string",
    )
    date_format: str | None = option(
        "Of dates in text, Java letters; `yyyy-MM-dd` unless given.", default=None
    )
    datetime_format: str | None = option(
        "Of timestamps in text. Unless given: `yyyy-MM-dd HH:mm:ss`, with as many digits behind"
        " the seconds as the value has, up to six; all of these are read.",
        default=None,
    )
    time_format: str | None = option(
        "Of times in text; unless given `HH:mm:ss`, with digits behind the seconds as above.",
        default=None,
    )
    null_format: str | None = option(
        "The text that stands for null (`\\N`). Unless given, in csv an empty value without quotes"
        " is null; in text an empty value is null but in string columns.",
        default=None,
    )
    encoding: str = option(
        "Character encoding of text, csv, json, xml.",
        default="utf-8",
        parse=parse_encoding,
        type_name="string",
    )
    compress_codec: str | None = option(
        "none, gzip, zstd, lz4, bz2, brotli; in the sink for parquet none, snappy, gzip, zstd, lz4,"
        " brotli and for orc none, snappy, zlib, zstd, lz4. Unless given, the source goes by the"
        " file's ending (.gz .zst .lz4 .bz2 .br); parquet is then written with snappy.",
        default=None,
        parse=parse_codec,
        type_name="string",
    )
    sheet_name: str | None = option(
        "Excel: the sheet. The first one is read, `Sheet0` is written unless given.", default=None
    )
    xml_row_tag: str | None = option(
        "XML: the tag of a row. Needed to read; `RECORD` is written unless given.", default=None
    )
    xml_use_attr_format: bool = option(
        "XML: values stand in attributes of the row's tag, not in tags of their own.", default=False
    )
    quote_char: str = option(
        "csv: what encloses a value.", default='"', parse=parse_one_char, type_name="string"
    )
    escape_char: str | None = option(
        "csv, reading: what takes the meaning from the character behind it.",
        default=None,
        parse=parse_one_char,
        type_name="string",
    )

    @property
    def delimiter_or_default(self) -> str:
        kind: str = getattr(self, "file_format_type")  # noqa: B009 - declared by the subclasses
        return self.field_delimiter or ("," if kind == "csv" else "\x01")


@dataclass(frozen=True)
class TableOptions(TextOptions):
    """One table of files."""

    path: str | None = option("The folder or file to read.", default=None, identity=True)
    file_format_type: SourceFormat | None = option(
        "The format of the files.", default=None, identity=True
    )
    schema: Table | None = option(
        "The columns of the files, without those from the path. parquet and orc carry theirs. Without it: csv with"
        " a header line gives columns of text by the header's names, json columns of the types found in the first"
        " megabyte of the first file (bigint, double, boolean, text, nested), text and other csv one column"
        " `content` with the line.",
        default=None,
        parse=parse_file_schema,
        type_name="schema",
    )
    read_columns: list[str] = option("Only these columns, in this order.", default=[])
    skip_header_row_number: int = option(
        "Rows to leave out at the start of each text, csv or excel file.", default=0, minimum=0
    )
    csv_use_header_line: bool = option(
        "csv: the first line names the columns, which are then found by name.", default=False
    )
    parse_partition_from_path: bool = option(
        "`name=value` folders become columns of text, behind those of the file.", default=True
    )
    archive_compress_codec: Literal["none", "zip", "tar", "tar_gz", "gz"] = option(
        "Files are archives of text, csv, json, xml or excel files.", default="none"
    )
    file_filter_pattern: str | None = option(
        "Regular expression for the whole file name; for the whole path where it holds a `/`.",
        default=None,
        parse=parse_pattern,
        type_name="string",
        identity=True,
    )
    filename_extension: str | None = option(
        "Only files with this ending.", default=None, identity=True
    )
    file_filter_modified_start: str | None = option(
        "Only files modified then or later: `yyyy-MM-dd HH:mm:ss`, in UTC.", default=None
    )
    file_filter_modified_end: str | None = option(
        "Only files modified before then: `yyyy-MM-dd HH:mm:ss`, in UTC.", default=None
    )
    recursive_file_scan: bool = option("Look into folders below as well.", default=True)
    sort_files_by_modification_time: bool = option(
        "Newest first, not by name. The first file tells the columns where no schema is given.",
        default=False,
        identity=True,
    )
    enable_file_split: bool | None = option(
        "Read a file in pieces at once: text, csv and json at line borders (a quoted csv value must then not hold a"
        " line break), parquet by row groups, orc by stripes. Unless given: parquet and orc yes, others no."
        " Compressed text and archives are never split.",
        default=None,
    )
    file_split_size: int = option("Bytes of a piece.", default=128 * 1024 * 1024, minimum=1)
    binary_chunk_size: int = option("binary: bytes in a row.", default=1024, minimum=1)
    binary_complete_file_mode: bool = option(
        "binary: a row holds a whole file, which must fit into memory.", default=False
    )
    excel_engine: str | None = option("Of no effect here: accepted as it is.", default=None)


@dataclass(frozen=True)
class SourceOptions(TableOptions):
    """The source's block."""

    tables_configs: list[TableOptions] = option(
        "Several tables, each with the options above; `schema.table` names it.", default=[]
    )
    discovery_mode: Literal["once", "continuous"] = option(
        "`once` lists at the start and ends with the last file. `continuous` (STREAMING) goes on"
        " looking for files that are new or changed.",
        default="once",
        identity=True,
    )
    scan_interval: int = option(
        "continuous: how often to look; `10S`, `500MS`, `PT10S`.",
        default=10_000,
        parse=parse_duration_ms,
        type_name="duration",
    )
    start_mode: Literal["earliest", "latest"] = option(
        "continuous: whether files that are there at the start are read.", default="earliest"
    )
    sync_mode: str = option("Only `full` is supported.", default="full")
    post_sync_action: str = option("Only `none` is supported.", default="none")
    markdown_rag_metadata_enabled: bool = option("Only false is supported.", default=False)
    pdf_rag_metadata_enabled: bool = option("Only false is supported.", default=False)
    target_path: str | None = option("Of sync_mode = update, not supported.", default=None)
    target_hadoop_conf: dict[str, str] = option("Of sync_mode = update, not supported.", default={})
    update_strategy: str = option("Of sync_mode = update, not supported.", default="distcp")
    compare_mode: str = option("Of sync_mode = update, not supported.", default="len_mtime")
    update_compare_parallelism: int = option("Of sync_mode = update, not supported.", default=8)
    update_compare_bulk_threshold: int = option("Of sync_mode = update, not supported.", default=0)
    retention_max_age: str | None = option("Of post_sync_action, not supported.", default=None)
    retention_check_interval: str = option("Of post_sync_action, not supported.", default="1H")
    backup_path: str | None = option("Of post_sync_action, not supported.", default=None)

    def tables(self) -> list[TableOptions]:
        """What is to be read, each with all that holds for it."""
        if self.tables_configs:
            return [_inherit(self, table) for table in self.tables_configs]
        names = [item.attribute for item in declared_options(TableOptions)]
        return [TableOptions(**{name: getattr(self, name) for name in names})]


def _inherit(block: SourceOptions, table: TableOptions) -> TableOptions:
    """What a table leaves out, the block around it says."""
    changes = {}
    for item in declared_options(TableOptions):
        if getattr(table, item.attribute) == item.default:
            changes[item.attribute] = getattr(block, item.attribute)
    return replace(table, **changes)


@dataclass(frozen=True)
class SinkOptions(TextOptions):
    """The sink's block."""

    path: str = option(
        "The target folder; may hold ${database_name}, ${schema_name}, ${table_name} behind a fixed"
        " beginning.",
        identity=True,
    )
    tmp_path: str | None = option(
        "Where files wait until their checkpoint exists: must survive a restart of the machine."
        " Unless given a hidden folder in the target, so that publishing is a rename.",
        default=None,
    )
    file_format_type: SinkFormat = option("The format of the files.", default="csv")
    filename_extension: str | None = option("In place of the format's own ending.", default=None)
    custom_filename: bool = option("Name files by `file_name_expression`.", default=False)
    file_name_expression: str = option(
        "With ${transactionId}, ${now}, ${uuid}. Where ${transactionId} is not in it, it is put in"
        " front: by it a job finds its files again.",
        default="${transactionId}",
    )
    filename_time_format: str = option("Of ${now}, Java letters, UTC.", default="yyyy.MM.dd")
    have_partition: bool = option("Write into a folder for each value of columns.", default=False)
    partition_by: list[str] = option("The columns, with `have_partition`.", default=[])
    partition_dir_expression: str = option(
        "The folders: ${k0}, ${v0}, ${k1} … are names and values. Unless given, all of them.",
        default="${k0}=${v0}/${k1}=${v1}/.../${kn}=${vn}/",
    )
    is_partition_field_write_in_file: bool = option(
        "Write the partition columns into the files as well.", default=False
    )
    sink_columns: list[str] = option("Only these columns, in this order.", default=[])
    is_enable_transaction: bool = option("Only true is supported.", default=True)
    batch_size: int = option("The most rows in a file.", default=1_000_000, minimum=1)
    single_file_mode: bool = option(
        "One file for each task of an epoch, without limit.", default=False
    )
    create_empty_file_when_no_data: bool = option(
        "When a job ends without a row for a table, leave a file without rows.", default=False
    )
    max_rows_in_memory: int | None = option(
        "Of no effect: excel is written in a stream.", default=None
    )
    sheet_max_rows: int = option(
        "Excel: rows of a sheet; a further sheet follows.",
        default=1_048_576,
        minimum=2,
        maximum=1_048_576,
    )
    csv_string_quote_mode: Literal["MINIMAL", "ALL", "NONE"] = option(
        "csv: which texts are quoted. NONE refuses values that would need it.", default="MINIMAL"
    )
    xml_root_tag: str = option("XML: the outermost tag.", default="RECORDS")
    parquet_avro_write_timestamp_as_int96: bool = option(
        "Parquet: timestamps as INT96 (years 1677 to 2262).", default=False
    )
    parquet_avro_write_fixed_as_int96: list[str] = option("Not supported.", default=[])
    enable_header_write: bool = option("text, csv: a first line with the names.", default=False)
    merge_update_event: bool = option("Not supported; only false.", default=False)
    schema_save_mode: Literal[
        "CREATE_SCHEMA_WHEN_NOT_EXIST",
        "RECREATE_SCHEMA",
        "ERROR_WHEN_SCHEMA_NOT_EXIST",
        "IGNORE",
    ] = option(
        "What to do about the target folder before the first row.",
        default="CREATE_SCHEMA_WHEN_NOT_EXIST",
    )
    data_save_mode: Literal["APPEND_DATA", "DROP_DATA", "ERROR_WHEN_DATA_EXISTS"] = option(
        "What to do about files that are there before the first row.", default="APPEND_DATA"
    )


def check_source(options: SourceOptions, mode: JobMode) -> Sequence[str]:
    """Problems of the source that no single option shows."""
    found = [
        f"option '{name}' is '{getattr(options, name)}', which is not supported; only '{plain}' is"
        for name, plain in _UNSUPPORTED.items()
        if getattr(options, name) != plain
    ]
    if options.discovery_mode == "continuous" and mode is JobMode.BATCH:
        found.append("discovery_mode = continuous never ends: it needs job.mode = STREAMING")
    for index, table in enumerate(options.tables()):
        where = f"tables_configs[{index}]: " if options.tables_configs else ""
        found += [where + problem for problem in _check_table(table)]
        if options.discovery_mode == "continuous" and table.sort_files_by_modification_time:
            found.append(f"{where}sort_files_by_modification_time: continuous goes by arrival")
    return found


def _check_table(table: TableOptions) -> list[str]:
    kind = table.file_format_type
    found = _check_codec(kind, table.compress_codec, reading=True)
    if table.path is None:
        found.append("option 'path' is required and missing")
    if kind is None:
        found.append("option 'file_format_type' is required and missing")
    if kind == "xml" and table.xml_row_tag is None:
        found.append("xml needs 'xml_row_tag': the tag of a row")
    if kind in ("xml", "excel") and not (table.schema and table.schema.columns):
        found.append(f"{kind} carries no types: it needs a 'schema'")
    if kind == "csv" and len(table.delimiter_or_default) != 1:
        found.append("csv takes one character as 'field_delimiter'; text takes more")
    if kind == "csv" and table.row_delimiter not in LINE_ENDS:
        found.append("csv rows end with \\n or \\r\\n; text takes another 'row_delimiter'")
    if table.archive_compress_codec != "none" and kind in ("parquet", "orc", "binary"):
        found.append(f"archives of {kind} files cannot be read")
    return found + _check_times(table) + _check_patterns(table)


def _check_times(table: TableOptions) -> list[str]:
    found = []
    for name in ("file_filter_modified_start", "file_filter_modified_end"):
        text = getattr(table, name)
        if text is not None and not re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", text):
            found.append(f"option '{name}' is '{text}'; expected yyyy-MM-dd HH:mm:ss")
    return found


def _check_patterns(options: TextOptions) -> list[str]:
    found = []
    for name in ("date_format", "datetime_format", "time_format"):
        text = getattr(options, name)
        try:
            parse_moment_pattern(text or "")
        except ValueError as error:
            found.append(f"option '{name}': {error}")
    return found


def check_sink(options: SinkOptions, mode: JobMode) -> Sequence[str]:
    """Problems of the sink that no single option shows."""
    return [
        *(said for fits, said in _SINK_RULES if fits(options)),
        *_check_codec(options.file_format_type, options.compress_codec, reading=False),
        *_check_patterns(options),
    ]


_Rule = tuple[Callable[[Any], bool], str]
_SINK_RULES: tuple[_Rule, ...] = (
    (
        lambda o: not fixed_part(o.path).strip("/"),
        "option 'path' needs a fixed folder before its first placeholder",
    ),
    (
        lambda o: o.have_partition and not o.partition_by,
        "have_partition is set and 'partition_by' names no column",
    ),
    (
        lambda o: o.file_format_type == "binary" and (o.have_partition or bool(o.sink_columns)),
        "binary files are written as they are: no partitions, no sink_columns",
    ),
    (
        lambda o: not o.is_enable_transaction,
        "is_enable_transaction = false is not supported: rows are always published whole",
    ),
    (
        lambda o: bool(o.parquet_avro_write_fixed_as_int96),
        "parquet_avro_write_fixed_as_int96 is not supported",
    ),
    (
        lambda o: o.encoding in ("utf-16", "utf-32", "utf-8-sig"),
        "this encoding begins with a mark; name the plain one (utf-16-le, utf-8)",
    ),
    (lambda o: o.merge_update_event, "merge_update_event is not supported"),
    (
        lambda o: o.file_format_type == "csv" and o.row_delimiter not in LINE_ENDS,
        "csv rows end with \\n or \\r\\n; text takes another 'row_delimiter'",
    ),
    (
        lambda o: o.file_format_type == "csv" and len(o.delimiter_or_default) != 1,
        "csv takes one character as 'field_delimiter'; text takes more",
    ),
)


def _check_codec(kind: str | None, codec: str | None, *, reading: bool) -> list[str]:
    if codec is None or (reading and kind in ("parquet", "orc")):
        return []
    known = CODECS.get(kind or "", STREAM_CODECS)
    if codec in known:
        return []
    return [f"option 'compress_codec' is '{codec}'; for {kind} it is one of {', '.join(known)}"]


def fixed_part(path: str) -> str:
    """The folders of a path before its first placeholder."""
    head, sign, _ = path.partition("${")
    return head.rsplit("/", 1)[0] if sign else head.rstrip("/")


def plain_path(path: str) -> str:
    """Absolute, without `file://` before it and without `/` behind it."""
    bare = re.sub(r"^file:(//)?(?=/)", "", path)
    return os.path.abspath(bare)
