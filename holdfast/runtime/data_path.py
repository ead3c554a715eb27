"""How an epoch's rows get from the sources through the transforms into the sinks' staging.

Three paths, one result. Small epochs stay in the driver (no Spark job, or one JVM job where there are transforms).
Large epochs without transforms run read and stage fused in one Python stage, in Spark's executors or, where the master
is local, in processes of our own. Large epochs with transforms are read
in Python (or by Spark itself), planned and run by Spark in the JVM, and staged in Python. Sources whose position is
known only after the read are read in the driver: their budget bounds the epoch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace

from holdfast.connectors.base import Budget, ReadTask, Source, StageScope, TableBatch, Token
from holdfast.model.checkpoints import Count
from holdfast.model.errors import Canceled, HoldfastError
from holdfast.model.jobs import Role
from holdfast.model.json import Json, JsonObject
from holdfast.model.schema import Table
from holdfast.runtime.carried import restore_error
from holdfast.runtime.epoch import EpochWork, PlannedEpoch, Staged
from holdfast.runtime.frames import Frames
from holdfast.runtime.guard import guarded_read
from holdfast.runtime.open_pipeline import OpenPipeline
from holdfast.runtime.session import SparkHost
from holdfast.runtime.task import SinkPart, TaskDone, TaskWork, run_task


class DataPath:
    """Runs epochs of one pipeline. One object for each attempt."""

    def __init__(self, pipeline: OpenPipeline, host: SparkHost) -> None:
        self._pipeline = pipeline
        self._host = host
        self._frames = Frames(pipeline, host, self._read) if pipeline.needs_frames else None
        self._tables: dict[str, dict[str, Table]] = {}
        self._pool: ThreadPoolExecutor | None = None
        self._under_way: dict[int, Future[Staged]] = {}
        self._canceled = False

    def learn_tables(self) -> Mapping[str, Sequence[Table]]:
        """The tables that will reach each sink, and what each source delivers, by location."""
        delivered = {at: list(source.tables()) for at, source in self._pipeline.sources.items()}
        if self._frames is not None:
            reaching = self._frames.learn_tables(delivered)
        else:
            reaching = {
                vertex.location: [table for at in vertex.inputs for table in delivered[at]]
                for vertex in self._pipeline.spec.of(Role.SINK)
            }
        everywhere = {**delivered, **reaching}
        self._tables = {
            at: {table.path: table for table in tables} for at, tables in everywhere.items()
        }
        return everywhere

    def begin(self, planned: PlannedEpoch) -> None:
        """Start to stage it, unless it is so small that `finish` does it faster here."""
        work = planned.work
        if work.is_small or not work.plans:
            return
        if self._pool is None:
            name = f"stage {self._pipeline.name}"
            self._pool = ThreadPoolExecutor(thread_name_prefix=name)
        self._under_way[work.number] = self._pool.submit(self._stage_in_group, work)

    def finish(self, planned: PlannedEpoch) -> Staged:
        """What the epoch left, once all of it is staged."""
        work = planned.work
        if not work.plans:
            return Staged(work.number)
        begun = self._under_way.pop(work.number, None)
        if begun is not None:
            return begun.result()
        return self._stage_in_group(work) if self._frames is not None else self._stage(work)

    def cancel(self) -> None:
        """End what Spark runs for this pipeline, and what it was just about to. From any thread."""
        self._canceled = True
        self._host.cancel(self._pipeline.name)

    def end(self) -> None:
        """Nothing of this attempt runs any more when this returns."""
        if self._under_way:
            self.cancel()
            wait(self._under_way.values())
            self._under_way.clear()
        if self._pool is not None:
            self._pool.shutdown()

    def _stage_in_group(self, work: EpochWork) -> Staged:
        with self._host.group(self._pipeline.name):
            if self._canceled:
                raise Canceled(f"Pipeline {self._pipeline.name} was canceled.")
            return self._stage(work)

    def _stage(self, work: EpochWork) -> Staged:
        """Read, transform and stage one epoch."""
        try:
            if self._frames is not None:
                return self._stage_transformed(self._frames, work)
            return self._stage_fused(work)
        except HoldfastError:
            raise
        except Exception as error:
            raise restore_error(error) from error

    def _read(self, source: Source, task: ReadTask, budget: Budget) -> Iterator[TableBatch]:
        """Reading here, in the driver, under a guard."""
        grace_ms = self._pipeline.env.checkpoint_timeout_ms
        return guarded_read(source, task, budget, clock=self._pipeline.clock, grace_ms=grace_ms)

    def _stage_fused(self, work: EpochWork) -> Staged:
        tasks = self._fused_tasks(work)
        if work.is_small or self._only_one_may_run():
            done = [run_task(task, self._read) for task in tasks]
        else:
            done = self._run_on_executors(tasks)
        return _collect(work, done)

    def _run_on_executors(self, tasks: Sequence[TaskWork]) -> list[TaskDone]:
        processes = self._host.processes
        if processes is None:
            return self._host.run_tasks(_run_on_executor, tasks)
        return processes.run_tasks(
            _run_on_executor,
            tasks,
            name=self._pipeline.name,
            is_canceled=lambda: self._canceled,
        )

    def _fused_tasks(self, work: EpochWork) -> list[TaskWork]:
        tasks: list[TaskWork] = []
        for at, plan in sorted(work.plans.items()):
            for task in plan.tasks:
                index = len(tasks)
                sinks = tuple(
                    (sink, self._pipeline.sinks[sink], self._scope(work, sink, index))
                    for sink in self._pipeline.sinks_fed_by(at)
                )
                source = self._pipeline.sources[at]
                tasks.append(TaskWork(at, source, task, work.budget, sinks))
        return tasks

    def _stage_transformed(self, frames: Frames, work: EpochWork) -> Staged:
        def scope(sink: str, task: int) -> StageScope:
            return self._scope(work, sink, task)

        run = frames.run_small if work.is_small else frames.run_large
        read, parts = run(work.plans, work.budget, scope)
        return _collect(work, [*read, TaskDone("", None, Count(), tuple(parts))])

    def _only_one_may_run(self) -> bool:
        """A sink that must see all rows in one place says so (`one_task`)."""
        return any(getattr(sink, "one_task", False) for sink in self._pipeline.sinks.values())

    def _scope(self, work: EpochWork, sink: str, task: int) -> StageScope:
        return StageScope(
            job_id=self._pipeline.job_id,
            pipeline_id=self._pipeline.spec.id,
            location=sink,
            attempt=work.attempt,
            epoch=work.number,
            task=task,
            tables=self._tables[sink],
            try_id="0",
            lineage=work.lineage,
        )


def _run_on_executor(work: TaskWork, try_id: str) -> TaskDone:
    """Two tries of one task write under different names, so a loser cannot spoil what the winner staged."""
    sinks = tuple((at, sink, replace(scope, try_id=try_id)) for at, sink, scope in work.sinks)
    return run_task(replace(work, sinks=sinks))


def _collect(work: EpochWork, done: Sequence[TaskDone]) -> Staged:
    counts: dict[str, Count] = {}
    reached: dict[str, list[JsonObject | None]] = {at: [] for at in work.plans}
    parts: list[SinkPart] = []
    for task in done:
        if task.source_location:
            reached[task.source_location].append(task.reached)
            before = counts.get(task.source_location, Count())
            counts[task.source_location] = before.plus(task.count)
        parts += task.parts
    tokens: dict[str, Token] = {}
    sink_rows: dict[str, dict[str, int]] = {}
    for part in parts:
        counts[part.location] = counts.get(part.location, Count()).plus(part.count)
        rows = sink_rows.setdefault(part.location, {})
        for table, count in part.rows_by_table.items():
            rows[table] = rows.get(table, 0) + count
        if part.part is not None:
            _add_part(tokens, work, part.location, part.part)
    return Staged(work.number, reached, tokens, counts, sink_rows)


def _add_part(tokens: dict[str, Token], work: EpochWork, at: str, part: JsonObject) -> None:
    fresh: Token = {"lineage": work.lineage, "attempt": work.attempt, "epoch": work.number}
    token = tokens.setdefault(at, {**fresh, "parts": []})
    listed: Json = token["parts"]
    assert isinstance(listed, list)
    listed.append(part)
