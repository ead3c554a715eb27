"""Jobs as people see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from holdfast.api.bodies import read_number
from holdfast.api.serving import Serving
from holdfast.checkpoint.chain import Chain
from holdfast.checkpoint.document import DocumentBroken
from holdfast.checkpoint.savepoint import list_savepoints
from holdfast.decide.isolation import key_of
from holdfast.decide.status import PipelineShown, PipelineStatus
from holdfast.master.looking import Look, look_at
from holdfast.model.errors import ConfigError
from holdfast.model.jobs import Job, Outcome
from holdfast.model.json import Json, JsonObject
from holdfast.outside.files import NotThere

if TYPE_CHECKING:
    from holdfast.api.app import Call

ROWS_DEFAULT = 100
HISTORY_DEFAULT = 20


def running_jobs(serving: Serving, call: Call) -> object:
    skip, most = _page(call)
    jobs = serving.master.store.reads.jobs(outcome=None, live=True, skip=skip, most=most)
    return _show_all(serving, jobs)


def pending_jobs(serving: Serving, call: Call) -> object:
    jobs = serving.master.store.reads.jobs(outcome=None, live=True)
    look = look_at(serving.master, jobs)
    found = []
    for job in jobs:
        waiting = [p for p in look.pipelines(job) if p.status is PipelineStatus.PENDING]
        if waiting:
            found.append(
                {
                    "jobId": job.id,
                    "jobName": job.submitted.name,
                    "jobStatus": look.status(job),
                    "enqueueTimestamp": job.submitted.submitted_at_ms,
                    "waitDurationMs": max(0, look.now_ms - job.submitted.submitted_at_ms),
                    "failureReason": waiting[0].reason,
                    "tagFilter": dict(job.submitted.tag_filter),
                    "pipelines": [_show_pipeline(look, job, p) for p in waiting],
                }
            )
    return {"queueSummary": {"size": len(found)}, "pendingJobs": found}


def finished_jobs(serving: Serving, call: Call) -> object:
    skip, most = _page(call)
    state = call.path.get("state", "").upper()
    outcome = None
    if state:
        try:
            outcome = Outcome(state)
        except ValueError:
            known = ", ".join(o.value for o in Outcome)
            raise ConfigError(f"Cannot list jobs of state '{state}': expected {known}.") from None
    reads = serving.master.store.reads
    return _show_all(serving, reads.jobs(outcome=outcome, live=False, skip=skip, most=most))


def _show_all(serving: Serving, jobs: Sequence[Job]) -> object:
    look = look_at(serving.master, jobs)
    return [show_job(look, job) for job in jobs]


def job_info(serving: Serving, call: Call) -> object:
    job = serving.master.store.reads.job(call.path["job_id"])
    if job is None:
        return {"jobId": ""}
    look = look_at(serving.master, [job])
    found = show_job(look, job)
    reads = serving.master.store.reads
    found["attempts"] = [
        {
            "pipelineId": attempt.key.pipeline_id,
            "number": attempt.key.number,
            "workerId": attempt.worker_id,
            "plannedTime": attempt.planned_at_ms,
            "startedTime": attempt.started_at_ms,
            "endedTime": attempt.ended_at_ms,
            "ended": None if attempt.ended_how is None else attempt.ended_how.value,
            "reason": attempt.reason,
        }
        for attempt in reads.attempts(job.id, job.generation)
    ]
    restored = {id_: look.report(job, id_).get("restored") for id_ in job.submitted.pipeline_ids}
    found["restored"] = [report for _, report in sorted(restored.items()) if report]
    found["events"] = [[at_ms, said] for at_ms, said in reads.events(job.id)]
    return found


def show_job(look: Look, job: Job) -> JsonObject:
    """One job's record. Statuses are derived here and now."""
    submitted = job.submitted
    pipelines: list[Json] = [_show_pipeline(look, job, shown) for shown in look.pipelines(job)]
    return {
        "jobId": job.id,
        "jobName": submitted.name,
        "generation": job.generation,
        "jobStatus": look.status(job),
        "envOptions": {"job.mode": submitted.mode.value},
        "createTime": submitted.submitted_at_ms,
        "finishTime": job.ended_at_ms,
        "finishedTime": job.ended_at_ms,
        "errorMsg": job.reason,
        "savepoint": job.savepoint,
        "isStartWithSavePoint": submitted.restore.get("from") not in ("auto", "none"),
        "jobDag": _show_graph(job),
        "metrics": _metrics(look.reported.get(key_of(job), {})),
        "pipelines": pipelines,
    }


def _show_graph(job: Job) -> JsonObject:
    """By numbers, as SeaTunnel draws it, and by locations, as Holdfast names them."""
    vertices = cast("list[dict[str, Any]]", job.submitted.graph.get("vertices", []))
    numbers = {vertex["location"]: number for number, vertex in enumerate(vertices, start=1)}
    edges: dict[str, list[Json]] = {str(id_): [] for id_ in job.submitted.pipeline_ids}
    for vertex in vertices:
        from_ = [numbers[location] for location in vertex.get("inputs", ()) if location in numbers]
        own = edges.setdefault(str(vertex["pipelineId"]), [])
        own += [{"inputVertexId": n, "targetVertexId": numbers[vertex["location"]]} for n in from_]
    return {
        "jobId": job.id,
        "envOptions": {"job.mode": job.submitted.mode.value},
        "vertexInfoMap": [
            {"vertexId": numbers[v["location"]], "type": v["role"], "vertexName": v["location"]}
            for v in vertices
        ],
        "pipelineEdges": dict(edges),
        "vertices": list(vertices),
    }


def _show_pipeline(look: Look, job: Job, shown: PipelineShown) -> JsonObject:
    seen = look.report(job, shown.pipeline_id)
    found: JsonObject = {
        "pipelineId": shown.pipeline_id,
        "pipelineStatus": shown.status.value,
        "attempt": shown.attempt,
        "workerId": shown.worker_id,
        "reason": shown.reason,
        "lastCheckpointId": seen.get("tip"),
        "progress": seen.get("fraction"),
        "checkpointHealth": _health(shown.status),
    }
    last = seen.get("tipAtMs")
    if isinstance(last, int) and last:
        found["lastCheckpointTime"] = last
        found["secondsSinceLastCheckpoint"] = max(0, (look.now_ms - last) // 1000)
    return found


def _health(status: PipelineStatus) -> str:
    if status is PipelineStatus.STALLED:
        return "STALLED"
    return "OK" if status in (PipelineStatus.RUNNING, PipelineStatus.FINISHED) else "NONE"


def _metrics(reported: Mapping[int, JsonObject]) -> JsonObject:
    """SeaTunnel's names over all sources and sinks; committed is what a checkpoint holds."""
    totals = {"source": [0, 0], "sink": [0, 0]}
    by_vertex: JsonObject = {}
    for seen in reported.values():
        counts = seen.get("counts")
        for at, count in counts.items() if isinstance(counts, dict) else ():
            role = at.split("-", 1)[0]
            assert isinstance(count, list)
            by_vertex[at] = {"rows": count[0], "bytes": count[1]}
            if role in totals:
                totals[role] = [
                    totals[role][0] + int(str(count[0])),
                    totals[role][1] + int(str(count[1])),
                ]
    return {
        "SourceReceivedCount": totals["source"][0],
        "SourceReceivedBytes": totals["source"][1],
        "SinkWriteCount": totals["sink"][0],
        "SinkWriteBytes": totals["sink"][1],
        "SinkCommittedCount": totals["sink"][0],
        "SinkCommittedBytes": totals["sink"][1],
        # Lists of jobs have these two so.
        "sourceReceivedCount": totals["source"][0],
        "sinkWriteCount": totals["sink"][0],
        "vertices": by_vertex,
    }


def job_checkpoints(serving: Serving, call: Call) -> object:
    job_id = call.path["job_id"]
    job = serving.master.store.reads.job(job_id)
    files = serving.master.files
    pipelines = []
    for pipeline_id in job.submitted.pipeline_ids if job else ():
        chain = Chain(files, job_id, pipeline_id)
        history = [
            _show_checkpoint(chain, number) for number in reversed(chain.list_numbers()[-32:])
        ]
        whole = [c for c in history if c["status"] == "COMPLETED"]
        pipelines.append(
            {
                "pipelineId": pipeline_id,
                "latestCompleted": whole[0] if whole else None,
                "history": history,
            }
        )
    return {
        "jobId": job_id if job else "",
        "updatedAt": serving.master.now_ms(),
        "pipelines": pipelines,
        "savepoints": list_savepoints(files, job_id),
    }


def checkpoint_history(serving: Serving, call: Call) -> object:
    """Newest first, of all pipelines or one."""
    job = serving.master.store.reads.job(call.path["job_id"])
    limit = read_number(call, "limit", HISTORY_DEFAULT)
    only, status = call.query.get("pipelineId"), call.query.get("status", "").upper()
    found = []
    for id_ in job.submitted.pipeline_ids if job else ():
        if only not in (None, str(id_)):
            continue
        chain = Chain(serving.master.files, call.path["job_id"], id_)
        shown = (_show_checkpoint(chain, number) for number in reversed(chain.list_numbers()))
        fitting = (checkpoint for checkpoint in shown if status in ("", checkpoint["status"]))
        found += [{"pipelineId": id_, "checkpoint": one} for one in islice(fitting, limit)]
    return found


def _show_checkpoint(chain: Chain, number: int) -> dict[str, object]:
    try:
        found = chain.read(number)
    except (DocumentBroken, NotThere) as broken:
        return {"checkpointId": number, "status": "FAILED", "failureReason": str(broken)}
    return {
        "checkpointId": number,
        "checkpointType": found.kind.value,
        "status": "COMPLETED",
        "completedTimestamp": found.at_ms,
        "attempt": found.attempt,
        "completed": found.completed,
        "positions": dict(found.said),
    }


def _page(call: Call) -> tuple[int, int]:
    page, rows = read_number(call, "page", 1), read_number(call, "rows", ROWS_DEFAULT)
    return (page - 1) * rows, rows


ROUTES = (
    ("GET", "/running-jobs", running_jobs),
    ("GET", "/pending-jobs", pending_jobs),
    ("GET", "/finished-jobs", finished_jobs),
    ("GET", "/finished-jobs/{state}", finished_jobs),
    ("GET", "/job-info/{job_id}", job_info),
    ("GET", "/running-job/{job_id}", job_info),
    ("GET", "/jobs/checkpoints/{job_id}", job_checkpoints),
    ("GET", "/jobs/checkpoints/history/{job_id}", checkpoint_history),
)
