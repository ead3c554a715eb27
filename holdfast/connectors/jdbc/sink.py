"""The Jdbc sink: writes columns of rows into tables of a database, or runs a statement for each row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, groupby
from typing import Any

import numpy as np
import pyarrow as pa

from holdfast.connectors.base import (
    ByteFormat,
    Bytes,
    Claim,
    Context,
    Guarantee,
    SinkBase,
    StageScope,
    TableBatch,
    Token,
    token_lineage,
)
from holdfast.connectors.jdbc.connections import Connections
from holdfast.connectors.jdbc.dialects.base import Dialect, Endpoint, Merge, transaction
from holdfast.connectors.jdbc.dialects.registry import is_native
from holdfast.connectors.jdbc.merging import (
    inserts_only,
    last_of_each_key,
    split_kinds,
    without_befores,
)
from holdfast.connectors.jdbc.options import SinkOptions
from holdfast.connectors.jdbc.staging import (
    LEDGER,
    Owner,
    Stage,
    discard_stages,
    ensure_ledger,
    publish_stages,
    stage_name,
)
from holdfast.connectors.jdbc.targets import (
    Target,
    TargetRefused,
    apply_save_modes,
    expect_value_for_each_column,
    find_target,
    target_path,
)
from holdfast.model.json import Json, JsonObject
from holdfast.model.schema import KIND_COLUMN, Table
from holdfast.outside.ids import new_id

Promise = tuple[Guarantee, str]
TABLES_ASKED_MAX = 50
"""Of more tables the keys are not asked: epochs then come one after the other."""
STAGED = "nobody else touches the tables hf_* and holdfast_epochs beside the target"


def promise_of(options: SinkOptions) -> Promise:
    """What the options promise, and on which condition."""
    if not is_native(options.url, options.dialect):
        return Guarantee.EXACTLY_ONCE, STAGED
    if options.query is not None:
        return (
            Guarantee.AT_LEAST_ONCE,
            "rows of an epoch that was cut short are written again by the query",
        )
    if options.is_exactly_once:
        return Guarantee.EXACTLY_ONCE, STAGED
    if options.enable_upsert and options.primary_keys:
        return (
            Guarantee.EFFECTIVELY_ONCE,
            "primary_keys identify a row; changes are visible before their checkpoint",
        )
    if options.enable_upsert:
        return (
            Guarantee.AT_LEAST_ONCE,
            "effectively once by key where the upstream table's primary key is one of the target as well;"
            " changes are visible before their checkpoint",
        )
    return Guarantee.AT_LEAST_ONCE, (
        "rows of an epoch that was cut short are inserted again; a unique key of the target refuses them"
    )


class JdbcSink(SinkBase):
    """Direct, in one transaction per task; or staged in tables of its own where exactly-once is asked."""

    def __init__(
        self, options: SinkOptions, context: Context, dialect: Dialect, endpoint: Endpoint
    ) -> None:
        self._options = options
        self._context = (context.job_id, context.pipeline_id, context.location)
        self._dialect = dialect
        self._connections = Connections(dialect, endpoint)
        self.guarantee, self.condition = promise_of(options)
        self.one_task = dialect.one_writer
        self.overlaps = not dialect.one_writer and (
            options.is_exactly_once or not options.enable_upsert
        )

    def prepare(self, tables: Sequence[Table]) -> None:
        if self._options.query is not None:
            for table in tables:
                expect_value_for_each_column(self._options.query, table)
            return
        with self._connections.open("prepare the target") as connection:
            for table in tables:
                apply_save_modes(
                    self._dialect, connection, self._options, self._connections.endpoint, table
                )
                target = self._target(connection, table)
                if self._options.is_exactly_once and not target.transactional:
                    raise TargetRefused(
                        f"Cannot write to table '{target.path}' at {self._connections.endpoint} exactly once:"
                        " its engine has no transactions. Convert it to InnoDB, or set is_exactly_once = false."
                    )
            if self._options.is_exactly_once and tables:
                first = min(
                    target_path(self._options, table, has_schemas=self._dialect.has_schemas)
                    for table in tables
                )
                ensure_ledger(self._dialect, connection, self._dialect.beside(first, LEDGER))

    def overlaps_over(self, tables: Sequence[Table]) -> bool:
        """Rows are only appended where no target has a key to merge by."""
        if self.one_task or self._options.query is not None or len(tables) > TABLES_ASKED_MAX:
            return False
        with self._connections.open("read the catalog") as connection:
            return not any(self._target(connection, table).upserts for table in tables)

    def stage(self, scope: StageScope, batches: Iterator[TableBatch]) -> JsonObject | None:
        some = (found for found in batches if found.batch.num_rows)
        first = next(some, None)
        if first is None:
            return None
        whole = chain([first], some)
        with (
            self._connections.open("write rows") as connection,
            transaction(self._dialect, connection),
        ):
            if self._options.query is not None:
                return {"rows": self._run_query(connection, self._options.query, whole)}
            writing = _Writing(self, connection, scope)
            writing.write(whole)
            return writing.part()

    def accepts(self, format_: ByteFormat, table: Table) -> bool:
        return self.accepts_runs(format_, table, range(len(format_.types)))

    def accepts_runs(
        self, format_: ByteFormat, table: Table, handed_on: Sequence[int | None]
    ) -> bool:
        """Where rows only insert and the types of what is handed on agree with the target's."""
        if self._options.query is not None or format_.name != self._dialect.byte_format:
            return False
        with self._connections.open("read the catalog") as connection:
            target = self._target(connection, table)
        if target.upserts or target.byte_types is None or len(handed_on) != len(target.columns):
            return False
        return all(
            self._dialect.codes(column.type, target.sql_types[place])
            if at is None
            else target.byte_types[place] == format_.types[at]
            for place, (column, at) in enumerate(zip(table.columns, handed_on, strict=True))
        )

    def stage_bytes(
        self, scope: StageScope, table: str, chunks: Iterator[Bytes]
    ) -> JsonObject | None:
        with (
            self._connections.open("write rows") as connection,
            transaction(self._dialect, connection),
        ):
            writing = _Writing(self, connection, scope)
            writing.write_bytes(table, chunks)
            return writing.part()

    def publish(self, token: Token) -> None:
        if self._options.is_exactly_once:
            with self._connections.open("publish rows") as connection:
                owner = Owner(*self._context, token_lineage(token))
                publish_stages(self._dialect, connection, self._connections.endpoint, owner, token)

    def discard(self, claim: Claim) -> None:
        if self._options.is_exactly_once:
            with self._connections.open("discard staged rows") as connection:
                owner = Owner(*self._context, claim.lineage)
                discard_stages(self._dialect, connection, owner, claim)

    def close(self) -> None:
        self._connections.close()

    def _target(self, connection: Any, table: Table) -> Target:
        return find_target(
            self._dialect, connection, self._options, self._connections.endpoint, table
        )

    def _run_query(self, connection: Any, query: str, batches: Iterable[TableBatch]) -> int:
        """Rows as Python values: a statement of the user's own has no columns to write to."""
        count = 0
        for found in batches:
            rows, kinds = split_kinds(found.batch)
            rows = inserts_only(rows, kinds, found.table)
            count += rows.num_rows
            for low in range(0, rows.num_rows, self._options.batch_size):
                piece = rows.slice(low, self._options.batch_size)
                values = list(zip(*(column.to_pylist() for column in piece.columns), strict=True))
                self._dialect.run_each(connection, query, values)
        return count


@dataclass
class _Writing:
    """One task's rows on their way into targets or staging tables."""

    sink: JdbcSink
    connection: Any
    scope: StageScope
    rows: int = 0
    stages: list[Stage] = field(default_factory=list)
    targets: dict[str, Target] = field(default_factory=dict)
    scratches: dict[tuple[str, bool], str] = field(default_factory=dict)

    def write(self, batches: Iterator[TableBatch]) -> None:
        """Neighbouring batches of one table that are written in one way go through one stream.

        Grouped by table first: looking a target up needs the connection, which no stream may hold then.
        """
        for path, neighbours in groupby(batches, lambda found: found.table):
            target = self._target(path)
            for merges, group in groupby(neighbours, partial(self._merges, target)):
                self._write_group(target, group, merges)
        for scratch in self.scratches.values():
            self.sink._dialect.execute(self.connection, self.sink._dialect.drop_scratch(scratch))

    def write_bytes(self, path: str, chunks: Iterator[Bytes]) -> None:
        target = self._target(path)
        dialect = self.sink._dialect
        name = dialect.sql_name(target.path)
        if self.sink._options.is_exactly_once:
            name = self._new_stage(target, kinded=False)
        self.rows += dialect.append_bytes(self.connection, name, target.columns, chunks)

    def part(self) -> JsonObject:
        found: JsonObject = {"rows": self.rows}
        if self.stages:
            stages: list[Json] = [stage.to_json() for stage in self.stages]
            found["stages"] = stages
        return found

    def _write_group(self, target: Target, group: Iterable[TableBatch], merges: bool) -> None:
        if self.sink._options.is_exactly_once:
            self._stage(target, group, merges)
        elif merges:
            for found in group:
                self._merge(target, found.batch)
        else:
            name = self.sink._dialect.sql_name(target.path)
            self._append(name, target, (self._plain(target, f.batch) for f in group))

    def _merges(self, target: Target, found: TableBatch) -> bool:
        """Whether rows are merged by key. A stream of changes may bring a row again that it only inserts."""
        options = self.sink._options
        if options.support_upsert_by_insert_only or not target.keys:
            return False
        if target.upserts or split_kinds(found.batch)[1] is not None:
            return True
        return options.enable_upsert and KIND_COLUMN in found.batch.schema.names

    def _target(self, path: str) -> Target:
        if path not in self.targets:
            self.targets[path] = self.sink._target(self.connection, self.scope.tables[path])
        return self.targets[path]

    def _plain(self, target: Target, batch: pa.RecordBatch) -> pa.RecordBatch:
        rows, kinds = split_kinds(batch)
        return inserts_only(rows, kinds, target.path)

    def _append(self, name: str, target: Target, batches: Iterator[pa.RecordBatch]) -> None:
        columns = list(zip(target.columns, target.sql_types, strict=True))
        self.rows += self.sink._dialect.append(self.connection, name, columns, batches)

    def _stage(self, target: Target, group: Iterable[TableBatch], merges: bool) -> None:
        name = self._new_stage(target, kinded=merges)
        if not merges:
            self._append(name, target, (self._plain(target, f.batch) for f in group))
            return
        columns = list(zip(target.columns, target.sql_types, strict=True))
        types = self.sink._dialect.stage_types
        columns += [("hf_kind", types[0]), ("hf_seq", types[1])]
        numbered = (self._numbered(found.batch) for found in group)
        self.rows += self.sink._dialect.append(self.connection, name, columns, numbered)

    def _numbered(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """With the kind and the place of each row among all changes of the epoch."""
        rows, kinds = split_kinds(batch)
        if not self.sink._options.is_primary_key_updated:
            rows, kinds = without_befores(rows, kinds)
        count = rows.num_rows
        kinds = (
            pa.repeat(pa.scalar(0, pa.int16()), count) if kinds is None else kinds.cast(pa.int16())
        )
        first = (self.scope.task << 40) + self.rows_numbered
        self.rows_numbered += count
        places = pa.array(np.arange(first, first + count, dtype=np.int64))
        return pa.RecordBatch.from_arrays(
            [*rows.columns, kinds, places], [*rows.schema.names, "hf_kind", "hf_seq"]
        )

    rows_numbered: int = 0

    def _new_stage(self, target: Target, *, kinded: bool) -> str:
        dialect = self.sink._dialect
        name = stage_name(self.scope, len(self.stages), new_id())
        self.stages.append(Stage(target.path, name, target.keys if kinded else ()))
        full = dialect.beside(target.path, name)
        dialect.execute(
            self.connection,
            dialect.create_stage(full, target.path, target.columns, kinded=kinded),
        )
        return full

    def _merge(self, target: Target, batch: pa.RecordBatch) -> None:
        rows, kinds = split_kinds(batch)
        if not self.sink._options.is_primary_key_updated:
            rows, kinds = without_befores(rows, kinds)
        keys = [target.columns.index(key) for key in target.keys]
        upserts, deletes = last_of_each_key(rows, kinds, keys)
        self.rows += batch.num_rows
        if deletes.num_rows:
            self._merge_rows(target, deletes, deleting=True)
        if upserts.num_rows:
            self._merge_rows(target, upserts, deleting=False)

    def _merge_rows(self, target: Target, rows: pa.RecordBatch, *, deleting: bool) -> None:
        dialect = self.sink._dialect
        names = target.keys if deleting else target.columns
        scratch = self._scratch(target, names, deleting=deleting)
        types = dict(zip(target.columns, target.sql_types, strict=True))
        chosen = pa.RecordBatch.from_arrays(
            [rows.column(target.columns.index(name)) for name in names], list(names)
        )
        dialect.append(self.connection, scratch, [(n, types[n]) for n in names], iter([chosen]))
        merge = Merge(
            dialect.sql_name(target.path),
            scratch,
            tuple(map(dialect.quote, names)),
            tuple(map(dialect.quote, target.keys)),
            target.keys_are_unique,
            target.keys_are_alone,
        )
        for statement in dialect.delete(merge) if deleting else dialect.upsert(merge):
            dialect.execute(self.connection, statement)

    def _scratch(self, target: Target, names: Sequence[str], *, deleting: bool) -> str:
        """An empty table of this connection's own, with some columns of the target."""
        dialect = self.sink._dialect
        known = self.scratches.get((target.path, deleting))
        if known is not None:
            dialect.execute(self.connection, dialect.empty_scratch(known))
            return known
        name, statement = dialect.create_scratch(target.path, names, len(self.scratches))
        dialect.execute(self.connection, statement)
        self.scratches[target.path, deleting] = name
        return name
