"""Looks at processes and conditions until they hold."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.outside.clock import RealClock
from holdfast.outside.processes import run


def is_alive(pid: int) -> bool:
    """Zombies are dead: nobody may have waited for them."""
    told = run(["ps", "-o", "stat=", "-p", str(pid)], timeout_ms=10_000).out.strip()
    return bool(told) and not told.startswith("Z")


def wait_for(holds: Callable[[], bool], timeout_ms: float = 30_000) -> bool:
    """Whether it came to hold."""
    clock = RealClock()
    until = clock.elapsed_ms() + timeout_ms
    while clock.elapsed_ms() < until:
        if holds():
            return True
        clock.wait(20)
    return holds()
