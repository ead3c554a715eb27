"""Runs one attempt that a leader wants, and says how it ended in the words of the state store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from holdfast.checkpoint.chain import ChainMoved
from holdfast.decide.restore import read_restore, request_of
from holdfast.model.attempts import EndedHow
from holdfast.model.errors import (
    Canceled,
    ConfigError,
    HoldfastError,
    OutcomeUnknown,
    Terminal,
)
from holdfast.model.jobs import JobSpec
from holdfast.model.workers import DesiredAttempt
from holdfast.outside.clock import Clock
from holdfast.outside.files import Files, StorageFailed
from holdfast.runtime.attempt import CrashPoint, Ended, no_crash
from holdfast.runtime.catalog import Catalog
from holdfast.runtime.session import SparkHost
from holdfast.runtime.stop import StopSignal
from holdfast.runtime.watch import Watch
from holdfast.spec.parse import Parse, parse_job
from holdfast.worker.attempts import DEFECTS, WorkerOutside, run_attempt
from holdfast.worker.host import RunAttempt

Log = Callable[[str], None]
NOTHING_READ = "it had finished before: nothing was read. To run it from the start: --restore none"

CODE_EXITS = "code of the job asked the whole process to end, as sys.exit does: let it raise an error instead"


@dataclass(frozen=True)
class HostOutside:
    """What all attempts of a worker share."""

    files: Files
    catalog: Catalog
    host: SparkHost
    clock: Clock
    log: Log
    crash_point: CrashPoint = no_crash
    parse: Parse = parse_job


def attempt_runner(outside: HostOutside) -> RunAttempt:
    def run(wanted: DesiredAttempt, watch: Watch, stop: StopSignal) -> tuple[EndedHow, str]:
        outside.log(f"Attempt {wanted.key} begins.")
        try:
            ended = _run(wanted, watch, stop, outside)
        except SystemExit as error:
            # A thread that ends by it does so without a word.
            how, reason = EndedHow.FAILED_FOR_GOOD, f"{CODE_EXITS} (exit code {error.code})"
        except Exception as error:  # noqa: BLE001 - the attempt's outermost line: reported, never lost
            how, reason = judge_end(error)
        else:
            how = EndedHow.STOPPED if ended is Ended.STOPPED else EndedHow.FINISHED
            reason = NOTHING_READ if ended is Ended.FINISHED_BEFORE else ""
        outside.log(f"Attempt {wanted.key} {how.value}. {reason}".rstrip())
        return how, reason

    return run


def judge_end(error: Exception) -> tuple[EndedHow, str]:
    """What an error means for the attempts to come."""
    if isinstance(error, Canceled):
        return EndedHow.CANCELED, ""
    if isinstance(error, ChainMoved):
        return EndedHow.CANCELED, str(error)
    reason = str(error) if isinstance(error, HoldfastError) else _said(error)
    if isinstance(error, StorageFailed | OutcomeUnknown):
        # Of checkpoint storage: connectors have errors of their own.
        return EndedHow.HELD_UP, reason
    if isinstance(error, (Terminal, *DEFECTS)):
        return EndedHow.FAILED_FOR_GOOD, reason
    return EndedHow.FAILED, reason


def _said(error: Exception) -> str:
    name = type(error).__name__
    try:
        return f"{name}: {error}"
    except Exception:  # noqa: BLE001 - an error of the JVM asks it for its words, and it may be gone
        return name


def _run(wanted: DesiredAttempt, watch: Watch, stop: StopSignal, outside: HostOutside) -> Ended:
    spec = _parse(wanted, outside)
    pipeline = next(p for p in spec.pipelines if p.id == wanted.key.pipeline_id)
    asked = request_of(
        read_restore(wanted.restore), pipeline.id, [pipeline.id for pipeline in spec.pipelines]
    )
    given = WorkerOutside(
        outside.files,
        outside.catalog,
        outside.host,
        outside.clock,
        watch,
        stop,
        outside.crash_point,
    )
    request = replace(asked, submission=wanted.submission, claimed=wanted.claimed)
    return run_attempt(wanted.key.job_id, spec.env, pipeline, request, given)


def _parse(wanted: DesiredAttempt, outside: HostOutside) -> JobSpec:
    parsed = outside.parse(
        wanted.job_text,
        name=f"{wanted.job_name}.{wanted.job_format}",
        variables=wanted.variables,
        catalog=outside.catalog,
    )
    if parsed.spec is None:
        said = "; ".join(str(problem) for problem in parsed.problems)
        raise ConfigError(f"Cannot run job {wanted.key.job_id} on this worker: {said}.")
    return parsed.spec
