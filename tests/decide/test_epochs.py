"""How big epochs become and how far apart they begin."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast.decide.epochs import (
    FIRST_ROWS,
    GROWTH_MAX,
    INTERVAL_DEFAULT_MS,
    ROWS_MAX,
    TASKS_MAX,
    Cadence,
    Pace,
    derive_cadence,
    derive_rest_ms,
    first_pace,
    next_pace,
)
from holdfast.model.jobs import JobMode
from holdfast.testing.builders import an_env


def cadence(*, cheap: bool = True, **env: Any) -> Cadence:
    return derive_cadence(an_env(**env), commits_cheaply=cheap)


def test_a_batch_is_cut_at_the_checkpoint_interval() -> None:
    assert cadence(checkpoint_interval_ms=2_000).target_ms == 2_000


def test_a_batch_without_an_interval_is_cut_at_the_default() -> None:
    assert cadence().target_ms == INTERVAL_DEFAULT_MS


def test_a_batch_with_interval_zero_has_one_epoch() -> None:
    found = cadence(checkpoint_interval_ms=0)

    assert found.target_ms is None
    assert first_pace(found, parallelism=1).rows_max == ROWS_MAX


def test_a_stream_into_cheap_sinks_does_not_wait_between_epochs() -> None:
    assert cadence(mode=JobMode.STREAMING, checkpoint_interval_ms=2_000).apart_ms == 0


def test_a_stream_into_sinks_that_make_files_waits_for_the_interval() -> None:
    found = cadence(mode=JobMode.STREAMING, checkpoint_interval_ms=2_000, cheap=False)

    assert found.apart_ms == 2_000


def test_the_batch_interval_overrides_the_cadence_of_a_stream() -> None:
    found = cadence(mode=JobMode.STREAMING, batch_interval_ms=500, cheap=False)

    assert (found.apart_ms, found.target_ms) == (500, 500)


def test_a_stream_always_confirms_at_some_interval() -> None:
    found = cadence(mode=JobMode.STREAMING, checkpoint_interval_ms=0)

    assert found.interval_ms == INTERVAL_DEFAULT_MS


def test_an_epoch_half_as_long_as_wanted_doubles_the_next() -> None:
    pace = next_pace(Pace(1_000, 8), cadence(), took_ms=INTERVAL_DEFAULT_MS / 2, rows=100_000)

    assert pace == Pace(200_000, 16)


def test_an_empty_epoch_teaches_nothing() -> None:
    assert next_pace(Pace(1_000, 8), cadence(), took_ms=1, rows=0) == Pace(1_000, 8)


def test_the_first_epoch_respects_the_read_limit() -> None:
    limited = cadence(checkpoint_interval_ms=1_000, rows_per_second_max=10.0)

    assert first_pace(limited, parallelism=1).rows_max == 10
    assert first_pace(cadence(), parallelism=1).rows_max == FIRST_ROWS


@given(
    took_ms=st.floats(0, 1e9),
    rows=st.integers(0, 1 << 50),
    tasks=st.integers(1, TASKS_MAX),
    limit=st.none() | st.floats(1, 1e6),
)
def test_the_pace_stays_in_bounds_whatever_happened(
    took_ms: float, rows: int, tasks: int, limit: float | None
) -> None:
    found = cadence(rows_per_second_max=limit)

    pace = next_pace(Pace(10_000, tasks), found, took_ms=took_ms, rows=rows)

    assert 1 <= pace.rows_max <= ROWS_MAX
    assert 1 <= pace.tasks_max <= TASKS_MAX
    if rows:
        assert pace.rows_max <= max(rows * GROWTH_MAX, 1_000)
        assert pace.tasks_max <= max(tasks * GROWTH_MAX, 4)


@given(took_ms=st.floats(0, 1e6), rows=st.integers(0, 10**9), size=st.integers(0, 10**12))
def test_reading_and_resting_never_exceed_the_limits(took_ms: float, rows: int, size: int) -> None:
    limited = cadence(rows_per_second_max=100.0, bytes_per_second_max=1e6)

    whole_s = (took_ms + derive_rest_ms(limited, took_ms=took_ms, rows=rows, size=size)) / 1000

    assert rows <= whole_s * 100 * 1.001
    assert size <= whole_s * 1e6 * 1.001


def test_without_limits_there_is_no_rest() -> None:
    assert derive_rest_ms(cadence(), took_ms=0, rows=10**9, size=10**12) == 0
