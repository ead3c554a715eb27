"""A whole process for sixteen rows: what a scheduler that starts many small jobs waits for."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from bench.figures import Figure, Ground, run_measured

WARM_RUNS = 3
ARCHIVE_MAX_S = 120
ROWS = "FakeSource { plugin_output = rows, row.num = 16, schema { fields { id = bigint, name = string } } }"


def cold_and_warm_start(ground: Ground) -> Iterator[Figure]:
    """With a transform, so that Spark starts; and without, where it need not."""
    sql = 'transform { Sql { query = "select id, upper(name) as name from rows" } }'
    for name, transform in (("with Sql", sql), ("without", "")):
        job = ground.write_job(
            f"start-{len(transform)}",
            f"env {{ job.mode = BATCH }}\nsource {{ {ROWS} }}\n{transform}\nsink {{ Console {{ }} }}",
        )
        with tempfile.TemporaryDirectory() as cache:
            os.environ["XDG_CACHE_HOME"] = cache
            cold = _start(ground, job)
            if transform:
                _wait_for_archive(Path(cache))
            warm = median(_start(ground, job) for _ in range(WARM_RUNS))
            del os.environ["XDG_CACHE_HOME"]
        yield Figure(f"16 rows {name} transform, first run", f"{cold:.2f} s")
        yield Figure(f"16 rows {name} transform, later runs", f"{warm:.2f} s")


def _wait_for_archive(cache: Path) -> None:
    """A first run with Spark leaves a process behind that makes what later runs start from."""
    until_s = time.monotonic() + ARCHIVE_MAX_S
    while not list(cache.glob("*/*.jsa")):
        assert time.monotonic() < until_s, "no archive of Spark's classes came"
        time.sleep(0.1)


def _start(ground: Ground, job: Path) -> float:
    data = str(ground.folder / "starts")
    command = [sys.executable, "-m", "holdfast.cli.main", "run", str(job), "--data", data]
    return run_measured([*command, "--restore", "none"]).seconds
