"""Other programs: started, watched and ended here and nowhere else.

What is launched lives in a session of its own (the terminal's Ctrl-C is ours alone) and holds the other end of a
pipe on its stdin: when we die, by whatever signal, it reads the end of it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from holdfast.model.errors import Terminal

_LOOK_EVERY_S = 0.01


class ProcessFailed(Terminal):
    """A program could not be started, ended with an error, or took too long."""

    code = "process-failed"


@dataclass(frozen=True, slots=True)
class Ended:
    """What a program left."""

    code: int
    out: str


class Running:
    """A program that was launched."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self._log = log

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def wait_for_file(self, path: Path, *, timeout_ms: int) -> None:
        """Until the program has made the file, which is its way to say that it is ready."""
        deadline = time.monotonic() + timeout_ms / 1000
        while not path.exists():
            if not self.is_alive:
                raise ProcessFailed(
                    f"Cannot start {self._name}: it ended with code {self._process.returncode}"
                    f" ({self.last_lines()}). Its log is {self._log}."
                )
            if time.monotonic() > deadline:
                raise ProcessFailed(
                    f"Cannot start {self._name}: it was not ready after {timeout_ms} ms"
                    f" ({self.last_lines()}). Its log is {self._log}."
                )
            time.sleep(_LOOK_EVERY_S)

    def last_lines(self, count: int = 3) -> str:
        """The end of its log, on one line."""
        if not self._log.exists():
            return "it logged nothing"
        lines = [line for line in self._log.read_text(errors="replace").splitlines() if line]
        return " / ".join(lines[-count:]) or "it logged nothing"

    def end(self, *, grace_ms: int, ask: signal.Signals | None = signal.SIGTERM) -> None:
        """Close its stdin and ask it to end; past the grace period kill it. Doing it twice is the same as once."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        if ask is not None and self.is_alive:
            self._process.send_signal(ask)
        try:
            self._process.wait(grace_ms / 1000)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    @property
    def _name(self) -> str:
        arguments = self._process.args
        assert isinstance(arguments, list)
        return str(arguments[0])


def launch(
    command: Sequence[str],
    *,
    log: Path,
    environment: Mapping[str, str] | None = None,
    user: str | None = None,
) -> Running:
    """Start a program; what it prints goes to the end of `log`. `environment` is added to ours."""
    try:
        with open(log, "ab") as out:
            process = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
                user=user,
            )
    except OSError as error:
        raise ProcessFailed(
            f"Cannot start {command[0]}: {error.strerror or error}. Check that it is installed."
        ) from error
    return Running(process, log)


class PeerDied(Exception):
    """A peer ended, or was killed, before it answered."""


class Peer:
    """A Python process of ours that answers one message after the other; it dies with us."""

    def __init__(self, process: subprocess.Popen[bytes], printed: IO[bytes]) -> None:
        self._process = process
        self._printed = printed
        self.is_usable = True

    def ask(self, message: bytes) -> bytes:
        """Raises PeerDied. One at a time."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        answer = None
        # It may be gone already.
        with contextlib.suppress(OSError):
            write_message(self._process.stdin, message)
            answer = read_message(self._process.stdout)
        if answer is None:
            self.is_usable = False
            raise PeerDied(self._end())
        return answer

    def kill(self) -> None:
        """At once, from any thread: who waits for an answer gets PeerDied."""
        self.is_usable = False
        self._process.kill()

    def bury(self) -> None:
        """Kill it and let go of all that was its. Nobody may be waiting for it."""
        self.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._printed):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _end(self) -> str:
        """How it ended, and the last line that it printed."""
        code = self._process.wait()
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"code {code}"
        self._printed.seek(0)
        lines = self._printed.read().decode(errors="replace").split("\n")
        return ": ".join([how, *[line.strip() for line in lines if line.strip()][-1:]])


def launch_peer(module: str) -> Peer:
    """Start `python -m module`, which imports what we can import. What it prints is kept in a file without a name."""
    printed = tempfile.TemporaryFile()  # noqa: SIM115 - it is open as long as the peer
    process = subprocess.Popen(
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=printed,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p or os.getcwd() for p in sys.path)},
    )
    return Peer(process, printed)


def write_message(to: IO[bytes], message: bytes) -> None:
    to.write(struct.pack(">Q", len(message)) + message)
    to.flush()


def read_message(of: IO[bytes]) -> bytes | None:
    """None when the other side has gone."""
    head = of.read(8)
    if len(head) < 8:
        return None
    size: int = struct.unpack(">Q", head)[0]
    message = of.read(size)
    return message if len(message) == size else None


def launch_detached(command: Sequence[str], *, keep_open: Sequence[int] = ()) -> None:
    """Start a program that ends by itself and that nobody waits for. It inherits the open files named."""
    subprocess.Popen(
        list(command),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        pass_fds=keep_open,
    )


def run(command: Sequence[str], *, timeout_ms: int, user: str | None = None) -> Ended:
    """Run a program to its end. What it prints to both streams is `out`."""
    try:
        done = subprocess.run(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout_ms / 1000,
            check=False,
            user=user,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ProcessFailed(
            f"Cannot run {command[0]}: {error}. Check that it is installed."
        ) from error
    return Ended(done.returncode, done.stdout.decode(errors="replace"))
