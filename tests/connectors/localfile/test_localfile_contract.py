"""The file source and sink keep the contracts that all sources and sinks keep."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from holdfast.connectors.base import Context, Position
from holdfast.connectors.localfile import SINK, SOURCE
from holdfast.connectors.localfile.sink import guarantee_of
from holdfast.model.jobs import JobMode
from holdfast.outside.clock import RealClock
from holdfast.testing.rules import Rule
from holdfast.testing.sink_contract import SINK_RULES, SinkCase
from holdfast.testing.source_contract import SOURCE_RULES, SourceCase
from holdfast.testing.walking import row_text
from tests.connectors.localfile.localfile_builders import (
    EagerClock,
    a_source,
    context,
    hidden_files,
    options_of,
    read_all,
    shown_files,
)

FILES = 12
ROWS = 5
SCHEMA = {
    "table": "t",
    "columns": [{"name": "id", "type": "bigint"}, {"name": "text", "type": "string"}],
}


def _put(folder: Path, index: int) -> list[str]:
    """A file of five rows, put in its place by a rename."""
    ids = [1000 + index * ROWS + row for row in range(ROWS)]
    beside = folder / ".beside"
    beside.write_text("".join(f"{i},row {i}\n" for i in ids))
    beside.rename(folder / f"f{index:03}.csv")
    return [row_text("t", 0, [i, f"row {i}"]) for i in ids]


def _remove_some(folder: Path) -> Callable[[Position], None]:
    def purge(position: Position) -> None:
        for path in folder.glob("*.csv"):
            path.unlink()

    return purge


def _whole_files(folder: Path) -> SourceCase:
    rows = [row for index in range(FILES) for row in _put(folder, index)]
    return SourceCase(
        make=lambda: a_source(folder, "csv", schema=SCHEMA),
        rows=rows,
        unit_rows_max=ROWS,
        purge=_remove_some(folder),
    )


def _pieces(folder: Path) -> SourceCase:
    rows = [row for index in range(FILES) for row in _put(folder, index)]
    return SourceCase(
        make=lambda: a_source(
            folder, "csv", schema=SCHEMA, enable_file_split=True, file_split_size=15
        ),
        rows=rows,
        unit_rows_max=2,
    )


def _arriving(folder: Path) -> SourceCase:
    """Continuous discovery. Files of one instant are read in the order of their names."""
    for index in range(FILES):
        _put(folder, index)
    added = iter(range(FILES, 100))

    def add() -> Sequence[str]:
        return [row for _ in range(3) for row in _put(folder, next(added))]

    own: dict[str, Any] = {"discovery_mode": "continuous", "clock": EagerClock()}
    return SourceCase(
        make=lambda: a_source(folder, "csv", schema=SCHEMA, mode=JobMode.STREAMING, **own),
        ordered=False,
        unit_rows_max=ROWS,
        add=add,
    )


@pytest.mark.parametrize("build", [_whole_files, _pieces, _arriving])
@pytest.mark.parametrize("rule", SOURCE_RULES, ids=str)
def test_the_source_keeps(rule: Rule[SourceCase], build: Any, tmp_path: Path) -> None:
    case = build(tmp_path)
    unfit = rule.applies(case)
    if unfit is not None:
        pytest.skip(unfit)

    rule.check(case)


def _case(folder: Path, kind: str, own: dict[str, Any]) -> SinkCase:
    target = folder / "out"
    options = options_of(SINK, path=str(target), file_format_type=kind, **own)

    def make(at: Context) -> Any:
        return SINK.create(options, at)

    def visible() -> list[int]:
        if not shown_files(target):
            return []
        reading = a_source(target, kind, schema=SCHEMA, parse_partition_from_path=False)
        return [row["id"] for row in read_all(reading).rows]

    def leftovers() -> list[str]:
        elsewhere = [str(p) for p in (folder / "tmp").rglob("*") if p.is_file()]
        return [str(path) for path in hidden_files(target)] + elsewhere

    return SinkCase(make=make, visible=visible, leftovers=leftovers, declared=guarantee_of(options))


SINKS: dict[str, tuple[str, dict[str, Any]]] = {
    "csv": ("csv", {}),
    "parquet": ("parquet", {}),
    "named": ("json", {"custom_filename": True, "file_name_expression": "orders-${now}"}),
    "partitioned": (
        "csv",
        {
            "have_partition": True,
            "partition_by": ["text"],
            "is_partition_field_write_in_file": True,
        },
    ),
    "small files": ("csv", {"batch_size": 2}),
}


@pytest.mark.parametrize("which", SINKS)
@pytest.mark.parametrize("rule", SINK_RULES, ids=str)
def test_the_sink_keeps(rule: Rule[SinkCase], which: str, tmp_path: Path) -> None:
    kind, own = SINKS[which]
    case = _case(tmp_path, kind, own)
    unfit = rule.applies(case)
    if unfit is not None:
        pytest.skip(unfit)

    rule.check(case)


@pytest.mark.parametrize("rule", SINK_RULES, ids=str)
def test_the_sink_keeps_with_a_staging_folder_elsewhere(
    rule: Rule[SinkCase], tmp_path: Path
) -> None:
    case = _case(tmp_path, "csv", {"tmp_path": str(tmp_path / "tmp")})
    unfit = rule.applies(case)
    if unfit is not None:
        pytest.skip(unfit)

    rule.check(case)


def test_a_position_in_ten_thousand_files_stays_small(tmp_path: Path) -> None:
    for index in range(10_000):
        (tmp_path / f"part-{index:05}-8f14e45fceea167a5a36dedd4bea2543.csv").write_text("1,a\n")
    source = a_source(tmp_path, "csv", schema=SCHEMA)

    plan = source.plan(source.start(), _budget_of(9_999))

    assert plan is not None
    assert plan.end is not None
    assert len(json.dumps(plan.end)) < 400
    assert plan.rows_estimate == 9_999


def _budget_of(rows_max: int) -> Any:
    from holdfast.connectors.base import Budget

    return Budget(rows_max=rows_max, bytes_max=10**12, duration_ms=1000, tasks_max=8)


def test_the_declaration_creates_what_the_job_file_says(tmp_path: Path) -> None:
    options = options_of(SOURCE, path=str(tmp_path), file_format_type="csv")

    assert SOURCE.create(options, context(clock=RealClock())).bounded
