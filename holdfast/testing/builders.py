"""Builders with defaults: contexts, pipelines and rows, so that a test states only what matters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from holdfast.connectors.base import Connector, Context, Sink, Source, StageScope, TableBatch
from holdfast.model.jobs import Env, JobMode, Pipeline, Role, Vertex
from holdfast.model.schema import Table
from holdfast.outside.clock import Clock, RealClock
from holdfast.runtime.open_pipeline import OpenPipeline
from holdfast.spec.config import ConfigObject, config_from_json
from holdfast.spec.options import read_options
from holdfast.testing.model_log import log_table


def a_context(
    location: str = "sink-0-it",
    *,
    job_id: str = "orders",
    pipeline_id: int = 1,
    mode: JobMode = JobMode.BATCH,
    clock: Clock | None = None,
) -> Context:
    return Context(job_id, pipeline_id, location, mode, 2, clock or RealClock(), location)


def an_env(**changes: Any) -> Env:
    values: dict[str, Any] = {
        "job_id": "orders",
        "job_name": "orders",
        "mode": JobMode.BATCH,
        "parallelism": 2,
        "checkpoint_interval_ms": None,
        "checkpoint_timeout_ms": 600_000,
        "batch_interval_ms": None,
        "retry_times": 0,
        "retry_interval_ms": 0,
        "rows_per_second_max": None,
        "bytes_per_second_max": None,
        "jars": (),
        "spark": {},
        "restore": None,
        "on_missing": "fail",
        "on_incompatible": "fail",
        "retain_after_cancel": True,
    }
    return Env(**{**values, **changes})


def options_of(connector: Connector, block: Mapping[str, Any]) -> Any:
    """Options as a job file would give them; what is wrong with them fails the test."""
    config = config_from_json(dict(block)).value
    assert isinstance(config, ConfigObject)
    options, problems = read_options(connector.options, config, connector.name)
    assert not problems, "; ".join(str(problem) for problem in problems)
    return options


def a_pipeline(sources: Sequence[str], sinks: Sequence[str]) -> Pipeline:
    """Every sink reads every source; the names are task locations."""
    vertices = [_vertex(Role.SOURCE, at, ()) for at in sources]
    vertices += [_vertex(Role.SINK, at, tuple(sources)) for at in sinks]
    return Pipeline(1, tuple(vertices))


def open_pipeline(
    sources: Mapping[str, Source],
    sinks: Mapping[str, Sink],
    *,
    env: Env | None = None,
    clock: Clock | None = None,
) -> OpenPipeline:
    """Ready for an attempt, of connectors that are there already; without transforms."""
    env = env or an_env()
    return OpenPipeline(
        job_id=env.job_id or "orders",
        spec=a_pipeline(list(sources), list(sinks)),
        env=env,
        sources=sources,
        transforms={},
        sinks=sinks,
        clock=clock or RealClock(),
    )


def _vertex(role: Role, location: str, inputs: tuple[str, ...]) -> Vertex:
    return Vertex(role, location, location, None, inputs, location, 1, 1, {"kind": location})


def a_scope(
    *,
    attempt: int = 1,
    epoch: int = 2,
    task: int = 0,
    try_id: str = "0",
    context: Context | None = None,
    tables: Sequence[Table] = (),
) -> StageScope:
    context = context or a_context()
    return StageScope(
        job_id=context.job_id,
        pipeline_id=context.pipeline_id,
        location=context.location,
        attempt=attempt,
        epoch=epoch,
        task=task,
        tables={table.path: table for table in tables or [log_table("t")]},
        try_id=try_id,
    )


def a_batch(ids: Sequence[int], table: str = "t", text: str = "row") -> TableBatch:
    """Inserts of rows `(id, "<text> <id>")` of a model table."""
    columns = {
        "id": pa.array(ids, pa.int64()),
        "text": pa.array([f"{text} {id_}" for id_ in ids], pa.string()),
    }
    return TableBatch(table, pa.record_batch(columns, schema=log_table(table).arrow_schema))
