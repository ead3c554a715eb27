"""Does what a page tells its readers to do: runs its ```console blocks and holds what came against what is printed.

In a block a line that begins with `$ ` is a command, what follows is its output. Numbers, dates and ids may differ; a
line of `…` stands for any lines, and lines that are not printed may come between as long as one of those stands there.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
ANY_LINES = "…"
_BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
_NEXT = "@@ next command"


@dataclass
class Step:
    """A command and what the page says it prints."""

    command: str
    printed: list[str] = field(default_factory=list)


def steps_of(page: Path) -> list[Step]:
    steps: list[Step] = []
    for block in _BLOCK.findall(page.read_text(encoding="utf-8")):
        for line in block.splitlines():
            if line.startswith("$ "):
                steps.append(Step(line[2:]))
            elif line.strip():
                steps[-1].printed.append(line)
    return steps


def follow(
    steps: list[Step],
    folder: Path,
    *,
    replace: Mapping[str, str],
    env: Mapping[str, str],
    timeout_s: float = 240,
) -> list[str]:
    """All in one shell, as a reader would; the output of each."""
    lines = []
    for step in steps:
        command = step.command
        for old, new in replace.items():
            command = command.replace(old, new)
        lines += [f"echo '{_NEXT}'", command]
    given = {**os.environ, "HOLDFAST_DATA": str(folder / "data"), "COLUMNS": "200", **env}
    with subprocess.Popen(
        ["bash", "-c", "\n".join(lines)],
        cwd=ROOT,
        env=given,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as shell:
        try:
            output, _ = shell.communicate(timeout=timeout_s)
        finally:
            _end_all_of(shell.pid)
    return output.split(_NEXT + "\n")[1:]


def _end_all_of(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


def difference(step: Step, output: str) -> str | None:
    """The first printed line that did not come, or None."""
    came = [_normal(line) for line in output.splitlines()]
    at, may_skip = 0, False
    for line in step.printed:
        if line.strip() == ANY_LINES:
            may_skip = True
            continue
        wanted = _normal(line)
        found = next((i for i in range(at, len(came)) if came[i] == wanted), None)
        if found is None or (found != at and not may_skip):
            return f"$ {step.command}\nprints no line {line!r} here, but:\n{output}"
        at, may_skip = found + 1, False
    return None


def _normal(line: str) -> str:
    line = re.sub(r"\s+", " ", line.rstrip())
    line = re.sub(r"-[0-9a-f]{8}\b|\b[0-9a-f]{32}\b", "-ID", line)
    line = re.sub(r"\b[KMG]?B\b", "B", line)
    return re.sub(r"\d+(?:[.,]\d+)*", "N", line)
