"""One attempt at one pipeline, from its parsed text to its end: build, find where to go on, claim, run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.checkpoint.chain import Chain, ChainMoved
from holdfast.decide.restore import RestoreRequest
from holdfast.model.errors import Canceled, HoldfastError, Terminal, Transient
from holdfast.model.jobs import Env, Pipeline
from holdfast.model.schema import Table
from holdfast.outside.clock import Clock
from holdfast.outside.files import Files
from holdfast.runtime.attempt import (
    Attempt,
    AttemptOutside,
    CrashPoint,
    Ended,
    cadence_of,
    no_crash,
)
from holdfast.runtime.catalog import Catalog
from holdfast.runtime.data_path import DataPath
from holdfast.runtime.keeping import Keeping
from holdfast.runtime.open_pipeline import OpenPipeline, build_pipeline
from holdfast.runtime.restore import find_start
from holdfast.runtime.session import SessionInDriver, SparkHost
from holdfast.runtime.stop import StopLevel, StopSignal
from holdfast.runtime.watch import Watch
from holdfast.spec.redact import hiding_secrets

CLAIM_TRIES_MAX = 20
DEFECTS = (TypeError, AttributeError, AssertionError, NameError, ImportError, LookupError)
"""A mistake in a program, ours or a user's function: it would come again at once."""


@dataclass(frozen=True)
class WorkerOutside:
    """What a worker is given from outside."""

    files: Files
    catalog: Catalog
    host: SparkHost
    clock: Clock
    watch: Watch
    stop: StopSignal
    crash_point: CrashPoint = no_crash


class PipelineFailed(Terminal):
    """A pipeline is given up."""

    code = "pipeline-failed"


class DriverDied(Transient):
    """The JVM of Spark's driver died while an attempt needed it, most often for want of memory."""

    code = "driver-died"


def run_attempt(
    job_id: str, env: Env, spec: Pipeline, request: RestoreRequest, outside: WorkerOutside
) -> Ended:
    """Raises what went wrong; Canceled when it was asked to end at once; ChainMoved when another took over."""
    with hiding_secrets(spec):
        return _run_attempt(job_id, env, spec, request, outside)


def _run_attempt(
    job_id: str, env: Env, spec: Pipeline, request: RestoreRequest, outside: WorkerOutside
) -> Ended:
    session = SessionInDriver(outside.host, env.jars)
    pipeline = build_pipeline(job_id, env, spec, outside.catalog, outside.clock, session)
    outside.stop.on_now(pipeline.close)
    deaths = outside.host.deaths
    try:
        return _run_opened(pipeline, request, outside)
    except ChainMoved:
        raise
    except Exception as error:
        if outside.stop.level is StopLevel.NOW and not isinstance(error, Canceled):
            raise Canceled(f"Pipeline {pipeline.name} was canceled.") from error
        if not isinstance(error, HoldfastError) and outside.host.deaths > deaths:
            raise DriverDied(
                f"Cannot go on with pipeline {pipeline.name}: Spark's driver died under it ({error}). The next"
                " attempt starts another; if that dies too, give it more memory by spark.driver.memory."
            ) from error
        raise
    finally:
        outside.stop.forget(pipeline.close)
        pipeline.close()


def _run_opened(pipeline: OpenPipeline, request: RestoreRequest, outside: WorkerOutside) -> Ended:
    chain = Chain(outside.files, pipeline.job_id, pipeline.spec.id)
    path = DataPath(pipeline, outside.host)
    learnt: dict[str, list[Table]] = {}

    def tables() -> Mapping[str, list[Table]]:
        if not learnt:
            learnt.update({at: list(found) for at, found in path.learn_tables().items()})
        return learnt

    keeping = Keeping(chain, outside.clock, interval_ms=cadence_of(pipeline).interval_ms)
    given = AttemptOutside(chain, keeping, outside.watch, outside.stop, outside.crash_point)
    for _ in range(CLAIM_TRIES_MAX):
        start = find_start(pipeline, chain, outside.files, request, tables)
        if start.settled:
            outside.watch.restored(start.report)
            return Ended.FINISHED_BEFORE
        attempt = Attempt(pipeline, path, learnt, given)
        try:
            return attempt.run(start)
        except ChainMoved:
            if attempt.claimed:
                raise
    raise PipelineFailed(
        f"Cannot claim pipeline {pipeline.name}: others wrote its next checkpoint"
        f" {CLAIM_TRIES_MAX} times. Another process runs this job; stop one of them."
    )
