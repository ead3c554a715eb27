"""One live run of a job on this machine: a lock that dies with its process, however it dies."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.model.errors import RestoreRefused


class JobIsLive(RestoreRefused):
    """Another process runs this job."""

    code = "job-is-live"


@contextmanager
def job_lock(path: Path, job_id: str) -> Iterator[None]:
    """Hold the lock of a job, or raise JobIsLive with the holder's process id."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise JobIsLive(
                f"Cannot start job {job_id}: it is RUNNING in process {_holder(path)}. Stop that one first"
                " (Ctrl-C, or kill -INT), or give this one another --job-id."
            ) from None
        file.seek(0)
        file.truncate()
        file.write(json.dumps({"pid": os.getpid()}))
        file.flush()
        yield


def is_locked(path: Path) -> bool:
    """Whether a live process holds it."""
    if not path.exists():
        return False
    with open(path, "a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def _holder(path: Path) -> str:
    try:
        return str(json.loads(path.read_text())["pid"])
    except (ValueError, KeyError, OSError):
        return "unknown"
