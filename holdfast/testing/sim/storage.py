"""Checkpoint storage in memory, as folders, and how one process sees it: failing, slow, torn, unsure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from holdfast.model.errors import OutcomeUnknown
from holdfast.outside.files import AlreadyThere, FileInfo, NotThere, StorageFailed
from holdfast.testing.sim.engine import Process
from holdfast.testing.sim.faults import Faults

T = TypeVar("T")
Folder = dict[str, "Folder | bytes"]
UNFINISHED = ".unfinished"
"""What a create that was torn leaves: a folder is there, and nothing that is whole is in it."""


class Storage:
    """`Files` that outlive all processes."""

    def __init__(self) -> None:
        self._root: Folder = {}

    def create_exclusive(self, path: str, data: bytes) -> None:
        folder, name = self._at(path, make=True)
        if name in folder:
            raise AlreadyThere(f"Cannot create {path}: it exists already.")
        folder[name] = data

    def write(self, path: str, data: bytes) -> None:
        folder, name = self._at(path, make=True)
        folder[name] = data

    def read(self, path: str) -> bytes:
        folder, name = self._at(path)
        found = folder.get(name)
        if not isinstance(found, bytes):
            raise NotThere(f"Cannot read {path}: there is no such file.")
        return found

    def list_folder(self, path: str) -> list[FileInfo]:
        folder: Folder | bytes | None = self._root
        for part in path.split("/") if path else ():
            folder = folder.get(part) if isinstance(folder, dict) else None
        if not isinstance(folder, dict):
            return []
        return [
            FileInfo(name, isinstance(found, dict), 0 if isinstance(found, dict) else len(found), 0)
            for name, found in sorted(folder.items())
            if not name.startswith(UNFINISHED)
        ]

    def remove(self, path: str) -> None:
        folder, name = self._at(path)
        folder.pop(name, None)

    def _at(self, path: str, *, make: bool = False) -> tuple[Folder, str]:
        *parts, name = path.split("/")
        folder = self._root
        for part in parts:
            found = folder.get(part)
            if not isinstance(found, dict):
                found = {}
                if make:
                    folder[part] = found
            folder = found
        return folder, name


class SimFiles:
    """The shared storage as one process sees it."""

    def __init__(self, storage: Storage, faults: Faults, process: Process) -> None:
        self._storage = storage
        self._faults = faults
        self._process = process
        self.on_create: Callable[[str, bytes], None] = lambda path, data: None
        """Told of every file, however it came to be."""
        self.on_remove: Callable[[str], None] = lambda path: None

    def create_exclusive(self, path: str, data: bytes) -> None:
        def create() -> None:
            if self._faults.happens("file torn", self._faults.weather.file_torn):
                self._storage.write(
                    f"{path.rpartition('/')[0]}/{UNFINISHED}", data[: len(data) // 2]
                )
                self._faults.crash(self._process, f"in the midst of create {path}")
            self._faults.before_create(self._process)
            self._storage.create_exclusive(path, data)
            self.on_create(path, data)

        self._do("create", path, create)

    def write(self, path: str, data: bytes) -> None:
        def write() -> None:
            self._faults.before_create(self._process)
            self._storage.write(path, data)
            self.on_create(path, data)

        self._do("write", path, write)

    def remove(self, path: str) -> None:
        if self._faults.is_undeletable(path):
            raise StorageFailed(f"Cannot remove {path}: no permission.")

        def remove() -> None:
            self.on_remove(path)
            self._storage.remove(path)

        self._do("remove", path, remove)

    def read(self, path: str) -> bytes:
        return self._look("read", path, self._storage.read)

    def list_folder(self, path: str) -> list[FileInfo]:
        return self._look("list", path, self._storage.list_folder)

    def _look(self, verb: str, path: str, look: Callable[[str], T]) -> T:
        if self._faults.happens("storage read fails", self._faults.weather.file_read_fails):
            raise StorageFailed(f"Cannot {verb} {path}: the storage does not answer.")
        return look(path)

    def _do(self, verb: str, path: str, act: Callable[[], None]) -> None:
        faults, weather = self._faults, self._faults.weather
        faults.at_point(self._process, f"before {verb} {path}", "storage")
        if faults.happens("storage slow", weather.file_slow):
            faults.wait(200, 4_000)
        if faults.happens("storage fails", weather.file_fails):
            raise StorageFailed(f"Cannot {verb} {path}: no space left on device.")
        if faults.happens("storage unknown, not done", weather.file_unknown):
            raise OutcomeUnknown(f"Cannot {verb} {path}: the connection was lost.")
        act()
        if faults.happens("storage unknown, done", weather.file_unknown):
            raise OutcomeUnknown(f"Cannot {verb} {path}: the connection was lost.")
        faults.at_point(self._process, f"after {verb} {path}", "storage")
