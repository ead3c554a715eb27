"""Crashes, pauses and faults at chosen points: a clock, files and crash points that a test holds in its hand."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum

from holdfast.model.errors import OutcomeUnknown
from holdfast.outside.files import AlreadyThere, FileInfo, Files, NotThere, StorageFailed


class Crashed(BaseException):
    """The process is gone. No code may catch it but the test's own."""


class CrashAt:
    """A crash point that counts, and crashes at one of its calls. Without a number it only counts.

    Whoever comes by later dies as well: a process has threads, and all of them are gone.
    """

    def __init__(self, number: int | None = None) -> None:
        self._number = number
        self.names: list[str] = []
        self.crashed = False

    def __call__(self, name: str) -> None:
        self.names.append(name)
        if self.crashed or self._number == len(self.names):
            self.crashed = True
            raise Crashed(f"at point {self._number}, {name!r}")


class PauseAt:
    """A crash point at which a whole attempt stands still until it is let go: a process that sleeps too long."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._count = 0
        self.name: str | None = None
        self.paused = threading.Event()
        """Set at the pause, or by `over` when the attempt ended without coming so far."""
        self._go = threading.Event()

    def __call__(self, name: str) -> None:
        self._count += 1
        if self._count == self._number:
            self.name = name
            self.paused.set()
            assert self._go.wait(120), "nobody let the paused attempt go on"

    def go_on(self) -> None:
        self._go.set()

    def over(self) -> None:
        self.paused.set()


class VirtualClock:
    """Time that passes only when somebody waits. May be shared by threads."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._lock = threading.Lock()
        self._now_ms = float(now_ms)

    def now_ms(self) -> int:
        return int(self.elapsed_ms())

    def elapsed_ms(self) -> float:
        with self._lock:
            return self._now_ms

    def wait(self, duration_ms: float, wake: threading.Event | None = None) -> bool:
        if wake is not None and wake.is_set():
            return True
        self.advance(duration_ms)
        return False

    def advance(self, duration_ms: float) -> None:
        with self._lock:
            self._now_ms += max(duration_ms, 0.0)

    @contextmanager
    def alarm(self, duration_ms: float, ring: Callable[[], None]) -> Iterator[None]:
        """Rings afterwards, if what was inside let more time pass."""
        began_ms = self.elapsed_ms()
        yield
        if self.elapsed_ms() - began_ms > duration_ms:
            ring()


class MemoryFiles:
    """`Files` in memory, for many short worlds. Survives what it calls crashes, since the test holds it."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._files: dict[str, tuple[bytes, int]] = {}

    def create_exclusive(self, path: str, data: bytes) -> None:
        with self._lock:
            if path in self._files:
                raise AlreadyThere(f"Cannot create {path}: it exists already.")
            self._files[path] = (data, self._clock.now_ms())

    def write(self, path: str, data: bytes) -> None:
        with self._lock:
            self._files[path] = (data, self._clock.now_ms())

    def read(self, path: str) -> bytes:
        with self._lock:
            if path not in self._files:
                raise NotThere(f"Cannot read {path}: there is no such file.")
            return self._files[path][0]

    def list_folder(self, path: str) -> list[FileInfo]:
        prefix = f"{path}/" if path else ""
        children: dict[str, FileInfo] = {}
        with self._lock:
            for name, (data, at_ms) in self._files.items():
                if name.startswith(prefix):
                    child, _, below = name[len(prefix) :].partition("/")
                    size = 0 if below else len(data)
                    children[child] = FileInfo(child, bool(below), size, at_ms)
        return [children[name] for name in sorted(children)]

    def remove(self, path: str) -> None:
        with self._lock:
            self._files = {
                name: found
                for name, found in self._files.items()
                if name != path and not name.startswith(f"{path}/")
            }


class Fault(Enum):
    """What can befall one durable operation."""

    CRASH_BEFORE = "crash before"
    CRASH_AFTER = "crash after"
    FAIL = "storage failed"
    LOST_BEFORE = "outcome unknown, not done"
    LOST_AFTER = "outcome unknown, done"
    SLOW = "slow"


@dataclass
class CrashingFiles:
    """`Files` whose durable operations are counted; one of them meets a fault."""

    files: Files
    clock: VirtualClock
    fault: Fault | None = None
    at: int = 0
    slow_ms: float = 5_000.0
    names: list[str] = field(default_factory=list)
    """Each durable operation so far: its verb and its path."""
    on_create: Callable[[str, bytes], None] = lambda path, data: None
    """Told of each exclusive create that succeeded, in the order in which they did."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def create_exclusive(self, path: str, data: bytes) -> None:
        def create() -> None:
            with self._lock:
                self.files.create_exclusive(path, data)
                self.on_create(path, data)

        self._do("create", path, create)

    def write(self, path: str, data: bytes) -> None:
        self._do("write", path, lambda: self.files.write(path, data))

    def remove(self, path: str) -> None:
        self._do("remove", path, lambda: self.files.remove(path))

    def read(self, path: str) -> bytes:
        return self.files.read(path)

    def list_folder(self, path: str) -> list[FileInfo]:
        return self.files.list_folder(path)

    def _do(self, verb: str, path: str, act: Callable[[], None]) -> None:
        self.names.append(f"{verb} {path}")
        fault = self.fault if len(self.names) == self.at else None
        match fault:
            case Fault.CRASH_BEFORE:
                raise Crashed(f"before {self.names[-1]}")
            case Fault.FAIL:
                raise StorageFailed(f"Cannot {verb} {path}: No space left on device.")
            case Fault.LOST_BEFORE:
                raise OutcomeUnknown(f"Cannot {verb} {path}: the connection was lost.")
            case Fault.SLOW:
                self.clock.advance(self.slow_ms)
        act()
        if fault is Fault.CRASH_AFTER:
            raise Crashed(f"after {self.names[-1]}")
        if fault is Fault.LOST_AFTER:
            raise OutcomeUnknown(f"Cannot {verb} {path}: the connection was lost.")
