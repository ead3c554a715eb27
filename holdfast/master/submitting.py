"""A job's text to what is stored of it, and the wishes people have about jobs. For the leader only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.decide.epochs import derive_cadence
from holdfast.decide.placement import NoRoom
from holdfast.decide.restore import RestoreMode, read_restore
from holdfast.master.looking import ask_for_room
from holdfast.master.master import Master
from holdfast.model.errors import ConfigError, Terminal, Transient
from holdfast.model.jobs import Env, Goal, Job, JobMode, JobSpec, ScheduleStrategy, SubmittedJob
from holdfast.model.json import JsonObject
from holdfast.outside.ids import new_id
from holdfast.spec.catalog import Catalog
from holdfast.spec.env import TAG_FILTER, derive_job_id, parse_job_id
from holdfast.spec.parse import Parse, parse_job
from holdfast.store.commits import NoSuchJob


class JobRejected(Terminal):
    """There is no room, and the strategy is not to wait."""

    code = "job-rejected"


class RoomUnknown(Transient):
    """The leader is new, and not all workers have reported to it."""

    code = "room-unknown"


@dataclass(frozen=True)
class Submission:
    """A job as somebody hands it in."""

    text: str
    format: str = "conf"
    job_id: str | None = None
    name: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    restore: str | None = None
    on_missing: str | None = None
    on_incompatible: str | None = None
    file: str | None = None
    """Where it was read: what names no id has the one that `run` gives it, so that the same file is the same job."""
    submission: str | None = None
    """The same again is the same submission. None: a new one each time."""


def submit(
    master: Master,
    given: Submission,
    catalog: Catalog,
    strategy: ScheduleStrategy,
    parse: Parse = parse_job,
) -> Job:
    """Raises ConfigError with every problem, JobIsThere, JobRejected, RoomUnknown, NotLeading."""
    term = master.leading_term()
    spec = _parse(given, catalog, parse)
    job = describe(given, spec, now_ms=master.now_ms())
    if strategy is ScheduleStrategy.REJECT and not _is_answered_by_store(master, job):
        _refuse_without_room(master, job)
    is_restore = read_restore(job.restore).mode is not RestoreMode.NONE
    stored = master.store.commits.submit_job(term, job, is_restore=is_restore)
    master.wake.set()
    return stored


def _parse(given: Submission, catalog: Catalog, parse: Parse) -> JobSpec:
    parsed = parse(
        given.text, name=f"job.{given.format}", variables=given.variables, catalog=catalog
    )
    if parsed.spec is None:
        problems = "\n".join(f"  {problem}" for problem in parsed.problems)
        raise ConfigError(f"Cannot submit the job: {len(parsed.problems)} problems.\n{problems}")
    return parsed.spec


def describe(given: Submission, spec: JobSpec, *, now_ms: int) -> SubmittedJob:
    """What is stored of a submission."""
    env = spec.env
    submission = given.submission or new_id()
    restore: JsonObject = {
        "from": given.restore or env.restore or "auto",
        "onMissing": given.on_missing or env.on_missing,
        "onIncompatible": given.on_incompatible or env.on_incompatible,
    }
    read_restore(restore)
    return SubmittedJob(
        job_id=check_job_id(given.job_id or env.job_id or _derive_id(given, spec)),
        generation=0,
        submission=submission,
        name=given.name or env.job_name,
        text=given.text,
        format=given.format,
        variables=dict(given.variables),
        restore=restore,
        mode=env.mode,
        pipeline_ids=tuple(pipeline.id for pipeline in spec.pipelines),
        retry_times=env.retry_times,
        retry_interval_ms=env.retry_interval_ms,
        checkpoint_interval_ms=_longest_epoch_ms(env),
        stall_policy=env.stall_policy,
        tag_filter=_read_tags(env),
        submitted_at_ms=now_ms,
        graph=_graph(spec),
    )


def _derive_id(given: Submission, spec: JobSpec) -> str:
    """From what comes again with the same request: its file, else the name of its submission."""
    came_by = given.file or given.submission
    if came_by is None:
        return new_id()
    return derive_job_id(Path(came_by), given.name or spec.env.job_name)


def _read_tags(env: Env) -> Mapping[str, str]:
    found = env.extra.get(TAG_FILTER, {})
    if not isinstance(found, dict) or any(isinstance(v, dict | list) for v in found.values()):
        raise ConfigError(
            f"Cannot read {TAG_FILTER}: expected names and values, such as {{ zone = north }}, found {found!r}."
        )
    return {name: str(value) for name, value in found.items()}


def check_job_id(text: str) -> str:
    """An id is the name of a folder."""
    try:
        return parse_job_id(text)
    except ValueError as wrong:
        raise ConfigError(f"Cannot take {text!r} as a job id: {wrong}.") from wrong


def _longest_epoch_ms(env: Env) -> int:
    """How far apart its checkpoints may be. 0: a batch job that wants one at its end only."""
    if env.checkpoint_interval_ms == 0 and env.mode is JobMode.BATCH:
        return 0
    cadence = derive_cadence(env, commits_cheaply=False)
    return max(cadence.interval_ms, cadence.target_ms or 0, cadence.apart_ms)


def _graph(spec: JobSpec) -> JsonObject:
    return {
        "vertices": [
            {
                "pipelineId": pipeline.id,
                "location": vertex.location,
                "role": vertex.role.value,
                "kind": vertex.kind,
                "inputs": list(vertex.inputs),
            }
            for pipeline in spec.pipelines
            for vertex in pipeline.vertices
        ]
    }


def _is_answered_by_store(master: Master, submitted: SubmittedJob) -> bool:
    """What was handed in before needs no room, and of what lives the store says so."""
    newest = master.store.reads.job(submitted.job_id)
    if newest is not None and newest.outcome is None:
        return True
    return master.store.reads.is_submitted(submitted.job_id, submitted.submission)


def _refuse_without_room(master: Master, submitted: SubmittedJob) -> None:
    placed = ask_for_room(master, Job(submitted))
    if isinstance(placed, NoRoom) and not placed.passes:
        if master.is_new:
            raise RoomUnknown(
                f"Cannot tell whether there is room for job {submitted.job_id}: this master has just begun to lead and"
                f" waits for workers to report; until now {placed.reason}. Ask again."
            )
        raise JobRejected(
            f"Cannot submit job {submitted.job_id}: {placed.reason}. Add room, or set job-schedule-strategy"
            " to WAIT."
        )


def ask(master: Master, job_id: str, goal: Goal) -> Job:
    """Raises NoSuchJob. A job that has ended is told as it is: to ask twice does no harm."""
    term = master.leading_term()
    job = master.store.reads.job(job_id)
    if job is None:
        raise NoSuchJob(f"Cannot stop job {job_id}: there is none of that id.")
    master.store.commits.set_goal(term, job_id, job.generation, goal, at_ms=master.now_ms())
    master.wake.set()
    found = master.store.reads.job(job_id)
    assert found is not None
    return found
