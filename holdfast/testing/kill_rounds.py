"""A real job in a real process is really killed, at random moments, and run again until it has finished.

    python -m holdfast.testing.kill_rounds --rounds 200

Files go into files and into a PostgreSQL table by the exactly-once sink; both must then hold the source's rows, each
once. Two jobs of four stay in the driver with many small epochs, one runs in processes of its own, one goes through
Spark SQL.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from holdfast.outside.clock import RealClock
from holdfast.outside.ids import seeded
from holdfast.outside.processes import Running, launch
from holdfast.testing.servers import Database, postgres_server

CLOCK = RealClock()
LOOK_EVERY_MS = 5.0
RUN_TIMEOUT_MS = 240_000.0
KILLS_PER_JOB_MAX = 3
AFTER_CLAIM_MS_MAX = 2_500
"""A kill falls this long after the attempt's first checkpoint, or before it in one case of five."""
BEFORE_CLAIM_MS_MAX = 1_500


Chance = Callable[[float, float], float]
"""A number between two."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How much is read, and how."""

    files: int
    rows_per_file: int
    env: str
    transform: str = ""


SMALL = Shape(30, 500, "checkpoint.interval = 200\n read_limit.rows_per_second = 6000")
LARGE = Shape(24, 12_000, "checkpoint.interval = 500\n parallelism = 2")
THROUGH_SPARK = replace(
    LARGE, transform="Sql { query = \"select id, concat(text, '') as text from t\" }"
)
SHAPES = (SMALL, LARGE, SMALL, THROUGH_SPARK)


@dataclass(frozen=True, slots=True)
class Tally:
    """What the rounds came to."""

    kills: int
    jobs: int
    rows: int


def run_rounds(
    folder: Path, database: Database, *, rounds: int, seed: int, say: Callable[[str], None]
) -> Tally:
    """Kill so many times. Raises AssertionError when a sink does not hold exactly the source's rows."""
    chance = seeded(seed).uniform
    kills = jobs = rows = 0
    while kills < rounds:
        job = Job(folder, database, jobs, SHAPES[jobs % len(SHAPES)])
        wanted = min(1 + int(chance(0, KILLS_PER_JOB_MAX - 0.01)), rounds - kills)
        killed = sum(job.kill_once(chance) for _ in range(wanted))
        job.finish()
        rows += job.judge()
        kills += killed
        jobs += 1
        say(f"job {jobs}: killed {killed} times, {kills} of {rounds}; both sinks are exact")
    return Tally(kills, jobs, rows)


class Job:
    """One job with its files, its tables and its place in checkpoint storage."""

    def __init__(self, folder: Path, database: Database, index: int, shape: Shape) -> None:
        self._source = folder / f"source-{shape.files}"
        self._target = folder / f"target-{index}"
        self._data = folder / "data"
        self._log = folder / f"job-{index}.log"
        self._table = f"killed_{index}"
        self._id = f"kill-{index}"
        self._database = database
        self._rows = shape.files * shape.rows_per_file
        if not self._source.exists():
            write_source(self._source, shape)
        self._file = folder / f"job-{index}.conf"
        self._file.write_text(self._text(shape))

    def kill_once(self, chance: Chance) -> bool:
        """Whether it was still alive to be killed."""
        before = self._newest()
        running = self._start()
        is_early = chance(0, 1) < 0.2
        if not is_early:
            self._wait_for_claim(running, before)
        CLOCK.wait(chance(0, BEFORE_CLAIM_MS_MAX if is_early else AFTER_CLAIM_MS_MAX))
        was_alive = running.is_alive
        if was_alive:
            os.kill(running.pid, signal.SIGKILL)
        running.end(grace_ms=10_000, ask=None)
        return was_alive

    def finish(self) -> None:
        """Run it without a kill. Its exit code must be that of a job that finished."""
        running = self._start()
        deadline_ms = CLOCK.elapsed_ms() + RUN_TIMEOUT_MS
        while running.is_alive and CLOCK.elapsed_ms() < deadline_ms:
            CLOCK.wait(LOOK_EVERY_MS)
        assert not running.is_alive, f"{self._id} has not finished: {running.last_lines()}"
        running.end(grace_ms=10_000, ask=None)
        assert "FINISHED" in self._log.read_text().upper(), running.last_lines(10)

    def judge(self) -> int:
        wanted = [(number, f"row {number}") for number in range(self._rows)]
        query = f"SELECT id, text FROM {self._table} ORDER BY id"
        compare_rows(f"{self._id}, table", self._database.rows(query), wanted)
        compare_rows(f"{self._id}, files", read_files(self._target), wanted)
        hidden = [path for path in self._target.rglob("*") if _is_leftover(path)]
        assert not hidden, f"{self._id} left {hidden[:3]} behind"
        return len(wanted)

    def _start(self) -> Running:
        command = [sys.executable, "-m", "holdfast.cli.main", "run", str(self._file)]
        return launch([*command, "--job-id", self._id, "--data", str(self._data)], log=self._log)

    def _newest(self) -> int:
        chain = self._data / "checkpoints" / self._id / "1"
        names = os.listdir(chain) if chain.is_dir() else []
        return max((int(name) for name in names if name.isdigit()), default=0)

    def _wait_for_claim(self, running: Running, before: int) -> None:
        deadline_ms = CLOCK.elapsed_ms() + RUN_TIMEOUT_MS
        while running.is_alive and self._newest() <= before:
            assert CLOCK.elapsed_ms() < deadline_ms, f"no claim: {running.last_lines()}"
            CLOCK.wait(LOOK_EVERY_MS)

    def _text(self, shape: Shape) -> str:
        database = self._database
        return f"""\
env {{
 job.mode = "BATCH"
 {shape.env}
 spark.master = "local[2]"
}}
source {{
 LocalFile {{
  path = "{self._source}"
  file_format_type = "csv"
  schema {{ table = "t", columns = [{{ name = id, type = bigint }}, {{ name = text, type = string }}] }}
 }}
}}
transform {{ {shape.transform} }}
sink {{
 LocalFile {{ path = "{self._target}", file_format_type = "csv" }}
 Jdbc {{
  url = "{database.url()}"
  user = "{database.user}"
  password = "{database.password}"
  generate_sink_sql = true
  table = "{self._table}"
  is_exactly_once = true
  enable_upsert = false
 }}
}}
"""


def write_source(folder: Path, shape: Shape) -> None:
    folder.mkdir(parents=True)
    for index in range(shape.files):
        first = index * shape.rows_per_file
        ids = range(first, first + shape.rows_per_file)
        rows = pa.table({"id": pa.array(ids, pa.int64()), "text": [f"row {id_}" for id_ in ids]})
        options = pyarrow.csv.WriteOptions(include_header=False)
        pyarrow.csv.write_csv(rows, folder / f"{index:04}.csv", options)


def read_files(folder: Path) -> list[tuple[object, ...]]:
    """The rows of all files that a reader sees, by key."""
    found: list[tuple[object, ...]] = []
    reading = pyarrow.csv.ReadOptions(column_names=["id", "text"])
    for path in folder.glob("[!.]*.csv"):
        rows = pyarrow.csv.read_csv(path, read_options=reading)
        columns = rows.column("id").to_pylist(), rows.column("text").to_pylist()
        found += zip(*columns, strict=True)
    return sorted(found)


def _is_leftover(path: Path) -> bool:
    """A staged file. The marks of what was published last are no rows."""
    return path.is_file() and ".holdfast" in path.parts and "published" not in path.parts


def compare_rows(
    where: str, found: list[tuple[object, ...]], wanted: list[tuple[int, str]]
) -> None:
    """Raises AssertionError with what is missing and what is beyond."""
    if found == wanted:
        return
    known, expected = set(found), set(wanted)
    missing = [row for row in wanted if row not in known][:3]
    beyond = [row for row in found if row not in expected][:3]
    raise AssertionError(
        f"{where}: {len(found)} rows and not {len(wanted)};"
        f" missing {missing}, beyond {beyond}, or doubled"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200, help="how many kills")
    parser.add_argument("--seed", type=int, default=1, help="of the moments")
    given = parser.parse_args()

    def say(line: str) -> None:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()

    with tempfile.TemporaryDirectory() as folder, postgres_server() as database:
        tally = run_rounds(Path(folder), database, rounds=given.rounds, seed=given.seed, say=say)
    say(f"{tally.kills} kills of {tally.jobs} jobs; {tally.rows} rows, each once in both sinks")


if __name__ == "__main__":
    main()
