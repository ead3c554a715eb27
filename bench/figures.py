"""What a case gives, what it is given, and how a job is run and measured from outside."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.testing.servers import Database

SAMPLE_EVERY_S = 0.5


@dataclass(frozen=True)
class Figure:
    """One line of the table. `ratio` is against a floor measured in the same run."""

    name: str
    value: str
    ratio: float | None = None
    against: str = ""


@dataclass
class Ground:
    """Where cases run."""

    folder: Path
    postgres: Database
    rows: int
    made: set[str] = field(default_factory=set)

    def write_job(self, name: str, text: str) -> Path:
        path = self.folder / f"{name}.conf"
        path.write_text(text)
        return path


@dataclass(frozen=True)
class Ran:
    """A process from its start to its end."""

    seconds: float
    peak_bytes: int
    """Resident memory of it and all its children, proportional where pages are shared."""
    stdout: str
    stderr: str

    @property
    def job_seconds(self) -> float:
        """As the job itself says: from its first step to its last."""
        return float(self.stderr.split(" FINISHED after ")[1].split(" s")[0])


def run_job(ground: Ground, job: Path, *, data: str = "data", fresh: bool = True) -> Ran:
    command = [sys.executable, "-m", "holdfast.cli.main", "run", str(job)]
    command += ["--data", str(ground.folder / data)]
    if fresh:
        command += ["--restore", "none"]
    return run_measured(command)


def run_measured(command: list[str]) -> Ran:
    began = time.monotonic()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        peak: list[int] = [0]
        watcher = threading.Thread(target=_watch, args=(process, peak), daemon=True)
        watcher.start()
        stdout, stderr = process.communicate()
        seconds = time.monotonic() - began
        watcher.join()
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}: {stderr}")
    return Ran(seconds, peak[0], stdout, stderr)


def timed_shell(script: str) -> float:
    """Seconds of a shell pipeline."""
    began = time.monotonic()
    subprocess.run(["bash", "-euo", "pipefail", "-c", script], check=True, capture_output=True)
    return time.monotonic() - began


def _watch(process: subprocess.Popen[str], peak: list[int]) -> None:
    while process.poll() is None:
        peak[0] = max(peak[0], memory_of(process.pid))
        time.sleep(SAMPLE_EVERY_S)


def memory_of(root: int) -> int:
    """Resident bytes of a process and all that descend from it, proportional where pages are shared."""
    return sum(_memory(pid) for pid in family_of(root))


def cpu_seconds_of(root: int) -> float:
    """What a process and all that descend from it have used so far."""
    return sum(_cpu_seconds(pid) for pid in family_of(root))


def family_of(root: int) -> list[int]:
    """A process and all that descend from it."""
    children: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                stat = Path(entry.path, "stat").read_text()
                parent = int(stat.rsplit(")", 1)[1].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found, todo = [], [root]
    while todo:
        pid = todo.pop()
        found.append(pid)
        todo += children.get(pid, [])
    return found


def _memory(pid: int) -> int:
    with contextlib.suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def _cpu_seconds(pid: int) -> float:
    with contextlib.suppress(OSError):
        told = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(told[11]) + int(told[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def rate(rows: int, seconds: float) -> str:
    return f"{rows / seconds:,.0f} rows/s"
