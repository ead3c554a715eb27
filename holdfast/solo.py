"""A master and a worker in one process, for one job: what `holdfast run` is made of. No port, nothing to wait for.

The same decisions, transactions and attempts as on a cluster. The state store is in memory: what must outlive the
process is in checkpoint storage, and whoever runs the job again begins with a fresh store and the chain's own tip.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from holdfast.checkpoint.chain import ChainMoved
from holdfast.decide.pipelines import Verdict, is_stalled, judge_pipeline
from holdfast.decide.restore import RestoreRequest
from holdfast.decide.world import Limits, World
from holdfast.master.master import Master, MasterSettings, NotLeading
from holdfast.master.submitting import Submission, describe
from holdfast.model.attempts import Attempt, AttemptKey, EndedHow
from holdfast.model.ends import JobEnd, JobResult
from holdfast.model.errors import Canceled, HoldfastError
from holdfast.model.jobs import Job, JobSpec
from holdfast.model.json import JsonObject
from holdfast.model.restore import RestoreReport
from holdfast.model.wire import answer_to_json, heartbeat_from_json
from holdfast.model.workers import DesiredAttempt
from holdfast.outside.clock import RealClock
from holdfast.outside.ids import new_id
from holdfast.outside.threads import RealThreads
from holdfast.runtime.attempt import Ended
from holdfast.runtime.stop import StopLevel, StopSignal
from holdfast.runtime.watch import EpochCommitted, EpochStaged, Watch
from holdfast.store.store import open_memory_store
from holdfast.worker.attempts import WorkerOutside, run_attempt
from holdfast.worker.host import WorkerHost, WorkerSettings
from holdfast.worker.restoring import find_refusal, requests_of
from holdfast.worker.running import judge_end

FOREVER_MS = 10**13
"""Master and worker live and die together: neither waits for the other's lease, whatever the clock does."""
BEAT_MS = 250.0
LOOK_MS = 25.0
CANCEL_GRACE_MS = 15_000
"""So long may a canceled pipeline take to end. What hangs beyond it is left behind: a crash loses nothing either."""
LEFT_BEHIND = "It was canceled and did not end; it is left behind."


class UnexpectedFailure(HoldfastError):
    """Something nobody gave a message for. Tried again, since it may pass."""

    code = "unexpected-failure"


def run_job(
    job_id: str, spec: JobSpec, request: RestoreRequest, outside: WorkerOutside
) -> JobResult:
    """Run a job to its end, or until `outside.stop` is asked for. Nothing of it runs any more on return."""
    request = replace(request, submission=request.submission or new_id())
    requests = requests_of(spec, request)
    if len(spec.pipelines) > 1:
        refused = find_refusal(job_id, spec, request, outside)
        if refused is not None:
            return JobResult(JobEnd.FAILED, *refused)
    return _Run(job_id, spec, requests, outside).run()


def derive_result(ends: Mapping[int, Ended | BaseException]) -> JobResult:
    """A job has failed if a pipeline has, was canceled if one was, and is finished when all are."""
    for id_, end in sorted(ends.items()):
        if isinstance(end, BaseException) and not isinstance(end, Canceled):
            return JobResult(JobEnd.FAILED, id_, end)
    if any(isinstance(end, Canceled) for end in ends.values()):
        return JobResult(JobEnd.CANCELED)
    if not any(end is Ended.STOPPED for end in ends.values()):
        return JobResult(JobEnd.FINISHED)
    return JobResult(JobEnd.STOPPED)


@dataclass(frozen=True, slots=True)
class _Seen:
    """One pipeline, as the store has it."""

    pipeline_id: int
    verdict: Verdict
    newest: Attempt | None


class _Run:
    """Master and worker take turns in the caller's thread; attempts have threads of their own."""

    def __init__(
        self,
        job_id: str,
        spec: JobSpec,
        requests: Mapping[int, RestoreRequest],
        outside: WorkerOutside,
    ) -> None:
        self._job_id = job_id
        self._spec = spec
        self._requests = requests
        self._outside = outside
        self._errors: dict[int, BaseException] = {}
        """What each pipeline's newest attempt failed with."""
        self._told: set[AttemptKey] = set()
        """Attempts that failed and were told to be tried again."""
        self._seen: dict[int, _Seen] = {}
        self._stalled: set[int] = set()
        self._ended = False
        self._canceled_at_ms: float | None = None
        clock = outside.clock
        self._store = open_memory_store()
        limits = Limits(worker_lease_ms=FOREVER_MS)
        settings = MasterSettings("master", lease_ttl_ms=FOREVER_MS, limits=limits)
        self._master = Master(settings, self._store, outside.files, clock)
        self._worker = WorkerHost(
            WorkerSettings("worker", ("master",)),
            self._run_attempt,
            network=_ToMaster(self._master),
            clock=clock,
            threads=RealThreads(),
        )

    def run(self) -> JobResult:
        try:
            self._submit()
            while not self._is_over():
                self._wait()
                self._turn()
            return derive_result({id_: self._end_of(seen) for id_, seen in self._seen.items()})
        finally:
            self._store.close()

    # ------------------------------------------------------------------------------------------ turns

    def _submit(self) -> None:
        """The text is parsed already, and which worker there is, is no question here."""
        self._master.tick()
        self._worker.beat()
        submission = next(iter(self._requests.values())).submission
        given = Submission("parsed", job_id=self._job_id, submission=submission)
        described = describe(given, self._spec, now_ms=self._master.now_ms())
        term = self._master.leading_term()
        self._store.commits.submit_job(term, replace(described, tag_filter={}), is_restore=True)
        self._turn()

    def _turn(self) -> None:
        """The worker reports, the master acts, and the worker learns of what is new."""
        self._obey_stop()
        self._worker.beat()
        self._master.tick()
        self._look()
        if any(seen.verdict.open and not seen.verdict.open.started_at_ms for seen in self._all()):
            self._worker.beat()

    def _obey_stop(self) -> None:
        level = self._outside.stop.level
        if level is not StopLevel.GO_ON:
            self._worker.drain()
        if level is StopLevel.NOW:
            self._worker.cancel_all()
            self._canceled_at_ms = self._canceled_at_ms or RealClock().elapsed_ms()

    def _wait(self) -> None:
        """Until an attempt has something to say, a retry is due, or somebody wants an end."""
        stop, wake = self._outside.stop, self._worker.wake
        due_ms = self._due_ms()
        if due_ms is not None:
            self._outside.clock.wait(due_ms, stop.wake)
            return
        level, clock = stop.level, RealClock()
        until_ms = clock.elapsed_ms() + BEAT_MS
        while clock.elapsed_ms() < until_ms and stop.level is level:
            if wake.wait(LOOK_MS / 1000):
                return

    def _due_ms(self) -> float | None:
        """How long until the next attempt, where nothing runs now; None while something does."""
        verdicts = [seen.verdict for seen in self._all()]
        if self._is_stopping() or any(verdict.open for verdict in verdicts):
            return None
        waits = [v.due_at_ms for v in verdicts if not v.finished and v.given_up is None]
        return max(0.0, min(waits, default=0) - self._master.now_ms())

    def _is_stopping(self) -> bool:
        return self._outside.stop.level is not StopLevel.GO_ON

    def _is_over(self) -> bool:
        if self._ended:
            return True
        if not self._is_stopping():
            return False
        return not any(seen.verdict.open for seen in self._all()) or self._hangs()

    def _hangs(self) -> bool:
        asked_ms = self._canceled_at_ms
        return asked_ms is not None and RealClock().elapsed_ms() - asked_ms > CANCEL_GRACE_MS

    # ------------------------------------------------------------------------------------------ looking

    def _look(self) -> None:
        """At what is stored of the job now; failures that will be tried again are told, once each."""
        job = self._store.reads.job(self._job_id)
        assert job is not None
        self._ended = job.outcome is not None
        attempts = self._store.reads.attempts(job.id, job.generation)
        world = World(term=0, leading_since_ms=0, jobs=(job,), attempts=attempts, workers={})
        for id_ in self._requests:
            verdict = judge_pipeline(world, job, id_)
            newest = next(iter(world.attempts_of(job, id_)[-1:]), None)
            self._seen[id_] = _Seen(id_, verdict, newest)
            self._tell_retry(self._seen[id_])
        self._tell_stalls(job)

    def _all(self) -> Iterable[_Seen]:
        return self._seen.values()

    def _tell_retry(self, seen: _Seen) -> None:
        newest = seen.newest
        if newest is None or newest.ended_how is not EndedHow.FAILED or newest.key in self._told:
            return
        if seen.verdict.given_up is None and not self._is_stopping():
            self._told.add(newest.key)
            wait_ms = seen.verdict.due_at_ms - (newest.ended_at_ms or 0)
            self._outside.watch.retrying(seen.pipeline_id, newest.reason, wait_ms)

    def _tell_stalls(self, job: Job) -> None:
        """What is RUNNING and gets nowhere is said, once until it goes on."""
        world, now_ms = self._master.observe(), self._master.now_ms()
        stalled = {
            seen.pipeline_id
            for seen in self._all()
            if seen.verdict.open and is_stalled(world, job, seen.verdict.open, now_ms)
        }
        for id_ in sorted(stalled - self._stalled):
            self._outside.watch.stalled(id_)
        self._stalled = stalled

    # ------------------------------------------------------------------------------------------ the end

    def _end_of(self, seen: _Seen) -> Ended | BaseException:
        newest = seen.newest
        if seen.verdict.finished:
            return Ended.FINISHED
        if seen.verdict.open is not None:
            return Canceled(LEFT_BEHIND)
        if seen.verdict.given_up is not None:
            return self._failure(seen.pipeline_id, seen.verdict.given_up)
        if newest is None or newest.ended_how is EndedHow.STOPPED:
            return Ended.STOPPED
        if newest.ended_how is EndedHow.CANCELED:
            return Canceled(f"Pipeline {self._job_id}/{seen.pipeline_id} was canceled.")
        # It waited for a retry when it was asked to stop, or failed afterwards.
        if newest.key in self._told:
            return Ended.STOPPED
        return self._failure(seen.pipeline_id, newest.reason)

    def _failure(self, id_: int, reason: str) -> BaseException:
        error = self._errors.get(id_)
        if error is not None and (
            isinstance(error, HoldfastError) or not isinstance(error, Exception)
        ):
            return error
        told = UnexpectedFailure(
            f"Cannot go on with pipeline {self._job_id}/{id_}: {reason}. --debug shows where."
        )
        told.__cause__ = error
        return told

    # ------------------------------------------------------------------------------------------ attempts

    def _run_attempt(
        self, wanted: DesiredAttempt, watch: Watch, stop: StopSignal
    ) -> tuple[EndedHow, str]:
        id_ = wanted.key.pipeline_id
        pipeline = next(p for p in self._spec.pipelines if p.id == id_)
        given = replace(self._outside, watch=_Both(watch, self._outside.watch), stop=stop)
        request = replace(self._requests[id_], claimed=wanted.claimed)
        try:
            with self._outside.stop.followed_by(stop):
                ended = run_attempt(self._job_id, self._spec.env, pipeline, request, given)
        except BaseException as error:  # noqa: BLE001 - the attempt's outermost line: kept and judged
            self._errors[id_] = error
            return _judge(error)
        return (EndedHow.STOPPED if ended is Ended.STOPPED else EndedHow.FINISHED), ""


def _judge(error: BaseException) -> tuple[EndedHow, str]:
    """As on a cluster, but for a chain that moved: another master has this job, and two would only push each other.
    And whoever waits for this process shall hear of a storage that does not come back.
    """
    if isinstance(error, ChainMoved) or not isinstance(error, Exception):
        return EndedHow.FAILED_FOR_GOOD, str(error)
    how, reason = judge_end(error)
    return (EndedHow.FAILED if how is EndedHow.HELD_UP else how), reason


class _ToMaster:
    """The worker's calls, answered by the master beside it."""

    def __init__(self, master: Master) -> None:
        self._master = master

    def call(self, url: str, path: str, body: JsonObject) -> tuple[int, JsonObject]:
        try:
            return 200, answer_to_json(self._master.hear(heartbeat_from_json(body)))
        except NotLeading:
            return 503, {}


class _Both:
    """Tells two watches."""

    def __init__(self, *watches: Watch) -> None:
        self._watches = watches

    def restored(self, report: RestoreReport) -> None:
        for watch in self._watches:
            watch.restored(report)

    def staged(self, event: EpochStaged) -> None:
        for watch in self._watches:
            watch.staged(event)

    def committed(self, event: EpochCommitted) -> None:
        for watch in self._watches:
            watch.committed(event)

    def retrying(self, pipeline_id: int, reason: str, wait_ms: int) -> None:
        for watch in self._watches:
            watch.retrying(pipeline_id, reason, wait_ms)

    def stalled(self, pipeline_id: int) -> None:
        for watch in self._watches:
            watch.stalled(pipeline_id)
