"""What goes wrong, and when: drawn from the seed, and only while faults last."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.model.errors import OutcomeUnknown
from holdfast.model.json import JsonObject
from holdfast.outside.files import FileInfo, Files, StorageFailed
from holdfast.outside.network import NoAnswer
from holdfast.store.connection import CommitUnknown, StoreFailed
from holdfast.testing.sim.engine import Engine, Process


@dataclass
class Weather:
    """Chances, each of one operation. All zero is fair weather."""

    crash: float = 0.0
    pause: float = 0.0
    store_fails: float = 0.0
    commit_unknown: float = 0.0
    file_fails: float = 0.0
    file_unknown: float = 0.0
    message_lost: float = 0.0
    message_late: float = 0.0
    message_twice: float = 0.0


FAIR = Weather()
Deliver = Callable[[str, str, JsonObject], tuple[int, JsonObject]]


class Faults:
    """Hooks of one world."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.weather = FAIR

    def happens(self, chance: float) -> bool:
        return chance > 0 and self._engine.random.random() < chance

    def at_point(self, process: Process, point: str) -> None:
        """A crash point of a process: it may die or stand still here."""
        if self.happens(self.weather.crash):
            self._engine.tell(f"{process.name} crashes {point}")
            self._engine.kill(process)
        if self.happens(self.weather.pause):
            self._engine.tell(f"{process.name} stands still {point}")
            self._engine.pause(process, self._engine.random.uniform(100, 8_000))

    def at_commit(self, process: Process, point: str) -> None:
        """A crash point of the state store, which may fail there or lose its answer."""
        self.at_point(process, point)
        if point.startswith("before") and self.happens(self.weather.store_fails):
            raise StoreFailed(f"Cannot {point.removeprefix('before ')}: the store fails.")
        if self.happens(self.weather.commit_unknown):
            self._engine.tell(f"{process.name} gets no answer {point}")
            raise CommitUnknown(f"Cannot tell whether '{point}' was done.")


class SimFiles:
    """The shared storage as one process sees it."""

    def __init__(self, files: Files, faults: Faults, process: Process) -> None:
        self._files = files
        self._faults = faults
        self._process = process
        self.on_create: Callable[[str, bytes], None] = lambda path, data: None

    def create_exclusive(self, path: str, data: bytes) -> None:
        def create() -> None:
            self._files.create_exclusive(path, data)
            self.on_create(path, data)

        self._do("create", path, create)

    def write(self, path: str, data: bytes) -> None:
        self._do("write", path, lambda: self._files.write(path, data))

    def remove(self, path: str) -> None:
        self._do("remove", path, lambda: self._files.remove(path))

    def read(self, path: str) -> bytes:
        return self._files.read(path)

    def list_folder(self, path: str) -> list[FileInfo]:
        return self._files.list_folder(path)

    def _do(self, verb: str, path: str, act: Callable[[], None]) -> None:
        weather = self._faults.weather
        self._faults.at_point(self._process, f"before {verb} {path}")
        if self._faults.happens(weather.file_fails):
            raise StorageFailed(f"Cannot {verb} {path}: no space left on device.")
        if self._faults.happens(weather.file_unknown):
            raise OutcomeUnknown(f"Cannot {verb} {path}: the connection was lost.")
        act()
        if self._faults.happens(weather.file_unknown):
            raise OutcomeUnknown(f"Cannot {verb} {path}: the connection was lost.")
        self._faults.at_point(self._process, f"after {verb} {path}")


class SimNetwork:
    """Calls of one process: lost either way, late, twice."""

    def __init__(self, engine: Engine, faults: Faults, process: Process, deliver: Deliver) -> None:
        self._engine = engine
        self._faults = faults
        self._process = process
        self._deliver = deliver

    def call(self, url: str, path: str, body: JsonObject) -> tuple[int, JsonObject]:
        weather, engine = self._faults.weather, self._engine
        engine.sleep(engine.random.uniform(0.2, 3.0))
        if self._faults.happens(weather.message_lost):
            engine.sleep(500)
            raise NoAnswer(f"Cannot call {url}: the message was lost.")
        if self._faults.happens(weather.message_late):
            engine.sleep(engine.random.uniform(100, 6_000))
        if self._faults.happens(weather.message_twice):
            self._deliver(url, path, body)
        answer = self._deliver(url, path, body)
        engine.sleep(engine.random.uniform(0.2, 3.0))
        if self._faults.happens(weather.message_lost):
            raise NoAnswer(f"Cannot call {url}: the answer was lost.")
        if self._faults.happens(weather.message_late):
            engine.sleep(engine.random.uniform(100, 6_000))
        return answer
