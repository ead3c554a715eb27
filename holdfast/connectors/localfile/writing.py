"""One task's rows into staged files: by table and partition, a new file where one is full.

Memory: what the open writers hold back: a row group of up to 64 MB, or 64 times 4 MB with partitions. Of more folders
than that, the one that was not written to for longest is closed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.connectors.base import StageScope, TableBatch
from holdfast.connectors.localfile.formats.contract import FileWriter, WriteSpec
from holdfast.connectors.localfile.formats.kept_errors import KeptErrors
from holdfast.connectors.localfile.formats.registry import WRITERS
from holdfast.connectors.localfile.naming import file_name, transaction_id
from holdfast.connectors.localfile.options import ENVELOPES, SinkOptions, plain_path
from holdfast.connectors.localfile.partitions import group_by_folder
from holdfast.connectors.localfile.staging import StagedFile, Staging
from holdfast.connectors.localfile.storage import Storage, telling
from holdfast.connectors.placeholders import fill
from holdfast.model.errors import ConfigError, HoldfastError, SinkRejected
from holdfast.model.json import JsonObject
from holdfast.model.schema import KIND_COLUMN, Table

WRITERS_OPEN_MAX = 64
BUFFER_BYTES_MAX = 64 * 1024 * 1024


@dataclass
class _Open:
    """A file that is being written."""

    path: str
    file: KeptErrors
    writer: FileWriter
    staged: StagedFile


class TaskFiles:
    """The files of one try of one task."""

    def __init__(
        self, options: SinkOptions, staging: Staging, scope: StageScope, now_ms: int
    ) -> None:
        self._options = options
        self._staging = staging
        self._scope = scope
        self._now_ms = now_ms
        self._transaction = transaction_id(scope)
        self._folder = staging.folder(scope, self._transaction)
        self._open: dict[tuple[str, str], _Open] = {}
        self._done: list[StagedFile] = []
        self._indices: dict[str, int] = {}

    def stage(self, batches: Iterator[TableBatch]) -> JsonObject | None:
        """Write them all, or leave nothing."""
        try:
            for found in batches:
                if self._options.file_format_type == "binary":
                    self._append_binary(found)
                else:
                    self._write(found)
            for key in list(self._open):
                self._close(key)
        except BaseException:
            self._abandon()
            raise
        if not self._done:
            return None
        return self._staging.seal(self._folder, self._scope.task, self._done)

    def _write(self, found: TableBatch) -> None:
        table = self._scope.tables[found.table]
        by = partition_columns(self._options, table)
        names = written_columns(self._options, table)
        if self._options.file_format_type in ENVELOPES and KIND_COLUMN in found.batch.schema.names:
            names = [*names, KIND_COLUMN]
        for folder, rows in group_by_folder(found.batch, by, self._options):
            self._write_rows((table.path, folder), rows.select(names))

    def _write_rows(self, key: tuple[str, str], rows: pa.RecordBatch) -> None:
        limit = self._options.batch_size
        at = 0
        while at < rows.num_rows:
            target = self._writer_of(key)
            size = rows.num_rows - at
            if not self._options.single_file_mode:
                size = min(size, limit - target.staged.rows)
            with telling("write", target.path), target.file.raising():
                target.writer.write(rows.slice(at, size))
            target.staged = _grown(target.staged, size)
            at += size
            if target.staged.rows >= limit and not self._options.single_file_mode:
                self._close(key)

    def _writer_of(self, key: tuple[str, str]) -> _Open:
        """The open file of a folder; the one used last stands at the end."""
        found = self._open.pop(key, None)
        if found is None:
            if len(self._open) >= WRITERS_OPEN_MAX:
                self._close(next(iter(self._open)))
            found = self._begin(key)
        self._open[key] = found
        return found

    def _begin(self, key: tuple[str, str]) -> _Open:
        table = self._scope.tables[key[0]]
        folder = target_folder(self._options, table) + (f"/{key[1]}" if key[1] else "")
        index = self._indices.get(folder, 0)
        self._indices[folder] = index + 1
        name = file_name(self._options, table, self._transaction, index=index, now_ms=self._now_ms)
        staged = StagedFile(str(sum(self._indices.values()) - 1), f"{folder}/{name}", 0)
        path = f"{self._folder}/{staged.name}"
        file = KeptErrors(self._staging.storage.create(path))
        with telling("write", path), file.raising():
            writer = open_writer(self._options, table, file)
        return _Open(path, file, writer, staged)

    def _close(self, key: tuple[str, str]) -> None:
        done = self._open[key]
        finish_file(self._staging.storage, done.path, done.file, done.writer)
        del self._open[key]
        self._done.append(done.staged)

    def _append_binary(self, found: TableBatch) -> None:
        """Rows of one file follow one another; a file ends where another begins."""
        rows = found.batch
        missing = [n for n in ("data", "relativePath", "partIndex") if n not in rows.schema.names]
        if missing:
            raise ConfigError(
                f"Cannot write binary files from table {found.table}: it has no column"
                f" '{missing[0]}'. Read with file_format_type = binary as well."
            )
        table = self._scope.tables[found.table]
        for path, size in _runs(rows.column("relativePath")):
            self._append_file((table.path, path), rows.slice(0, size), table)
            rows = rows.slice(size)

    def _append_file(self, key: tuple[str, str], rows: pa.RecordBatch, table: Table) -> None:
        found = self._open.get(key)
        expected = 0 if found is None else found.staged.rows
        places = rows.column("partIndex")
        first = pa.array(range(expected, expected + len(places)), pa.int64())
        if not places.equals(first):
            raise SinkRejected(
                f"Cannot write the file {key[1]}: its parts do not come in order (expected part"
                f" {expected}, found {places[0].as_py()}). Put no transform between that moves rows."
            )
        if found is None:
            for other in list(self._open):
                self._close(other)
            found = self._begin_binary(key, table)
        with telling("write", found.path), found.file.raising():
            found.file.writelines(rows.column("data").to_pylist())
        found.staged = _grown(found.staged, len(rows))

    def _begin_binary(self, key: tuple[str, str], table: Table) -> _Open:
        parts = [part for part in key[1].split("/") if part]
        if not parts or ".." in parts:
            raise SinkRejected(
                f"Cannot write the file '{key[1]}': its path leads out of the target."
            )
        target = f"{target_folder(self._options, table)}/{'/'.join(parts)}"
        if self._options.custom_filename:
            name = file_name(
                self._options, table, self._transaction, index=len(self._done), now_ms=self._now_ms
            )
            target = f"{target_folder(self._options, table)}/{name}"
        staged = StagedFile(str(len(self._done)), target, 0)
        path = f"{self._folder}/{staged.name}"
        file = KeptErrors(self._staging.storage.create(path))
        self._open[key] = _Open(path, file, _NoWriter(), staged)
        return self._open[key]

    def _abandon(self) -> None:
        """A failed try gives its room back."""
        for held in self._open.values():
            held.writer.abandon()
            held.file.close()
        self._open.clear()
        with contextlib.suppress(HoldfastError):
            self._staging.storage.remove(self._folder)


class _NoWriter:
    """Bytes go straight into the file."""

    def write(self, batch: pa.RecordBatch) -> None:
        raise AssertionError("binary rows are not written as columns")

    def close(self) -> None:
        return None

    def abandon(self) -> None:
        return None


def open_writer(options: SinkOptions, table: Table, file: KeptErrors) -> FileWriter:
    by_name = {column.name: column for column in table.columns}
    names = written_columns(options, table)
    schema = pa.schema([pa.field(name, by_name[name].type) for name in names])
    several = bool(partition_columns(options, table)) or "${" in options.path
    size = BUFFER_BYTES_MAX // (16 if several else 1)
    return WRITERS[options.file_format_type](file, WriteSpec(options, schema, size))


def finish_file(storage: Storage, path: str, file: KeptErrors, writer: FileWriter) -> None:
    """The format's end, and all of it on the disk."""
    with telling("write", path), file.raising():
        writer.close()
        file.close()
    storage.seal(path)


def target_folder(options: SinkOptions, table: Table) -> str:
    return plain_path(fill(options.path, table))


def partition_columns(options: SinkOptions, table: Table) -> list[str]:
    return _known(options.partition_by, table, "partition_by") if options.have_partition else []


def written_columns(options: SinkOptions, table: Table) -> list[str]:
    names = _known(options.sink_columns, table, "sink_columns") or table.column_names
    if options.is_partition_field_write_in_file:
        return names
    apart = set(partition_columns(options, table))
    return [name for name in names if name not in apart]


def _known(names: list[str], table: Table, option: str) -> list[str]:
    for name in names:
        if name not in table.column_names:
            raise ConfigError(
                f"Cannot write table {table.path}: option '{option}' names '{name}', and the table"
                f" has {', '.join(table.column_names)}. Correct the option."
            )
    return list(names)


def _grown(staged: StagedFile, rows: int) -> StagedFile:
    return StagedFile(staged.name, staged.target, staged.rows + rows)


def _runs(column: pa.Array) -> Iterator[tuple[str, int]]:
    """Neighbours that are equal, and how many they are."""
    encoded = pc.run_end_encode(column)
    before = 0
    for value, end in zip(encoded.values.to_pylist(), encoded.run_ends.to_pylist(), strict=True):
        yield value, end - before
        before = end
