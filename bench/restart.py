"""From SIGKILL and the same command again to the first new row in the sink."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench.databases import fresh_target, job_text, make_table
from bench.figures import Figure, Ground


def kill_and_rerun(ground: Ground) -> Iterator[Figure]:
    """An exactly-once copy of the big table, killed when a part of it is there."""
    make_table(ground)
    fresh_target(ground)
    job = ground.write_job("restart", job_text(ground, exactly_once=True, interval_ms=500))
    process = _start(ground, job)
    _wait_for_more_than(ground, 0)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = _count(ground)
    began = time.monotonic()
    process = _start(ground, job)
    _wait_for_more_than(ground, before)
    first = time.monotonic() - began
    assert process.wait() == 0
    rows = _count(ground)
    yield Figure("SIGKILL, rerun, first new row", f"{first:.2f} s")
    yield Figure("rows in the end, of the source's", f"{rows:,} of {ground.rows:,}")


def _start(ground: Ground, job: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "holdfast.cli.main", "run", str(job)]
    command += ["--data", str(ground.folder / "restart")]
    return subprocess.Popen(command, stderr=subprocess.DEVNULL)


def _wait_for_more_than(ground: Ground, rows: int) -> None:
    while _count(ground) <= rows:
        time.sleep(0.02)


def _count(ground: Ground) -> int:
    found = ground.postgres.rows("SELECT count(*) FROM target")[0][0]
    assert isinstance(found, int)
    return found
