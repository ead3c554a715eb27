"""Schedules drawn from seeds: none may violate an invariant, and each can be played again."""

from __future__ import annotations

import os

from holdfast.outside.clock import RealClock
from holdfast.testing.sim.faults import KINDS
from holdfast.testing.sim.many import run_many
from holdfast.testing.sim.plan import draw_plan
from holdfast.testing.sim.run import run_plan

SEEDS = range(int(os.environ.get("HOLDFAST_SIM_SEEDS", "400")))


def test_no_schedule_violates_an_invariant() -> None:
    tally = run_many(SEEDS, jobs=os.cpu_count() or 1, clock=RealClock(), until_ms=None)

    assert tally.failed == {}
    assert tally.ran == len(SEEDS)
    assert set(tally.faults) == set(KINDS), "every fault happens, and is known"


def test_the_same_seed_gives_the_same_story() -> None:
    for seed in (1, 2, 3):
        first, second = run_plan(draw_plan(seed)), run_plan(draw_plan(seed))

        assert first.story == second.story
        assert first.faults == second.faults
