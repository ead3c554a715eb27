"""What checkpoints cost in time and in bytes."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from bench.databases import fresh_target, job_text, make_table
from bench.figures import Figure, Ground, run_job

ROUNDS = 3


def cost_of_checkpoints(ground: Ground) -> Iterator[Figure]:
    """The same job with an epoch a second and with one epoch in all, turn by turn."""
    make_table(ground)
    seconds: dict[int, list[float]] = {0: [], 1_000: []}
    for _ in range(ROUNDS):
        for interval_ms, found in seconds.items():
            fresh_target(ground)
            job = ground.write_job(
                f"interval-{interval_ms}",
                job_text(ground, exactly_once=True, interval_ms=interval_ms),
            )
            found.append(run_job(ground, job).job_seconds)
    off, on = median(seconds[0]), median(seconds[1_000])
    yield Figure("exactly-once, checkpoints off", f"{off:.2f} s")
    yield Figure("exactly-once, checkpoint.interval = 1 s", f"{on:.2f} s", off / on, "off")


def size_of_checkpoint(ground: Ground) -> Iterator[Figure]:
    """The largest checkpoint of a batch job of 10,000 splits."""
    text = (
        "env { job.mode = BATCH, parallelism = 1, checkpoint.interval = 200 }\n"
        "source { FakeSource { row.num = 1000000, split.num = 10000,"
        " schema { fields { id = bigint } } } }\n"
        "sink { Console { log.print.data = false } }\n"
    )
    run_job(ground, ground.write_job("splits", text), data="splits")
    sizes = [p.stat().st_size for p in (ground.folder / "splits").rglob("manifest.json")]
    yield Figure("largest checkpoint, 10,000 splits", f"{max(sizes):,} bytes of {len(sizes)}")
