"""What all sweeps do: count the points of a world, and bring a shaken one to rest."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from holdfast.model.ends import JobEnd, JobResult
from holdfast.testing.crashes import CrashAt, Crashed
from holdfast.testing.walking import chance
from tests.sweep.worlds import Make, Swept

ROUNDS = int(os.environ.get("HOLDFAST_SWEEP", "1"))
"""Larger: the long form. Pairs of points are drawn so many times more densely."""


def points_of(make: Make, folder: Path) -> list[str]:
    """The crash points of one whole run."""
    swept = make(folder)
    counting = CrashAt()
    result = swept.world.run(counting)
    assert_ended(swept, result)
    return counting.names


def assert_ended(swept: Swept, result: JobResult) -> None:
    wanted = JobEnd.STOPPED if swept.is_stream else JobEnd.FINISHED
    assert result.end is wanted, f"{result.end}: {result.error!r}"


def bring_to_rest(swept: Swept, told: str) -> None:
    """A last attempt without faults, and everything must be as if nothing had ever happened."""
    result = swept.world.run()
    assert result.error is None, f"{told}: the last attempt failed: {result.error!r}"
    assert_ended(swept, result)
    wrong = swept.world.judge(swept.expected())
    assert not wrong, f"{told}: {wrong}"


def crash_at(swept: Swept, number: int) -> str | None:
    """The name of the point at which it crashed, or None when it ended before coming so far."""
    crash = CrashAt(number)
    result = swept.world.run(crash)
    if not crash.crashed:
        return None
    assert isinstance(result.error, Crashed), f"after a crash came {result.error!r}"
    return crash.names[number - 1]


def draw(size: int, wanted: int, *what: str | int) -> Iterator[int]:
    """Numbers from 1 to `size`: all of them, or a different but repeatable choice."""
    if size <= wanted:
        yield from range(1, size + 1)
        return
    for index in range(wanted):
        yield 1 + chance(index, *what) % size
