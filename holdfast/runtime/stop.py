"""The wish that a pipeline ends: after the epoch it is in, or at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import IntEnum

from holdfast.outside.threads import RealThreads, Threads


class StopLevel(IntEnum):
    """Only ever grows."""

    GO_ON = 0
    AFTER_EPOCH = 1
    NOW = 2


class StopSignal:
    """Set from any thread, seen by the loop between two steps; `NOW` also ends what blocks."""

    def __init__(self, threads: Threads | None = None) -> None:
        self._threads = threads or RealThreads()
        # A signal handler may ask while it interrupts another one that asks.
        self._lock = threading.RLock()
        self._level = StopLevel.GO_ON
        self._enders: list[Callable[[], None]] = []
        self._followers: list[StopSignal] = []
        self.wake = threading.Event()
        """Set as soon as any stop is asked for, so that no wait outlasts it."""

    @property
    def level(self) -> StopLevel:
        return self._level

    def ask(self, level: StopLevel) -> None:
        with self._lock:
            is_new = level is StopLevel.NOW and self._level is not StopLevel.NOW
            self._level = max(self._level, level)
            enders = list(self._enders) if is_new else []
            followers = list(self._followers)
        self.wake.set()
        for follower in followers:
            follower.ask(level)
        for end in enders:
            self._end_aside(end)

    @contextmanager
    def followed_by(self, follower: StopSignal) -> Iterator[None]:
        """Inside the block, what is asked of this one is asked of the follower as well; and what already was."""
        with self._lock:
            self._followers.append(follower)
            level = self._level
        if level is not StopLevel.GO_ON:
            follower.ask(level)
        try:
            yield
        finally:
            with self._lock:
                self._followers.remove(follower)

    def on_now(self, end: Callable[[], None]) -> None:
        """Called when `NOW` is asked for, in a thread of its own; at once if it already was."""
        with self._lock:
            self._enders.append(end)
            already = self._level is StopLevel.NOW
        if already:
            self._end_aside(end)

    def forget(self, end: Callable[[], None]) -> None:
        with self._lock:
            self._enders.remove(end)

    def _end_aside(self, end: Callable[[], None]) -> None:
        """One that hangs or fails keeps neither the asker nor the others waiting."""

        def run() -> None:
            with suppress(Exception):  # what is torn down may complain in its driver's own words
                end()

        self._threads.start("end now", run)
