"""`holdfast` as a real process, in a data folder of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TIMEOUT_S = 120
COMMAND = [sys.executable, "-m", "holdfast.cli.main"]
# Root may read and write whatever the permissions say: as root, a process first gives that right away for good.
_WITHOUT_RIGHTS = """
import ctypes, os, sys
if os.geteuid() == 0:
    for right in (1, 2):
        assert ctypes.CDLL(None).prctl(24, right, 0, 0, 0) == 0
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
_WITHOUT_ROOM = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
"""


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[str]:
        """What the Console printed: the fields of each row."""
        return [line.rpartition(": ")[2] for line in self.out.splitlines() if "kind=" in line]


@dataclass
class Live:
    """A process that runs; its output is gathered as it comes."""

    process: subprocess.Popen[str]
    out: list[str] = field(default_factory=list)
    err: list[str] = field(default_factory=list)
    _grown: threading.Condition = field(default_factory=threading.Condition)
    _readers: list[threading.Thread] = field(default_factory=list)

    def read(self) -> None:
        for stream, lines in ((self.process.stdout, self.out), (self.process.stderr, self.err)):
            if stream is None:
                continue
            reader = threading.Thread(target=self._read, args=(stream, lines), daemon=True)
            reader.start()
            self._readers.append(reader)

    def _read(self, stream: Any, lines: list[str]) -> None:
        for line in stream:
            with self._grown:
                lines.append(line)
                self._grown.notify_all()

    def wait_for(self, text: str, *, times: int = 1) -> None:
        def seen() -> bool:
            return sum(text in line for line in [*self.out, *self.err]) >= times

        with self._grown:
            assert self._grown.wait_for(seen, TIMEOUT_S), "".join([*self.out, *self.err])

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> Ended:
        code = self.process.wait(TIMEOUT_S)
        for reader in self._readers:
            reader.join(TIMEOUT_S)
        return Ended(code, "".join(self.out), "".join(self.err))


@dataclass(frozen=True)
class Shell:
    """A folder with a job file and a data folder."""

    folder: Path

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def write(self, text: str, name: str = "job.conf") -> Path:
        path = self.folder / name
        path.write_text(text)
        return path

    def run(self, *arguments: str) -> Ended:
        live = self.start(*arguments)
        return live.end()

    def run_without_rights(self, *arguments: str) -> Ended:
        """As a user whom permissions bind."""
        return self.start(*arguments, by=(sys.executable, "-c", _WITHOUT_RIGHTS)).end()

    def run_without_room(self, size: int, *arguments: str) -> Ended:
        """No file can grow beyond `size` bytes."""
        return self.start(*arguments, by=(sys.executable, "-c", _WITHOUT_ROOM, str(size))).end()

    def start(
        self,
        *arguments: str,
        by: tuple[str, ...] = (sys.executable,),
        env: Mapping[str, str] | None = None,
        out: int = subprocess.PIPE,
    ) -> Live:
        process = subprocess.Popen(
            [*by, *COMMAND[1:], *arguments],
            cwd=self.folder,
            env={**os.environ, "HOLDFAST_DATA": str(self.data), **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        live = Live(process)
        live.read()
        return live

    def stored(self, job: str = "it") -> list[dict[str, Any]]:
        """All checkpoints, newest first by pipeline."""
        found = self.run("checkpoints", job, "--json")
        assert found.code == 0, found.err
        listed: list[dict[str, Any]] = json.loads(found.out)["checkpoints"]
        return listed

    def break_tip(self, job: str = "it", pipeline: int = 1) -> int:
        """Cut the newest manifest short; its number."""
        folder = self.data / "checkpoints" / job / str(pipeline)
        number = max(int(child.name) for child in folder.iterdir() if child.name.isdigit())
        manifest = folder / str(number) / "manifest.json"
        manifest.write_bytes(manifest.read_bytes()[:50])
        return number

    def everything(self) -> dict[str, bytes]:
        """The data folder, byte for byte, but for the lock, which tells who had it last."""
        return {
            str(path.relative_to(self.data)): path.read_bytes()
            for path in sorted(self.data.rglob("*"))
            if path.is_file() and path.name != "lock"
        }


def batch(rows: int = 5, *, job_id: str = "it", env: str = "", sink: str = "Console {}") -> str:
    return f"""
        env {{ job.mode = BATCH, job.id = "{job_id}", {env} }}
        source {{ FakeSource {{ row.num = {rows}, split.num = 5, schema {{ fields {{ id = bigint }} }} }} }}
        sink {{ {sink} }}
    """


def stream(*, env: str = "") -> str:
    """A split of ten rows every 50 ms, for hours."""
    return f"""
        env {{ job.mode = STREAMING, job.id = it, checkpoint.interval = 200, {env} }}
        source {{ FakeSource {{
            row.num = 1000000, split.num = 100000, split.read-interval = 50
            schema {{ fields {{ id = bigint }} }}
        }} }}
        sink {{ Console {{}} }}
    """


def two_pipelines(rows: int = 3) -> str:
    return f"""
        env {{ job.mode = BATCH, job.id = it }}
        source {{
            FakeSource {{ plugin_output = a, row.num = {rows}, schema {{ fields {{ id = bigint }} }} }}
            FakeSource {{ plugin_output = b, row.num = {rows}, schema {{ fields {{ id = bigint }} }} }}
        }}
        sink {{ Console {{ plugin_input = a }}, Console {{ plugin_input = b }} }}
    """
