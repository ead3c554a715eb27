"""Builders for tests of the file source and sink: options by their job-file names, tables with every type."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from holdfast.connectors.base import (
    Budget,
    Claim,
    Connector,
    Context,
    Position,
    StageScope,
    TableBatch,
    Token,
    is_done,
)
from holdfast.connectors.localfile import SINK, SOURCE
from holdfast.connectors.localfile.sink import FileSink
from holdfast.connectors.localfile.source import FileSource
from holdfast.model.jobs import JobMode
from holdfast.model.json import Json
from holdfast.model.schema import KIND_COLUMN, Table, format_type, table_from_arrow
from holdfast.outside.clock import Clock, RealClock
from holdfast.spec.config import ConfigObject, config_from_json
from holdfast.spec.options import read_options

D = decimal.Decimal
MB = 1024 * 1024
WIDE = Budget(rows_max=10**9, bytes_max=10**12, duration_ms=10_000, tasks_max=64)


def options_of(connector: Connector, **values: Any) -> Any:
    """Parsed as from a job file. Problems are failures."""
    block = config_from_json(values).value
    assert isinstance(block, ConfigObject)
    made, problems = read_options(connector.options, block, connector.name)
    assert not problems, problems
    return made


def problems_of(connector: Connector, *, mode: JobMode = JobMode.BATCH, **values: Any) -> list[str]:
    """What `check` would say."""
    block = config_from_json(values).value
    assert isinstance(block, ConfigObject)
    made, problems = read_options(connector.options, block, connector.name)
    found = [str(problem) for problem in problems]
    return found if made is None else found + list(connector.check(made, mode))


def context(
    location: str = "source-0-localfile",
    *,
    job_id: str = "orders",
    mode: JobMode = JobMode.BATCH,
    parallelism: int = 2,
    clock: Clock | None = None,
) -> Context:
    return Context(job_id, 1, location, mode, parallelism, clock or RealClock(), "")


def a_source(
    path: Path | str,
    kind: str,
    *,
    mode: JobMode = JobMode.BATCH,
    clock: Clock | None = None,
    **values: Any,
) -> FileSource:
    made = options_of(SOURCE, path=str(path), file_format_type=kind, **values)
    found = SOURCE.create(made, context(mode=mode, clock=clock))
    assert isinstance(found, FileSource)
    return found


def a_sink(path: Path | str, kind: str, *, job_id: str = "orders", **values: Any) -> FileSink:
    made = options_of(SINK, path=str(path), file_format_type=kind, **values)
    found = SINK.create(made, context("sink-0-localfile", job_id=job_id))
    assert isinstance(found, FileSink)
    return found


class EagerClock(RealClock):
    """Time goes by with each look at it, so that files are settled and every scan is due."""

    def __init__(self) -> None:
        self._looks = 0

    def now_ms(self) -> int:
        return super().now_ms() + 60_000

    def elapsed_ms(self) -> float:
        self._looks += 1
        return self._looks * 60_000.0


@dataclass
class Reading:
    """A source read to its end, epoch by epoch."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    positions: list[Position] = field(default_factory=list)
    tasks: int = 0

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [row for batch in self.batches for row in batch.to_pylist()]

    def table(self) -> pa.Table:
        return pa.Table.from_batches(self.batches)


def read_all(
    source: FileSource, budget: Budget = WIDE, position: Position | None = None
) -> Reading:
    """Until done."""
    found = Reading()
    at = source.start() if position is None else position
    found.positions.append(at)
    while not is_done(at):
        plan = source.plan(at, budget)
        assert plan is not None
        assert plan.end is not None
        for task in plan.tasks:
            found.tasks += 1
            found.batches += [batch.batch for batch in source.read(task, budget)]
        at = plan.end
        found.positions.append(at)
    return found


def scope(
    table: Table | Sequence[Table],
    *,
    epoch: int = 2,
    attempt: int = 1,
    task: int = 0,
    job_id: str = "orders",
) -> StageScope:
    tables = [table] if isinstance(table, Table) else list(table)
    return StageScope(
        job_id=job_id,
        pipeline_id=1,
        location="sink-0-localfile",
        attempt=attempt,
        epoch=epoch,
        task=task,
        tables={one.path: one for one in tables},
        try_id="0",
    )


def stage(
    sink: FileSink,
    rows: pa.RecordBatch | Sequence[pa.RecordBatch],
    *,
    epoch: int = 2,
    attempt: int = 1,
    tasks: int = 1,
) -> Token:
    """One epoch with the same rows in each task."""
    batches = [rows] if isinstance(rows, pa.RecordBatch) else list(rows)
    table = a_table(batches[0].schema)

    def given() -> Iterator[TableBatch]:
        return (TableBatch(table.path, batch) for batch in batches)

    parts: list[Json] = []
    for task in range(tasks):
        job_id = sink._context.job_id
        own = scope(table, epoch=epoch, attempt=attempt, task=task, job_id=job_id)
        part = sink.stage(own, given())
        if part is not None:
            parts.append(part)
    return {"attempt": attempt, "epoch": epoch, "parts": parts}


def write(sink: FileSink, rows: pa.RecordBatch | Sequence[pa.RecordBatch], epoch: int = 2) -> None:
    sink.publish(stage(sink, rows, epoch=epoch))


def claim(attempt: int, keep: Token | None = None) -> Claim:
    return Claim("orders", 1, "sink-0-localfile", attempt, keep)


def a_table(schema: pa.Schema, path: str = "shop.orders") -> Table:
    return table_from_arrow(path, schema)


def schema_block(schema: pa.Schema) -> Json:
    columns: list[Json] = [
        {"name": f.name, "type": format_type(f.type)} for f in schema if f.name != KIND_COLUMN
    ]
    return {"columns": columns}


def shown_files(folder: Path) -> list[Path]:
    """What a reader of the folder sees."""
    return sorted(
        path
        for path in folder.rglob("*")
        if path.is_file() and not any(p.startswith(".") for p in path.relative_to(folder).parts)
    )


def hidden_files(folder: Path) -> list[Path]:
    """What is left in our own folder, but for marks."""
    own = folder / ".holdfast"
    return sorted(p for p in own.rglob("*") if p.is_file() and "published" not in p.parts)


def moment(*parts: int) -> dt.datetime:
    return dt.datetime(*parts)  # type: ignore[arg-type]  # noqa: DTZ001 - a time without a zone


def every_type() -> pa.RecordBatch:
    """Each type of a job file, with its edges and a null."""
    columns = {**_plain_columns(), **_moment_columns(), **_nested_columns()}
    return pa.record_batch(list(columns.values()), names=list(columns))


def _plain_columns() -> dict[str, pa.Array]:
    return {
        "a_string": pa.array(["", 'quo"te, and\\slash', "é😀", "=1+1", None], pa.string()),
        "a_boolean": pa.array([True, False, None, True, False], pa.bool_()),
        "a_tinyint": pa.array([-128, 127, 0, None, 1], pa.int8()),
        "a_smallint": pa.array([-(2**15), 2**15 - 1, 0, None, 1], pa.int16()),
        "an_int": pa.array([-(2**31), 2**31 - 1, 0, None, 1], pa.int32()),
        "a_bigint": pa.array([-(2**63), 2**63 - 1, 0, None, 10**15], pa.int64()),
        "a_float": pa.array([0.1, -0.0, None, 3e38, 1.5], pa.float32()),
        "a_double": pa.array([0.1, 1e300, None, -1e-300, 123456789.123456], pa.float64()),
        "a_decimal": pa.array(
            [
                D("0.0000000001"),
                D("-5.5"),
                None,
                D("1234567890123456789012345678.0987654321"),
                D(0),
            ],
            pa.decimal128(38, 10),
        ),
        "a_small_decimal": pa.array(
            [D("0.01"), D("-5.50"), None, D("999.99"), D(0)], pa.decimal128(5, 2)
        ),
        "some_bytes": pa.array([b"\x00\xff", b"a", None, b"abc", b"abcd"], pa.binary()),
    }


def _moment_columns() -> dict[str, pa.Array]:
    return {
        "a_date": pa.array(
            [
                dt.date(1, 1, 1),
                dt.date(9999, 12, 31),
                None,
                dt.date(2024, 2, 29),
                dt.date(1970, 1, 1),
            ]
        ),
        "a_time": pa.array(
            [dt.time(0), dt.time(23, 59, 59, 999999), None, dt.time(1, 2, 3), dt.time(4, 5, 6, 7)],
            pa.time64("us"),
        ),
        "a_timestamp": pa.array(
            [
                moment(1700, 1, 1),
                moment(2261, 12, 31, 23, 59, 59, 999999),
                None,
                moment(2024, 2, 29, 1, 2, 3),
                moment(2024, 1, 1, 10, 0, 0, 120000),
            ],
            pa.timestamp("us"),
        ),
        "a_zoned": pa.array(
            [
                moment(1970, 1, 1),
                moment(2261, 1, 1, 1, 1, 1, 1),
                None,
                moment(2024, 2, 29, 1, 2, 3),
                moment(2024, 1, 1, 10, 0),
            ],
            pa.timestamp("us", "UTC"),
        ),
    }


def _nested_columns() -> dict[str, pa.Array]:
    return {
        "a_list": pa.array([[1, None], [], None, [3], [4, 5]], pa.list_(pa.int32())),
        "a_map": pa.array(
            [[("a", 1)], [], None, [('b"', None)], [("c", 2), ("d", 3)]],
            pa.map_(pa.string(), pa.int64()),
        ),
        "a_row": pa.array(
            [{"x": D("1.50"), "y": "q"}, {"x": None, "y": None}, None, {"x": D(0), "y": ""}, None],
            pa.struct([("x", pa.decimal128(5, 2)), ("y", pa.string())]),
        ),
        "dates": pa.array([[dt.date(2020, 1, 1)], [], None, [None], []], pa.list_(pa.date32())),
    }


def numbered(count: int, start: int = 0) -> pa.RecordBatch:
    """Rows with a number and a name."""
    ids = range(start, start + count)
    return pa.record_batch(
        {"id": pa.array(ids, pa.int64()), "name": pa.array([f"name {i}" for i in ids], pa.string())}
    )
