"""Pipelines of one job: retried within a budget, stopped together, restored whole or not at all."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.checkpoint.chain import Chain
from holdfast.checkpoint.savepoint import write_savepoint
from holdfast.connectors.base import Connector, Context
from holdfast.decide.restore import RestoreRequest, parse_restore
from holdfast.model.ends import JobEnd, JobResult
from holdfast.model.errors import Canceled, ConfigError, RestoreRefused, Terminal, Transient
from holdfast.model.jobs import JobSpec, Pipeline, Role
from holdfast.model.restore import RestoreReport
from holdfast.runtime.attempt import Ended
from holdfast.runtime.catalog import Catalog
from holdfast.runtime.stop import StopLevel, StopSignal
from holdfast.runtime.watch import NoWatch
from holdfast.solo import derive_result, run_job
from holdfast.testing import model_sink, model_table
from holdfast.testing.builders import a_spec, an_env
from holdfast.testing.crashes import MemoryFiles, VirtualClock
from holdfast.testing.model_sink import SinkOptions, SinkStore
from holdfast.testing.model_table import SplitSource, TableOptions
from holdfast.testing.world import NoSpark
from holdfast.worker.attempts import WorkerOutside

Fault = Callable[[], None]


@dataclass
class Told(NoWatch):
    """What a watch was told."""

    reports: list[RestoreReport] = field(default_factory=list)
    waits: list[int] = field(default_factory=list)
    stalls: list[int] = field(default_factory=list)
    on_retry: Fault = lambda: None
    on_stall: Fault = lambda: None

    def restored(self, report: RestoreReport) -> None:
        self.reports.append(report)

    def retrying(self, pipeline_id: int, reason: str, wait_ms: int) -> None:
        self.waits.append(wait_ms)
        self.on_retry()

    def stalled(self, pipeline_id: int) -> None:
        self.stalls.append(pipeline_id)
        self.on_stall()


class Job:
    """A job of model tables into model sinks, one pipeline for each fault."""

    def __init__(self, folder: Path, *faults: Fault, splits: int = 4, **env: Any) -> None:
        self.clock = VirtualClock()
        self.files = MemoryFiles(self.clock)
        self.stop = StopSignal()
        self.told = Told()
        self.folder = folder
        settings = {"rows_per_second_max": 3.0, "checkpoint_interval_ms": 1_000, **env}
        self.spec = self._spec(faults or (nothing,), splits, settings)

    def _spec(self, faults: tuple[Fault, ...], splits: int, settings: dict[str, Any]) -> JobSpec:
        self.own: dict[tuple[Role, str], Connector] = {}
        pipelines = []
        for id_, fault in enumerate(faults, start=1):
            source = replace(model_table.SOURCE, name=f"Table{id_}", create=_failing_source(fault))
            sink = replace(model_sink.SINK, name=f"Sink{id_}")
            self.own[Role.SOURCE, source.name] = source
            self.own[Role.SINK, sink.name] = sink
            options = SinkOptions(folder=str(self.folder))
            made = a_spec(
                {f"source-{id_}": (source, TableOptions(splits=splits))},
                {f"sink-{id_}": (sink, options)},
            )
            pipelines.append(Pipeline(id_, made.pipelines[0].vertices))
        return JobSpec(an_env(**settings), tuple(pipelines))

    def run(self, request: RestoreRequest | None = None) -> JobResult:
        self.stop = StopSignal() if self.stop.level is not StopLevel.GO_ON else self.stop
        outside = WorkerOutside(
            self.files, Catalog(own=self.own), NoSpark(), self.clock, self.told, self.stop
        )
        return run_job("orders", self.spec, request or RestoreRequest(), outside)

    def rows(self, pipeline: int = 1) -> list[int]:
        store = SinkStore(self.folder, "orders", f"sink-{pipeline}")
        return [int(str(row[2])) for row in store.visible_rows()]

    def chain(self, pipeline: int = 1) -> Chain:
        return Chain(self.files, "orders", pipeline)


def nothing() -> None:
    return None


def _failing_source(fault: Fault) -> Callable[[TableOptions, Context], SplitSource]:
    class FailingSource(SplitSource):
        def plan(self, position: Any, budget: Any) -> Any:
            fault()
            return super().plan(position, budget)

    def create(options: TableOptions, context: Context) -> SplitSource:
        return FailingSource(options)

    return create


def failing(error: Exception, *, times: int = 1_000, after: int = 0) -> Fault:
    """Raises at the calls behind the first `after`, so often."""
    calls: list[int] = []

    def fault() -> None:
        calls.append(1)
        if after < len(calls) <= after + times:
            raise error

    return fault


DOWN = Transient("Cannot read: the server is down.")


def test_a_pipeline_that_fails_goes_on_from_its_tip(tmp_path: Path) -> None:
    job = Job(tmp_path, failing(DOWN, after=2), retry_times=0)
    assert job.run().end is JobEnd.FAILED
    kept = job.rows()

    again = Job(tmp_path)
    again.files = job.files
    result = again.run()

    assert result.end is JobEnd.FINISHED
    assert kept == [0, 1, 2, 3, 4, 5]
    assert again.rows() == list(range(12))


def test_retries_wait_longer_each_time_and_end_with_the_budget(tmp_path: Path) -> None:
    job = Job(tmp_path, failing(DOWN), retry_times=3, retry_interval_ms=3_000)

    result = job.run()

    assert (result.end, result.error) == (JobEnd.FAILED, DOWN)
    assert job.told.waits == [3_000, 6_000, 12_000]


def test_a_failure_that_passes_costs_nothing_but_the_wait(tmp_path: Path) -> None:
    job = Job(tmp_path, failing(DOWN, times=2, after=2), retry_times=3, retry_interval_ms=1)

    assert job.run().end is JobEnd.FINISHED
    assert job.rows() == list(range(12))
    assert job.told.reports[-1].attempt == 3


def test_an_error_that_would_come_again_is_not_retried(tmp_path: Path) -> None:
    job = Job(tmp_path, failing(Terminal("Cannot read: no such table.")), retry_times=3)

    assert job.run().end is JobEnd.FAILED
    assert job.told.waits == []


def test_an_error_without_a_message_of_ours_gets_one(tmp_path: Path) -> None:
    job = Job(tmp_path, failing(OSError("odd")), retry_times=0)

    error = job.run().error

    assert "Cannot go on with pipeline orders/1: OSError: odd" in str(error)


def test_when_one_pipeline_fails_the_others_stop_and_keep_their_place(tmp_path: Path) -> None:
    job = Job(tmp_path, failing(Terminal("gone"), after=3), nothing, splits=10_000)

    result = job.run()

    assert (result.end, result.failed_pipeline) == (JobEnd.FAILED, 1)
    tip = job.chain(2).tip()
    assert tip is not None
    assert not tip.completed
    assert job.rows(2) == list(range(len(job.rows(2))))


def test_a_stop_during_the_wait_for_a_retry_ends_at_once(tmp_path: Path) -> None:
    job = Job(tmp_path, failing(DOWN), retry_times=3, retry_interval_ms=3_000)
    job.told.on_retry = lambda: job.stop.ask(StopLevel.AFTER_EPOCH)
    began_ms = job.clock.elapsed_ms()

    result = job.run()

    assert result.end is JobEnd.STOPPED
    assert job.clock.elapsed_ms() - began_ms < 3_000


def test_a_cancel_ends_as_canceled_and_keeps_the_place(tmp_path: Path) -> None:
    calls: list[int] = []

    def cancel() -> None:
        calls.append(1)
        if len(calls) == 3:
            job.stop.ask(StopLevel.NOW)

    job = Job(tmp_path, cancel)

    assert job.run().end is JobEnd.CANCELED
    assert job.run().end is JobEnd.FINISHED
    assert job.rows() == list(range(12))


def test_a_source_that_fails_because_it_was_closed_counts_as_canceled(tmp_path: Path) -> None:
    def closed() -> None:
        job.stop.ask(StopLevel.NOW)
        raise OSError("the connection was closed")

    job = Job(tmp_path, closed)

    assert job.run().end is JobEnd.CANCELED


def test_after_its_claim_a_pipeline_goes_on_from_its_own_tip(tmp_path: Path) -> None:
    first = Job(tmp_path)
    first.run()
    job = Job(tmp_path, failing(DOWN, times=1, after=2), retry_times=1)
    job.files = first.files

    result = job.run(parse_restore("checkpoint:1"))

    assert result.end is JobEnd.FINISHED
    went_back, went_on = job.told.reports
    assert went_back.restored_from == "checkpoint 1"
    assert went_on.restored_from is None
    assert job.rows() == list(range(12)), "rows were taken back once and written once"


def test_a_finished_job_is_not_read_again(tmp_path: Path) -> None:
    first = Job(tmp_path)
    first.run()
    numbers = first.chain().list_numbers()

    assert first.run().end is JobEnd.FINISHED
    assert first.chain().list_numbers() == numbers


def test_a_job_without_rows_still_prepares_its_sinks_once(tmp_path: Path) -> None:
    job = Job(tmp_path, splits=0)

    assert job.run().end is JobEnd.FINISHED
    assert job.run().end is JobEnd.FINISHED

    journal = SinkStore(tmp_path, "orders", "sink-1").journal()
    assert [line["call"] for line in journal].count("prepare") == 1


def test_a_job_is_restored_whole_or_not_at_all(tmp_path: Path) -> None:
    job = Job(tmp_path, nothing, nothing)
    job.run()
    number = job.chain(2).head()
    job.files.write(f"orders/2/{number}/manifest.json", b"{")
    numbers = job.chain(1).list_numbers()

    result = job.run()

    assert (result.end, result.failed_pipeline) == (JobEnd.FAILED, 2)
    assert isinstance(result.error, RestoreRefused)
    assert job.chain(1).list_numbers() == numbers


def test_a_bare_checkpoint_of_a_job_of_two_pipelines_is_refused(tmp_path: Path) -> None:
    job = Job(tmp_path, nothing, nothing)

    with pytest.raises(ConfigError, match="checkpoint:<pipeline>/<id>"):
        job.run(parse_restore("checkpoint:1"))


def test_one_pipeline_goes_back_and_the_other_does_not(tmp_path: Path) -> None:
    job = Job(tmp_path, nothing, nothing)
    job.run()

    result = job.run(parse_restore("checkpoint:2/1"))

    assert result.end is JobEnd.FINISHED
    decisions = {r.pipeline_id: r.decision for r in job.told.reports[-2:]}
    assert decisions[2] == "goes on from checkpoint 1"
    assert decisions[1] != decisions[2]
    assert job.rows(1) == job.rows(2) == list(range(12))


def test_a_checkpoint_that_was_gone_back_behind_is_refused(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.run()
    middle = job.chain().list_numbers()[-3]
    job.run(parse_restore("checkpoint:1"))

    result = job.run(parse_restore(f"checkpoint:{middle}"))

    assert isinstance(result.error, RestoreRefused)
    assert "sinks took back what it had published" in str(result.error)
    assert job.rows() == list(range(12))


def test_a_savepoint_that_was_gone_back_behind_is_refused(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.run()
    tip = job.chain().tip()
    assert tip is not None
    savepoint = write_savepoint(job.files, [tip], 1)
    job.run(parse_restore("checkpoint:1"))

    result = job.run(parse_restore(f"path:{savepoint.path}"))

    assert isinstance(result.error, RestoreRefused)


def test_a_wiped_chain_begins_another_lineage(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.run()
    before = job.chain().tip()
    job.files.remove("orders")

    assert job.run().end is JobEnd.FINISHED

    after = job.chain().tip()
    assert before is not None
    assert after is not None
    assert before.lineage
    assert after.lineage
    assert before.lineage != after.lineage


def test_all_checkpoints_and_tokens_of_a_chain_are_of_one_lineage(tmp_path: Path) -> None:
    job = Job(tmp_path, failing(DOWN, times=2, after=2), retry_times=3, retry_interval_ms=1)
    job.run()
    chain = job.chain()

    found = [chain.read(number) for number in chain.list_numbers()]

    tokens = [s.token for c in found for s in c.sinks.values() if s.token is not None]
    assert tokens
    assert len({c.lineage for c in found} | {str(t["lineage"]) for t in tokens}) == 1


def test_a_canceled_pipeline_that_hangs_is_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.solo.CANCEL_GRACE_MS", 1)
    let_go = threading.Event()

    def hang() -> None:
        job.stop.ask(StopLevel.NOW)
        let_go.wait(60)

    job = Job(tmp_path, hang)

    assert job.run().end is JobEnd.CANCELED
    let_go.set()


def test_a_failure_weighs_more_than_a_cancel_and_that_more_than_a_stop() -> None:
    failed, canceled = DOWN, Canceled("canceled")

    assert derive_result({1: canceled, 2: failed}).end is JobEnd.FAILED
    assert derive_result({1: canceled, 2: Ended.FINISHED}).end is JobEnd.CANCELED
    assert derive_result({1: Ended.STOPPED, 2: Ended.FINISHED}).end is JobEnd.STOPPED
    assert derive_result({1: Ended.FINISHED, 2: Ended.FINISHED}).end is JobEnd.FINISHED


def test_a_pipeline_that_runs_and_gets_nowhere_is_said_to_be_stalled(tmp_path: Path) -> None:
    let_go = threading.Event()

    def hang() -> None:
        # Time goes on: what is heard of late is silent from then on.
        while not let_go.wait(0.01):
            job.clock.advance(1_000)

    job = Job(tmp_path, hang)
    job.told.on_stall = let_go.set

    assert job.run().end is JobEnd.FINISHED
    assert job.told.stalls == [1]
