"""Builders with defaults: contexts, pipelines and rows, so that a test states only what matters."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from holdfast.connectors.base import Claim, Connector, Context, StageScope, TableBatch, Token
from holdfast.decide.world import World
from holdfast.model.attempts import Attempt, AttemptKey, EndedHow
from holdfast.model.jobs import (
    Env,
    Goal,
    Job,
    JobMode,
    JobSpec,
    Pipeline,
    Role,
    StallPolicy,
    SubmittedJob,
    Vertex,
)
from holdfast.model.json import JsonObject
from holdfast.model.schema import Table
from holdfast.model.workers import Heartbeat, ObservedAttempt, Worker
from holdfast.outside.clock import Clock, RealClock
from holdfast.spec.config import ConfigObject, config_from_json
from holdfast.spec.fingerprint import vertex_fingerprint
from holdfast.spec.options import read_options
from holdfast.testing.model_log import log_table

LINEAGE = "5ea1"


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
        "stall_policy": StallPolicy.WARN,
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


Declared = tuple[Connector, Any]
"""A connector and its parsed options."""


def a_spec(
    sources: Mapping[str, Declared], sinks: Mapping[str, Declared], env: Env | None = None
) -> JobSpec:
    """A job of one pipeline in which every sink reads every source; the names are task locations."""
    inputs = tuple(sources)
    vertices = [_vertex(Role.SOURCE, at, found, ()) for at, found in sources.items()]
    vertices += [_vertex(Role.SINK, at, found, inputs) for at, found in sinks.items()]
    return JobSpec(env or an_env(), (Pipeline(1, tuple(vertices)),))


def _vertex(role: Role, at: str, declared: Declared, inputs: tuple[str, ...]) -> Vertex:
    connector, options = declared
    fingerprint = vertex_fingerprint(connector.name, options, inputs)
    return Vertex(role, connector.name, at, options, inputs, at, 1, 1, fingerprint)


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
        lineage=LINEAGE,
    )


def a_claim(attempt: int, keep: Token | None, context: Context, lineage: str = LINEAGE) -> Claim:
    return Claim(
        context.job_id, context.pipeline_id, context.location, attempt, keep, lineage=lineage
    )


def a_token(
    parts: Sequence[JsonObject], *, attempt: int = 1, epoch: int = 2, lineage: str = LINEAGE
) -> Token:
    """As it comes back from checkpoint storage."""
    told = {"lineage": lineage, "attempt": attempt, "epoch": epoch, "parts": list(parts)}
    token: Token = json.loads(json.dumps(told))
    return token


def a_batch(ids: Sequence[int], table: str = "t", text: str = "row") -> TableBatch:
    """Inserts of rows `(id, "<text> <id>")` of a model table."""
    columns = {
        "id": pa.array(ids, pa.int64()),
        "text": pa.array([f"{text} {id_}" for id_ in ids], pa.string()),
    }
    return TableBatch(table, pa.record_batch(columns, schema=log_table(table).arrow_schema))


# ------------------------------------------------------------------------------------------ the control plane


def a_submitted_job(job_id: str = "orders", **changes: Any) -> SubmittedJob:
    values: dict[str, Any] = {
        "job_id": job_id,
        "generation": 1,
        "submission": f"submission of {job_id}",
        "name": job_id,
        "text": "env {}",
        "format": "conf",
        "variables": {},
        "restore": {"from": "auto", "onMissing": "fail", "onIncompatible": "fail"},
        "mode": JobMode.STREAMING,
        "pipeline_ids": (1,),
        "retry_times": 3,
        "retry_interval_ms": 3_000,
        "checkpoint_interval_ms": 10_000,
        "stall_policy": StallPolicy.WARN,
        "tag_filter": {},
        "submitted_at_ms": 0,
    }
    return SubmittedJob(**{**values, **changes})


def a_job(
    job_id: str = "orders", *, goal: Goal = Goal.RUN, goal_at_ms: int = 0, **changes: Any
) -> Job:
    """`changes` are of what was submitted."""
    return Job(a_submitted_job(job_id, **changes), goal, goal_at_ms)


def a_key(
    job_id: str = "orders", number: int = 1, *, pipeline_id: int = 1, generation: int = 1
) -> AttemptKey:
    return AttemptKey(job_id, generation, pipeline_id, number)


def an_attempt(
    number: int = 1,
    *,
    of: str = "orders",
    pipeline_id: int = 1,
    at_ms: int = 0,
    ended: EndedHow | None = None,
    **changes: Any,
) -> Attempt:
    """Planned and started `at_ms`, and if it ended, then at once. `started=False`: nobody was seen to run it."""
    started = changes.pop("started", True)
    values: dict[str, Any] = {
        "worker_id": "w1",
        "planned_at_ms": at_ms,
        "started_at_ms": at_ms if started else None,
        "ended_how": ended,
        "ended_at_ms": None if ended is None else at_ms,
    }
    return Attempt(a_key(of, number, pipeline_id=pipeline_id), **{**values, **changes})


def an_observed(
    attempt: Attempt, *, tip: int = 0, claim: int = 0, **changes: Any
) -> ObservedAttempt:
    """As its worker tells it. With a `claim`, it knows from where it went on."""
    restored: JsonObject | None = {"checkpointId": claim} if claim else None
    return ObservedAttempt(attempt.key, tip=max(tip, claim), restored=restored, **changes)


def a_world(
    *jobs: Job,
    attempts: Sequence[Attempt] = (),
    workers: Sequence[Worker] = (),
    **changes: Any,
) -> World:
    """Led since long ago."""
    return World(
        **{
            "term": 1,
            "leading_since_ms": -1_000_000,
            "jobs": jobs,
            "attempts": attempts,
            "workers": {worker.id: worker for worker in workers},
            **changes,
        }
    )


def a_worker(
    worker_id: str = "w1",
    *seen: ObservedAttempt,
    heard_at_ms: int = 0,
    **changes: Any,
) -> Worker:
    """`changes` are of its heartbeat."""
    return Worker(a_heartbeat(worker_id, *seen, **changes), heard_at_ms)


def a_heartbeat(worker_id: str = "w1", *seen: ObservedAttempt, **changes: Any) -> Heartbeat:
    values: dict[str, Any] = {
        "worker_id": worker_id,
        "host": "",
        "sent_at_ms": 0,
        "slots": None,
        "tags": {},
        "draining": False,
        "attempts": seen,
        "term": 1,
    }
    return Heartbeat(**{**values, **changes})
