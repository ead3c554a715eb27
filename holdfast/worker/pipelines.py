"""Runs the pipelines of one job side by side, each in a thread of its own, each attempt after attempt.

A pipeline that fails goes on from its tip after a growing wait; when its budget is spent the job has failed, and the
other pipelines end after their epoch: they keep their place.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from holdfast.checkpoint.chain import Chain, ChainMoved
from holdfast.decide.attempts import Retry, decide_after_failure
from holdfast.decide.restore import RestoreRequest, request_of
from holdfast.model.errors import Canceled, HoldfastError, Terminal
from holdfast.model.jobs import JobSpec, Pipeline
from holdfast.outside.clock import RealClock
from holdfast.outside.ids import new_id
from holdfast.runtime.attempt import Ended
from holdfast.runtime.data_path import DataPath
from holdfast.runtime.open_pipeline import build_pipeline
from holdfast.runtime.restore import RestoreStopped, Start, find_start
from holdfast.runtime.stop import StopLevel
from holdfast.worker.attempts import DEFECTS, WorkerOutside, run_attempt

CANCEL_GRACE_MS = 15_000
"""So long may a canceled pipeline take to end. What hangs beyond it is left behind: a crash loses nothing either."""
LOOK_EVERY_S = 0.2


LEFT_BEHIND = "It was canceled and did not end; it is left behind."


class JobEnd(Enum):
    """How a run of a job ended."""

    FINISHED = "FINISHED"
    STOPPED = "STOPPED"
    CANCELED = "CANCELED"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class JobResult:
    """The end of a run, with the failure that ended it."""

    end: JobEnd
    failed_pipeline: int | None = None
    error: BaseException | None = None


class UnexpectedFailure(HoldfastError):
    """Something nobody gave a message for. Tried again, since it may pass."""

    code = "unexpected-failure"


def run_job(
    job_id: str, spec: JobSpec, request: RestoreRequest, outside: WorkerOutside
) -> JobResult:
    """Run all pipelines to their end. Returns when nothing of the job runs any more."""
    request = replace(request, submission=request.submission or new_id())
    requests = _requests_of(spec, request)
    if len(spec.pipelines) > 1:
        refused = _refused(job_id, spec, request, outside)
        if refused is not None:
            return refused
    ends: dict[int, Ended | BaseException] = {}

    def run_one(pipeline: Pipeline) -> None:
        try:
            run = _PipelineRun(job_id, spec, pipeline, outside)
            ends[pipeline.id] = run.run(requests[pipeline.id])
        except BaseException as error:  # noqa: BLE001 - the thread's outermost line: judged below
            ends[pipeline.id] = error
            outside.stop.ask(StopLevel.AFTER_EPOCH)

    threads = [
        threading.Thread(
            target=run_one, args=(pipeline,), name=f"pipeline {job_id}/{pipeline.id}", daemon=True
        )
        for pipeline in spec.pipelines
    ]
    for thread in threads:
        thread.start()
    _join(threads, outside)
    return derive_result(
        {pipeline.id: ends.get(pipeline.id, Canceled(LEFT_BEHIND)) for pipeline in spec.pipelines}
    )


def _requests_of(spec: JobSpec, request: RestoreRequest) -> dict[int, RestoreRequest]:
    ids = [pipeline.id for pipeline in spec.pipelines]
    return {id_: request_of(request, id_, ids) for id_ in ids}


def _refused(
    job_id: str, spec: JobSpec, request: RestoreRequest, outside: WorkerOutside
) -> JobResult | None:
    """A job is restored whole or not at all: no pipeline claims anything while the restore of another is refused.

    What else goes wrong here, the pipeline meets again, with its retries.
    """
    for pipeline_id, own in _requests_of(spec, request).items():
        try:
            find_starts(job_id, spec, own, outside, only=pipeline_id)
        except RestoreStopped as stopped:
            return JobResult(JobEnd.FAILED, pipeline_id, stopped)
        except Exception:  # noqa: BLE001 - connectors raise what their drivers raise; it comes again
            continue
    return None


def derive_result(ends: Mapping[int, Ended | BaseException]) -> JobResult:
    """A job has failed if a pipeline has, was canceled if one was, and is finished when all are."""
    failures = {
        id_: end
        for id_, end in sorted(ends.items())
        if isinstance(end, BaseException) and not isinstance(end, Canceled)
    }
    for id_, error in failures.items():
        return JobResult(JobEnd.FAILED, id_, error)
    if any(isinstance(end, Canceled) for end in ends.values()):
        return JobResult(JobEnd.CANCELED)
    if all(end is Ended.FINISHED for end in ends.values()):
        return JobResult(JobEnd.FINISHED)
    return JobResult(JobEnd.STOPPED)


class _PipelineRun:
    """One pipeline, attempt after attempt."""

    def __init__(
        self, job_id: str, spec: JobSpec, pipeline: Pipeline, outside: WorkerOutside
    ) -> None:
        self._job_id = job_id
        self._env = spec.env
        self._spec = pipeline
        self._outside = outside

    def run(self, request: RestoreRequest) -> Ended:
        failed_at_ms: list[int] = []
        while True:
            try:
                return run_attempt(self._job_id, self._env, self._spec, request, self._outside)
            except (Canceled, ChainMoved):
                raise
            except Exception as error:
                if self._outside.stop.level is not StopLevel.GO_ON:
                    raise
                failed_at_ms.append(self._outside.clock.now_ms())
                self._wait_or_give_up(error, failed_at_ms)
                if self._outside.stop.level is not StopLevel.GO_ON:
                    return Ended.STOPPED

    def _wait_or_give_up(self, error: Exception, failed_at_ms: list[int]) -> None:
        can_help = not isinstance(error, (Terminal, *DEFECTS))
        verdict = decide_after_failure(
            failed_at_ms,
            can_help=can_help,
            retry_times=self._env.retry_times,
            retry_interval_ms=self._env.retry_interval_ms,
        )
        if isinstance(verdict, Retry):
            self._outside.watch.retrying(self._spec.id, str(error), verdict.wait_ms)
            self._outside.clock.wait(verdict.wait_ms, self._outside.stop.wake)
            return
        if isinstance(error, HoldfastError):
            raise error
        raise UnexpectedFailure(
            f"Cannot go on with pipeline {self._job_id}/{self._spec.id}:"
            f" {type(error).__name__}: {error}. {verdict.reason.capitalize()}; --debug shows where."
        ) from error


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
    requests = _requests_of(spec, request) if only is None else {only: request}
    for pipeline_spec in spec.pipelines:
        if pipeline_spec.id not in requests:
            continue
        pipeline = build_pipeline(job_id, spec.env, pipeline_spec, outside.catalog, outside.clock)
        path = DataPath(pipeline, outside.host)
        try:
            chain = Chain(outside.files, job_id, pipeline_spec.id)
            own = requests[pipeline_spec.id]
            starts.append(find_start(pipeline, chain, outside.files, own, path.learn_tables))
        finally:
            pipeline.close()
    return starts


def _join(threads: Sequence[threading.Thread], outside: WorkerOutside) -> None:
    """Looks up now and then, so that Ctrl-C reaches the main thread while it waits."""
    canceled_at_ms: float | None = None
    while any(thread.is_alive() for thread in threads):
        for thread in threads:
            thread.join(LOOK_EVERY_S)
        if outside.stop.level is not StopLevel.NOW:
            continue
        now_ms = RealClock().elapsed_ms()
        canceled_at_ms = now_ms if canceled_at_ms is None else canceled_at_ms
        if now_ms - canceled_at_ms > CANCEL_GRACE_MS:
            return
