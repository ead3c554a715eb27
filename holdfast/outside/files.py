"""Files behind a protocol: what checkpoint storage needs of a local folder, S3 or HDFS, and nothing else.

The one promise all rests on: of several `create_exclusive` of one path exactly one succeeds, the file is then
there whole and survives a power cut. Paths are `/`-separated and relative to the root given at construction.
"""

from __future__ import annotations

import os
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from holdfast.model.errors import Terminal, Transient


class AlreadyThere(Terminal):
    """An exclusive create found that somebody was first."""

    code = "already-there"


class NotThere(Terminal):
    """A file that was to be read does not exist."""

    code = "not-there"


class StorageFailed(Transient):
    """The storage did not do what it was asked: disk full, no permission, not reachable."""

    code = "storage-failed"


@dataclass(frozen=True, slots=True)
class FileInfo:
    """A child of a folder."""

    name: str
    is_folder: bool
    size: int
    modified_at_ms: int


class Files(Protocol):
    """Durable, whole files. Every method returns only when the storage has it."""

    def create_exclusive(self, path: str, data: bytes) -> None:
        """Make a file that must not exist. Raises AlreadyThere, or OutcomeUnknown when nobody can tell."""
        ...

    def write(self, path: str, data: bytes) -> None:
        """Make or replace a file, whole."""
        ...

    def read(self, path: str) -> bytes: ...

    def list_folder(self, path: str) -> list[FileInfo]:
        """The children, sorted by name; empty where there is no such folder."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with all in it. What is not there is no error."""
        ...


class LocalFiles:
    """A folder of this machine. Files become visible by link or rename after an fsync, never half-written."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def create_exclusive(self, path: str, data: bytes) -> None:
        target = self._root / path
        with _told("create", target):
            written = _write_beside(target, data)
            try:
                os.link(written, target)
            except FileExistsError:
                raise AlreadyThere(f"Cannot create {target}: it exists already.") from None
            finally:
                written.unlink()
            _sync_folder(target.parent)

    def write(self, path: str, data: bytes) -> None:
        target = self._root / path
        with _told("write", target):
            os.replace(_write_beside(target, data), target)
            _sync_folder(target.parent)

    def read(self, path: str) -> bytes:
        target = self._root / path
        with _told("read", target):
            return target.read_bytes()

    def list_folder(self, path: str) -> list[FileInfo]:
        folder = self._root / path
        with _told("list", folder):
            try:
                entries = list(os.scandir(folder))
            except (FileNotFoundError, NotADirectoryError):
                return []
            found = [_info(entry) for entry in entries if not _is_unfinished(entry.name)]
            return sorted((item for item in found if item), key=lambda item: item.name)

    def remove(self, path: str) -> None:
        target = self._root / path
        with _told("remove", target):
            if target.is_dir():
                # Gone at once: nobody ever sees half a folder.
                hidden = _name_beside(target)
                os.replace(target, hidden)
                shutil.rmtree(hidden)
            else:
                target.unlink(missing_ok=True)


class _told:
    """Turns an OSError into an error that names the action, the path and the way out."""

    def __init__(self, verb: str, path: Path) -> None:
        self._verb = verb
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, FileNotFoundError) and self._verb == "read":
            raise NotThere(f"Cannot read {self._path}: there is no such file.") from error
        if isinstance(error, OSError):
            raise StorageFailed(
                f"Cannot {self._verb} {self._path}: {error.strerror or error}."
                " Free space or mend the permissions, then run the job again."
            ) from error


def _write_beside(target: Path, data: bytes) -> Path:
    """The data in a synced file of another name, in the target's folder."""
    _make_folders(target.parent)
    written = _name_beside(target)
    try:
        with open(written, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        written.unlink(missing_ok=True)
        raise
    return written


def _name_beside(target: Path) -> Path:
    return target.with_name(f"{_UNFINISHED}{target.name[:80]}.{secrets.token_hex(6)}")


def _make_folders(folder: Path) -> None:
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for new in reversed(missing):
        new.mkdir(exist_ok=True)
        _sync_folder(new.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_UNFINISHED = ".unfinished-"


def _is_unfinished(name: str) -> bool:
    return name.startswith(_UNFINISHED)


def _info(entry: os.DirEntry[str]) -> FileInfo | None:
    try:
        found = entry.stat()
    except FileNotFoundError:
        return None
    return FileInfo(entry.name, entry.is_dir(), found.st_size, found.st_mtime_ns // 1_000_000)
