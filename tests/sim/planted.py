"""All planted bugs, and the search for each: `python -m tests.sim.planted` prints in which seed each is found.

With `--write` the table of docs/simulator.md is written anew.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from holdfast.testing.sim.many import run_safely
from holdfast.testing.sim.plan import draw_plan
from tests.sim import bugs_of_attempts, bugs_of_masters, bugs_of_workers
from tests.sim.planting import planted

BUGS = {**bugs_of_attempts.BUGS, **bugs_of_masters.BUGS, **bugs_of_workers.BUGS}
SEEDS_MAX = 500
"""Each is found below this seed. The same seeds are clean without it."""
PAGE = Path(__file__).parents[2] / "docs" / "simulator.md"
HEAD = "| planted bug | what people would report | first seed |\n| --- | --- | --- |\n"


@dataclass(frozen=True)
class Finding:
    """The first seed that shows a bug; None where no seed of those did."""

    name: str
    seed: int | None
    said: str


def find(name: str, seeds_max: int = SEEDS_MAX) -> Finding:
    """One seed after the other, up to the first that is not clean."""
    with planted(BUGS[name]):
        for seed in range(seeds_max):
            verdict = run_safely(draw_plan(seed))
            if verdict.wrong:
                return Finding(name, seed, verdict.wrong[0])
    return Finding(name, None, "")


def find_all(names: Iterable[str], out: TextIO) -> list[Finding]:
    print(f"{'bug':<48} {'found in seed':>13}  what the simulator says", file=out)
    findings = []
    with ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
        for found in pool.map(find, names):
            shown = "-" if found.seed is None else str(found.seed)
            said = found.said.replace("\n", " ")[:110]
            print(f"{found.name:<48} {shown:>13}  {said}", file=out, flush=True)
            findings.append(found)
    return findings


def write_table(findings: Sequence[Finding]) -> None:
    """In place of the one that is there."""
    rows = [f"| {f.name} | {BUGS[f.name].stands_for} | {f.seed} |\n" for f in findings]
    text = PAGE.read_text(encoding="utf-8")
    table = re.compile(re.escape(HEAD) + r"(?:\|.*\n)*")
    PAGE.write_text(table.sub(lambda _: HEAD + "".join(rows), text), encoding="utf-8")


def main(given: list[str], out: TextIO) -> None:
    names = [name for name in given if name != "--write"]
    findings = find_all(names or BUGS, out)
    if "--write" in given:
        write_table(findings)


if __name__ == "__main__":
    main(sys.argv[1:], sys.stdout)
