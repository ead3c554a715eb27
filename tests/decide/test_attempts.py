"""The rules by which a failed attempt is followed by another, or by the end."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.decide.attempts import (
    BACKOFF_MAX_MS,
    HEALTHY_STRETCH_MS,
    Failure,
    GiveUp,
    Retry,
    decide_after_failure,
)


def decide(
    failed_at_ms: list[int], *, can_help: bool = True, times: int = 3, advanced: bool = True
) -> Retry | GiveUp:
    failures = [Failure(at_ms, advanced) for at_ms in failed_at_ms]
    return decide_after_failure(
        failures, can_help=can_help, retry_times=times, retry_interval_ms=3_000
    )


def test_the_first_failure_waits_for_the_interval() -> None:
    assert decide([0]) == Retry(3_000, used=1, of=3)


def test_each_wait_is_twice_the_one_before() -> None:
    assert decide([0, 1]) == Retry(6_000, used=2, of=3)
    assert decide([0, 1, 2]) == Retry(12_000, used=3, of=3)


def test_a_spent_budget_is_the_end() -> None:
    verdict = decide([0, 1, 2, 3])

    assert verdict == GiveUp("it failed 4 times and job.retry.times is 3")


def test_what_a_retry_cannot_mend_is_not_tried_again() -> None:
    assert isinstance(decide([0], can_help=False), GiveUp)


def test_a_healthy_stretch_makes_the_budget_whole() -> None:
    at = 3 + HEALTHY_STRETCH_MS

    assert decide([0, 1, 3, at]) == Retry(3_000, used=1, of=3)
    assert isinstance(decide([0, 1, 3, at - 1]), GiveUp)


def test_what_fails_late_each_time_and_commits_nothing_spends_its_budget() -> None:
    hourly = [0, 3_600_000, 7_200_000, 10_800_000]

    assert isinstance(decide(hourly, advanced=False), GiveUp)
    assert decide(hourly) == Retry(3_000, used=1, of=3)


@given(times=st.integers(0, 100))
def test_a_pipeline_that_fails_at_once_every_time_is_given_up(times: int) -> None:
    failed_at_ms = [0]
    for _ in range(times):
        verdict = decide(failed_at_ms, times=times)
        assert isinstance(verdict, Retry)
        failed_at_ms.append(failed_at_ms[-1] + verdict.wait_ms)

    assert isinstance(decide(failed_at_ms, times=times), GiveUp)


@given(count=st.integers(1, 5_000))
def test_no_wait_is_longer_than_the_limit(count: int) -> None:
    verdict = decide(list(range(count)), times=10_000)

    assert isinstance(verdict, Retry)
    assert 0 < verdict.wait_ms <= BACKOFF_MAX_MS
