"""The `env` block: what holds for the whole job. Declared as options are, so checked and shown as they are."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from holdfast.model.jobs import Env, JobMode, StallPolicy
from holdfast.model.json import Json, JsonObject
from holdfast.spec.config import ConfigObject, Problem
from holdfast.spec.options import declared_options, option, read_options

Policy = Literal["fail", "previous", "fresh", "latest"]
_UNIT_MS = {
    "ms": 1, "milli": 1, "millis": 1, "millisecond": 1, "milliseconds": 1,
    "s": 1000, "sec": 1000, "second": 1000, "seconds": 1000,
    "m": 60_000, "min": 60_000, "minute": 60_000, "minutes": 60_000,
    "h": 3_600_000, "hour": 3_600_000, "hours": 3_600_000,
    "d": 86_400_000, "day": 86_400_000, "days": 86_400_000,
}  # fmt: skip
_DURATION = re.compile(r"\s*(\d{1,15}(?:\.\d{1,6})?)\s*([a-zA-Z]*)\s*")
_RESTORE = re.compile(r"auto|latest|savepoint|none|checkpoint:(?:\d+/)?\d+|path:.+")
_JOB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
WITHOUT_EFFECT = (
    "savemode.execute.location",
    "sink.flush.interval",
    "custom_parameters",
    "error_handler",
    "transform_error_handler",
    "sink_error_handler",
    "flink",
    "execution",
)
"""Accepted, so that job files can be brought over as they are; each is reported as a note."""
TAG_FILTER = "tag_filter"
"""The tags that a worker must have; a cluster looks at it."""
_PASSED_ON = ("spark", TAG_FILTER, "shade.identifier", "shade.properties", *WITHOUT_EFFECT)


def parse_duration(found: Json) -> int:
    """Milliseconds from a number (of milliseconds) or text such as `10s`. Raises ValueError."""
    match = None if isinstance(found, bool) else _DURATION.fullmatch(str(found))
    unit = None if match is None else _UNIT_MS.get(match.group(2).lower() or "ms")
    if match is None or unit is None:
        raise ValueError(
            f"expected milliseconds or a duration such as 10s, 5m or 1h, found {found!r}"
        )
    return round(float(match.group(1)) * unit)


def derive_job_id(path: Path, job_name: str) -> str:
    """Stable for a job file and its name: the same file run again is the same job."""
    place = hashlib.sha256(f"{path.resolve()}\0{job_name}".encode()).hexdigest()[:8]
    slug = re.sub(r"[^a-z0-9]+", "-", job_name.lower()).strip("-")[:40] or "job"
    return f"{slug}-{place}"


def _parse_restore(found: Json) -> str:
    text = str(found).strip()
    if _RESTORE.fullmatch(text) is None:
        raise ValueError(
            "expected auto, latest, savepoint, checkpoint:<id>, checkpoint:<pipeline>/<id>, path:<savepoint>"
            f" or none, found {found!r}"
        )
    return text


def parse_job_id(found: Json) -> str:
    text = str(found)
    if text == "savepoint":
        raise ValueError(
            "expected another name than 'savepoint', which is where savepoints are kept"
        )
    if _JOB_ID.fullmatch(text) is None:
        raise ValueError(
            f"expected letters, digits, '.', '_' and '-' (128 at most), found {found!r}"
        )
    return text


def _parse_jars(found: Json) -> list[str]:
    parts = found if isinstance(found, list) else str(found).split(";")
    return [str(part).strip() for part in parts if str(part).strip()]


def duration(doc: str, name: str, default: int | None, aliases: tuple[str, ...] = ()) -> int:
    """An option that is a time span: milliseconds, or text with a unit."""
    declared: int = option(
        doc, default=default, name=name, aliases=aliases, parse=parse_duration, type_name="duration"
    )
    return declared


@dataclass(frozen=True)
class EnvOptions:
    """The options of `env` that have an effect."""

    job_name: str | None = option("The job's name.", default=None, name="job.name")
    job_mode: Literal["BATCH", "STREAMING"] = option(
        "Whether sources end by themselves.",
        default="BATCH",
        name="job.mode",
        aliases=("execution.mode",),
    )
    job_id: str | None = option(
        "The job's id: what is kept of it is found again by this.",
        default=None,
        name="job.id",
        parse=parse_job_id,
        type_name="string",
    )
    parallelism: int = option(
        "How many tasks read and write at once, where a block does not say.",
        default=1,
        minimum=1,
        aliases=("execution.parallelism", "job.parallelism"),
    )
    jars: list[str] = option(
        "Extra jars for Spark, separated by ';'.",
        default=[],
        parse=_parse_jars,
        type_name="list of string",
    )
    checkpoint_interval: int | None = duration(
        "How often a restore point is kept; 0: only at the end.",
        "checkpoint.interval",
        None,
        ("execution.checkpoint.interval",),
    )
    checkpoint_timeout: int = duration(
        "How long a checkpoint may take.",
        "checkpoint.timeout",
        30_000,
        ("execution.checkpoint.timeout",),
    )
    retain: bool = option(
        "Accepted. What a canceled job had committed is kept either way, so that it can go on.",
        default=False,
        name="checkpoint.retain-after-job-cancelled",
    )
    stall_policy: Literal["warn", "restart", "fail"] = option(
        "What becomes of a pipeline that runs and commits nothing for two intervals.",
        default="warn",
        name="checkpoint.stall-policy",
    )
    batch_interval: int | None = duration(
        "How long an epoch waits for more rows, instead of the sinks' own cadence.",
        "batch.interval",
        None,
    )
    retry_times: int = option(
        "How often a failed pipeline is started again before the job fails.",
        default=3,
        name="job.retry.times",
        minimum=0,
    )
    retry_seconds: float = option(
        "The first pause before that.",
        default=3.0,
        name="job.retry.interval.seconds",
        minimum=0,
    )
    rows_per_second: float | None = option(
        "The most rows a source reads in a second.",
        default=None,
        name="read_limit.rows_per_second",
        minimum=1,
    )
    bytes_per_second: float | None = option(
        "The most bytes a source reads in a second.",
        default=None,
        name="read_limit.bytes_per_second",
        minimum=1,
    )
    restore: str | None = option(
        "From where the job goes on: auto, latest, savepoint, checkpoint:<id>, path:<savepoint>, none.",
        default=None,
        parse=_parse_restore,
        type_name="string",
    )
    on_missing: Policy = option(
        "What to do when a kept position cannot be read any more.",
        default="fail",
        name="on-missing",
        aliases=("on_missing",),
    )
    on_incompatible: Policy = option(
        "What to do when the job was changed so that it does not fit what is kept.",
        default="fail",
        name="on-incompatible",
        aliases=("on_incompatible",),
    )


def parse_env(
    block: ConfigObject, default_name: str
) -> tuple[Env | None, list[Problem], list[Problem]]:
    """The env, its problems, and notes on what is accepted without effect."""
    found, problems = read_options(EnvOptions, block, "env", common=_PASSED_ON)
    known = {name for o in declared_options(EnvOptions) for name in (o.name, *o.facts.aliases)}
    notes = [
        Problem(entry.line, f"env: '{path}' is accepted and has no effect here")
        for path, entry in block.leaves()
        if path not in known
        and any(path == name or path.startswith(name + ".") for name in WITHOUT_EFFECT)
    ]
    if found is None:
        return None, problems, notes
    return _to_env(found, block, default_name), problems, notes


def _to_env(found: EnvOptions, block: ConfigObject, default_name: str) -> Env:
    return Env(
        job_id=found.job_id,
        job_name=found.job_name or default_name,
        mode=JobMode(found.job_mode),
        parallelism=found.parallelism,
        checkpoint_interval_ms=found.checkpoint_interval,
        stall_policy=StallPolicy(found.stall_policy),
        checkpoint_timeout_ms=found.checkpoint_timeout,
        batch_interval_ms=found.batch_interval,
        retry_times=found.retry_times,
        retry_interval_ms=round(found.retry_seconds * 1000),
        rows_per_second_max=found.rows_per_second,
        bytes_per_second_max=found.bytes_per_second,
        jars=tuple(found.jars),
        spark=_spark_settings(block),
        restore=found.restore,
        on_missing=found.on_missing,
        on_incompatible=found.on_incompatible,
        retain_after_cancel=found.retain,
        extra=_without_effect(block),
    )


def _spark_settings(block: ConfigObject) -> dict[str, str]:
    return {
        path: entry.text if entry.text is not None else str(entry.value)
        for path, entry in block.leaves()
        if path.startswith("spark.") and entry.value is not None
    }


def _without_effect(block: ConfigObject) -> JsonObject:
    found = {name: block.find(name) for name in (*WITHOUT_EFFECT, TAG_FILTER)}
    return {name: entry.plain() for name, entry in found.items() if entry is not None}
