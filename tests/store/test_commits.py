"""What each commit expects to find, and that doing it twice is the same as once."""

from __future__ import annotations

import pytest

from holdfast.model.attempts import EndedHow
from holdfast.model.jobs import Ending, Goal, Job, Outcome
from holdfast.store.commits import (
    ATTEMPTS_PER_PIPELINE_MAX,
    EVENTS_PER_JOB_MAX,
    JobIsThere,
)
from holdfast.store.connection import Deposed
from holdfast.store.store import Store
from holdfast.testing.builders import a_key, a_submitted_job

LONG_AGO = -1


def submit(
    store: Store, job_id: str = "orders", *, submission: str = "first", is_restore: bool = False
) -> Job:
    given = a_submitted_job(job_id, submission=submission)
    return store.commits.submit_job(1, given, is_restore=is_restore)


def an_ending(outcome: Outcome = Outcome.FINISHED, *, at_ms: int = 5, reason: str = "") -> Ending:
    return Ending(outcome, reason, None, at_ms, at_ms + 60)


def end(store: Store, job: Job, outcome: Outcome = Outcome.FINISHED, *, at_ms: int = 5) -> None:
    store.commits.record_outcome(1, job.id, job.generation, an_ending(outcome, at_ms=at_ms))


def plan(store: Store, number: int = 1, *, job_id: str = "orders", at_ms: int = 1) -> None:
    store.commits.plan_attempt(1, a_key(job_id, number), worker_id="w1", alone=False, at_ms=at_ms)


def finish(
    store: Store, number: int, how: EndedHow = EndedHow.FAILED, *, reason: str = "it broke"
) -> None:
    store.commits.end_attempt(1, a_key(number=number), how, reason=reason, at_ms=9)


def events_of(store: Store, job_id: str = "orders") -> list[str]:
    return [said for _, said in store.reads.events(job_id)]


# -------------------------------------------------------------------------------------------- leading


def test_the_first_master_leads_with_term_1(store: Store) -> None:
    lease = store.commits.take_lease(seen_term=0, holder="a", url="http://a", expires_at_ms=7)

    assert lease is not None
    assert lease.term == 1
    assert store.reads.lease() == lease


def test_a_lease_is_taken_only_from_the_term_that_was_seen(led: Store) -> None:
    second = led.commits.take_lease(seen_term=1, holder="b", url="", expires_at_ms=7)
    late = led.commits.take_lease(seen_term=1, holder="c", url="", expires_at_ms=7)
    from_nothing = led.commits.take_lease(seen_term=0, holder="d", url="", expires_at_ms=7)

    assert second is not None
    assert second.term == 2
    assert late is None
    assert from_nothing is None
    assert led.reads.lease() == second


def test_a_lease_is_renewed_and_given_up_by_its_own_term_alone(led: Store) -> None:
    led.commits.renew_lease(1, expires_at_ms=90)
    renewed = led.reads.lease()
    led.commits.take_lease(seen_term=1, holder="b", url="", expires_at_ms=95)

    with pytest.raises(Deposed) as refused:
        led.commits.renew_lease(1, expires_at_ms=99)
    with pytest.raises(Deposed):
        led.commits.give_up_lease(1)

    assert renewed is not None
    assert renewed.expires_at_ms == 90
    assert (refused.value.term, refused.value.found) == (1, 2)
    led.commits.give_up_lease(2)
    found = led.reads.lease()
    assert found is not None
    assert (found.term, found.expires_at_ms) == (2, 0)


# -------------------------------------------------------------------------------------------- jobs


def test_the_same_submission_again_is_the_same_job(led: Store) -> None:
    first, again = submit(led), submit(led)

    assert first == again
    assert first.generation == 1


def test_the_same_submission_is_the_same_job_after_its_end(led: Store) -> None:
    job = submit(led)
    end(led, job)

    assert submit(led).outcome is Outcome.FINISHED


def test_a_submission_that_comes_late_again_is_still_its_own_generation(led: Store) -> None:
    end(led, submit(led))
    end(led, submit(led, submission="second", is_restore=True))

    assert submit(led, is_restore=True).generation == 1


def test_a_live_job_is_not_submitted_over(led: Store) -> None:
    submit(led)

    with pytest.raises(JobIsThere, match="orders: it is live"):
        submit(led, submission="second")
    with pytest.raises(JobIsThere, match="orders: it is live"):
        submit(led, submission="second", is_restore=True)


def test_a_tombstone_may_be_restored_but_not_submitted_afresh(led: Store) -> None:
    end(led, submit(led))

    with pytest.raises(JobIsThere, match="not cleaned up yet"):
        submit(led, submission="second")
    restored = submit(led, submission="second", is_restore=True)

    assert restored.generation == 2


def test_after_its_cleanup_a_job_id_may_be_submitted_afresh(led: Store) -> None:
    end(led, submit(led))
    led.commits.finish_cleanup(1, "orders", 1)

    assert submit(led, submission="second").generation == 2


def test_a_goal_only_gets_stronger(led: Store) -> None:
    job = submit(led)

    def ask(goal: Goal) -> bool:
        return led.commits.set_goal(1, job.id, 1, goal, at_ms=goal_at[goal])

    goal_at = {goal: index for index, goal in enumerate(Goal)}
    assert [ask(Goal.SAVEPOINT), ask(Goal.SAVEPOINT), ask(Goal.RUN)] == [True, False, False]
    assert [ask(Goal.CANCEL), ask(Goal.SAVEPOINT), ask(Goal.FORCE), ask(Goal.CANCEL)] == [
        True, False, True, False,
    ]  # fmt: skip
    found = led.reads.job("orders")
    assert found is not None
    assert (found.goal, found.goal_at_ms) == (Goal.FORCE, goal_at[Goal.FORCE])


def test_an_ended_job_has_no_goal_any_more(led: Store) -> None:
    end(led, submit(led))

    assert not led.commits.set_goal(1, "orders", 1, Goal.CANCEL, at_ms=9)


def test_an_outcome_is_written_once(led: Store) -> None:
    job = submit(led)
    end(led, job, Outcome.FAILED, at_ms=5)
    end(led, job, Outcome.FINISHED, at_ms=8)

    found = led.reads.job("orders")
    assert found is not None
    assert (found.outcome, found.ended_at_ms) == (Outcome.FAILED, 5)


def test_an_outcome_leaves_one_cleanup(led: Store) -> None:
    job = submit(led)
    end(led, job)
    end(led, job)

    assert [(c.job_id, c.generation, c.due_at_ms) for c in led.reads.cleanups()] == [
        ("orders", 1, 65)
    ]


def test_a_cleanup_that_was_done_does_not_come_back_with_a_late_outcome(led: Store) -> None:
    job = submit(led)
    end(led, job)
    led.commits.finish_cleanup(1, job.id, 1)
    led.commits.finish_cleanup(1, job.id, 1)
    end(led, job)

    assert led.reads.cleanups() == []


def test_a_cleanup_that_failed_says_why_and_how_often(led: Store) -> None:
    end(led, submit(led))
    led.commits.postpone_cleanup(1, "orders", 1, "no permission", due_at_ms=70)
    led.commits.postpone_cleanup(1, "orders", 1, "disk is gone", due_at_ms=80)

    [told] = led.reads.cleanups()
    assert (told.tries, told.last_error, told.due_at_ms) == (2, "disk is gone", 80)


def test_only_an_ended_generation_is_forgotten(led: Store) -> None:
    job = submit(led)
    plan(led)
    led.commits.write_reports(1, [("orders", 1, 1, {"tip": 1})], [], at_ms=1)
    led.commits.forget_job(1, job.id, 1)
    kept = led.reads.job("orders")
    end(led, job)
    led.commits.forget_job(1, job.id, 1)
    led.commits.forget_job(1, job.id, 1)

    assert kept is not None
    assert led.reads.job("orders") is None
    assert led.reads.attempts("orders", 1) == []
    assert led.reads.metrics("orders", 1) == {}
    assert led.reads.events("orders") == []
    assert led.reads.cleanups() == []


def test_an_older_generation_is_forgotten_alone(led: Store) -> None:
    end(led, submit(led))
    submit(led, submission="second", is_restore=True)
    led.commits.forget_job(1, "orders", 1)

    found = led.reads.job("orders")
    assert found is not None
    assert found.generation == 2


# -------------------------------------------------------------------------------------------- attempts


def test_an_attempt_is_planned_once(led: Store) -> None:
    submit(led)
    plan(led, at_ms=1)
    plan(led, at_ms=2)

    assert [a.planned_at_ms for a in led.reads.attempts("orders", 1)] == [1]


def test_only_the_next_number_is_planned_and_only_while_none_is_open(led: Store) -> None:
    submit(led)
    plan(led, 2)
    plan(led, 1)
    plan(led, 2)
    finish(led, 1)
    plan(led, 1)
    plan(led, 3)
    plan(led, 2)

    found = [(a.key.number, a.is_open) for a in led.reads.attempts("orders", 1)]
    assert found == [(1, False), (2, True)]


def test_an_ended_job_gets_no_attempt(led: Store) -> None:
    end(led, submit(led))
    plan(led)

    assert led.reads.attempts("orders", 1) == []


def test_an_attempt_starts_and_ends_once(led: Store) -> None:
    submit(led)
    plan(led)
    led.commits.start_attempt(1, a_key(), at_ms=3)
    led.commits.start_attempt(1, a_key(), at_ms=4)
    finish(led, 1, EndedHow.FAILED)
    finish(led, 1, EndedHow.FINISHED, reason="")
    led.commits.start_attempt(1, a_key(), at_ms=5)

    [attempt] = led.reads.attempts("orders", 1)
    assert (attempt.started_at_ms, attempt.ended_how) == (3, EndedHow.FAILED)


def test_an_attempt_that_ended_is_one_line_of_history(led: Store) -> None:
    submit(led)
    plan(led)
    finish(led, 1)
    finish(led, 1)

    assert events_of(led) == ["Attempt 1 of pipeline 1 failed: it broke"]


def test_what_was_wished_and_how_it_ended_are_lines_of_history(led: Store) -> None:
    job = submit(led)
    led.commits.set_goal(1, job.id, 1, Goal.CANCEL, at_ms=1)
    end(led, job, Outcome.CANCELED)

    assert events_of(led) == ["Ended CANCELED", "Asked to cancel"]


def test_the_oldest_attempts_of_a_pipeline_make_room(
    led: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.store.commits.ATTEMPTS_PER_PIPELINE_MAX", 3)
    submit(led)
    for number in range(1, 7):
        plan(led, number)
        finish(led, number)

    assert ATTEMPTS_PER_PIPELINE_MAX >= 1_000
    assert [a.key.number for a in led.reads.attempts("orders", 1)] == [4, 5, 6]


# -------------------------------------------------------------------------------------------- write-behind


def test_reports_overwrite_the_ones_before(led: Store) -> None:
    submit(led)
    first, second = ("orders", 1, 1), ("orders", 1, 2)
    led.commits.write_reports(1, [(*second, {"tip": 1}), (*first, {"tip": 1})], [], at_ms=1)
    led.commits.write_reports(1, [(*first, {"tip": 7})], [], at_ms=2)

    assert led.reads.metrics("orders", 1) == {1: {"tip": 7}, 2: {"tip": 1}}
    assert led.reads.metrics_of([("orders", 1), ("others", 1)]) == {
        ("orders", 1): {1: {"tip": 7}, 2: {"tip": 1}}
    }


def test_workers_that_are_not_heard_any_more_are_not_kept(led: Store) -> None:
    led.commits.write_reports(1, [], [("a", {"n": 1}, 5), ("b", {"n": 2}, 6)], at_ms=1)
    led.commits.write_reports(1, [], [("b", {"n": 3}, 8), ("c", {"n": 4}, 9)], at_ms=2)

    assert led.reads.workers() == [({"n": 3}, 8), ({"n": 4}, 9)]
    led.commits.write_reports(1, [], [], at_ms=3)
    assert led.reads.workers() == []


def test_the_oldest_events_of_a_job_make_room(led: Store) -> None:
    for number in range(EVENTS_PER_JOB_MAX + 5):
        led.commits.record_event(1, "orders", 1, f"event {number}", at_ms=number)
    led.commits.record_event(1, "others", 1, "one", at_ms=1)

    said = [line for _, line in led.reads.events("orders", most=1_000)]
    assert len(said) == EVENTS_PER_JOB_MAX
    assert said[0] == f"event {EVENTS_PER_JOB_MAX + 4}"
    assert events_of(led, "others") == ["one"]


def test_what_an_attempt_had_committed_is_never_unsaid(led: Store) -> None:
    submit(led)
    plan(led)
    led.commits.note_advance(1, a_key())

    finish(led, 1, EndedHow.LOST)

    [kept] = led.reads.attempts("orders", 1)
    assert kept.advanced
    assert kept.ended_how is EndedHow.LOST
