"""What holds whatever happens, in whatever order: small clusters played through random fates."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.decide.actions import EndAttempt, PlanAttempt
from holdfast.decide.jobs import decide
from holdfast.decide.status import JobStatus, PipelineStatus, derive_pipeline, derive_status
from holdfast.model.attempts import EndedHow
from holdfast.model.jobs import Goal
from holdfast.testing.builders import a_job
from tests.decide.playing import Play

JOBS = ("a", "b", "c")
SLOTS = 2

steps = st.just(("wait", 0, 0))
deaths = st.tuples(st.just("kill"), st.integers(0, 1), st.just(0))
drains = st.tuples(st.just("drain"), st.integers(0, 1), st.just(0))
ends = st.tuples(
    st.just("end"),
    st.integers(0, 2),
    st.sampled_from([EndedHow.FINISHED, EndedHow.FAILED, EndedHow.FAILED_FOR_GOOD]),
)
goals = st.tuples(st.just("ask"), st.integers(0, 2), st.sampled_from(list(Goal)))
fates = st.lists(st.one_of(steps, steps, deaths, drains, ends, goals), max_size=40)


def a_play() -> Play:
    jobs = [a_job("a", pipeline_ids=(1, 2)), a_job("b", retry_interval_ms=500), a_job("c")]
    return Play(*jobs, workers=["w1", "w2"], slots=SLOTS)


def befall(play: Play, fate: tuple[str, int, object]) -> None:
    match fate:
        case ("kill", at, _):
            play.kill_worker(at)
        case ("drain", at, _):
            play.hosts[at].draining = True
        case ("end", at, EndedHow() as how):
            play.end(JOBS[at], 1, how)
        case ("ask", at, Goal() as goal):
            play.ask(JOBS[at], goal)
    play.step()


@settings(max_examples=150, deadline=None)
@given(fates)
def test_at_every_moment(happened: list[tuple[str, int, object]]) -> None:
    play = a_play()

    for fate in happened:
        befall(play, fate)

        expect_one_open_attempt_of_a_pipeline(play)
        expect_no_more_than_slots(play)
        expect_true_statuses(play)
        assert decide(play.world(), play.now_ms) == decide(play.world(), play.now_ms)


def expect_one_open_attempt_of_a_pipeline(play: Play) -> None:
    opened = Counter((k.job_id, k.pipeline_id) for k, a in play.attempts.items() if a.is_open)
    assert not opened or max(opened.values()) == 1


def expect_no_more_than_slots(play: Play) -> None:
    hosted = Counter(a.worker_id for a in play.attempts.values() if a.is_open)
    assert not hosted or max(hosted.values()) <= SLOTS


def expect_true_statuses(play: Play) -> None:
    world, now_ms = play.world(), play.now_ms
    for job in world.jobs:
        shown = [derive_pipeline(world, job, id_, now_ms) for id_ in job.submitted.pipeline_ids]
        for pipeline in shown:
            opened = [
                attempt
                for attempt in world.attempts_of(job, pipeline.pipeline_id)
                if attempt.is_open and attempt.started_at_ms is not None
            ]
            if pipeline.status in (PipelineStatus.RUNNING, PipelineStatus.STALLED):
                assert opened
            assert (pipeline.worker_id is None) or pipeline.status is not PipelineStatus.PENDING
        status = derive_status(world, job, now_ms)
        if status is JobStatus.RUNNING:
            alive = (PipelineStatus.RUNNING, PipelineStatus.STALLED, PipelineStatus.RESTARTING)
            done = all(pipeline.status is PipelineStatus.FINISHED for pipeline in shown)
            assert done or any(pipeline.status in alive for pipeline in shown)


@settings(max_examples=40, deadline=None)
@given(fates)
def test_whatever_happened_every_job_reaches_what_was_asked(
    happened: list[tuple[str, int, object]],
) -> None:
    play = a_play()
    for fate in happened:
        befall(play, fate)

    for host in play.hosts:
        play.kill_worker(play.hosts.index(host))
    play.run_until_ms(play.now_ms + 120_000)

    for job in play.jobs.values():
        if job.outcome is None:
            assert job.goal is Goal.RUN
            world = play.world()
            for id_ in job.submitted.pipeline_ids:
                told = derive_pipeline(world, job, id_, play.now_ms)
                assert told.status in (PipelineStatus.RUNNING, PipelineStatus.FINISHED), told
        elif job.goal is Goal.RUN:
            assert job.outcome.value in ("FINISHED", "FAILED")


@settings(max_examples=50, deadline=None)
@given(fates)
def test_what_has_ended_never_begins_again(happened: list[tuple[str, int, object]]) -> None:
    play = a_play()
    ended: dict[str, int] = {}
    for fate in happened:
        befall(play, fate)
        for job in play.jobs.values():
            if job.outcome is not None and job.id not in ended:
                ended[job.id] = len(play.told)

    for job_id, at in ended.items():
        later = [
            action
            for action in play.told[at:]
            if isinstance(action, PlanAttempt | EndAttempt) and action.key.job_id == job_id
        ]
        assert later == []
