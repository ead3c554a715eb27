"""Virtual time and virtual processes. Everything runs in one thread, in an order that the seed decides.

A process is a set of greenlets. They take turns only where the real code waits or calls the network; a process that is
paused takes none, wherever it stands, and one that is killed never does again: `Crashed` is thrown into its greenlets.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from greenlet import getcurrent, greenlet

from holdfast.outside.ids import seeded
from holdfast.testing.crashes import Crashed

START_MS = 1_700_000_000_000
STEPS_MAX = 400_000


class NeverQuiet(AssertionError):
    """The simulation takes more steps than any world should."""


@dataclass
class Process:
    """One operating-system process, as far as the code can tell."""

    name: str
    alive: bool = True
    paused_until_ms: float = 0.0
    clock_step_ms: int = 0
    greenlets: dict[greenlet, None] = field(default_factory=dict)
    """In the order in which they began: whatever depended on another order could not be run again."""
    ends: list[Callable[[], None]] = field(default_factory=list)
    """Called when it dies."""


@dataclass(order=True, slots=True)
class _Turn:
    """A wait of one greenlet, and when it ends."""

    due_ms: float
    order: float
    number: int
    run: greenlet = field(compare=False)
    process: Process = field(compare=False)
    wake: threading.Event | None = field(compare=False, default=None)
    taken: bool = field(compare=False, default=False)


class Engine:
    """The hub. Seeds decide the order of what is due at once."""

    def __init__(self, seed: int) -> None:
        self.random = seeded(seed)
        self.now_ms = 0.0
        self.story: list[str] = []
        self._turns: list[_Turn] = []
        self._waking: list[_Turn] = []
        self._numbers = itertools.count()
        self._hub = getcurrent()
        self._steps = 0
        self._process_of: dict[greenlet, Process] = {}

    def tell(self, line: str) -> None:
        """A line of the story."""
        self.story.append(f"{self.now_ms / 1000:8.3f}  {line}")

    # ------------------------------------------------------------------------------------------ processes

    def spawn(self, process: Process, run: Callable[[], None]) -> None:
        """A thread of that process."""

        def whole() -> None:
            with suppress(Crashed):
                run()

        made = greenlet(whole, parent=self._hub)
        process.greenlets[made] = None
        self._process_of[made] = process
        self._schedule(made, process, 0.0, None)

    def kill(self, process: Process) -> None:
        """Now. If the caller is part of it, this does not return."""
        if not process.alive:
            return
        process.alive = False
        self.tell(f"{process.name} is killed")
        current = getcurrent()
        for other in list(process.greenlets):
            if other is not current and other:
                self._throw(other)
        process.greenlets.clear()
        self._waking = [turn for turn in self._waking if turn.process is not process]
        for end in process.ends:
            end()
        if self._process_of.get(current) is process:
            raise Crashed(process.name)

    def _throw(self, victim: greenlet) -> None:
        """It unwinds here and now; one that has not begun never will."""
        victim.parent = getcurrent()
        try:
            victim.throw(Crashed("killed"))
        finally:
            if not victim.dead:
                victim.parent = self._hub

    def pause(self, process: Process, duration_ms: float) -> None:
        """SIGSTOP, and SIGCONT later. If the caller is part of it, it stands still right here."""
        process.paused_until_ms = max(process.paused_until_ms, self.now_ms + duration_ms)
        self.tell(f"{process.name} is paused for {duration_ms:.0f} ms")
        if self._process_of.get(getcurrent()) is process:
            self.sleep(duration_ms)

    @property
    def current(self) -> Process | None:
        return self._process_of.get(getcurrent())

    # ------------------------------------------------------------------------------------------ time

    def sleep(self, duration_ms: float, wake: threading.Event | None = None) -> bool:
        """Of the current greenlet. True when `wake` was set."""
        current = getcurrent()
        process = self._process_of.get(current)
        assert process is not None, "only processes may wait"
        if not process.alive:
            raise Crashed(process.name)
        if wake is not None and wake.is_set():
            duration_ms = 0.0
        self._schedule(current, process, max(duration_ms, 0.0), wake)
        self._hub.switch()
        return wake is not None and wake.is_set()

    def _schedule(
        self, run: greenlet, process: Process, after_ms: float, wake: threading.Event | None
    ) -> None:
        turn = _Turn(
            self.now_ms + after_ms, self.random.random(), next(self._numbers), run, process, wake
        )
        heapq.heappush(self._turns, turn)
        if wake is not None:
            self._waking.append(turn)

    def run_until(self, until_ms: float) -> None:
        """Let things happen, in the order in which they are due."""
        while True:
            turn = self._woken() or self._due(until_ms)
            if turn is None:
                self.now_ms = max(self.now_ms, until_ms)
                return
            self._steps += 1
            if self._steps > STEPS_MAX:
                raise NeverQuiet(f"more than {STEPS_MAX} steps at {self.now_ms:.0f} ms")
            self._take(turn)

    def _woken(self) -> _Turn | None:
        """Somebody whose wait was cut short."""
        for turn in self._waking:
            if turn.wake.is_set() and turn.process.paused_until_ms <= self.now_ms:  # type: ignore[union-attr]
                return turn
        return None

    def _due(self, until_ms: float) -> _Turn | None:
        """The next in time. Who is paused when its time comes has it when the pause is over."""
        turns = self._turns
        while turns and turns[0].due_ms <= until_ms:
            turn = heapq.heappop(turns)
            if turn.taken or not turn.process.alive:
                continue
            self.now_ms = max(self.now_ms, turn.due_ms)
            if turn.process.paused_until_ms <= self.now_ms:
                return turn
            turn.due_ms = turn.process.paused_until_ms
            heapq.heappush(turns, turn)
        return None

    def _take(self, turn: _Turn) -> None:
        turn.taken = True
        if turn.wake is not None:
            self._waking.remove(turn)
        if turn.process.alive and not turn.run.dead:
            turn.run.switch()
        if turn.run.dead:
            turn.process.greenlets.pop(turn.run, None)
            self._process_of.pop(turn.run, None)


class SimClock:
    """The clock of one process: its wall clock may step, its other one does not."""

    def __init__(self, engine: Engine, process: Process) -> None:
        self._engine = engine
        self._process = process

    def now_ms(self) -> int:
        return START_MS + int(self._engine.now_ms) + self._process.clock_step_ms

    def elapsed_ms(self) -> float:
        return self._engine.now_ms

    def wait(self, duration_ms: float, wake: threading.Event | None = None) -> bool:
        return self._engine.sleep(duration_ms, wake)

    @contextmanager
    def alarm(self, duration_ms: float, ring: Callable[[], None]) -> Iterator[None]:
        began_ms = self._engine.now_ms
        yield
        if self._engine.now_ms - began_ms > duration_ms:
            ring()


class SimThreads:
    def __init__(self, engine: Engine, process: Process) -> None:
        self._engine = engine
        self._process = process

    def start(self, name: str, run: Callable[[], None]) -> None:
        self._engine.spawn(self._process, run)


class SimLock:
    """A lock between the threads of one process, which here take turns where they wait and not where they stand."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._owner: greenlet | None = None
        self._depth = 0

    @property
    def is_held(self) -> bool:
        return self._owner is not None and not self._owner.dead

    def __enter__(self) -> None:
        current = getcurrent()
        while self.is_held and self._owner is not current:
            self._engine.sleep(20.0)
        if self._owner is not current:
            self._owner, self._depth = current, 0
        self._depth += 1

    def __exit__(self, *what: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._owner = None
