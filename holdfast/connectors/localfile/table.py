"""A table of files, resolved: its columns, from the schema block, from the path and from the files themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from holdfast.connectors.localfile.formats import columnar, delimited, json_lines
from holdfast.connectors.localfile.formats.binary_files import BINARY_SCHEMA
from holdfast.connectors.localfile.formats.contract import ReadSpec
from holdfast.connectors.localfile.formats.opening import opened
from holdfast.connectors.localfile.listing import file_path, partitions_in
from holdfast.connectors.localfile.options import TableOptions, plain_path
from holdfast.connectors.localfile.storage import FileBroken, FileFact, Storage
from holdfast.model.errors import ConfigError, Terminal
from holdfast.model.schema import Column, Table, table_from_arrow


@dataclass(frozen=True)
class FileTable:
    """All that a read of its files needs. Picklable."""

    table: Table
    spec: ReadSpec
    partitions: tuple[str, ...]
    """Columns from the path, behind those of the file."""

    @property
    def options(self) -> TableOptions:
        return self.spec.options


def resolve_table(
    storage: Storage, options: TableOptions, facts: Sequence[FileFact], default_path: str
) -> FileTable:
    """Looks into the first file where the columns are not given."""
    given = options.schema
    columns = given.columns if given is not None else ()
    if not columns:
        found = _find_columns(storage, options, facts)
        columns = table_from_arrow("", found).columns
    file_schema = Table("", tuple(columns)).arrow_schema
    wanted = _wanted(options, file_schema.names)
    partitions = _partitions(options, facts, storage, file_schema.names)
    by_name = {column.name: column for column in columns}
    own = [by_name[name] for name in wanted] + [Column(name, pa.string()) for name in partitions]
    base = given if given is not None else Table("", ())
    names = {column.name for column in own}
    key = base.primary_key if all(name in names for name in base.primary_key) else ()
    table = replace(base, path=base.path or default_path, columns=tuple(own), primary_key=key)
    return FileTable(table, ReadSpec(options, file_schema, tuple(wanted)), partitions)


def _wanted(options: TableOptions, names: list[str]) -> list[str]:
    if not options.read_columns:
        return names
    missing = [name for name in options.read_columns if name not in names]
    partitions = partitions_in(f"{plain_path(options.path or '')}/x/")
    missing = [name for name in missing if name not in partitions]
    if missing:
        raise ConfigError(
            f"Cannot read column '{missing[0]}' of {options.path}: the files have"
            f" {', '.join(names)}. Correct 'read_columns'."
        )
    return [name for name in options.read_columns if name in names]


def _partitions(
    options: TableOptions, facts: Sequence[FileFact], storage: Storage, taken: list[str]
) -> tuple[str, ...]:
    if not options.parse_partition_from_path or options.file_format_type == "binary":
        return ()
    path = plain_path(options.path or "")
    shown = file_path(options, facts[0].name, storage) if facts else f"{path}/"
    return tuple(name for name in partitions_in(shown) if name not in taken)


def _find_columns(storage: Storage, options: TableOptions, facts: Sequence[FileFact]) -> pa.Schema:
    kind = options.file_format_type
    if kind == "binary":
        return BINARY_SCHEMA
    if kind == "text" or (kind == "csv" and not options.csv_use_header_line):
        return pa.schema([pa.field(delimited.CONTENT, pa.string())])
    for fact in facts:
        found = _look_into(storage, options, file_path(options, fact.name, storage))
        if len(found):
            return found
    raise Terminal(
        f"Cannot tell the columns of the {kind} files in {options.path}: there is no file with any."
        " Give a 'schema', or put the files there first."
    )


def _look_into(storage: Storage, options: TableOptions, path: str) -> pa.Schema:
    try:
        with opened(storage, path, options) as streams:
            for _, stream in streams:
                return _schema_in(stream, options)
    except pa.ArrowException as error:
        said = str(error).splitlines()[0].rstrip(".")
        raise FileBroken(
            f"Cannot read {path} as {options.file_format_type}: {said}."
            " Replace the file, or leave it out by file_filter_pattern."
        ) from error
    return pa.schema([])


def _schema_in(stream: object, options: TableOptions) -> pa.Schema:
    kind = options.file_format_type
    if kind == "parquet":
        return columnar.parquet_schema(stream)
    if kind == "orc":
        return columnar.orc_schema(stream)
    if kind == "json":
        return json_lines.infer_json(stream, options.row_delimiter.encode())
    names = delimited.header_names(stream, ReadSpec(options, pa.schema([]), ()))
    return pa.schema([pa.field(name, pa.string()) for name in names])
