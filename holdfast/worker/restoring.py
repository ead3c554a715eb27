"""What a restore of a whole job would do: found for every pipeline, acted on for none."""

from __future__ import annotations

from holdfast.checkpoint.chain import Chain
from holdfast.decide.restore import RestoreRequest, request_of
from holdfast.model.jobs import JobSpec, Pipeline
from holdfast.runtime.data_path import DataPath
from holdfast.runtime.open_pipeline import build_pipeline
from holdfast.runtime.restore import RestoreStopped, Start, find_start
from holdfast.runtime.session import SessionInDriver
from holdfast.spec.redact import hiding_secrets
from holdfast.worker.attempts import WorkerOutside


def requests_of(spec: JobSpec, request: RestoreRequest) -> dict[int, RestoreRequest]:
    """What was asked for each pipeline."""
    ids = [pipeline.id for pipeline in spec.pipelines]
    return {id_: request_of(request, id_, ids) for id_ in ids}


def find_refusal(
    job_id: str, spec: JobSpec, request: RestoreRequest, outside: WorkerOutside
) -> tuple[int, RestoreStopped] | None:
    """A job is restored whole or not at all: no pipeline claims anything while the restore of another is refused.

    What else goes wrong here, the pipeline meets again, with its retries.
    """
    for pipeline_id, own in requests_of(spec, request).items():
        try:
            find_starts(job_id, spec, own, outside, only=pipeline_id)
        except RestoreStopped as stopped:
            return pipeline_id, stopped
        except Exception:  # noqa: BLE001 - connectors raise what their drivers raise; it comes again
            continue
    return None


def find_starts(
    job_id: str,
    spec: JobSpec,
    request: RestoreRequest,
    outside: WorkerOutside,
    *,
    only: int | None = None,
) -> list[Start]:
    """What a restore would do, for every pipeline; nothing is written."""
    starts = []
    requests = requests_of(spec, request) if only is None else {only: request}
    for pipeline_spec in spec.pipelines:
        if pipeline_spec.id in requests:
            own = requests[pipeline_spec.id]
            with hiding_secrets(pipeline_spec):
                starts.append(_find_start(job_id, spec, pipeline_spec, own, outside))
    return starts


def _find_start(
    job_id: str,
    spec: JobSpec,
    pipeline_spec: Pipeline,
    request: RestoreRequest,
    outside: WorkerOutside,
) -> Start:
    session = SessionInDriver(outside.host, spec.env.jars)
    pipeline = build_pipeline(
        job_id, spec.env, pipeline_spec, outside.catalog, outside.clock, session
    )
    path = DataPath(pipeline, outside.host)
    try:
        chain = Chain(outside.files, job_id, pipeline_spec.id)
        return find_start(pipeline, chain, outside.files, request, path.learn_tables)
    finally:
        pipeline.close()
