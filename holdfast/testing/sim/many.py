"""Many seeds, over several processes; what failed and what befell is counted."""

from __future__ import annotations

import gc
import multiprocessing
import os
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import islice

from holdfast.outside.clock import Clock
from holdfast.testing.sim.plan import Plan, draw_plan
from holdfast.testing.sim.run import Verdict, run_plan

SEEDS_AT_ONCE = 25
"""So many go to a process in one piece."""


@dataclass
class Tally:
    """What many schedules came to."""

    ran: int = 0
    failed: dict[int, list[str]] = field(default_factory=dict)
    """What was wrong, by seed."""
    faults: Counter[str] = field(default_factory=Counter)
    checked: Counter[str] = field(default_factory=Counter)
    """How often each invariant was asked."""
    took_ms: float = 0.0

    def add(self, other: Tally) -> None:
        self.ran += other.ran
        self.failed.update(other.failed)
        self.faults += other.faults
        self.checked += other.checked

    @property
    def per_second(self) -> float:
        return self.ran / max(self.took_ms / 1000, 0.001)


def run_safely(plan: Plan) -> Verdict:
    """A run that ends by an error has failed as well, and says where."""
    try:
        return run_plan(plan)
    except Exception as error:  # noqa: BLE001 - whatever it is, the seed is told and the others go on
        where = "".join(traceback.format_exception(error)[-3:]).strip()
        return Verdict(plan.seed, wrong=[f"{type(error).__name__}: {error}\n{where}"])


def run_seeds(seeds: Iterable[int]) -> Tally:
    """Here, one after the other. What is garbage is looked for between schedules: that saves a fifth of the time."""
    tally = Tally()
    gc.disable()
    for seed in seeds:
        verdict = run_safely(draw_plan(seed))
        tally.ran += 1
        if tally.ran % SEEDS_AT_ONCE == 0:
            gc.collect()
        tally.faults += verdict.faults
        tally.checked += verdict.checked
        if verdict.wrong:
            tally.failed[seed] = verdict.wrong
    gc.enable()
    return tally


def run_many(
    seeds: Iterable[int],
    *,
    jobs: int,
    clock: Clock,
    until_ms: float | None,
    tell: Callable[[Tally], None] = lambda tally: None,
    failures_max: int = 5,
) -> Tally:
    """Until the seeds are through, the time is up, or enough have failed."""
    tally = Tally()
    began_ms = clock.elapsed_ms()
    pieces = _pieces(seeds)
    with ProcessPoolExecutor(max_workers=jobs, initializer=_die_with_us) as pool:
        under_way: set[Future[Tally]] = set()
        while True:
            is_late = until_ms is not None and clock.elapsed_ms() - began_ms > until_ms
            if not is_late and len(tally.failed) < failures_max:
                room = 2 * jobs - len(under_way)
                under_way |= {pool.submit(run_seeds, piece) for piece in islice(pieces, room)}
            if not under_way:
                break
            done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
            for piece in done:
                tally.add(piece.result())
            tally.took_ms = clock.elapsed_ms() - began_ms
            tell(tally)
    return tally


def _die_with_us() -> None:
    """A process of the pool whose parent was killed would wait for more for ever."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _pieces(seeds: Iterable[int]) -> Iterator[list[int]]:
    iterator = iter(seeds)
    while piece := list(islice(iterator, SEEDS_AT_ONCE)):
        yield piece
