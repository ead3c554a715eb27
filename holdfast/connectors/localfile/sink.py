"""Writes files: staged where nobody looks, published by rename, taken back by name.

Files are a log of rows: each row is written as it comes, whatever its kind, as SeaTunnel does. Where kinds matter, put
RowKindExtractor or FilterRowKind before the sink, or write one of the envelope formats, which carry them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from holdfast.connectors.base import (
    Claim,
    Context,
    Guarantee,
    SinkBase,
    StageScope,
    TableBatch,
    Token,
)
from holdfast.connectors.localfile.formats.kept_errors import KeptErrors
from holdfast.connectors.localfile.naming import ending_of
from holdfast.connectors.localfile.options import SinkOptions
from holdfast.connectors.localfile.staging import Staging, staging_for
from holdfast.connectors.localfile.storage import (
    OWN_FOLDER,
    FileNotThere,
    LocalStorage,
    Storage,
    telling,
)
from holdfast.connectors.localfile.writing import (
    TaskFiles,
    finish_file,
    open_writer,
    target_folder,
)
from holdfast.model.errors import SinkRejected
from holdfast.model.json import JsonObject
from holdfast.model.schema import Table


class FileSink(SinkBase):
    """Files of one storage. Picklable."""

    commits_cheaply = False
    overlaps = True

    def __init__(self, options: SinkOptions, context: Context, storage: Storage) -> None:
        self._options = options
        self._context = context
        self._storage = storage
        self._staging = staging_for(storage, options, context.job_id, context.location)
        self._tables: Sequence[Table] = ()
        self.guarantee, self.condition = guarantee_of(options)
        self.rewindable = options.file_format_type != "binary"

    def prepare(self, tables: Sequence[Table]) -> None:
        self._tables = list(tables)
        for folder in sorted({target_folder(self._options, table) for table in tables}):
            self._prepare_schema(folder)
            self._prepare_data(folder)

    def _prepare_schema(self, folder: str) -> None:
        mode = self._options.schema_save_mode
        if mode == "ERROR_WHEN_SCHEMA_NOT_EXIST" and not self._storage.is_folder(folder):
            raise FileNotThere(
                f"Cannot write to {folder}: there is no such folder, and schema_save_mode is"
                f" {mode}. Make the folder, or choose another mode."
            )
        if mode == "RECREATE_SCHEMA":
            self._clear(folder)
        if mode in ("RECREATE_SCHEMA", "CREATE_SCHEMA_WHEN_NOT_EXIST"):
            self._storage.make_folder(folder)

    def _prepare_data(self, folder: str) -> None:
        mode = self._options.data_save_mode
        if mode == "DROP_DATA":
            self._clear(folder)
        found = next(self._storage.find_files(folder), None)
        if mode == "ERROR_WHEN_DATA_EXISTS" and found is not None:
            raise SinkRejected(
                f"Cannot write to {folder}: it holds {found}, and data_save_mode is {mode}."
                " Empty the folder, or choose another mode."
            )

    def _clear(self, folder: str) -> None:
        """All but our own folder, in which an epoch may wait."""
        for name in self._storage.children(folder):
            if name != OWN_FOLDER:
                self._storage.remove(f"{folder}/{name}")

    def stage(self, scope: StageScope, batches: Iterator[TableBatch]) -> JsonObject | None:
        now_ms = self._context.clock.now_ms()
        try:
            return TaskFiles(self._options, self._staging_of(scope), scope, now_ms).stage(batches)
        except pa.ArrowException as error:
            said = str(error).splitlines()[0].rstrip(".")
            raise SinkRejected(
                f"Cannot write rows as {self._options.file_format_type}: {said}."
                " Convert the column by a transform, or write another format."
            ) from error

    def publish(self, token: Token) -> None:
        self._staging.publish(token)

    def discard(self, claim: Claim) -> None:
        self._staging.discard(claim)

    def rewind(self, claim: Claim, epoch: int) -> None:
        self._staging.rewind(claim, epoch)

    def finish(self, totals: Mapping[str, int]) -> None:
        """A file without rows for each table that had none, where that is asked for."""
        if not self._options.create_empty_file_when_no_data:
            return
        for table in self._tables:
            if not totals.get(table.path):
                self._write_empty(table)

    def _write_empty(self, table: Table) -> None:
        name = f"T_{self._staging.key}_empty{ending_of(self._options)}"
        path = f"{self._staging.home}/{name}"
        self._storage.remove(path)
        file = KeptErrors(self._storage.create(path))
        if self._options.file_format_type == "binary":
            file.close()
            self._storage.seal(path)
        else:
            with telling("write", path), file.raising():
                writer = open_writer(self._options, table, file)
            finish_file(self._storage, path, file, writer)
        folder = target_folder(self._options, table)
        self._storage.move(path, f"{folder}/{name}", f"{self._staging.home}/waiting")
        self._storage.sync(folder)

    def _staging_of(self, scope: StageScope) -> Staging:
        return staging_for(self._storage, self._options, scope.job_id, scope.location)


def guarantee_of(options: SinkOptions) -> tuple[Guarantee, str]:
    """What these options promise."""
    said = []
    if options.tmp_path is not None:
        said.append(f"nothing but the job cleans {options.tmp_path}, also over a restart")
    if options.file_format_type == "binary":
        said.append("a file of the same name is replaced, and none is taken back by a rewind")
    return Guarantee.EXACTLY_ONCE, "; ".join(said)


def create_sink(options: SinkOptions, context: Context) -> FileSink:
    """Files of this machine."""
    return FileSink(options, context, LocalStorage())
