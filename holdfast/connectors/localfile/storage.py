"""The storage seam: all that the file source and sink ask of a file system. Here is the local one.

Another storage (HDFS, S3) brings the same functions; nothing above this module touches files. What `create` made is
durable once `seal` returns, and `move` puts a file in its place whole or not at all, also across file systems.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Protocol

import pyarrow as pa

from holdfast.model.errors import HoldfastError, Terminal, Transient


class FileNotThere(Terminal):
    """A file or folder that is needed does not exist."""

    code = "file-not-there"


class FileNotAllowed(Terminal):
    """The permissions do not allow it."""

    code = "file-not-allowed"


class FileInTheWay(Terminal):
    """A file stands where a folder is needed."""

    code = "file-in-the-way"


class FileBroken(Terminal):
    """A file's content is not what its format asks for."""

    code = "file-broken"


class DiskFull(Transient):
    """No room is left."""

    code = "disk-full"


class FileStorageFailed(Transient):
    """The storage did not do what it was asked."""

    code = "file-storage-failed"


_NOT_THERE = (errno.ENOENT, errno.ENOTDIR)
_NOT_ALLOWED = (errno.EACCES, errno.EPERM, errno.EROFS)
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
OWN_FOLDER = ".holdfast"
"""In a target: what is staged there, and what was published last. Readers leave out hidden names."""
COPY_BYTES = 4 * 1024 * 1024


@contextlib.contextmanager
def telling(verb: str, path: str) -> Iterator[None]:
    """Turns an OSError into an error that names the action, the path and the way out."""
    try:
        yield
    except HoldfastError:
        raise
    except OSError as error:
        raise _told(verb, path, error) from error


def _told(verb: str, path: str, error: OSError) -> HoldfastError:
    said = os.strerror(error.errno) if error.errno else str(error).rstrip(".")
    what = f"Cannot {verb} {path}: {said}."
    if error.errno in _NOT_THERE:
        return FileNotThere(f"{what} Check the path, or put the file back.")
    if error.errno == errno.EEXIST:
        return FileInTheWay(f"{what} Move away the file that stands there, or name another path.")
    if error.errno in _NOT_ALLOWED:
        return FileNotAllowed(f"{what} Give this user the permission, then run the job again.")
    if error.errno in _FULL:
        return DiskFull(f"{what} Free space there, then run the job again: it goes on.")
    if error.errno is None and verb == "read":
        return FileBroken(f"{what} Replace the file, or leave it out by file_filter_pattern.")
    return FileStorageFailed(f"{what} Look at the disk or mount, then run the job again.")


@dataclass(frozen=True, slots=True)
class FileFact:
    """A file as a listing shows it."""

    name: str
    """Relative to the folder that was listed, `/`-separated."""
    size: int
    modified_ns: int
    arrived_ns: int
    """When it came to be where it is with what it holds: never set by a user, unlike the time of modification."""


class Storage(Protocol):
    """What a file system does for source and sink. Picklable. Paths are absolute."""

    def stat(self, path: str) -> FileFact | None: ...

    def is_folder(self, path: str) -> bool: ...

    def list_files(self, path: str, *, recursive: bool) -> Iterator[FileFact]:
        """Files below a folder (or the file itself). Hidden names (`.x`, `_x`) are left out."""
        ...

    def find_files(self, path: str) -> Iterator[str]:
        """The paths of all files below a folder, hidden ones too, but for our own folder."""
        ...

    def open(self, path: str) -> pa.NativeFile: ...

    def create(self, path: str) -> BinaryIO: ...

    def seal(self, path: str) -> None: ...

    def read(self, path: str) -> bytes: ...

    def write(self, path: str, data: bytes) -> None: ...

    def move(self, staged: str, target: str, waiting: str) -> bool: ...

    def sync(self, folder: str) -> None: ...

    def children(self, path: str) -> list[str]: ...

    def remove(self, path: str) -> None: ...

    def make_folder(self, path: str) -> None: ...


@dataclass(frozen=True, slots=True)
class LocalStorage:
    """This machine's file system."""

    def stat(self, path: str) -> FileFact | None:
        with telling("look at", path):
            try:
                found = os.stat(path)
            except (FileNotFoundError, NotADirectoryError):
                return None
            return _fact(os.path.basename(path), found, 0)

    def is_folder(self, path: str) -> bool:
        return os.path.isdir(path)

    def list_files(self, path: str, *, recursive: bool) -> Iterator[FileFact]:
        with telling("list", path):
            if not os.path.isdir(path):
                yield _fact(os.path.basename(path), os.stat(path), 0)
                return
            yield from _walk(path, "", recursive, 0, (os.path.realpath(path),))

    def find_files(self, path: str) -> Iterator[str]:
        with telling("list", path):
            for folder, below, names in os.walk(path):
                below[:] = sorted(name for name in below if name != OWN_FOLDER)
                yield from (os.path.join(folder, name) for name in sorted(names))

    def open(self, path: str) -> pa.NativeFile:
        with telling("read", path):
            os.stat(path)
            return pa.OSFile(path, "rb")

    def create(self, path: str) -> BinaryIO:
        """A new file, with the folders above it. Raises where it exists."""
        with telling("write", path):
            self.make_folder(os.path.dirname(path))
            return open(path, "xb")

    def seal(self, path: str) -> None:
        """Return when the disk has a file that was written and closed."""
        with telling("write", path):
            _sync(path)

    def read(self, path: str) -> bytes:
        with telling("read", path), open(path, "rb") as file:
            return file.read()

    def write(self, path: str, data: bytes) -> None:
        """Make or replace a small file, whole and durable."""
        beside = os.path.join(os.path.dirname(path), f".{secrets.token_hex(8)}")
        with telling("write", path):
            try:
                with self.create(beside) as file:
                    file.write(data)
                self.seal(beside)
                os.replace(beside, path)
            except OSError:
                _forget(beside)
                raise
            self.sync(os.path.dirname(path))

    def move(self, staged: str, target: str, waiting: str) -> bool:
        """Put a staged file in its place; False when it has been moved before.

        `waiting` is a folder on the target's file system: a copy from elsewhere grows there, under a lock, so that
        two movers never put one file in its place twice.
        """
        with telling("publish", target):
            self.make_folder(os.path.dirname(target))
            try:
                os.replace(staged, target)
                return True
            except FileNotFoundError:
                return False
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
            return _move_across(staged, target, waiting)

    def sync(self, folder: str) -> None:
        """Names in the folder survive a power cut from here on."""
        with telling("write", folder):
            _sync(folder)

    def children(self, path: str) -> list[str]:
        with telling("list", path):
            try:
                return sorted(os.listdir(path))
            except (FileNotFoundError, NotADirectoryError):
                return []

    def remove(self, path: str) -> None:
        """A file, or a folder with all in it. What is not there is no error, nor what another removes meanwhile."""
        with telling("remove", path):
            if not os.path.isdir(path) or os.path.islink(path):
                _forget(path)
                return
            while os.path.isdir(path):
                try:
                    shutil.rmtree(path)
                except FileNotFoundError:
                    continue

    def make_folder(self, path: str) -> None:
        """With those above it, each durable in its parent."""
        missing = []
        while path and not os.path.isdir(path):
            missing.append(path)
            path = os.path.dirname(path)
        for new in reversed(missing):
            with telling("make folder", new):
                os.makedirs(new, exist_ok=True)
                self.sync(os.path.dirname(new))


def _walk(
    root: str, below: str, recursive: bool, moved_ns: int, above: tuple[str, ...]
) -> Iterator[FileFact]:
    for entry in sorted(os.scandir(os.path.join(root, below)), key=lambda item: item.name):
        if entry.name.startswith((".", "_")):
            continue
        name = f"{below}/{entry.name}" if below else entry.name
        try:
            if not entry.is_dir():
                yield _fact(name, entry.stat(), moved_ns)
                continue
            real = os.path.realpath(entry.path)
            if recursive and real not in above:
                inside_ns = max(moved_ns, _moved_at(entry.stat()))
                yield from _walk(root, name, recursive, inside_ns, (*above, real))
        except FileNotFoundError:
            continue


def _moved_at(folder: os.stat_result) -> int:
    """When a folder was itself moved here: its inode changed without an entry of its own changing."""
    return folder.st_ctime_ns if folder.st_ctime_ns > folder.st_mtime_ns else 0


def _fact(name: str, found: os.stat_result, moved_ns: int) -> FileFact:
    arrived = max(found.st_mtime_ns, found.st_ctime_ns, moved_ns)
    return FileFact(name, found.st_size, found.st_mtime_ns, arrived)


def _move_across(staged: str, target: str, waiting: str) -> bool:
    os.makedirs(waiting, exist_ok=True)
    with open(os.path.join(waiting, "lock"), "ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for left in os.listdir(waiting):
            if left != "lock":
                _forget(os.path.join(waiting, left))
        try:
            source = open(staged, "rb")  # noqa: SIM115 - closed below; only its opening may fail quietly
        except FileNotFoundError:
            return False
        copy = os.path.join(waiting, secrets.token_hex(8))
        with source:
            try:
                with open(copy, "xb") as file:
                    shutil.copyfileobj(source, file, COPY_BYTES)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(copy, target)
            except OSError:
                _forget(copy)
                raise
        _forget(staged)
    return True


def _forget(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
