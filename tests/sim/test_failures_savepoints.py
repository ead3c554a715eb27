"""Failures of savepoints that people have met elsewhere (docs/failures.md, area D)."""

from __future__ import annotations

import pytest

from holdfast.checkpoint.savepoint import list_savepoints, read_savepoint, write_savepoint
from holdfast.decide.status import JobStatus
from holdfast.model.jobs import Goal
from holdfast.testing.sim.script import AWAY, Scene, batch, stream
from holdfast.testing.sim.storage import Storage
from tests.sim.conftest import MakeScene


def _savepoint(play: Scene, job_id: str = "orders") -> str:
    play.ask(job_id, Goal.SAVEPOINT)
    play.until_status(job_id, JobStatus.SAVEPOINT_DONE)
    path = play.job(job_id).savepoint
    assert path is not None
    return path


TROUBLES = ["a read that hangs", "one that cannot be closed", "a worker that dies", "a new leader"]


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_stop_with_savepoint_ends_whatever_happens(scene: MakeScene, trouble: str) -> None:
    """F105: within two deadlines, with a savepoint that can be gone on from."""
    play = scene({"orders": stream("a", "b", pipelines=2)}, masters=2, workers=2)
    if trouble == "one that cannot be closed":
        play.change_sources(close=lambda: None)
    play.submit("orders")
    play.until_rows("orders", 4, "a")
    if trouble in TROUBLES[:2]:
        play.hang("orders", 10_000_000)
        play.run_for(300)

    play.ask("orders", Goal.SAVEPOINT)
    if trouble == "a worker that dies":
        play.kill("worker-0", "worker-1")
    if trouble == "a new leader":
        play.kill("master-0")
    deadline_ms = play.cluster.limits.stop_deadline_ms
    took_ms = play.until_status("orders", JobStatus.SAVEPOINT_DONE, 2 * deadline_ms + 5_000)

    assert took_ms <= 2 * deadline_ms + 4_000
    path = play.job("orders").savepoint
    assert path is not None
    assert set(read_savepoint(play.cluster.storage, path).checkpoints) == {1, 2}
    play.hang("orders", 0)
    play.run_for(1_000)
    play.start_fallen()
    play.submit("orders", "savepoint")
    play.until_rows("orders", len(play.rows("orders", "a")) + 3, "a")
    play.rest()


@pytest.mark.parametrize("when", ["before plan attempt", "after plan attempt", "before claim"])
def test_a_savepoint_that_is_asked_for_too_early_keeps_what_there_is_and_kills_nothing(
    scene: MakeScene, when: str
) -> None:
    """F106: a stop of what never started is told to be a cancel; what was kept before is still there."""
    play = scene({"orders": stream()})
    play.submit("orders")
    play.until_rows("orders", 4)
    kept = _savepoint(play)
    tip = play.made("orders")[-1]
    play.when("*", when, lambda: play.pause("worker-0", 3_000))
    play.submit("orders", "auto")
    play.run_for(250)

    play.ask("orders", Goal.SAVEPOINT)
    play.run_until("an end", lambda: play.job("orders").outcome is not None, 20_000)

    assert play.job("orders").outcome is not None
    if play.status("orders") is JobStatus.CANCELED:
        assert play.job("orders").reason == "it had not started: there is nothing to keep"
    assert kept in list_savepoints(play.cluster.storage, "orders")
    play.submit("orders", "auto")
    play.run_until("a claim", lambda: play.made("orders")[-1].number > tip.number)
    assert play.claims("orders")[1].sources == tip.sources
    play.rest()


def test_a_savepoint_of_a_batch_is_taken_in_its_midst(scene: MakeScene) -> None:
    """F108: and what is in it is not read again."""
    play = scene({"orders": batch(200, every_ms=100)})
    play.submit("orders")
    play.until_rows("orders", 10)

    play.ask("orders", Goal.SAVEPOINT)
    took_ms = play.until_status("orders", JobStatus.SAVEPOINT_DONE)
    had = len(play.rows("orders"))

    assert took_ms < 2_000
    assert 10 <= had < 100
    play.submit("orders", "savepoint")
    play.until_status("orders", JobStatus.FINISHED, 60_000)
    assert play.made("orders")[-1].counts["source-0-tick"].rows == 200
    play.rest()


def test_a_savepoint_without_a_row_since_is_restored_and_confirmed(scene: MakeScene) -> None:
    """F109: sinks that hold nothing of their own."""
    play = scene({"orders": stream(every_ms=10_000_000, interval_ms=600)})
    play.submit("orders")
    play.run_for(3_000)
    _savepoint(play)
    known = play.made("orders")[-1].number

    play.submit("orders", "savepoint")
    play.run_until("confirmed", lambda: play.made("orders")[-1].number > known + 3)

    assert play.rows("orders") == [0]
    play.rest()


def test_a_savepoint_is_restored_by_other_masters_and_workers(scene: MakeScene) -> None:
    """F110."""
    play = scene({"orders": stream()}, masters=2, workers=2)
    play.submit("orders")
    play.until_rows("orders", 4)
    path = _savepoint(play)
    kept = read_savepoint(play.cluster.storage, path).checkpoints[1]

    play.kill_all()
    play.start_fallen()
    play.kill("master-0", "worker-0")
    play.submit("orders", f"path:{path}")
    play.run_until("a claim", lambda: len(play.claims("orders")) == 2)

    assert play.claims("orders")[-1].sources == kept.sources
    play.rest()


@pytest.mark.parametrize("restore", ["savepoint", "auto"])
def test_what_a_savepoint_holds_is_published_once_though_its_attempt_died_over_it(
    scene: MakeScene, restore: str
) -> None:
    """F113."""
    play = scene({"orders": stream()})
    play.submit("orders")
    play.until_rows("orders", 4)
    play.kill_at("worker-0", "before publish *", nth=1)
    play.run_until("a death", lambda: not play.cluster.workers["worker-0"].process.alive)
    play.ask("orders", Goal.SAVEPOINT)
    play.until_status("orders", JobStatus.SAVEPOINT_DONE)
    tip = play.made("orders")[-1]
    pending = int(str(tip.sources["source-0-tick"]["next"]))
    assert len(play.rows("orders")) < pending, "the savepoint is ahead of what is visible"

    play.start_fallen()
    play.submit("orders", restore)
    play.until_rows("orders", pending + 3)
    assert play.rows("orders") == list(range(len(play.rows("orders"))))
    play.rest()


def test_nothing_goes_on_from_before_a_savepoint(scene: MakeScene) -> None:
    """F114: beside a running job it is a copy of the tip, and a tip is never gone back behind."""
    play = scene({"orders": stream()}, workers=2)
    play.submit("orders")
    play.until_rows("orders", 4)
    tip = play.made("orders")[-1]
    write_savepoint(play.cluster.storage, [tip], 1)

    play.kill("worker-0", "worker-1")
    play.start_fallen()
    play.run_until("a claim", lambda: len(play.claims("orders")) == 2)

    assert play.claims("orders")[-1].number > tip.number
    play.rest()


def test_a_savepoint_that_the_storage_does_not_take_is_given_up_with_a_reason(
    scene: MakeScene,
) -> None:
    """F105, F116: a stop ends, and the tips are kept."""
    play = scene({"orders": stream()})
    play.submit("orders")
    play.until_rows("orders", 4)
    play.weather(AWAY)
    play.ask("orders", Goal.SAVEPOINT)
    play.until_status("orders", JobStatus.FAILED, 60_000)

    assert "its savepoint could not be made" in play.job("orders").reason
    play.weather()
    play.submit("orders", "auto")
    play.until_rows("orders", len(play.rows("orders")) + 3)
    play.rest("orders")


def test_a_master_that_sees_another_storage_takes_no_empty_savepoint(scene: MakeScene) -> None:
    """F092, F118: it says what is missing and does not say that there was nothing to keep."""
    play = scene({"orders": stream()})
    play.submit("orders")
    play.until_rows("orders", 5)
    play.run_until("it is noted", lambda: play.attempts("orders")[0].advanced)
    play.kill("worker-0")
    shared = play.cluster.storage._root
    play.cluster.storage._root = Storage()._root

    play.ask("orders", Goal.SAVEPOINT)
    play.until_status("orders", JobStatus.FAILED, 60_000)

    assert "need one shared folder" in play.job("orders").reason
    play.cluster.storage._root = shared


def test_a_stop_keeps_its_tips_though_something_else_has_taken_its_name(scene: MakeScene) -> None:
    """F113, F114: a savepoint beside the job, taken in the very millisecond, holds older positions."""
    play = scene({"orders": stream()})
    play.submit("orders")
    play.until_rows("orders", 4)
    old = play.made("orders")[-1]
    play.hang("orders", 2_000)
    play.ask("orders", Goal.SAVEPOINT)
    write_savepoint(play.cluster.storage, [old], play.job("orders").goal_at_ms)
    play.until_status("orders", JobStatus.SAVEPOINT_DONE)

    path = play.job("orders").savepoint
    assert path is not None
    held = read_savepoint(play.cluster.storage, path).checkpoints[1]
    assert held.sources == play.made("orders")[-1].sources
