"""A whole process for sixteen rows: what a scheduler that starts many small jobs waits for."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from bench.figures import Figure, Ground, run_measured

WARM_RUNS = 3
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
            warm = median(_start(ground, job) for _ in range(WARM_RUNS))
            del os.environ["XDG_CACHE_HOME"]
        yield Figure(f"16 rows {name} transform, first run", f"{cold:.2f} s")
        yield Figure(f"16 rows {name} transform, later runs", f"{warm:.2f} s")


def _start(ground: Ground, job: Path) -> float:
    data = str(ground.folder / "starts")
    command = [sys.executable, "-m", "holdfast.cli.main", "run", str(job), "--data", data]
    return run_measured([*command, "--restore", "none"]).seconds
