"""Rows of the tables to what they stand for, and back."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import Row

from holdfast.model.attempts import Attempt, AttemptKey, EndedHow
from holdfast.model.jobs import Goal, Job, JobMode, Outcome, StallPolicy, SubmittedJob
from holdfast.model.json import JsonObject


def submitted_to_text(job: SubmittedJob) -> str:
    return json.dumps(
        {
            "name": job.name,
            "text": job.text,
            "format": job.format,
            "variables": dict(job.variables),
            "restore": job.restore,
            "mode": job.mode.value,
            "pipelineIds": list(job.pipeline_ids),
            "retryTimes": job.retry_times,
            "retryIntervalMs": job.retry_interval_ms,
            "checkpointIntervalMs": job.checkpoint_interval_ms,
            "stallPolicy": job.stall_policy.value,
            "tagFilter": dict(job.tag_filter),
            "graph": job.graph,
        }
    )


def job_from_row(row: Row[Any]) -> Job:
    return job_of(row, submitted_from_row(row))


def submitted_from_row(row: Row[Any]) -> SubmittedJob:
    kept = json.loads(row.submitted)
    return SubmittedJob(
        job_id=row.job_id,
        generation=row.generation,
        submission=row.submission,
        name=kept["name"],
        text=kept["text"],
        format=kept["format"],
        variables=kept["variables"],
        restore=kept["restore"],
        mode=JobMode(kept["mode"]),
        pipeline_ids=tuple(kept["pipelineIds"]),
        retry_times=kept["retryTimes"],
        retry_interval_ms=kept["retryIntervalMs"],
        checkpoint_interval_ms=kept["checkpointIntervalMs"],
        stall_policy=StallPolicy(kept["stallPolicy"]),
        tag_filter=kept["tagFilter"],
        submitted_at_ms=row.submitted_at_ms,
        graph=kept["graph"],
    )


def job_of(row: Row[Any], submitted: SubmittedJob) -> Job:
    return Job(
        submitted,
        Goal[row.goal],
        row.goal_at_ms,
        None if row.outcome is None else Outcome(row.outcome),
        row.ended_at_ms,
        row.reason,
        row.savepoint,
    )


def attempt_from_row(row: Row[Any]) -> Attempt:
    return Attempt(
        AttemptKey(row.job_id, row.generation, row.pipeline_id, row.number),
        row.worker_id,
        row.planned_at_ms,
        row.alone,
        row.started_at_ms,
        row.ended_at_ms,
        None if row.ended_how is None else EndedHow(row.ended_how),
        row.reason,
        row.advanced,
    )


def to_text(found: JsonObject) -> str:
    return json.dumps(found, separators=(",", ":"))


def storable(words: str) -> str:
    """What a driver said may hold characters that a database refuses; for that nothing shall be left undone."""
    return words.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
