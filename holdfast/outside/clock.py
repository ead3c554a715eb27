"""Time, as a constructor argument: the simulator brings its own."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol


class Clock(Protocol):
    """What may be asked of time. Nothing is ever *correct* because of it."""

    def now_ms(self) -> int:
        """The wall clock, for people and files."""
        ...

    def elapsed_ms(self) -> float:
        """A clock that never steps back, for budgets and timeouts."""
        ...

    def wait(self, duration_ms: float, wake: threading.Event | None = None) -> bool:
        """Wait, or return True early when `wake` is set."""
        ...

    def alarm(self, duration_ms: float, ring: Callable[[], None]) -> AbstractContextManager[None]:
        """Ring, from another thread, when the block inside takes longer than that."""
        ...


class RealClock:
    """This machine's clocks. Has no state, so it may travel to executors."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def elapsed_ms(self) -> float:
        return time.monotonic_ns() / 1_000_000

    def wait(self, duration_ms: float, wake: threading.Event | None = None) -> bool:
        if wake is not None:
            return wake.wait(duration_ms / 1000)
        time.sleep(duration_ms / 1000)
        return False

    @contextmanager
    def alarm(self, duration_ms: float, ring: Callable[[], None]) -> Iterator[None]:
        timer = threading.Timer(duration_ms / 1000, ring)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
