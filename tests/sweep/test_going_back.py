"""Going back to an older checkpoint: what later epochs published is taken back, and comes again exactly once."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.checkpoint.chain import Chain
from holdfast.decide.restore import parse_restore
from holdfast.testing.crashes import CrashAt, PauseAt
from holdfast.testing.world import JOB_ID, Runner
from tests.sweep.sweeping import ROUNDS, assert_ended, bring_to_rest, draw, points_of
from tests.sweep.worlds import Make, Swept, make_world

WORLDS: dict[str, Make] = {
    "splits into two sinks": lambda f: make_world(f, table=True, sinks=2),
    "a log into one sink": lambda f: make_world(f, log=True, keeps_log=True),
}
each_world = pytest.mark.parametrize("name", WORLDS)


def _kept(swept: Swept) -> list[int]:
    """The checkpoints of epochs that storage has, but for the tip."""
    chain = Chain(swept.world.files(), JOB_ID, 1)
    return chain.list_numbers()[:-1]


def _finished(name: str, folder: Path) -> Swept:
    swept = WORLDS[name](folder)
    assert_ended(swept, swept.world.run())
    return swept


@each_world
def test_a_crash_while_going_back_loses_and_repeats_nothing(name: str, tmp_path: Path) -> None:
    places = _kept(_finished(name, tmp_path))
    assert len(places) >= 3
    for place in places:
        request = parse_restore(f"checkpoint:{place}")
        counting = CrashAt()
        counted = _finished(name, tmp_path)
        result = counted.world.run(counting, request=request)
        assert result.error is None, f"{name}, back to {place}: {result.error!r}"
        bring_to_rest(counted, f"{name}, back to {place}")

        for number in draw(len(counting.names), 12 * ROUNDS, name, place):
            swept = _finished(name, tmp_path)
            swept.world.run(CrashAt(number), request=request)

            point = counting.names[number - 1]
            bring_to_rest(swept, f"{name}, back to {place}, crash at {number} ({point})")


@each_world
def test_an_attempt_that_slept_while_another_went_back_does_no_harm(
    name: str, tmp_path: Path
) -> None:
    for number in range(1, len(points_of(WORLDS[name], tmp_path)) + 1):
        swept = WORLDS[name](tmp_path)
        pause = PauseAt(number)
        sleeper = Runner(lambda at=pause, in_=swept: in_.world.run(at), pause.over)  # type: ignore[misc]
        assert pause.paused.wait(60)
        places = _kept(swept)
        request = parse_restore(f"checkpoint:{places[len(places) // 2]}" if places else "auto")
        told = f"{name}, asleep at {number} ({pause.name}) while another went {request}"

        other = swept.world.run(request=request)
        pause.go_on()
        sleeper.result()

        assert other.error is None, f"{told}: {other.error!r}"
        bring_to_rest(swept, told)
