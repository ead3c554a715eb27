"""How big the next epoch is and when it begins."""

from __future__ import annotations

from dataclasses import dataclass, replace

from holdfast.model.jobs import Env, JobMode

INTERVAL_DEFAULT_MS = 10_000
"""Between two restore points, where the job does not say."""
FIRST_ROWS = 200_000
GROWTH_MAX = 4.0
ROWS_MAX = 1 << 40
TASKS_MAX = 4_096
IDLE_WAIT_MIN_MS = 50
IDLE_WAIT_MAX_MS = 1_000
READ_ROWS_MAX = 50_000
"""Of a read in the driver whose end is known only afterwards: with `READ_BYTES_MAX` it bounds the memory."""
READ_BYTES_MAX = 32 << 20
READ_DURATION_MAX_MS = 1_000


@dataclass(frozen=True, slots=True)
class Pace:
    """How much the next epoch may hold, learnt from the ones before."""

    rows_max: int
    tasks_max: int


@dataclass(frozen=True, slots=True)
class Cadence:
    """What the job's settings say about time. All pure numbers; `target_ms` None: as long as it takes."""

    interval_ms: int
    """An idle pipeline confirms its position this often; restore points are kept this far apart."""
    target_ms: int | None
    """How long one epoch should take."""
    apart_ms: int
    """Epochs begin at least this far apart: 0 where commits are cheap."""
    rows_per_second_max: float | None
    bytes_per_second_max: float | None


def derive_cadence(env: Env, *, commits_cheaply: bool) -> Cadence:
    """`batch.interval` overrides; batch jobs are cut at the interval, streams follow what their sinks can bear."""
    given = env.checkpoint_interval_ms
    interval_ms = INTERVAL_DEFAULT_MS if given is None else given
    apart_ms, target_ms = 0, interval_ms or None
    if env.mode is JobMode.STREAMING:
        interval_ms = interval_ms or INTERVAL_DEFAULT_MS
        apart_ms = 0 if commits_cheaply else interval_ms
        target_ms = interval_ms
    if env.batch_interval_ms is not None:
        apart_ms = env.batch_interval_ms if env.mode is JobMode.STREAMING else 0
        target_ms = env.batch_interval_ms or target_ms
    return Cadence(
        interval_ms or INTERVAL_DEFAULT_MS,
        target_ms,
        apart_ms,
        env.rows_per_second_max,
        env.bytes_per_second_max,
    )


def first_pace(cadence: Cadence, *, parallelism: int) -> Pace:
    if cadence.target_ms is None:
        return Pace(ROWS_MAX, max(4, parallelism * 4))
    return _limited(Pace(FIRST_ROWS, max(4, parallelism * 4)), cadence)


def next_pace(pace: Pace, cadence: Cadence, *, took_ms: float, rows: int) -> Pace:
    """Grow or shrink towards epochs of the target's length, at most fourfold at a time."""
    if cadence.target_ms is None or rows == 0:
        return pace
    factor = min(max(cadence.target_ms / max(took_ms, 1.0), 1 / GROWTH_MAX), GROWTH_MAX)
    wanted = Pace(
        rows_max=min(max(int(rows * factor), 1_000), ROWS_MAX),
        tasks_max=min(max(int(pace.tasks_max * factor), 4), TASKS_MAX),
    )
    return _limited(wanted, cadence)


def _limited(pace: Pace, cadence: Cadence) -> Pace:
    if cadence.rows_per_second_max is None or cadence.target_ms is None:
        return pace
    allowed = max(1, int(cadence.rows_per_second_max * cadence.target_ms / 1000))
    return replace(pace, rows_max=min(pace.rows_max, allowed))


def derive_rest_ms(cadence: Cadence, *, took_ms: float, rows: int, size: int) -> float:
    """How long to wait after an epoch so that the read limits hold."""
    needed_ms = 0.0
    if cadence.rows_per_second_max:
        needed_ms = rows / cadence.rows_per_second_max * 1000
    if cadence.bytes_per_second_max:
        needed_ms = max(needed_ms, size / cadence.bytes_per_second_max * 1000)
    return max(0.0, needed_ms - took_ms)
