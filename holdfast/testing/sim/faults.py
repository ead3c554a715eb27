"""What goes wrong, and when: drawn from the seed, and only while faults last. Each fault that happened is counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.model.json import JsonObject
from holdfast.outside.network import TIMEOUT_MS, NoAnswer
from holdfast.store.connection import CommitUnknown, StoreFailed
from holdfast.testing.crashes import Crashed
from holdfast.testing.sim.engine import Engine, Process


@dataclass(frozen=True)
class Weather:
    """Chances, each of one operation. All zero is fair weather."""

    crash: float = 0.0
    pause: float = 0.0
    store_fails: float = 0.0
    store_read_fails: float = 0.0
    commit_unknown: float = 0.0
    file_fails: float = 0.0
    file_read_fails: float = 0.0
    file_unknown: float = 0.0
    file_slow: float = 0.0
    file_torn: float = 0.0
    message_lost: float = 0.0
    message_late: float = 0.0
    message_twice: float = 0.0
    message_reordered: float = 0.0
    source_fails: float = 0.0
    sleep_at_claim: float = 0.0
    """A worker stands still at such a step, often for longer than its lease."""
    sleep_at_commit: float = 0.0
    sleep_at_create: float = 0.0
    sleep_at_discard: float = 0.0
    sleep_at_publish: float = 0.0
    sleep_at_write: float = 0.0
    """A leader stands still when it is about to write to the state store."""


FAIR = Weather()
FOR_EVER = 1e12
"""As milliseconds: until the faults are over."""
SLEEPS = ("claim", "commit", "create", "discard", "publish")
"""Steps at which a worker may stand still for long."""
Deliver = Callable[[str, str, JsonObject], tuple[int, JsonObject]]

KINDS = (
    *(f"{what} {when} {where}" for what in ("crash", "pause") for when in ("before", "after")
      for where in ("store", "storage", "step")),
    "file torn",
    "storage fails",
    "storage read fails",
    "storage slow",
    "storage unknown, done",
    "storage unknown, not done",
    "object undeletable",
    "store fails",
    "store read fails",
    "commit unknown, done",
    "commit unknown, not done",
    "message lost",
    "answer lost",
    "message late",
    "answer late",
    "message repeated",
    "message reordered",
    "request repeated",
    "process killed",
    "process paused",
    "clock stepped",
    "worker drained",
    "leader stepped down",
    "source fails",
    "source hangs",
    "read cut short",
    "worker cut off",
    "worker deaf",
    "network slow",
    "leader sleeps at write",
    *(f"worker sleeps at {step}" for step in SLEEPS),
)  # fmt: skip
"""All that can befall a schedule."""


class Faults:
    """Hooks of one world."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.weather = FAIR
        self.counts: Counter[str] = Counter()
        self.undeletable: dict[str, float] = {}
        """Jobs whose objects cannot be removed, and until when."""
        self.removable_since_ms: dict[str, float] = {}
        """Jobs for which that is over."""
        self.cut: set[tuple[str, str]] = set()
        """Who cannot call whom."""
        self.on_point: Callable[[Process, str], None] = lambda process, point: None
        """What a script does at a crash point, and at each read of a master: "read store"."""
        self.cut_until_ms: dict[str, float] = {}
        """Processes whose calls do not come through."""
        self.deaf_until_ms: dict[str, float] = {}
        """Processes whose calls come through, and the answers do not."""
        self.slow_until_ms: dict[str, float] = {}
        self._network = Process("the network")

    def happens(self, kind: str, chance: float) -> bool:
        if chance > 0 and self._engine.random.random() < chance:
            self.counts[kind] += 1
            return True
        return False

    def wait(self, least_ms: float, most_ms: float) -> None:
        self._engine.sleep(self._engine.random.uniform(least_ms, most_ms))

    def is_undeletable(self, path: str) -> bool:
        if self._engine.now_ms < self.undeletable.get(path.partition("/")[0], 0.0):
            self.counts["object undeletable"] += 1
            return True
        return False

    def crash(self, process: Process, where: str) -> None:
        self._engine.tell(f"{process.name} crashes {where}")
        self._engine.kill(process)

    def at_point(self, process: Process, point: str, where: str) -> None:
        """A crash point of a process: it may die or stand still here. The dead do nothing."""
        if not process.alive:
            raise Crashed(process.name)
        self.on_point(process, point)
        when = "after" if point.startswith("after") else "before"
        if self.happens(f"crash {when} {where}", self.weather.crash):
            self.crash(process, point)
        if self.happens(f"pause {when} {where}", self.weather.pause):
            self._engine.tell(f"{process.name} stands still {point}")
            self._engine.pause(process, self._engine.random.uniform(100, 8_000))

    def at_step(self, process: Process, point: str) -> None:
        """A crash point inside an attempt."""
        self.at_point(process, point, "step")
        self._sleep_at(process, point)

    def before_create(self, process: Process) -> None:
        """All was looked at, and nothing is written yet."""
        self._sleep_at(process, "before create")

    def _sleep_at(self, process: Process, point: str) -> None:
        for step in SLEEPS:
            chance: float = getattr(self.weather, f"sleep_at_{step}")
            if step in point and self.happens(f"worker sleeps at {step}", chance):
                self._engine.tell(f"{process.name} sleeps {point}")
                longest_ms = self._engine.random.choice((3_000, 9_000))
                self._engine.pause(process, self._engine.random.uniform(300, longest_ms))

    def is_in(self, until_ms: dict[str, float], name: str, kind: str) -> bool:
        """Whether that lasts for this process, and then it is counted."""
        lasts = self._engine.now_ms < until_ms.get(name, 0.0)
        self.counts[kind] += lasts
        return lasts

    def at_commit(self, process: Process, point: str) -> None:
        """A crash point of the state store, which may fail there or lose its answer."""
        self.at_point(process, point, "store")
        is_before = point.startswith("before")
        if is_before and self.happens("leader sleeps at write", self.weather.sleep_at_write):
            self._engine.tell(f"{process.name} sleeps {point}")
            self._engine.pause(process, self._engine.random.uniform(500, 6_000))
        if is_before and self.happens("store fails", self.weather.store_fails):
            raise StoreFailed(f"Cannot {point.removeprefix('before ')}: the store fails.")
        kind = "commit unknown, not done" if is_before else "commit unknown, done"
        if self.happens(kind, self.weather.commit_unknown):
            self._engine.tell(f"{process.name} gets no answer {point}")
            raise CommitUnknown(f"Cannot tell whether '{point}' was done.")

    def at_store_read(self, process: Process) -> None:
        self.on_point(process, "read store")
        if self.happens("store read fails", self.weather.store_read_fails):
            raise StoreFailed("Cannot read the state store: it does not answer.")

    def send_again(self, send: Callable[[], object]) -> None:
        """A copy of a message that comes when newer ones have come already."""

        def run() -> None:
            self.wait(300, 5_000)
            try:
                send()
            except NoAnswer:
                return

        self._engine.spawn(self._network, run)


class SimNetwork:
    """Calls of one process: lost either way, late, twice, out of order."""

    def __init__(self, engine: Engine, faults: Faults, deliver: Deliver, name: str) -> None:
        self._engine = engine
        self._name = name
        self._faults = faults
        self._deliver = deliver

    def call(self, url: str, path: str, body: JsonObject) -> tuple[int, JsonObject]:
        faults, weather, engine = self._faults, self._faults.weather, self._engine
        engine.sleep(engine.random.uniform(0.2, 3.0))
        caller = engine.current
        if caller is not None and (caller.name, url) in faults.cut:
            engine.sleep(TIMEOUT_MS)
            raise NoAnswer(f"Cannot call {url}: no route.")
        cut = faults.is_in(faults.cut_until_ms, self._name, "worker cut off")
        if cut or faults.happens("message lost", weather.message_lost):
            engine.sleep(TIMEOUT_MS)
            raise NoAnswer(f"Cannot call {url}: the message was lost.")
        slow = faults.is_in(faults.slow_until_ms, self._name, "network slow")
        if slow or faults.happens("message late", weather.message_late):
            faults.wait(50, TIMEOUT_MS - 50)
        if faults.happens("message repeated", weather.message_twice):
            self._deliver(url, path, body)
        if faults.happens("message reordered", weather.message_reordered):
            faults.send_again(lambda: self._deliver(url, path, body))
        answer = self._deliver(url, path, body)
        engine.sleep(engine.random.uniform(0.2, 3.0))
        deaf = faults.is_in(faults.deaf_until_ms, self._name, "worker deaf")
        if cut or deaf or faults.happens("answer lost", weather.message_lost):
            engine.sleep(TIMEOUT_MS)
            raise NoAnswer(f"Cannot call {url}: the answer was lost.")
        if slow or faults.happens("answer late", weather.message_late):
            faults.wait(50, TIMEOUT_MS - 50)
        return answer
