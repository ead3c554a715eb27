"""Whatever is killed at whichever point: the sinks end up with exactly the source's rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sweep.sweeping import ROUNDS, bring_to_rest, crash_at, draw, points_of
from tests.sweep.worlds import WORLDS, make_world

each_world = pytest.mark.parametrize("name", WORLDS)


@each_world
def test_a_crash_at_any_point_loses_and_repeats_nothing(name: str, tmp_path: Path) -> None:
    for number in range(1, len(points_of(WORLDS[name], tmp_path)) + 1):
        swept = WORLDS[name](tmp_path)

        point = crash_at(swept, number)
        swept.grow()

        bring_to_rest(swept, f"{name}, crash at {number} ({point})")


@each_world
def test_two_crashes_lose_and_repeat_nothing(name: str, tmp_path: Path) -> None:
    size = len(points_of(WORLDS[name], tmp_path))
    for first in draw(size, 15 * ROUNDS, name, "first"):
        for second in draw(size, ROUNDS, name, first):
            swept = WORLDS[name](tmp_path)

            points = [crash_at(swept, number) for number in (first, second)]
            swept.grow()

            bring_to_rest(swept, f"{name}, crashes at {first}, {second} ({points})")


@each_world
def test_a_job_that_crashes_again_and_again_ends_all_the_same(name: str, tmp_path: Path) -> None:
    size = len(points_of(WORLDS[name], tmp_path))
    swept = WORLDS[name](tmp_path)

    points = [crash_at(swept, number) for number in draw(size, 12 * ROUNDS, name, "often")]

    bring_to_rest(swept, f"{name}, crashes at {points}")


def test_partial_progress_of_two_sources_survives(tmp_path: Path) -> None:
    swept = make_world(tmp_path, table=True, log=True)
    size = len(points_of(lambda folder: make_world(folder, table=True, log=True), tmp_path))
    assert crash_at(swept, size - 3) is not None

    assert swept.world.run().error is None

    claims = [made for made in swept.world.record.made if made.restored_from is None]
    assert claims[-1].generation == 1, "it began anew instead of going on"
