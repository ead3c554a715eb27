"""What a run shows on a terminal while it goes, and says in the end."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from holdfast.cli.display import LiveDisplay
from holdfast.cli.job_file import JobFile
from holdfast.model.checkpoints import Checkpoint, CheckpointKind, Count
from holdfast.model.ends import JobEnd, JobResult
from holdfast.model.errors import ConfigError, HoldfastError, RestoreRefused, Transient
from holdfast.model.restore import RestoreReport
from holdfast.runtime.catalog import Catalog
from holdfast.runtime.watch import EpochCommitted, EpochStaged
from holdfast.spec.parse import parse_job
from holdfast.testing.crashes import VirtualClock
from tests.cli.processes import batch

SOURCE, SINK = "source-0-fakesource", "sink-0-console"


def a_display(clock: VirtualClock) -> LiveDisplay:
    parsed = parse_job(batch(), name="job.conf", variables={}, catalog=Catalog())
    assert parsed.spec is not None
    return LiveDisplay(JobFile(Path("job.conf"), "it", parsed.spec, parsed), clock)


def seen(display: LiveDisplay) -> list[list[str]]:
    """The words of each line, as a wide terminal shows them."""
    console = Console(width=120)
    with console.capture() as captured:
        console.print(display._render())
    return [line.split() for line in captured.get().splitlines()]


def counts(rows: int) -> dict[str, Count]:
    return {SOURCE: Count(rows, rows * 10), SINK: Count(rows, rows * 10)}


def test_what_was_read_staged_and_committed_is_shown_with_epoch_age_and_what_is_left() -> None:
    clock = VirtualClock()
    display = a_display(clock)
    clock.wait(1_000)
    display.staged(EpochStaged(1, 2, counts(100)))
    display.committed(EpochCommitted(1, a_checkpoint(2, 100), 0.25, 1.0))
    clock.wait(3_000)
    display.staged(EpochStaged(1, 3, counts(100)))
    display.committed(EpochCommitted(1, a_checkpoint(3, 200), 0.5, 1.0))
    clock.wait(1_000)
    display.staged(EpochStaged(1, 4, counts(50)))

    status, head, source, sink = seen(display)

    assert " ".join(status) == (
        "pipeline 1: running, epoch 4, checkpoint 3 is 1 s old, 50%, 8 s left"
    )
    assert head == ["vertex", "read", "staged", "committed", "rows/s"]
    assert source == [SOURCE, "250,", "2.5", "KB", "200,", "2.0", "KB", "40"]
    assert sink == [SINK, "250,", "2.5", "KB", "200,", "2.0", "KB", "40"]


def test_reports_of_pipelines_that_begin_together_are_not_mixed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    display = a_display(VirtualClock())
    said: list[str] = []
    monkeypatch.setattr(display, "say", said.append)
    compared = ("unchanged: source-0-fakesource",)

    display.restored(
        RestoreReport("it", 1, "auto", "goes on", compared=compared, restored_from="2")
    )

    assert said == ["Restore of it/1 (auto): goes on\n  compare  unchanged: source-0-fakesource"]


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (Transient("Cannot read: the server is down."), True),
        (ConfigError("Cannot run: there is no such column."), False),
        (RestoreRefused("Cannot restore: the job was changed."), False),
    ],
)
def test_what_would_fail_just_the_same_is_not_to_be_run_again(
    error: HoldfastError, again: bool
) -> None:
    said = a_display(VirtualClock()).summary(JobResult(JobEnd.FAILED, 1, error))[0]

    assert ("run it again" in said) is again


def a_checkpoint(number: int, rows: int) -> Checkpoint:
    return Checkpoint(
        job_id="it",
        pipeline_id=1,
        number=number,
        attempt=1,
        generation=1,
        kind=CheckpointKind.EPOCH,
        at_ms=0,
        sources={},
        sinks={},
        fingerprint={},
        counts=counts(rows),
    )
