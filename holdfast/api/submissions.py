"""Submit, stop, savepoint: what people want of jobs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from holdfast.api.bodies import read_flag, read_list, read_object
from holdfast.api.serving import Serving
from holdfast.checkpoint.chain import Chain, list_pipelines
from holdfast.checkpoint.savepoint import write_savepoint
from holdfast.master.submitting import Submission, ask, check_job_id, submit
from holdfast.model.errors import ConfigError
from holdfast.model.jobs import Goal
from holdfast.store.commits import NoSuchJob

if TYPE_CHECKING:
    from holdfast.api.app import Call

_RESTORES = {"NONE": "none", "SAVEPOINT": "savepoint", "CHECKPOINT": "latest"}
_FORMATS = {"json": "json", "hocon": "conf", "conf": "conf", "sql": "sql"}


def submit_job(serving: Serving, call: Call) -> object:
    query = call.query
    given = _submission(query, _text_of(call), query.get("format", "json"))
    return _submitted(serving, given)


def _text_of(call: Call) -> str:
    try:
        return call.body.decode("utf-8")
    except UnicodeDecodeError as wrong:
        raise ConfigError(f"Cannot read the job: it is not UTF-8 ({wrong}).") from wrong


def submit_jobs(serving: Serving, call: Call) -> object:
    """Each with `params {jobId, jobName, …}` beside the job."""
    found = []
    for item in read_list(call):
        params = {str(k): str(v) for k, v in (item.pop("params", None) or {}).items()}
        found.append(_submitted(serving, _submission(params, json.dumps(item), "json")))
    return found


def _submitted(serving: Serving, given: Submission) -> object:
    job = submit(serving.master, given, serving.catalog, serving.strategy)
    return {"jobId": job.id, "jobName": job.submitted.name, "generation": job.generation}


def _submission(query: dict[str, str], text: str, format_: str) -> Submission:
    if format_ not in _FORMATS:
        raise ConfigError(
            f"Cannot submit a job of format '{format_}': expected json, hocon or sql."
        )
    is_savepoint = read_flag(query, "isStartWithSavePoint")
    if is_savepoint and not query.get("jobId"):
        raise ConfigError(
            "Cannot start with a savepoint: jobId is missing. Name the job to go on with."
        )
    restore = query.get("restore") or ("latest" if is_savepoint else None)
    mode = query.get("restoreMode", "").upper()
    if mode and mode not in _RESTORES:
        known = ", ".join(_RESTORES)
        raise ConfigError(f"Cannot restore by mode '{mode}': expected {known}.")
    if mode and restore is None:
        restore = _RESTORES[mode]
    variables = {
        k.removeprefix("variable."): v for k, v in query.items() if k.startswith("variable.")
    }
    return Submission(
        text=text,
        format=_FORMATS[format_],
        job_id=query.get("jobId") or None,
        name=query.get("jobName") or None,
        variables=variables,
        restore=restore,
        on_missing=query.get("onMissing"),
        on_incompatible=query.get("onIncompatible"),
        file=query.get("jobFile") or None,
        submission=query.get("submission"),
    )


def stop_job(serving: Serving, call: Call) -> object:
    job_id, goal = _read_stop(read_object(call))
    return {"jobId": ask(serving.master, job_id, goal).id}


def stop_jobs(serving: Serving, call: Call) -> object:
    """One that is not there keeps no other from being stopped."""
    asked, missing = [], []
    for job_id, goal in [_read_stop(item) for item in read_list(call)]:
        try:
            asked.append({"jobId": ask(serving.master, job_id, goal).id})
        except NoSuchJob:
            missing.append(job_id)
    if missing:
        raise NoSuchJob(
            f"Cannot stop {', '.join(missing)}: there is none of that id. The other {len(asked)} have been asked."
        )
    return asked


def _read_stop(wanted: dict[str, Any]) -> tuple[str, Goal]:
    goal = Goal.SAVEPOINT if read_flag(wanted, "isStopWithSavePoint") else Goal.CANCEL
    if read_flag(wanted, "force"):
        goal = Goal.FORCE
    return str(wanted.get("jobId", "")), goal


def make_savepoint(serving: Serving, call: Call) -> object:
    """Beside a running job: a copy of its tips."""
    job_id = check_job_id(str(read_object(call).get("jobId", "")))
    serving.master.leading_term()
    files = serving.master.files
    chains = [Chain(files, job_id, id_) for id_ in list_pipelines(files, job_id)]
    tips = [tip for chain in chains if (tip := chain.tip()) is not None]
    if not tips:
        raise NoSuchJob(f"Cannot make a savepoint of job {job_id}: it has no checkpoint yet.")
    made = write_savepoint(files, tips, serving.master.now_ms())
    return {"jobId": job_id, "path": made.path}


ROUTES = (
    ("POST", "/submit-job", submit_job),
    ("POST", "/submit-jobs", submit_jobs),
    ("POST", "/stop-job", stop_job),
    ("POST", "/stop-jobs", stop_jobs),
    ("POST", "/savepoint-job", make_savepoint),
)
