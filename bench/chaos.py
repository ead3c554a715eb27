"""Two masters, two workers and two PostgreSQL servers, of which anything is killed, paused and restarted at random
while four jobs run; afterwards both sinks of each hold the rows of their sources, each once.

    python -m bench.chaos --minutes 10 --seed 1

Each round has jobs of its own. A round ends with calm: then every job must reach what was asked of it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import psycopg

from bench.figures import family_of
from holdfast.outside.ids import Chance, seeded
from holdfast.testing.file_jobs import FileJob
from holdfast.testing.live_cluster import LiveCluster, LiveMaster, LiveProcess, live_cluster, until
from holdfast.testing.servers import PostgresServer, restartable_postgres

STORM_S = 40.0
"""Of a round, if nothing else is asked for."""
CALM_MS = 240_000
"""Backoff after failures and a worker of its own for a job whose workers died take their time."""
APART_S = (0.2, 3.0)
DOWN_S = (0.1, 4.0)
PAUSED_S = (0.3, 8.0)
DURABLE = {"synchronous_commit": "on"}
"""A killed server keeps what it has confirmed."""
ENV = "checkpoint.interval = 500\n job.retry.times = 1000\n job.retry.interval.seconds = 0.5"
SLOWLY = f"{ENV}\n read_limit.rows_per_second = 150"
Say = Callable[[str], None]


@dataclass
class Ground:
    """What chaos is made of. `sinks` holds the tables, `state` what masters know."""

    folder: Path
    cluster: LiveCluster
    state: PostgresServer
    sinks: PostgresServer


@dataclass
class Tally:
    """What the rounds came to."""

    rounds: int = 0
    rows: int = 0
    attempts: int = 0
    calm_s_max: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)

    def lines(self) -> list[str]:
        struck = ", ".join(f"{count} x {name}" for name, count in sorted(self.faults.items()))
        return [
            f"{self.rounds} rounds, {sum(self.faults.values())} faults: {struck}",
            f"{self.attempts} attempts; {self.rows:,} rows, each once in both sinks",
            f"until all was well after the last fault of a round: at most {self.calm_s_max:.0f} s",
        ]


class Storm:
    """Strikes at random. What it broke, it mends a little later."""

    def __init__(self, ground: Ground, chance: Chance, tally: Tally, say: Say) -> None:
        self._ground = ground
        self._chance = chance
        self._tally = tally
        self._say = say
        self._due: list[tuple[float, Callable[[], None]]] = []
        self._down: set[int] = set()

    def strike(self) -> None:
        """One fault. Where its target is not there to be struck, none."""
        weights = {
            self._kill_worker: 5,
            self._kill_leader: 4,
            self._kill_follower: 1,
            self._pause_worker: 4,
            self._pause_leader: 3,
            self._drain_worker: 2,
            self._kill_java: 2,
            self._end_master: 1,
            self._kill_all_masters: 1,
            self._kill_all_workers: 1,
            self._pause_all_masters: 1,
            self._kill_state: 1,
            self._restart_state: 1,
            self._kill_sinks: 1,
        }
        fault = self._chance.choices(list(weights), list(weights.values()))[0]
        if fault():
            name = fault.__name__.strip("_").replace("_", " ")
            self._tally.faults[name] += 1
            self._say(name)

    def mend_due(self) -> None:
        now_s = time.monotonic()
        due = [mend for at_s, mend in self._due if at_s <= now_s]
        self._due = [(at_s, mend) for at_s, mend in self._due if at_s > now_s]
        for mend in due:
            mend()

    def mend_all(self) -> None:
        while self._due:
            self._due = [(0.0, mend) for _, mend in self._due]
            self.mend_due()

    def _later(self, mend: Callable[[], None], within_s: tuple[float, float]) -> None:
        self._due.append((time.monotonic() + self._chance.uniform(*within_s), mend))

    # ------------------------------------------------------------------------------------- processes

    def _kill(self, *struck: LiveProcess) -> bool:
        for process in struck:
            process.kill()
            self._later(lambda process=process: self._start(process), DOWN_S)  # type: ignore[misc]
        return bool(struck)

    def _pause(self, *struck: LiveProcess) -> bool:
        for process in struck:
            process.pause()
            self._later(lambda process=process: _go_on(process), PAUSED_S)  # type: ignore[misc]
        return bool(struck)

    def _end(self, *struck: LiveProcess) -> bool:
        for process in struck:
            process.ask_to_end()
            self._later(lambda process=process: self._start(process), DOWN_S)  # type: ignore[misc]
        return bool(struck)

    def _start(self, process: LiveProcess) -> None:
        """Once the one that was asked to end has ended."""
        if process.is_paused:
            process.go_on()
        if process.is_alive and process.is_ending:
            self._later(lambda: self._start(process), (0.2, 0.2))
            time.sleep(0.05)
        elif not process.is_alive:
            process.start()

    def _workers(self) -> list[LiveProcess]:
        return [w for w in self._ground.cluster.workers if w.is_alive and not w.is_paused]

    def _masters(self, *, leading: bool) -> list[LiveMaster]:
        awake = [m for m in self._ground.cluster.masters if m.is_alive and not m.is_paused]
        return [master for master in awake if master.leads(500) is leading][:1]

    def _kill_worker(self) -> bool:
        return self._kill(*self._one(self._workers()))

    def _kill_all_workers(self) -> bool:
        return self._kill(*self._workers())

    def _pause_worker(self) -> bool:
        return self._pause(*self._one(self._workers()))

    def _drain_worker(self) -> bool:
        return self._end(*self._one([w for w in self._workers() if not w.is_ending]))

    def _kill_java(self) -> bool:
        """The Spark driver of a worker that goes on living."""
        for worker in self._one(self._workers()):
            drivers = [pid for pid in family_of(worker.pid) if _is_java(pid)]
            for pid in drivers:
                os.kill(pid, signal.SIGKILL)
            return bool(drivers)
        return False

    def _kill_leader(self) -> bool:
        return self._kill(*self._masters(leading=True))

    def _kill_follower(self) -> bool:
        return self._kill(*self._masters(leading=False))

    def _pause_leader(self) -> bool:
        return self._pause(*self._masters(leading=True))

    def _end_master(self) -> bool:
        return self._end(*[m for m in self._masters(leading=True) if not m.is_ending])

    def _kill_all_masters(self) -> bool:
        return self._kill(*[m for m in self._ground.cluster.masters if m.is_alive])

    def _pause_all_masters(self) -> bool:
        masters = self._ground.cluster.masters
        return self._pause(*[m for m in masters if m.is_alive and not m.is_paused])

    def _one(self, of: list[LiveProcess]) -> list[LiveProcess]:
        return [self._chance.choice(of)] if of else []

    # --------------------------------------------------------------------------------------- servers

    def _kill_state(self) -> bool:
        return self._take_down(self._ground.state, PostgresServer.kill)

    def _restart_state(self) -> bool:
        return self._take_down(self._ground.state, PostgresServer.stop)

    def _kill_sinks(self) -> bool:
        return self._take_down(self._ground.sinks, PostgresServer.kill)

    def _take_down(self, server: PostgresServer, how: Callable[[PostgresServer], None]) -> bool:
        if id(server) in self._down:
            return False
        self._down.add(id(server))
        how(server)

        def start() -> None:
            server.start()
            self._down.discard(id(server))

        self._later(start, DOWN_S)
        return True


def _is_java(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/exe").readlink().name == "java"
    except OSError:
        return False


def _go_on(process: LiveProcess) -> None:
    """Another fault may have killed it meanwhile."""
    if process.is_alive and process.is_paused:
        process.go_on()


def run_round(ground: Ground, seed: int, storm_s: float, tally: Tally, say: Say) -> None:
    """Raises AssertionError when a job does not reach what was asked, or a sink is not exact."""
    chance, folder, name = seeded(seed), ground.folder, f"r{seed}"
    cluster, database = ground.cluster, ground.sinks.database
    jobs = [
        FileJob(folder, database, f"{name}-b1", env=SLOWLY),
        FileJob(folder, database, f"{name}-b2", env=SLOWLY, sources=2, through_spark=True),
        FileJob(folder, database, f"{name}-u1", env=ENV, unbounded=True, through_spark=True),
        FileJob(folder, database, f"{name}-u2", env=ENV, sources=2, unbounded=True),
    ]
    for job in jobs:
        _fill(job, rows=round(storm_s * 120), chance=chance)
        cluster.submit(job.text())
    storm = Storm(ground, chance, tally, say)
    until_s = time.monotonic() + storm_s
    next_s = time.monotonic() + 2
    while time.monotonic() < until_s:
        storm.mend_due()
        if time.monotonic() >= next_s:
            storm.strike()
            next_s = time.monotonic() + chance.uniform(*APART_S)
        for job in jobs:
            if job.unbounded and chance.random() < 0.2:
                job.drop(1 + int(chance.random() * 40), source=chance.randrange(job.sources))
        time.sleep(0.1)
    say("calm")
    calm_s = time.monotonic()
    storm.mend_all()
    cluster.revive()
    for job in jobs:
        _expect_end(cluster, job)
    tally.calm_s_max = max(tally.calm_s_max, time.monotonic() - calm_s)
    for job in jobs:
        tally.rows += job.judge()
        tally.attempts += len(cluster.attempts(job.id))
    tally.rounds += 1


def _fill(job: FileJob, *, rows: int, chance: Chance) -> None:
    """What is there from the beginning. Bounded jobs last about as long as the storm."""
    files = 5 if job.unbounded else 40
    for source in range(job.sources):
        for _ in range(files):
            each = 20 if job.unbounded else rows // files // job.sources
            job.drop(1 + int(chance.uniform(0.5, 1.5) * each), source=source)


def _expect_end(cluster: LiveCluster, job: FileJob) -> None:
    if job.unbounded:
        until(f"all rows of {job.id}", job.is_complete, timeout_ms=CALM_MS)
        cluster.stop(job.id, savepoint=True)
    wanted = "SAVEPOINT_DONE" if job.unbounded else "FINISHED"
    cluster.wait_for_status(job.id, wanted, timeout_ms=CALM_MS)


@contextmanager
def chaos_ground(folder: Path) -> Iterator[Ground]:
    with (
        restartable_postgres(DURABLE) as state,
        restartable_postgres({**DURABLE, "max_prepared_transactions": "64"}) as sinks,
        live_cluster(folder, masters=2, workers=2, state=state.database.dsn()) as cluster,
    ):
        yield Ground(folder, cluster, state, sinks)


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1, help="of the first round; each has the next")
    parser.add_argument("--rounds", type=int, help="end after so many rounds")
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="holdfast-chaos-"))
    tally = Tally()
    until_s = time.monotonic() + args.minutes * 60
    with chaos_ground(folder) as ground:
        seed = args.seed
        while time.monotonic() < until_s and tally.rounds != args.rounds:
            _say(f"round with seed {seed}")
            try:
                run_round(ground, seed, STORM_S, tally, _say)
            except (AssertionError, psycopg.Error) as violation:
                _say(f"VIOLATION in the round with seed {seed}: {violation}")
                _say(f"Logs, files and checkpoints are kept in {folder}.")
                print("\n".join(tally.lines()))
                return 1
            seed += 1
    shutil.rmtree(folder, ignore_errors=True)
    print("\n".join([*tally.lines(), f"seeds {args.seed} to {seed - 1}: no violation"]))
    return 0


def _say(line: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S.%f} {line}", flush=True)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(main())
