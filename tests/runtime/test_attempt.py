"""What one attempt owes beside what crashes show: whole epochs, no commit after a cancel, an end that is told once."""

from pathlib import Path

from holdfast.model.checkpoints import CheckpointKind
from holdfast.model.ends import JobEnd
from holdfast.runtime.attempt import fraction_of
from holdfast.runtime.stop import StopLevel
from holdfast.testing.model_sink import SinkStore
from tests.node.test_solo import Job
from tests.runtime.test_restore import Place


def test_the_first_checkpoint_of_an_attempt_is_its_claim(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.run()

    assert job.chain().read(1).kind is CheckpointKind.CLAIM


def test_a_finished_jobs_tip_is_settled_and_says_where_it_stands(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.run()
    tip = job.chain().tip()

    assert tip is not None
    assert tip.settled
    assert tip.said["source-1"] == "4 of 4 splits are done"
    assert tip.counts["source-1"].rows == tip.counts["sink-1"].rows == 12
    assert tip.sink_rows["sink-1"] == {"t": 12}


def test_what_was_read_while_it_was_canceled_is_not_committed(tmp_path: Path) -> None:
    def cancel() -> None:
        job.stop.ask(StopLevel.NOW)

    job = Job(tmp_path, cancel)

    assert job.run().end is JobEnd.CANCELED
    tip = job.chain().tip()
    assert tip is not None
    assert tip.sources["source-1"] == {"next": 0}
    assert job.rows() == []


def test_a_stop_ends_after_the_epoch_and_the_next_run_goes_on(tmp_path: Path) -> None:
    def stop() -> None:
        job.stop.ask(StopLevel.AFTER_EPOCH)

    job = Job(tmp_path, stop)

    assert job.run().end is JobEnd.STOPPED
    assert job.rows() == [0, 1, 2]
    while job.run().end is not JobEnd.FINISHED:
        assert len(job.rows()) < 12
    assert job.rows() == list(range(12))


def test_nothing_is_discarded_or_published_before_the_claim(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.run()
    calls = [line["call"] for line in SinkStore(tmp_path, "orders", "sink-1").journal()]

    assert calls[:2] == ["discard", "prepare"]


def test_the_fraction_is_unknown_as_soon_as_one_source_does_not_know(tmp_path: Path) -> None:
    pipeline = Place(tmp_path).pipeline

    assert fraction_of(pipeline, {"source-0": {"next": 1}}) is None
    assert fraction_of(pipeline, {"source-0": {"next": 9, "done": True}}) == 1.0
