"""Failures of checkpoints and of health that people have met elsewhere (docs/failures.md, area B)."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from holdfast.api import cluster, jobs, submissions
from holdfast.api.app import Call
from holdfast.api.serving import Serving
from holdfast.decide.status import JobStatus, PipelineStatus
from holdfast.model.errors import HoldfastError, OutcomeUnknown
from holdfast.model.jobs import Goal, ScheduleStrategy
from holdfast.outside.files import StorageFailed
from holdfast.testing.sim.faults import FAIR, Weather
from holdfast.testing.sim.script import AWAY, Scene, batch, stream
from tests.sim.conftest import MakeScene

TEN_MINUTES_MS = 600_000.0


def test_a_pipeline_that_gets_nowhere_is_stalled_within_two_intervals_and_well_again_after(
    scene: MakeScene,
) -> None:
    """F049, also behind a restore."""
    play = scene({"orders": stream(interval_ms=1_000)})
    play.submit("orders")
    play.until_rows("orders", 3)
    for _ in range(2):
        play.hang("orders", 4_900)
        took_ms = play.run_until(
            "a stall", lambda: play.shown("orders").status is PipelineStatus.STALLED
        )
        assert took_ms <= 2 * 1_000 + play.cluster.limits.stall_grace_ms + 700
        play.run_until(
            "an end of it", lambda: play.shown("orders").status is PipelineStatus.RUNNING
        )
        play.kill("worker-0")
        play.start_fallen()
        play.run_until("a claim", lambda: len(play.claims("orders")) == 2)
    play.rest()


def test_after_a_savepoint_and_its_restore_checkpoints_go_on(scene: MakeScene) -> None:
    """F050."""
    play = scene({"orders": stream()})
    play.submit("orders")
    play.until_rows("orders", 3)
    play.ask("orders", Goal.SAVEPOINT)
    play.until_status("orders", JobStatus.SAVEPOINT_DONE)
    kept = play.made("orders")[-1].number

    play.submit("orders", "savepoint")
    play.run_until("more", lambda: play.made("orders")[-1].number > kept + 4, 10_000)
    play.rest()


def test_an_error_that_may_pass_is_tried_so_often_and_told_with_its_cause(
    scene: MakeScene,
) -> None:
    """F053: waits grow, the budget ends, and the first cause is what people read."""
    play = scene({"orders": stream(retries=3)})
    play.submit("orders")
    play.until_rows("orders", 3)

    play.weather(Weather(source_fails=1.0))
    play.until_status("orders", JobStatus.FAILED, 60_000)

    reason = play.job("orders").reason
    assert "the source's connection was lost" in reason
    assert "it failed 4 times and job.retry.times is 3" in reason
    planned = [attempt.planned_at_ms for attempt in play.attempts("orders")]
    waits = [after - before for before, after in pairwise(planned[1:])]
    assert waits == sorted(waits)
    play.rest("orders")


@pytest.mark.parametrize("duration_ms", [120_000.0, TEN_MINUTES_MS])
def test_a_storage_that_is_away_and_comes_back_ends_no_job(
    scene: MakeScene, duration_ms: float
) -> None:
    """F062, F065: as a token that has run out and is renewed late. It is told, and no retry of the job is spent."""
    play = scene({"orders": stream(retries=1), "bills": batch(40, retries=0)}, workers=2)
    play.submit_all()
    play.until_rows("orders", 5)

    play.weather(AWAY)
    play.run_for(20_000)
    assert play.shown("orders").status is not PipelineStatus.RUNNING
    assert "no space left on device" in _last_reason(play) or "does not answer" in _last_reason(
        play
    )
    play.run_for(duration_ms)
    play.weather(FAIR)
    before = len(play.rows("orders"))
    play.run_until("rows again", lambda: len(play.rows("orders")) > before, 18_000)

    play.rest()


def _last_reason(play: Scene) -> str:
    return [a.reason for a in play.attempts("orders") if a.ended_how][-1]


@pytest.mark.parametrize("error", [StorageFailed, OutcomeUnknown])
def test_an_old_checkpoint_that_cannot_be_removed_disturbs_no_epoch(
    scene: MakeScene, error: type[HoldfastError]
) -> None:
    """F129: it is tried again and goes when it can."""
    play = scene({"orders": stream(retries=0)})
    play.fail_at("worker-0", "before remove *", error("Cannot remove it."), nth=0)
    play.submit("orders")
    play.run_for(8_000)

    assert play.ends("orders") == [None]
    assert len(play.made("orders")) > 20
    play.rest()
    play.run_for(2_000)
    left = play.cluster.storage.list_folder("orders/1")
    assert len(left) < len(play.made("orders")) / 2


def test_an_answer_of_the_storage_that_was_lost_is_found_out(scene: MakeScene) -> None:
    """F057: whatever the storage said, a checkpoint is what is there, and is read again before it counts."""
    for weather in (Weather(file_unknown=0.4), Weather(file_fails=0.3), Weather(file_torn=0.1)):
        play = scene({"orders": batch(25)}, workers=2)
        play.submit("orders")
        play.weather(weather)
        for _ in range(30):
            play.run_for(500)
            play.start_fallen()
        play.rest()
        assert play.rows("orders") == list(range(25))


def test_whatever_is_asked_of_the_api_at_any_moment_is_answered(scene: MakeScene) -> None:
    """F061, F029: jobs of which nothing is known yet, and while there is trouble."""
    play = scene({"orders": stream("a", "b", pipelines=2), "bills": batch(5)}, masters=2)
    asked: list[str] = []

    def ask_all() -> None:
        for found in list(play.cluster.masters.values()):
            if found.process.alive and not found.lock.is_held:
                serving = Serving(
                    found.master, play.cluster.catalog, ScheduleStrategy.WAIT, _no_forward, None, ""
                )
                asked.extend(_ask_everything(serving))

    _ask_at(play, ask_all)
    play.submit_all()
    for _ in range(8):
        play.run_for(700)
        _ask_at(play, ask_all)
    play.kill(next(iter(play.cluster.masters)))
    for _ in range(8):
        play.run_for(400)
        _ask_at(play, ask_all)
    play.rest()
    assert len(asked) > 100


def _no_forward(*given: object) -> tuple[int, bytes]:
    raise AssertionError("nothing is handed over here")


def _ask_at(play: Scene, ask: object) -> None:
    ask()  # type: ignore[operator]


def _ask_everything(serving: Serving) -> list[str]:
    """Every read that there is; a job that nobody knows among them."""
    asked = []
    for module in (cluster, jobs, submissions):
        for method, path, handler in module.ROUTES:
            if method != "GET":
                continue
            for job_id in ("orders", "bills", "nobody"):
                call = Call({"job_id": job_id, "state": ""}, {}, b"", "")
                answer = handler(serving, call)
                assert answer is not None, path
                asked.append(path)
    return asked


def test_a_long_wait_for_rows_is_no_failure(scene: MakeScene) -> None:
    """F098: ten minutes between two rows."""
    every_ms = 600_000
    play = scene({"orders": stream(interval_ms=120_000, every_ms=every_ms, retries=0)})
    play.submit("orders")
    play.run_for(2.5 * every_ms)

    assert play.rows("orders") == [0, 1, 2]
    assert play.ends("orders") == [None]
    play.rest()


def test_a_stop_that_cannot_write_its_last_checkpoint_keeps_the_one_before(
    scene: MakeScene,
) -> None:
    """F112, F116: drained, or stopped with a savepoint."""
    for goal in (Goal.RUN, Goal.SAVEPOINT):
        play = scene({"orders": replace(stream(), retries=0)}, workers=2)
        play.submit("orders")
        play.until_rows("orders", 5)
        working = play.working()
        play.fail_at(working, "before create orders/*", StorageFailed("Cannot create it: full."))
        if goal is Goal.SAVEPOINT:
            play.ask("orders", goal)
            play.until_status("orders", JobStatus.SAVEPOINT_DONE)
            play.submit("orders", "savepoint")
        else:
            play.cluster.workers[working].host.drain()
        play.until_rows("orders", len(play.rows("orders")) + 5)
        play.rest()
