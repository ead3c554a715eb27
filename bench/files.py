"""Loading a file, and making rows, against PyArrow and COPY alone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet

from bench.databases import fresh_target, head, make_table, sink
from bench.figures import Figure, Ground, rate, run_job, timed_shell


def file_to_postgres(ground: Ground) -> Iterator[Figure]:
    """A parquet file into a table; the floor is COPY of the same rows as text."""
    make_table(ground)
    text, parquet = ground.folder / "big.txt", ground.folder / "load" / "big.parquet"
    _write_parquet(ground, text, parquet)
    fresh_target(ground)
    psql = f"psql -q '{ground.postgres.dsn()}'"
    floor = timed_shell(f"{psql} -c 'COPY target FROM STDIN (FORMAT csv)' < {text}")
    yield Figure("COPY FROM a csv file", rate(ground.rows, floor))
    source = f'source {{ LocalFile {{ path = "{parquet.parent}", file_format_type = parquet }} }}\n'
    fresh_target(ground)
    ran = run_job(ground, ground.write_job("load", head(ground) + source + sink(ground)))
    for name, seconds in (("whole process", ran.seconds), ("the job", ran.job_seconds)):
        ratio = floor / seconds
        yield Figure(f"parquet -> Jdbc, {name}", rate(ground.rows, seconds), ratio, "COPY")


def _write_parquet(ground: Ground, text: Path, parquet: Path) -> None:
    if parquet.exists():
        return
    parquet.parent.mkdir()
    psql = f"psql -q '{ground.postgres.dsn()}'"
    timed_shell(f"{psql} -c 'COPY big TO STDOUT (FORMAT csv)' > {text}")

    import pyarrow as pa

    types = {
        "id": pa.int64(),
        "customer": pa.int32(),
        "shop": pa.int16(),
        "amount": pa.decimal128(12, 2),
        "rate": pa.decimal128(20, 4),
        "weight": pa.float64(),
        "paid": pa.bool_(),
        "name": pa.string(),
        "reference": pa.string(),
        "ordered_at": pa.timestamp("us"),
        "paid_at": pa.timestamp("us", "UTC"),
        "due": pa.date32(),
    }
    stamps = ["%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M:%S+00", pyarrow.csv.ISO8601]
    options = pyarrow.csv.ConvertOptions(
        column_types=types, true_values=["t"], false_values=["f"], timestamp_parsers=stamps
    )
    read = pyarrow.csv.ReadOptions(column_names=list(types))
    rows = pyarrow.csv.read_csv(text, read_options=read, convert_options=options)
    pyarrow.parquet.write_table(rows, parquet, row_group_size=250_000)


def fake_to_console(ground: Ground) -> Iterator[Figure]:
    """Made-up rows; the floor is the same columns made by PyArrow alone."""
    floor = _make_columns(ground.rows)
    yield Figure("the same columns by numpy and PyArrow", rate(ground.rows, floor))
    text = (
        head(ground).replace("parallelism = 2", "parallelism = 1")
        + f"source {{ FakeSource {{ row.num = {ground.rows}, split.num = 20, schema {{ fields {{"
        + " id = bigint, name = string, amount = double } } } }\n"
        + "sink { Console { log.print.data = false } }\n"
    )
    ran = run_job(ground, ground.write_job("fake", text))
    for name, seconds in (("whole process", ran.seconds), ("the job", ran.job_seconds)):
        ratio = floor / max(seconds, 0.05)
        value = rate(ground.rows, max(seconds, 0.05))
        yield Figure(f"FakeSource -> Console, {name}", value, ratio, "PyArrow")


def _make_columns(rows: int) -> float:
    import numpy as np
    import pyarrow as pa

    random = np.random.default_rng(1)
    began = time.monotonic()
    for first in range(0, rows, 65_536):
        count = min(65_536, rows - first)
        letters = random.integers(65, 91, count * 5, dtype=np.uint8)
        offsets = np.arange(0, count * 5 + 1, 5, dtype=np.int32)
        pa.record_batch(
            [
                pa.array(random.integers(0, 1 << 62, count)),
                pa.StringArray.from_buffers(
                    count, pa.py_buffer(offsets.tobytes()), pa.py_buffer(letters.tobytes())
                ),
                pa.array(random.random(count)),
            ],
            names=["id", "name", "amount"],
        )
    return time.monotonic() - began
