"""What a run shows while it goes: a live table on a terminal, plain lines elsewhere. All on standard error, so that
standard output is the Console sink's alone.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from holdfast.model.checkpoints import Checkpoint, Count
from holdfast.model.ends import JobEnd, JobResult
from holdfast.model.errors import ConfigError, RestoreRefused
from holdfast.model.jobs import Role
from holdfast.model.restore import RestoreReport
from holdfast.outside.clock import Clock
from holdfast.runtime.watch import EpochCommitted, EpochStaged, Watch

if TYPE_CHECKING:
    from rich.console import RenderableType

    from holdfast.cli.job_file import JobFile

LINE_EVERY_MS = 5_000
STALLED = "STALLED"
REFRESH_PER_SECOND = 4


class Display(Watch, Protocol):
    def __enter__(self) -> Display: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def say(self, line: str) -> None: ...

    def ended(self, result: JobResult) -> None: ...


def open_display(job: JobFile, clock: Clock) -> Display:
    """Live where standard error is a terminal."""
    return LiveDisplay(job, clock) if sys.stderr.isatty() else PlainDisplay(job, clock)


@dataclass
class _Shown:
    """What is known of one pipeline."""

    base: Mapping[str, Count] = field(default_factory=dict)
    """Counts when this run began."""
    staged: dict[str, Count] = field(default_factory=dict)
    """Staged and not yet committed."""
    tip: Checkpoint | None = None
    tip_at_ms: float = 0.0
    fraction: float | None = None
    first_fraction: float | None = None
    first_at_ms: float = 0.0
    """Of this run's first commit: what is left is reckoned from there, start-up left out."""
    status: str = "starting"


class PlainDisplay:
    """A line when something happens, and one every few seconds."""

    def __init__(self, job: JobFile, clock: Clock) -> None:
        self._job = job
        self._clock = clock
        self._lock = threading.RLock()
        self._began_at_ms = clock.elapsed_ms()
        self._told_at_ms = self._began_at_ms
        self._pipelines = {pipeline.id: _Shown() for pipeline in job.spec.pipelines}
        self._reports: dict[int, RestoreReport] = {}

    def __enter__(self) -> PlainDisplay:
        name = self._job.spec.env.job_name
        self.say(f"Job {name} (id {self._job.job_id}), {self._job.spec.env.mode.value.lower()}.")
        for note in self._job.parsed.notes:
            self.say(f"Note: {note}")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None

    def say(self, line: str) -> None:
        with self._lock:
            sys.stderr.write(line + "\n")
            sys.stderr.flush()

    def restored(self, report: RestoreReport) -> None:
        with self._lock:
            first = report.pipeline_id not in self._reports
            self._reports[report.pipeline_id] = report
            shown = self._pipelines[report.pipeline_id]
            shown.status = "running"
            shown.staged.clear()
        if first and report.restored_from is None and not report.considered:
            return
        # In one piece: pipelines begin at the same time.
        self.say("\n".join(report.lines()))

    def staged(self, event: EpochStaged) -> None:
        with self._lock:
            shown = self._pipelines[event.pipeline_id]
            shown.staged = dict(event.counts)

    def committed(self, event: EpochCommitted) -> None:
        with self._lock:
            shown = self._pipelines[event.pipeline_id]
            if shown.tip is None:
                shown.base = _less(event.checkpoint.counts, shown.staged)
                shown.first_fraction = event.fraction
                shown.first_at_ms = self._clock.elapsed_ms()
            shown.staged = {}
            shown.status = "running"
            shown.tip = event.checkpoint
            shown.tip_at_ms = self._clock.elapsed_ms()
            if event.fraction is not None:
                shown.fraction = event.fraction
            self._tell_now_and_then()

    def retrying(self, pipeline_id: int, reason: str, wait_ms: int) -> None:
        with self._lock:
            self._pipelines[pipeline_id].status = "waiting to retry"
        self.say(
            f"Pipeline {pipeline_id} failed and goes on from its newest checkpoint in"
            f" {wait_ms / 1000:g} s: {reason}"
        )

    def stalled(self, pipeline_id: int) -> None:
        with self._lock:
            shown = self._pipelines[pipeline_id]
            shown.status = STALLED
            after = f"checkpoint {shown.tip.number}" if shown.tip else "its start"
        self.say(
            f"Pipeline {pipeline_id} is STALLED: it runs, and nothing was committed after {after}"
            " for two intervals. It is waiting for its source, its sink or Spark."
        )

    def ended(self, result: JobResult) -> None:
        """What was done, in the end."""
        if result.end is JobEnd.FINISHED and self._was_finished_before():
            self.say(
                f"Job {self._job.job_id} has finished before: nothing was read."
                " To run it from the start: --restore none."
            )
            return
        for line in self.summary(result):
            self.say(line)

    def summary(self, result: JobResult) -> list[str]:
        seconds = (self._clock.elapsed_ms() - self._began_at_ms) / 1000
        lines = []
        for vertex, count in self._totals().items():
            lines.append(f"  {vertex}: {count.rows:,} rows, {_size(count.bytes)}")
        head = (
            f"Job {self._job.job_id} {result.end.value} after {seconds:.1f} s{_what_next(result)}."
        )
        return [head, *lines]

    def _was_finished_before(self) -> bool:
        reports = self._reports.values()
        return len(self._reports) == len(self._pipelines) and all(r.completed for r in reports)

    def _totals(self) -> dict[str, Count]:
        """Rows of this run that are committed, by vertex in the job's order."""
        found = {}
        for pipeline in self._job.spec.pipelines:
            shown = self._pipelines[pipeline.id]
            counts = _less(shown.tip.counts, shown.base) if shown.tip else {}
            for vertex in pipeline.vertices:
                if vertex.location in counts:
                    found[vertex.location] = counts[vertex.location]
        return found

    def _tell_now_and_then(self) -> None:
        now_ms = self._clock.elapsed_ms()
        if now_ms - self._told_at_ms < LINE_EVERY_MS:
            return
        self._told_at_ms = now_ms
        for pipeline_id, shown in self._pipelines.items():
            if shown.tip is not None:
                self.say(self._progress_line(pipeline_id, shown, now_ms))

    def _progress_line(self, pipeline_id: int, shown: _Shown, now_ms: float) -> str:
        assert shown.tip is not None
        rows = max((c.rows for c in _less(shown.tip.counts, shown.base).values()), default=0)
        seconds = max((now_ms - self._began_at_ms) / 1000, 0.001)
        line = (
            f"Pipeline {pipeline_id}: checkpoint {shown.tip.number}, {rows:,} rows committed,"
            f" {rows / seconds:,.0f} rows/s"
        )
        if shown.fraction is not None:
            line += f", {shown.fraction:.0%}{self._eta(shown, now_ms)}"
        return line

    def _eta(self, shown: _Shown, now_ms: float) -> str:
        if not shown.fraction or shown.first_fraction is None or shown.fraction >= 1:
            return ""
        done = shown.fraction - min(shown.first_fraction, shown.fraction)
        seconds = (now_ms - shown.first_at_ms) / 1000
        return f", {seconds * (1 - shown.fraction) / done:.0f} s left" if done > 0 else ""


class LiveDisplay(PlainDisplay):
    """The same on a terminal: one table that keeps itself up to date."""

    def __init__(self, job: JobFile, clock: Clock) -> None:
        super().__init__(job, clock)
        from rich.console import Console
        from rich.live import Live

        self._console = Console(stderr=True)
        self._live = Live(
            get_renderable=self._render,
            console=self._console,
            refresh_per_second=REFRESH_PER_SECOND,
            transient=True,
            redirect_stdout=sys.stdout.isatty(),
            redirect_stderr=False,
        )

    def __enter__(self) -> LiveDisplay:
        super().__enter__()
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()

    def say(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False)

    def ended(self, result: JobResult) -> None:
        self._live.stop()
        super().ended(result)

    def _tell_now_and_then(self) -> None:
        return None

    def _render(self) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        with self._lock:
            now_ms = self._clock.elapsed_ms()
            lines = [Text(self._status_line(*item, now_ms)) for item in self._pipelines.items()]
            return Group(*lines, self._table(now_ms))

    def _table(self, now_ms: float) -> RenderableType:
        """Sources read, sinks stage; what is committed is both."""
        from rich.table import Table

        seconds = max((now_ms - self._began_at_ms) / 1000, 0.001)
        table = Table(box=None, pad_edge=False)
        for name in ("vertex", "read", "staged", "committed", "rows/s"):
            table.add_column(name, justify="left" if name == "vertex" else "right")
        for pipeline in self._job.spec.pipelines:
            shown = self._pipelines[pipeline.id]
            counts = _less(shown.tip.counts, shown.base) if shown.tip else {}
            for vertex in pipeline.vertices:
                done = counts.get(vertex.location, Count())
                all_ = done.plus(shown.staged.get(vertex.location, Count()))
                if vertex.role is Role.TRANSFORM:
                    continue
                is_source = vertex.role is Role.SOURCE
                table.add_row(
                    vertex.location,
                    _rows_and_size(all_) if is_source else "",
                    "" if is_source else _rows_and_size(all_),
                    _rows_and_size(done),
                    f"{done.rows / seconds:,.0f}",
                )
        return table

    def _status_line(self, pipeline_id: int, shown: _Shown, now_ms: float) -> str:
        line = f"pipeline {pipeline_id}: {shown.status}"
        if shown.tip is not None:
            age = (now_ms - shown.tip_at_ms) / 1000
            number = shown.tip.number
            line += f", epoch {number + 1}, checkpoint {number} is {age:.0f} s old"
        if shown.fraction is not None:
            line += f", {shown.fraction:.0%}{self._eta(shown, now_ms)}"
        return line


def _what_next(result: JobResult) -> str:
    """Nothing where the same command would be answered the same: the error says what has to be changed."""
    if isinstance(result.error, ConfigError | RestoreRefused):
        return ""
    return {
        JobEnd.STOPPED: "; run it again to go on",
        JobEnd.CANCELED: "; run it again to go on from the newest checkpoint",
        JobEnd.FAILED: "; run it again to go on from the newest checkpoint",
    }.get(result.end, "")


def _less(counts: Mapping[str, Count], base: Mapping[str, Count]) -> dict[str, Count]:
    return {
        at: Count(
            count.rows - base.get(at, Count()).rows, count.bytes - base.get(at, Count()).bytes
        )
        for at, count in counts.items()
    }


def _rows_and_size(count: Count) -> str:
    return f"{count.rows:,}, {_size(count.bytes)}"


def _size(size: float) -> str:
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
