"""What is done next: for every fact about a job, its attempts and their workers."""

from collections.abc import Sequence

import pytest

from holdfast.decide.actions import (
    Action,
    CleanUp,
    EndAttempt,
    ForgetJob,
    PlanAttempt,
    RecordOutcome,
    StartAttempt,
    WriteSavepoint,
)
from holdfast.decide.jobs import CLEANUP_BACKOFF_MS, cleanup_wait_ms, decide, derive_desired
from holdfast.decide.world import Cleanup, Limits
from holdfast.model.attempts import Attempt, EndedHow
from holdfast.model.jobs import Goal, Job, Outcome, StallPolicy
from holdfast.model.workers import ObservedAttempt, Wish, Worker
from holdfast.testing.builders import a_job, a_key, a_worker, a_world, an_attempt, an_observed

LIMITS = Limits()
LEASE_MS = LIMITS.worker_lease_ms
DEADLINE_MS = LIMITS.stop_deadline_ms
TWO = (1, 2)


def decided(
    job: Job,
    *attempts: Attempt,
    seen: Sequence[ObservedAttempt] = (),
    worker: Worker | None = None,
    now_ms: int = 0,
    **changes: object,
) -> list[Action]:
    """With one worker that was heard just now, and has `seen` what it tells."""
    workers = [worker or a_worker("w1", *seen, heard_at_ms=now_ms)]
    return decide(a_world(job, attempts=attempts, workers=workers, **changes), now_ms)


# ------------------------------------------------------------------------------------------ beginning


def test_an_attempt_is_planned_before_anybody_runs_it() -> None:
    assert decided(a_job()) == [PlanAttempt(a_key(), "w1", alone=False)]


def test_every_pipeline_gets_an_attempt() -> None:
    planned = decided(a_job(pipeline_ids=TWO))

    assert planned == [PlanAttempt(a_key(pipeline_id=id_), "w1", alone=False) for id_ in TWO]


def test_without_room_nothing_is_planned() -> None:
    assert decide(a_world(a_job()), 0) == []


def test_what_one_pass_places_takes_slots_at_once() -> None:
    world = a_world(a_job("a"), a_job("b"), workers=[a_worker(slots=1)])

    assert decide(world, 0) == [PlanAttempt(a_key("a"), "w1", alone=False)]


def test_numbers_go_on_after_the_last() -> None:
    assert decided(a_job(), an_attempt(7, ended=EndedHow.STOPPED)) == [
        PlanAttempt(a_key(number=8), "w1", alone=False)
    ]


def test_a_planned_attempt_is_waited_for() -> None:
    assert decided(a_job(), an_attempt(started=False)) == []


def test_an_attempt_that_its_worker_tells_of_has_started() -> None:
    planned = an_attempt(started=False)

    assert decided(a_job(), planned, seen=[an_observed(planned)]) == [StartAttempt(planned.key)]


def test_what_another_worker_tells_of_an_attempt_is_no_news() -> None:
    planned = an_attempt(started=False)
    own, other = a_worker("w1"), a_worker("w2", an_observed(planned, ended_how=EndedHow.FAILED))

    assert decide(a_world(a_job(), attempts=[planned], workers=[own, other]), 0) == []


# ------------------------------------------------------------------------------------------ ends of attempts


@pytest.mark.parametrize("how", EndedHow)
def test_an_end_is_recorded_as_it_was_told(how: EndedHow) -> None:
    attempt = an_attempt()
    seen = an_observed(attempt, claim=1, tip=2, ended_how=how, reason="why")

    assert decided(a_job(), attempt, seen=[seen]) == [
        EndAttempt(attempt.key, how, "why", advanced=True)
    ]


def test_an_attempt_that_ended_before_it_was_seen_to_start_has_ended() -> None:
    planned = an_attempt(started=False)
    seen = an_observed(planned, ended_how=EndedHow.FINISHED)

    assert decided(a_job(), planned, seen=[seen]) == [
        EndAttempt(planned.key, EndedHow.FINISHED, "")
    ]


def lost(*attempts: Attempt, heard_at_ms: int, now_ms: int, since_ms: int = 0) -> bool:
    worker = a_worker(heard_at_ms=heard_at_ms)
    told = decided(a_job(), *attempts, worker=worker, now_ms=now_ms, leading_since_ms=since_ms)
    return [a.how for a in told if isinstance(a, EndAttempt)] == [EndedHow.LOST]


def test_attempts_of_a_silent_worker_are_lost_only_when_its_lease_must_have_ended() -> None:
    planned = an_attempt(started=False)

    assert not lost(planned, heard_at_ms=100, now_ms=100 + LEASE_MS)
    assert lost(planned, heard_at_ms=100, now_ms=101 + LEASE_MS)


def test_a_new_leader_gives_every_worker_a_whole_lease() -> None:
    attempt = an_attempt(worker_id="never heard")

    assert not lost(attempt, heard_at_ms=0, now_ms=5_000 + LEASE_MS, since_ms=5_000)
    assert lost(attempt, heard_at_ms=0, now_ms=5_001 + LEASE_MS, since_ms=5_000)


def test_what_its_worker_does_not_know_any_more_is_lost() -> None:
    assert lost(an_attempt(), heard_at_ms=0, now_ms=0)


def test_a_report_from_before_this_leader_answered_shows_nothing_lost() -> None:
    late = a_worker(term=0)

    assert decided(a_job(), an_attempt(), worker=late) == []


def test_a_last_word_is_taken_from_a_worker_that_fell_silent() -> None:
    attempt = an_attempt()
    worker = a_worker("w1", an_observed(attempt, ended_how=EndedHow.FINISHED))

    told = decided(a_job(), attempt, worker=worker, now_ms=10 * LEASE_MS)

    assert told == [EndAttempt(attempt.key, EndedHow.FINISHED, "")]


@pytest.mark.parametrize(
    ("policy", "how"),
    [(StallPolicy.RESTART, EndedHow.REPLACED), (StallPolicy.FAIL, EndedHow.FAILED_FOR_GOOD)],
)
def test_policy_ends_what_has_stalled(policy: StallPolicy, how: EndedHow) -> None:
    attempt = an_attempt()
    seen = an_observed(attempt, claim=1)
    tips = {attempt.key: 0}
    job = a_job(stall_policy=policy)

    told = decided(job, attempt, seen=[seen], now_ms=1_000_000, tip_since_ms=tips)

    assert told == [EndAttempt(attempt.key, how, "its checkpoints did not advance")]


def test_a_stall_is_only_told_where_policy_warns() -> None:
    attempt = an_attempt()
    tips = {attempt.key: 0}

    told = decided(
        a_job(), attempt, seen=[an_observed(attempt)], now_ms=1_000_000, tip_since_ms=tips
    )

    assert told == []


def test_a_job_that_waits_for_a_retry_is_left_alone() -> None:
    failed = an_attempt(ended=EndedHow.FAILED)

    assert decided(a_job(), failed, now_ms=2_999) == []
    assert decided(a_job(), failed, now_ms=3_000) == [
        PlanAttempt(a_key(number=2), "w1", alone=False)
    ]


# ------------------------------------------------------------------------------------------ ends of jobs


def outcome(*told: Action) -> Outcome | None:
    assert len(told) == 1
    return told[0].outcome if isinstance(told[0], RecordOutcome) else None


@pytest.mark.parametrize("goal", Goal)
def test_a_job_has_finished_when_all_its_pipelines_have(goal: Goal) -> None:
    done = [an_attempt(pipeline_id=id_, ended=EndedHow.FINISHED) for id_ in TWO]

    assert outcome(*decided(a_job(pipeline_ids=TWO, goal=goal), *done)) is Outcome.FINISHED


def test_a_finished_pipeline_waits_for_the_others() -> None:
    done, runs = an_attempt(ended=EndedHow.FINISHED), an_attempt(pipeline_id=2)

    assert decided(a_job(pipeline_ids=TWO), done, runs, seen=[an_observed(runs)]) == []


def test_a_failed_pipeline_ends_the_job_after_the_others_have_ended() -> None:
    job = a_job(pipeline_ids=TWO)
    failed = an_attempt(ended=EndedHow.FAILED_FOR_GOOD, reason="no table")
    runs = an_attempt(pipeline_id=2)
    stopped = an_attempt(pipeline_id=2, ended=EndedHow.STOPPED)

    assert decided(job, failed, runs, seen=[an_observed(runs)]) == []
    assert decided(job, failed, stopped) == [
        RecordOutcome("orders", 1, Outcome.FAILED, "pipeline 1: no table")
    ]


def test_nothing_begins_beside_a_failed_pipeline() -> None:
    job = a_job(pipeline_ids=(1, 2, 3))
    failed = an_attempt(ended=EndedHow.FAILED_FOR_GOOD)
    runs = an_attempt(pipeline_id=2)

    assert decided(job, failed, runs, seen=[an_observed(runs)]) == []


def test_what_does_not_end_beside_a_failed_pipeline_is_not_waited_for_for_ever() -> None:
    job = a_job(pipeline_ids=TWO)
    failed = an_attempt(ended=EndedHow.FAILED_FOR_GOOD, at_ms=100)
    runs = an_attempt(pipeline_id=2)
    seen = [an_observed(runs)]

    assert decided(job, failed, runs, seen=seen, now_ms=100 + 2 * DEADLINE_MS) == []
    [end] = decided(job, failed, runs, seen=seen, now_ms=101 + 2 * DEADLINE_MS)
    assert isinstance(end, EndAttempt)
    assert (end.key, end.how) == (runs.key, EndedHow.CANCELED)


@pytest.mark.parametrize("goal", [Goal.CANCEL, Goal.FORCE])
def test_a_canceled_job_without_attempts_ends_at_once(goal: Goal) -> None:
    assert outcome(*decided(a_job(goal=goal))) is Outcome.CANCELED


def test_a_cancel_waits_for_the_attempts_until_its_deadline() -> None:
    job, runs = a_job(goal=Goal.CANCEL, goal_at_ms=100), an_attempt()
    seen = [an_observed(runs)]

    assert decided(job, runs, seen=seen, now_ms=100 + DEADLINE_MS) == []
    [end] = decided(job, runs, seen=seen, now_ms=101 + DEADLINE_MS)
    assert isinstance(end, EndAttempt)
    assert end.how is EndedHow.CANCELED


def test_force_waits_for_nobody() -> None:
    [end] = decided(a_job(goal=Goal.FORCE), an_attempt(started=False))

    assert end == EndAttempt(a_key(), EndedHow.CANCELED, "by force")


@pytest.mark.parametrize("goal", [Goal.CANCEL, Goal.SAVEPOINT, Goal.FORCE])
def test_an_ending_job_begins_nothing(goal: Goal) -> None:
    failed = an_attempt(ended=EndedHow.FAILED)

    told = decided(a_job(goal=goal), failed, now_ms=1_000_000)

    assert not [action for action in told if isinstance(action, PlanAttempt)]


@pytest.mark.parametrize("goal", [Goal.CANCEL, Goal.SAVEPOINT])
def test_an_end_asked_for_by_a_clock_that_was_set_back_is_not_waited_for(goal: Goal) -> None:
    job, runs = a_job(goal=goal, goal_at_ms=86_400_000), an_attempt()

    [end] = decided(job, runs, seen=[an_observed(runs)], now_ms=0)

    assert isinstance(end, EndAttempt)


# ------------------------------------------------------------------------------------------ savepoints


def test_a_savepoint_is_written_when_all_pipelines_stand_still() -> None:
    job = a_job(pipeline_ids=TWO, goal=Goal.SAVEPOINT, goal_at_ms=70)
    stopped = an_attempt(ended=EndedHow.STOPPED)
    runs = an_attempt(pipeline_id=2)
    waiting = an_attempt(pipeline_id=2, ended=EndedHow.FAILED)

    assert decided(job, stopped, runs, seen=[an_observed(runs)]) == []
    assert decided(job, stopped, waiting) == [WriteSavepoint("orders", 1, TWO, at_ms=70)]


def test_a_savepoint_waits_two_deadlines_since_it_becomes_a_cancel_after_one() -> None:
    job, runs = a_job(goal=Goal.SAVEPOINT, goal_at_ms=100), an_attempt()
    seen = [an_observed(runs)]

    assert decided(job, runs, seen=seen, now_ms=100 + 2 * DEADLINE_MS) == []
    assert decided(job, runs, seen=seen, now_ms=101 + 2 * DEADLINE_MS) != []


def test_a_savepoint_of_what_never_started_is_a_cancel() -> None:
    job = a_job(goal=Goal.SAVEPOINT)

    assert outcome(*decided(job)) is Outcome.CANCELED
    unseen = an_attempt(started=False, ended=EndedHow.LOST)
    assert outcome(*decided(job, unseen)) is Outcome.CANCELED


def test_a_savepoint_of_a_failed_job_keeps_its_tips_and_says_so() -> None:
    failed = an_attempt(ended=EndedHow.FAILED_FOR_GOOD, reason="no table")

    [written] = decided(a_job(goal=Goal.SAVEPOINT), failed)

    assert isinstance(written, WriteSavepoint)
    assert written.reason == "it had failed (pipeline 1: no table); its tips are kept"


# ------------------------------------------------------------------------------------------ after the end


def test_cleanups_are_carried_out_when_due_and_later_and_later_when_they_cannot_be() -> None:
    first = Cleanup("a", 1, due_at_ms=100)
    tried = Cleanup("b", 1, due_at_ms=100 + cleanup_wait_ms(2), tries=2)
    world = a_world(cleanups=[tried, first])

    assert decide(world, 99) == []
    assert decide(world, 100) == [CleanUp("a", 1)]
    assert decide(world, 100 + 2 * CLEANUP_BACKOFF_MS) == [CleanUp("a", 1), CleanUp("b", 1, 2)]
    assert cleanup_wait_ms(2) == 2 * CLEANUP_BACKOFF_MS


def test_a_cleanup_that_a_wrong_clock_has_put_off_is_carried_out() -> None:
    world = a_world(cleanups=[Cleanup("a", 1, due_at_ms=86_400_000)])

    assert decide(world, 0) == [CleanUp("a", 1)]


def test_cleanups_come_oldest_generation_first_and_history_after_them() -> None:
    due = [Cleanup(job_id, generation, 0) for job_id, generation in (("b", 1), ("a", 2), ("a", 1))]
    world = a_world(cleanups=due, expired=[("z", 1), ("y", 1)])

    assert decide(world, 0) == [
        CleanUp("a", 1),
        CleanUp("a", 2),
        CleanUp("b", 1),
        ForgetJob("y", 1),
        ForgetJob("z", 1),
    ]


# ------------------------------------------------------------------------------------------ what a worker is told


def test_a_worker_is_told_all_its_open_attempts_and_no_others() -> None:
    job = a_job(pipeline_ids=TWO)
    own = an_attempt(2)
    world = a_world(
        job,
        attempts=[
            an_attempt(1, ended=EndedHow.LOST),
            own,
            an_attempt(pipeline_id=2, worker_id="w2"),
            an_attempt(of="gone"),
        ],
        workers=[a_worker("w1")],
    )

    told = derive_desired(world, "w1", 0)

    assert [(wanted.key, wanted.wish) for wanted in told] == [(own.key, Wish.RUN)]


def test_the_job_is_sent_until_its_worker_shows_that_it_has_it() -> None:
    attempt = an_attempt(started=False)
    unknown = a_world(a_job(), attempts=[attempt], workers=[a_worker("w1")])
    seen = a_worker("w1", an_observed(attempt))
    known = a_world(a_job(), attempts=[attempt], workers=[seen])

    assert [wanted.job_text for wanted in derive_desired(unknown, "w1", 0)] == ["env {}"]
    assert [wanted.job_text for wanted in derive_desired(known, "w1", 0)] == [""]


def test_the_others_of_a_failed_pipeline_are_told_to_stop() -> None:
    world = a_world(
        a_job(pipeline_ids=TWO),
        attempts=[an_attempt(ended=EndedHow.FAILED_FOR_GOOD), an_attempt(pipeline_id=2)],
        workers=[a_worker("w1")],
    )

    assert [wanted.wish for wanted in derive_desired(world, "w1", 0)] == [Wish.STOP]
