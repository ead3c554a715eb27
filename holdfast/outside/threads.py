"""Threads, as a constructor argument: the simulator runs them one at a time, in an order of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol


class Threads(Protocol):
    def start(self, name: str, run: Callable[[], None]) -> None:
        """Run it beside the caller. A daemon: it does not keep the process alive."""
        ...


class RealThreads:
    def start(self, name: str, run: Callable[[], None]) -> None:
        threading.Thread(target=run, name=name, daemon=True).start()
