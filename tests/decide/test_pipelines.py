"""What is to be done about one pipeline: retries, waits, the end; what its worker is told; and what is stalled."""

import pytest

from holdfast.decide.attempts import BACKOFF_MAX_MS, HEALTHY_STRETCH_MS
from holdfast.decide.pipelines import (
    HELD_UP_WAIT_MAX_MS,
    INTERRUPTED_WAIT_MAX_MS,
    INTERRUPTED_WAIT_MS,
    Verdict,
    derive_wish,
    is_stalled,
    judge_pipeline,
    stall_ends,
)
from holdfast.decide.world import Limits
from holdfast.model.attempts import Attempt, EndedHow
from holdfast.model.jobs import Goal, Job, StallPolicy
from holdfast.model.workers import Wish
from holdfast.testing.builders import a_job, a_worker, a_world, an_attempt

LIMITS = Limits()


def judge(*attempts: Attempt, job: Job | None = None) -> Verdict:
    job = job or a_job()
    return judge_pipeline(a_world(job, attempts=attempts), job, 1)


def ended(number: int, how: EndedHow, at_ms: int = 0, **changes: object) -> Attempt:
    return an_attempt(number, ended=how, at_ms=at_ms, **changes)  # type: ignore[arg-type]


def test_a_pipeline_without_attempts_is_due() -> None:
    assert judge() == Verdict()
    assert judge().is_due(0)


def test_what_is_open_is_left_alone() -> None:
    attempt = an_attempt()

    assert judge(attempt) == Verdict(open=attempt)


def test_what_has_finished_stays_finished() -> None:
    assert judge(ended(1, EndedHow.FINISHED)).finished
    assert judge(ended(1, EndedHow.FINISHED), ended(2, EndedHow.LOST)).finished


def test_the_order_in_which_attempts_are_read_does_not_matter() -> None:
    failed, newest = ended(1, EndedHow.FAILED), an_attempt(2)

    assert judge(newest, failed) == Verdict(open=newest)


# ------------------------------------------------------------------------------------------ failures


@pytest.mark.parametrize("how", [EndedHow.FAILED, EndedHow.REPLACED])
def test_a_failure_is_tried_again_after_growing_waits(how: EndedHow) -> None:
    first, second = ended(1, how, 100), ended(2, how, 5_000)

    assert judge(first).due_at_ms == 100 + 3_000
    assert judge(first, second).due_at_ms == 5_000 + 6_000


def test_a_spent_budget_gives_up_with_the_newest_reason() -> None:
    failed = [ended(n, EndedHow.FAILED, n, reason=f"reason {n}") for n in (1, 2, 3, 4)]

    verdict = judge(*failed)

    assert judge(*failed[:3]).given_up is None
    assert verdict.given_up == "reason 4 (it failed 4 times and job.retry.times is 3)"
    assert verdict.given_up_at_ms == 4


def test_the_budget_refills_after_a_stretch_in_which_something_was_committed() -> None:
    failed = [ended(n, EndedHow.FAILED, n) for n in (1, 2, 3)]
    later = 3 + HEALTHY_STRETCH_MS

    assert judge(*failed, ended(4, EndedHow.FAILED, later, advanced=True)).given_up is None
    assert judge(*failed, ended(4, EndedHow.FAILED, later)).given_up is not None


def test_what_was_committed_before_a_failure_says_nothing_of_the_next() -> None:
    hours = [ended(n, EndedHow.FAILED, n * 3_600_000, advanced=n == 1) for n in (1, 2, 3, 4)]

    assert judge(*hours).given_up is not None


def test_what_was_committed_before_an_interruption_counts_for_the_budget() -> None:
    failed = [ended(n, EndedHow.FAILED, n) for n in (1, 2, 3)]
    ran = ended(4, EndedHow.LOST, 2 + HEALTHY_STRETCH_MS, advanced=True)

    verdict = judge(*failed, ran, ended(5, EndedHow.FAILED, 3 + HEALTHY_STRETCH_MS))

    assert verdict.given_up is None


def test_a_failure_for_good_is_not_tried_again() -> None:
    verdict = judge(ended(1, EndedHow.FAILED_FOR_GOOD, 7, reason="no such table"))

    assert (verdict.given_up, verdict.given_up_at_ms) == ("no such table", 7)


def test_a_retry_is_due_at_its_instant_and_not_before() -> None:
    verdict = judge(ended(1, EndedHow.FAILED, 100))

    assert not verdict.is_due(3_099)
    assert verdict.is_due(3_100)


def test_a_clock_that_was_set_back_makes_nobody_wait() -> None:
    tomorrow_ms = 86_400_000
    verdict = judge(ended(1, EndedHow.FAILED, tomorrow_ms))

    assert verdict.is_due(0)
    assert not verdict.is_due(tomorrow_ms + 3_000 - BACKOFF_MAX_MS)


# ------------------------------------------------------------------------------------------ interruptions


@pytest.mark.parametrize("how", [EndedHow.LOST, EndedHow.CANCELED])
def test_interruptions_spend_no_budget_and_wait_only_when_they_go_on(how: EndedHow) -> None:
    job = a_job(retry_times=0)
    waits = []
    for count in range(1, 9):
        attempts = [ended(n, how, n * 1_000) for n in range(1, count + 1)]
        verdict = judge(*attempts, job=job)
        assert verdict.given_up is None
        waits.append(verdict.due_at_ms - count * 1_000)

    first = [0, INTERRUPTED_WAIT_MS, 2 * INTERRUPTED_WAIT_MS, 4 * INTERRUPTED_WAIT_MS]
    assert waits == [*first, *[INTERRUPTED_WAIT_MAX_MS] * 4]


def test_storage_that_is_away_spends_no_budget_however_long_it_takes() -> None:
    job = a_job(retry_times=0)
    waits = []
    for count in range(1, 9):
        attempts = [ended(n, EndedHow.HELD_UP, n * 1_000) for n in range(1, count + 1)]
        verdict = judge(*attempts, job=job)
        assert verdict.given_up is None
        waits.append(verdict.due_at_ms - count * 1_000)

    assert waits == [500, 1_000, 2_000, 4_000, 8_000, *[HELD_UP_WAIT_MAX_MS] * 3]


def test_interruptions_of_long_ago_are_forgotten() -> None:
    old = [ended(n, EndedHow.LOST, n, advanced=True) for n in range(1, 6)]
    newest = ended(6, EndedHow.LOST, 5 + HEALTHY_STRETCH_MS)

    assert judge(*old, newest).due_at_ms == newest.ended_at_ms


def test_what_was_stopped_goes_on_at_once_elsewhere() -> None:
    assert judge(ended(1, EndedHow.STOPPED, 9)) == Verdict()


# ------------------------------------------------------------------------------------------ wishes


def wish(job: Job, *, now_ms: int = 0, draining: bool = False, failing: int | None = None) -> Wish:
    attempt = an_attempt()
    world = a_world(job, attempts=[attempt], workers=[a_worker(draining=draining)])
    return derive_wish(world, job, attempt, failing_since_ms=failing, now_ms=now_ms)


def test_what_shall_run_runs_and_a_draining_worker_stops_it() -> None:
    assert wish(a_job()) is Wish.RUN
    assert wish(a_job(), draining=True) is Wish.STOP


def test_a_stop_becomes_a_cancel_at_its_deadline() -> None:
    job = a_job(goal=Goal.SAVEPOINT, goal_at_ms=100)

    assert wish(job, now_ms=100 + LIMITS.stop_deadline_ms) is Wish.STOP
    assert wish(job, now_ms=101 + LIMITS.stop_deadline_ms) is Wish.CANCEL


def test_what_runs_beside_a_failed_pipeline_is_stopped_and_then_canceled() -> None:
    assert wish(a_job(), failing=100, now_ms=100 + LIMITS.stop_deadline_ms) is Wish.STOP
    assert wish(a_job(), failing=100, now_ms=101 + LIMITS.stop_deadline_ms) is Wish.CANCEL


@pytest.mark.parametrize("goal", [Goal.CANCEL, Goal.FORCE])
def test_a_cancel_does_not_wait_for_the_epoch(goal: Goal) -> None:
    assert wish(a_job(goal=goal), draining=True) is Wish.CANCEL


# ------------------------------------------------------------------------------------------ stalls

ALLOWED_MS = 2 * 10_000 + LIMITS.stall_grace_ms


def stalled(
    now_ms: int, *, tip_since_ms: int | None = 0, job: Job | None = None, **changes: object
) -> bool:
    job = job or a_job()
    attempt = an_attempt(**changes)  # type: ignore[arg-type]
    tips = {} if tip_since_ms is None else {attempt.key: tip_since_ms}
    world = a_world(job, attempts=[attempt], tip_since_ms=tips)
    return is_stalled(world, job, attempt, now_ms)


def test_a_tip_that_has_not_moved_for_two_intervals_is_a_stall() -> None:
    assert not stalled(ALLOWED_MS)
    assert stalled(ALLOWED_MS + 1)
    assert not stalled(ALLOWED_MS + 1, tip_since_ms=1)


def test_an_attempt_has_time_to_come_to_its_claim() -> None:
    assert not stalled(LIMITS.start_grace_ms, tip_since_ms=None)
    assert stalled(LIMITS.start_grace_ms + 1, tip_since_ms=None)


def test_a_new_leader_gives_time_to_report_the_tip() -> None:
    job, attempt = a_job(), an_attempt()
    world = a_world(job, attempts=[attempt], leading_since_ms=1_000_000)

    assert not is_stalled(world, job, attempt, 1_000_000 + LIMITS.start_grace_ms)
    assert is_stalled(world, job, attempt, 1_000_001 + LIMITS.start_grace_ms)


def test_only_what_shall_run_and_does_can_stall() -> None:
    assert not stalled(10**9, started=False)
    assert not stalled(10**9, ended=EndedHow.LOST)
    assert not stalled(10**9, job=a_job(goal=Goal.SAVEPOINT))
    assert not stalled(10**9, job=a_job(checkpoint_interval_ms=0))


@pytest.mark.parametrize(
    ("policy", "ends"),
    [
        (StallPolicy.WARN, None),
        (StallPolicy.RESTART, EndedHow.REPLACED),
        (StallPolicy.FAIL, EndedHow.FAILED_FOR_GOOD),
    ],
)
def test_policy_says_what_a_stall_leads_to(policy: StallPolicy, ends: EndedHow | None) -> None:
    assert stall_ends(a_job(stall_policy=policy)) is ends
