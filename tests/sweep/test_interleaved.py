"""Two attempts that both believe they own the pipeline: they never both advance, and nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.checkpoint.chain import ChainMoved
from holdfast.model.ends import JobEnd, JobResult
from holdfast.model.errors import PositionGone, SinkRejected
from holdfast.testing.crashes import PauseAt
from holdfast.testing.world import Runner
from tests.sweep.sweeping import ROUNDS, bring_to_rest, draw, points_of
from tests.sweep.worlds import WORLDS, Swept

each_world = pytest.mark.parametrize("name", WORLDS)


def _pause(swept: Swept, number: int) -> tuple[PauseAt, Runner]:
    """An attempt that stands still at a point, or that ended before it came so far."""
    pause = PauseAt(number)
    runner = Runner(lambda: swept.world.run(pause), pause.over)
    assert pause.paused.wait(60), "an attempt neither paused nor ended"
    return pause, runner


def _assert_passed_or_ended(result: JobResult, told: str) -> None:
    """An attempt that was passed stops: its number is taken, or what it was to read or publish is gone."""
    if result.end in (JobEnd.FINISHED, JobEnd.STOPPED):
        return
    passed = isinstance(result.error, ChainMoved | SinkRejected | PositionGone)
    assert passed, f"{told}: {result.error!r}"


@each_world
def test_an_attempt_that_slept_while_another_ran_does_no_harm(name: str, tmp_path: Path) -> None:
    for number in range(1, len(points_of(WORLDS[name], tmp_path)) + 1):
        swept = WORLDS[name](tmp_path)
        pause, sleeper = _pause(swept, number)
        told = f"{name}, asleep at {number} ({pause.name})"

        other = swept.world.run()
        pause.go_on()
        slept = sleeper.result()

        assert other.error is None, f"{told}: {other.error!r}"
        _assert_passed_or_ended(slept, told)
        bring_to_rest(swept, told)


@each_world
def test_two_attempts_that_take_turns_do_no_harm(name: str, tmp_path: Path) -> None:
    size = len(points_of(WORLDS[name], tmp_path))
    for first in draw(size, 15 * ROUNDS, name, "turns"):
        for second in draw(size, ROUNDS, name, first, "turns"):
            swept = WORLDS[name](tmp_path)
            pauses = [_pause(swept, first), _pause(swept, second)]
            told = f"{name}, asleep at {first}, {second} ({[pause.name for pause, _ in pauses]})"

            for pause, runner in pauses:
                pause.go_on()
                _assert_passed_or_ended(runner.result(), told)

            bring_to_rest(swept, told)
