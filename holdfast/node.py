"""The composition root: where real clock, files, connectors and Spark meet to run a job in this process.

<data>/checkpoints/…          checkpoint storage (`checkpoint/chain.py`, `checkpoint/savepoint.py`)
<data>/jobs/<job-id>/lock     held by the process that runs the job
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.checkpoint.chain import Chain, list_pipelines
from holdfast.checkpoint.document import DocumentBroken
from holdfast.checkpoint.savepoint import Savepoint, list_savepoints, write_savepoint
from holdfast.decide.restore import RestoreRequest
from holdfast.model.checkpoints import Checkpoint
from holdfast.model.ends import JobResult
from holdfast.model.errors import Terminal
from holdfast.model.jobs import JobSpec, Role
from holdfast.outside.clock import Clock, RealClock
from holdfast.outside.files import Files, LocalFiles, NotThere
from holdfast.outside.locks import is_locked, job_lock
from holdfast.runtime.catalog import Catalog
from holdfast.runtime.restore import Start
from holdfast.runtime.session import SparkHost, SparkSettings
from holdfast.runtime.stop import StopSignal
from holdfast.runtime.watch import NoWatch, Watch
from holdfast.worker.attempts import WorkerOutside
from holdfast.worker.restoring import find_starts


class NothingKept(Terminal):
    """A job was named that checkpoint storage knows nothing of."""

    code = "nothing-kept"


@dataclass(frozen=True, slots=True)
class StoredCheckpoint:
    """One number of a chain, as it was found."""

    pipeline_id: int
    number: int
    checkpoint: Checkpoint | None
    broken: str | None = None


@dataclass(frozen=True)
class Node:
    """Everything a job needs on this machine. Opens no port."""

    data: Path
    clock: Clock = field(default_factory=RealClock)
    catalog: Catalog = field(default_factory=Catalog)

    @property
    def files(self) -> Files:
        return LocalFiles(self.data / "checkpoints")

    def run(
        self,
        job_id: str,
        spec: JobSpec,
        request: RestoreRequest,
        *,
        watch: Watch | None = None,
        stop: StopSignal | None = None,
    ) -> JobResult:
        """Run a job to its end. Refused while another process runs it."""
        from holdfast.solo import run_job

        with job_lock(self._lock_of(job_id), job_id), self._host(spec) as host:
            outside = self._outside(host, watch or NoWatch(), stop or StopSignal())
            if any(pipeline.of(Role.TRANSFORM) for pipeline in spec.pipelines):
                host.begin()
            return run_job(job_id, spec, request, outside)

    def plan_restore(self, job_id: str, spec: JobSpec, request: RestoreRequest) -> list[Start]:
        """What a restore would do. Nothing is written."""
        with self._host(spec) as host:
            return find_starts(job_id, spec, request, self._outside(host, NoWatch(), StopSignal()))

    def is_live(self, job_id: str) -> bool:
        return is_locked(self._lock_of(job_id))

    def locked(self, job_id: str) -> AbstractContextManager[None]:
        """Nobody starts it here meanwhile. Raises JobIsLive."""
        return job_lock(self._lock_of(job_id), job_id)

    def savepoint(self, job_id: str) -> Savepoint:
        """Copy the tips of all pipelines. Works beside a running job too: a checkpoint never changes."""
        pipelines = list_pipelines(self.files, job_id)
        tips = [self._read_tip(job_id, pipeline_id) for pipeline_id in pipelines]
        if not tips:
            raise self._nothing_kept(job_id)
        return write_savepoint(self.files, tips, self.clock.now_ms())

    def checkpoints(self, job_id: str) -> list[StoredCheckpoint]:
        """What is kept of a job, newest first by pipeline."""
        found = []
        for pipeline_id in list_pipelines(self.files, job_id):
            chain = Chain(self.files, job_id, pipeline_id)
            for number in reversed(chain.list_numbers()):
                found.append(_read_stored(chain, number))
        if not found and not self.savepoints(job_id):
            raise self._nothing_kept(job_id)
        return found

    def savepoints(self, job_id: str) -> list[str]:
        return list_savepoints(self.files, job_id)

    def _read_tip(self, job_id: str, pipeline_id: int) -> Checkpoint:
        tip = Chain(self.files, job_id, pipeline_id).tip()
        if tip is None:
            raise self._nothing_kept(job_id)
        return tip

    def _nothing_kept(self, job_id: str) -> NothingKept:
        return NothingKept(
            f"Cannot find job {job_id}: nothing is kept of it under {self.data / 'checkpoints'}."
            " Check the id, or name another data folder with --data."
        )

    def _outside(self, host: SparkHost, watch: Watch, stop: StopSignal) -> WorkerOutside:
        return WorkerOutside(self.files, self.catalog, host, self.clock, watch, stop)

    def _lock_of(self, job_id: str) -> Path:
        return self.data / "jobs" / job_id / "lock"

    @contextmanager
    def _host(self, spec: JobSpec) -> Iterator[SparkHost]:
        conf = dict(spec.env.spark)
        master = conf.pop("spark.master", "local[*]")
        host = SparkHost(SparkSettings(master=master, conf=conf, jars=spec.env.jars))
        try:
            yield host
        finally:
            host.stop()


def default_data_folder() -> Path:
    """`HOLDFAST_DATA`, or `.holdfast` in the home folder."""
    given = os.environ.get("HOLDFAST_DATA")
    return Path(given) if given else Path.home() / ".holdfast"


def _read_stored(chain: Chain, number: int) -> StoredCheckpoint:
    try:
        return StoredCheckpoint(chain.pipeline_id, number, chain.read(number))
    except NotThere:
        return StoredCheckpoint(chain.pipeline_id, number, None, "it was begun and never committed")
    except DocumentBroken as broken:
        return StoredCheckpoint(chain.pipeline_id, number, None, str(broken))
