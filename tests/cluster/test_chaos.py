"""A short storm over a cluster of real processes. `python -m bench.chaos` is the long one."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.chaos import Tally, chaos_ground, run_round

pytestmark = [pytest.mark.spark, pytest.mark.servers, pytest.mark.slow]
SEED = 1
STORM_S = 15.0


@pytest.mark.timeout(600)
def test_whatever_is_killed_paused_and_restarted_each_row_arrives_once(tmp_path: Path) -> None:
    told: list[str] = []
    tally = Tally()

    with chaos_ground(tmp_path) as ground:
        run_round(ground, SEED, STORM_S, tally, told.append)

    assert tally.rounds == 1
    assert sum(tally.faults.values()) >= 5, told
    assert tally.rows > 0
