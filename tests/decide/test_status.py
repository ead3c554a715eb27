"""Facts to the words people see."""

from dataclasses import replace

import pytest

from holdfast.decide.status import (
    JobStatus,
    PipelineShown,
    PipelineStatus,
    derive_pipeline,
    derive_status,
)
from holdfast.model.attempts import Attempt, EndedHow
from holdfast.model.jobs import Goal, Job, Outcome
from holdfast.model.workers import Worker
from holdfast.testing.builders import a_job, a_worker, a_world, an_attempt

TWO = (1, 2)


def status(job: Job, *attempts: Attempt, now_ms: int = 0) -> JobStatus:
    world = a_world(job, attempts=attempts, workers=[a_worker()])
    return derive_status(world, job, now_ms)


def shown(
    *attempts: Attempt, job: Job | None = None, worker: Worker | None = None, now_ms: int = 0
) -> PipelineShown:
    job = job or a_job()
    world = a_world(job, attempts=attempts, workers=[worker or a_worker()])
    return derive_pipeline(world, job, 1, now_ms)


@pytest.mark.parametrize("outcome", Outcome)
def test_an_outcome_is_final_whatever_attempts_say(outcome: Outcome) -> None:
    ended = replace(a_job(goal=Goal.CANCEL), outcome=outcome)

    assert status(ended, an_attempt()).value == outcome.value


@pytest.mark.parametrize(
    ("goal", "expected"),
    [
        (Goal.SAVEPOINT, JobStatus.DOING_SAVEPOINT),
        (Goal.CANCEL, JobStatus.CANCELING),
        (Goal.FORCE, JobStatus.CANCELING),
    ],
)
def test_a_goal_is_told_until_there_is_an_outcome(goal: Goal, expected: JobStatus) -> None:
    assert status(a_job(goal=goal)) is expected
    assert status(a_job(goal=goal), an_attempt()) is expected


def test_a_job_is_pending_then_scheduled_then_running() -> None:
    assert status(a_job()) is JobStatus.PENDING
    assert status(a_job(), an_attempt(started=False)) is JobStatus.SCHEDULED
    assert status(a_job(), an_attempt()) is JobStatus.RUNNING


def test_a_job_that_waits_for_a_retry_runs() -> None:
    assert status(a_job(), an_attempt(ended=EndedHow.FAILED), now_ms=1) is JobStatus.RUNNING


def test_a_job_whose_retry_is_due_and_not_begun_is_pending() -> None:
    assert status(a_job(), an_attempt(ended=EndedHow.FAILED), now_ms=3_000) is JobStatus.PENDING


def test_a_job_runs_as_soon_as_one_pipeline_does() -> None:
    job = a_job(pipeline_ids=TWO)

    assert status(job, an_attempt(pipeline_id=2)) is JobStatus.RUNNING
    assert status(job, an_attempt(ended=EndedHow.FINISHED)) is JobStatus.PENDING


def test_a_job_with_a_failed_pipeline_is_failing_until_all_have_ended() -> None:
    job = a_job(pipeline_ids=TWO)
    failed = an_attempt(ended=EndedHow.FAILED_FOR_GOOD)

    assert status(job, failed, an_attempt(pipeline_id=2)) is JobStatus.FAILING
    assert status(job, failed) is JobStatus.FAILING


# ------------------------------------------------------------------------------------------ pipelines


def test_an_open_attempt_is_told_with_its_worker() -> None:
    assert shown(an_attempt(3)) == PipelineShown(1, PipelineStatus.RUNNING, 3, "w1", "")
    assert shown(an_attempt(started=False)).status is PipelineStatus.SCHEDULED


def test_why_a_pipeline_is_pending_is_told() -> None:
    gpu = a_job(tag_filter={"gpu": "1"})

    assert shown().reason == "it is about to be placed"
    assert shown(job=gpu).reason == "none of 1 workers has the tags gpu=1"
    assert shown(worker=a_worker(draining=True)).reason == "all 1 workers are draining"
    assert shown(worker=a_worker(slots=0)).reason == "all 0 slots of 1 workers are taken"
    assert shown(now_ms=4_000).reason == "no worker is there"
    assert all(s.status is PipelineStatus.PENDING for s in (shown(), shown(job=gpu)))


def test_a_wait_for_a_retry_says_why_and_how_long() -> None:
    told = shown(an_attempt(ended=EndedHow.FAILED, reason="connection reset"), now_ms=1_000)

    assert told.status is PipelineStatus.RESTARTING
    assert told.reason == "connection reset; the next attempt begins in 2 s"


def test_a_pipeline_that_runs_and_gets_nowhere_is_stalled() -> None:
    job, attempt = a_job(), an_attempt()
    world = a_world(job, attempts=[attempt], tip_since_ms={attempt.key: 0})

    assert derive_pipeline(world, job, 1, 22_000).status is PipelineStatus.RUNNING
    assert derive_pipeline(world, job, 1, 22_001).status is PipelineStatus.STALLED
    assert derive_status(world, job, 22_001) is JobStatus.RUNNING


@pytest.mark.parametrize("goal", [Goal.SAVEPOINT, Goal.CANCEL, Goal.FORCE])
def test_an_ending_pipeline_is_told_as_such(goal: Goal) -> None:
    job = a_job(goal=goal)

    assert shown(an_attempt(), job=job).status is PipelineStatus.CANCELING
    assert shown(job=job).status is PipelineStatus.CANCELED


def test_finished_and_failed_stay_so() -> None:
    failed = an_attempt(ended=EndedHow.FAILED_FOR_GOOD, reason="no table")

    assert shown(an_attempt(ended=EndedHow.FINISHED)).status is PipelineStatus.FINISHED
    assert shown(failed).status is PipelineStatus.FAILED
    assert shown(failed).reason == "no table"


def test_pipelines_of_an_ended_job_do_not_run() -> None:
    ended = replace(a_job(), outcome=Outcome.CANCELED)

    assert shown(an_attempt(ended=EndedHow.STOPPED), job=ended).status is PipelineStatus.CANCELED
    assert shown(job=ended).status is PipelineStatus.CANCELED
