"""One live run of a job on this machine: a lock that dies with its process, however it dies."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from holdfast.model.errors import RestoreRefused, Terminal

TRIES = 5
TRY_EVERY_S = 0.05


class JobIsLive(RestoreRefused):
    """Another process runs this job."""

    code = "job-is-live"


class LockFailed(Terminal):
    """The lock's file cannot be made."""

    code = "lock-failed"


@contextmanager
def job_lock(path: Path, job_id: str) -> Iterator[None]:
    """Hold the lock of a job, or raise JobIsLive with the holder's process id."""
    with _open_lock(path) as file:
        if not _take(file):
            raise JobIsLive(
                f"Cannot start job {job_id}: it is RUNNING in process {_holder(path)}. Stop that one first"
                " (Ctrl-C, or kill -INT), or give this one another --job-id."
            )
        file.seek(0)
        file.truncate()
        file.write(json.dumps({"pid": os.getpid()}))
        file.flush()
        yield


def is_locked(path: Path) -> bool:
    """Whether a live process holds it."""
    try:
        with open(path) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False


def _open_lock(path: Path) -> TextIO:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return open(path, "a+")
    except OSError as error:
        raise LockFailed(
            f"Cannot lock the job at {path}: {error.strerror or error}. Mend its permissions, or name another"
            " data folder with --data."
        ) from error


def _take(file: TextIO) -> bool:
    """Tries a few times: who only asks whether the job is live holds the lock for a moment."""
    for _ in range(TRIES):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            time.sleep(TRY_EVERY_S)
    return False


def _holder(path: Path) -> str:
    try:
        return str(json.loads(path.read_text())["pid"])
    except (ValueError, KeyError, OSError):
        return "unknown"
