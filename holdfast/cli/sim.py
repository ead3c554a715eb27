"""`holdfast sim`: many schedules of faults against the real engine under a virtual clock. What fails is made short and
told as a story; `--seed` plays one again.
"""

from __future__ import annotations

import argparse
import os
import re
from typing import TYPE_CHECKING, Any, TextIO

from holdfast.model.errors import ConfigError, ExitCode
from holdfast.outside.clock import RealClock

if TYPE_CHECKING:
    from holdfast.testing.sim.many import Tally

SHRUNK_MAX = 2
"""So many failing schedules are made short: it takes a while, and the first is mostly enough."""
TOLD_EVERY_MS = 10_000


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "sim",
        help="try the engine itself against simulated faults",
        description="Runs the real engine under a virtual clock, with faults drawn from each seed, and judges it.",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--seeds", metavar="A-B", default="0-1000", help="from A up to B (without)")
    what.add_argument("--seed", type=int, metavar="S", help="this one alone, with its story")
    parser.add_argument("--minutes", type=float, metavar="M", help="begin no more after so long")
    parser.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        metavar="N",
        help="processes (default: one per core)",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, out: TextIO) -> int:
    if args.seed is not None:
        return _run_one(args.seed, out)
    return _run_many(args, out)


def _run_one(seed: int, out: TextIO) -> int:
    from holdfast.testing.sim.many import run_safely
    from holdfast.testing.sim.plan import draw_plan
    from holdfast.testing.sim.shrink import tell

    plan = draw_plan(seed)
    verdict = run_safely(plan)
    print(tell(plan, verdict), file=out)
    return int(ExitCode.FAILED if verdict.wrong else ExitCode.FINISHED)


def _run_many(args: argparse.Namespace, out: TextIO) -> int:
    from holdfast.testing.sim.many import run_many

    said_ms = [0.0]
    told: set[int] = set()

    def tell(tally: Tally) -> None:
        for seed in sorted(tally.failed.keys() - told):
            told.add(seed)
            _say(out, _failed_line(seed, tally.failed[seed]))
        if tally.took_ms - said_ms[0] >= TOLD_EVERY_MS:
            said_ms[0] = tally.took_ms
            _say(out, _line(tally))

    tally = run_many(
        _read_seeds(args.seeds),
        jobs=max(args.jobs, 1),
        clock=RealClock(),
        until_ms=None if args.minutes is None else args.minutes * 60_000,
        tell=tell,
    )
    _report(tally, out)
    for seed in sorted(tally.failed)[:SHRUNK_MAX]:
        _tell_short(seed, out)
    return int(ExitCode.FAILED if tally.failed else ExitCode.FINISHED)


def _read_seeds(given: str) -> range:
    found = re.fullmatch(r"(\d+)-(\d+)", given)
    if found is None or int(found[2]) <= int(found[1]):
        raise ConfigError(
            f"Cannot read --seeds: found '{given}', expected A-B with A before B, as in 0-1000."
        )
    return range(int(found[1]), int(found[2]))


def _report(tally: Tally, out: TextIO) -> None:
    _say(out, f"{'faults injected':<44} {sum(tally.faults.values()):>12,}")
    for kind, count in sorted(tally.faults.items()):
        _say(out, f"  {kind:<42} {count:>12,}")
    _say(out, f"{'invariants checked':<44} {sum(tally.checked.values()):>12,}")
    for name, count in sorted(tally.checked.items()):
        _say(out, f"  {name:<42} {count:>12,}")
    _say(out, _line(tally))
    for seed, wrong in sorted(tally.failed.items()):
        _say(out, _failed_line(seed, wrong))


def _failed_line(seed: int, wrong: list[str]) -> str:
    return f"seed {seed}: {wrong[0]}"


def _line(tally: Tally) -> str:
    return (
        f"{tally.ran:,} schedules in {tally.took_ms / 1000:.0f} s ({tally.per_second:.0f}/s),"
        f" {sum(tally.faults.values()):,} faults, {len(tally.failed)} violations"
    )


def _tell_short(seed: int, out: TextIO) -> None:
    from holdfast.testing.sim.many import run_safely
    from holdfast.testing.sim.plan import draw_plan
    from holdfast.testing.sim.shrink import shrink, tell

    _say(out, f"\nThe shortest schedule found that fails as seed {seed} does:")
    plan, verdict = shrink(draw_plan(seed), run_safely)
    _say(out, tell(plan, verdict))
    _say(out, f"All of it: holdfast sim --seed {seed}")


def _say(out: TextIO, line: str) -> None:
    print(line, file=out, flush=True)
