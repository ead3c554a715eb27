"""Failures of masters and in the lives of jobs that people have met elsewhere (docs/failures.md, area A)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.decide.status import JobStatus, PipelineStatus
from holdfast.master.submitting import JobRejected
from holdfast.model.attempts import EndedHow
from holdfast.model.jobs import Goal, Outcome, ScheduleStrategy
from holdfast.model.workers import ObservedAttempt
from holdfast.store.connection import CommitUnknown, StoreFailed
from holdfast.testing.sim.faults import FAIR, FOR_EVER, Weather
from holdfast.testing.sim.plan import LIMITS
from holdfast.testing.sim.script import Scene, batch, stream
from tests.sim.conftest import MakeScene

STORE_AWAY = Weather(store_fails=1.0, store_read_fails=1.0)
FAILING = Weather(source_fails=1.0)


def _running(make: MakeScene, **facts: int) -> Scene:
    """Two masters, two workers and a stream that has written something."""
    play = make({"orders": stream()}, **{"masters": 2, "workers": 2, **facts})
    play.submit("orders")
    play.until_rows("orders", 5)
    return play


def _leading(play: Scene) -> str:
    """The name of the process that leads."""
    found = play.cluster.leader()
    assert found is not None
    return found.process.name


def test_after_everything_was_killed_a_job_goes_on_from_its_own_newest_checkpoint(
    scene: MakeScene,
) -> None:
    """F001, F073."""
    play = _running(scene)

    play.kill_all()
    tip = play.made("orders")[-1]
    play.run_for(5_000)
    play.start_fallen()
    play.run_until("a second claim", lambda: len(play.claims("orders")) == 2)

    assert play.claims("orders")[-1].sources == tip.sources
    assert play.status("orders") in (JobStatus.RUNNING, JobStatus.SCHEDULED)
    play.rest()


@pytest.mark.parametrize("when", ["after its first checkpoints", "before its first claim"])
def test_where_a_job_was_asked_to_begin_is_asked_once(scene: MakeScene, when: str) -> None:
    """F002."""
    play = _running(scene)
    play.ask("orders", Goal.SAVEPOINT)
    play.until_status("orders", JobStatus.SAVEPOINT_DONE)
    kept = play.made("orders")[-1].sources
    play.submit("orders", "auto")
    play.run_until("more rows", lambda: len(play.made("orders")) > 8)
    play.ask("orders", Goal.CANCEL)
    play.until_status("orders", JobStatus.CANCELED)
    known = len(play.made("orders"))

    if when == "before its first claim":
        for number in range(2):
            play.kill_at(f"worker-{number}", "before create orders/1/*")
    play.submit("orders", "savepoint")
    if when == "after its first checkpoints":
        play.run_until("checkpoints", lambda: len(play.made("orders")) > known + 4)
    else:
        play.run_until("a death", lambda: any("dies" in line for line in play.engine.story))
    play.kill_all()
    tip = play.made("orders")[-1]
    play.start_fallen()
    play.run_until("a claim", lambda: play.made("orders")[-1].attempt > tip.attempt)

    went_on = play.claims("orders")[-1]
    expected = tip.sources if when == "after its first checkpoints" else kept
    assert went_on.sources == expected
    play.rest()


POINTS_OF_AN_END = [
    "before record outcome",
    "after record outcome",
    "before remove orders/*",
    "after remove orders/*",
    "before finish cleanup",
    "after finish cleanup",
]


@pytest.mark.parametrize("point", POINTS_OF_AN_END)
@pytest.mark.parametrize("end", ["finished", "failed"])
def test_a_leader_that_dies_over_the_end_of_a_job_leaves_nothing_half_done(
    scene: MakeScene, end: str, point: str
) -> None:
    """F003, F005, F024."""
    play = scene({"orders": replace(batch(12), retries=0)}, masters=2)
    play.kill_at("master-*", point)
    play.submit("orders")
    if end == "failed":
        play.until_rows("orders", 2)
        play.weather(FAILING)
        play.run_until("a failure", lambda: "failed" in play.ends("orders"))
    play.run_until("an outcome", lambda: play.job("orders").outcome is not None)
    tried = len(play.attempts("orders"))
    play.run_for(8_000)

    play.rest(*["orders"] * (end == "failed"))
    assert len(play.attempts("orders")) == tried, "what has ended does not begin again"
    assert play.job("orders").outcome is Outcome(end.upper())
    assert play.cluster.reads.cleanups() == []
    assert len(play.cluster.reads.all_jobs()) == 1


def test_what_nobody_wants_any_more_ends_on_a_worker_that_could_not_be_told(
    scene: MakeScene,
) -> None:
    """F004, F009."""
    play = _running(scene, masters=1, workers=1)

    play.cut("worker-0", "master-0")
    play.ask("orders", Goal.FORCE)
    play.until_status("orders", JobStatus.CANCELED, 2_000)
    host = play.cluster.workers["worker-0"].host
    play.run_until("its lease ends it", lambda: host.is_empty, LIMITS.worker_lease_ms + 1_500)

    written = len(play.made("orders"))
    play.run_for(5_000)
    assert len(play.made("orders")) == written
    play.rest()


@pytest.mark.parametrize("goal", [Goal.RUN, Goal.SAVEPOINT])
@pytest.mark.parametrize("who", ["master", "worker", "both"])
def test_a_job_whose_sources_are_done_ends_whoever_dies_then(
    scene: MakeScene, goal: Goal, who: str
) -> None:
    """F006, F040, F046."""
    play = scene({"orders": batch(6)}, masters=2, workers=2)
    play.submit("orders")

    def done() -> bool:
        made = play.made("orders")
        return bool(made) and made[-1].completed

    def befall() -> None:
        if done() and not fell:
            fell.append(play.engine.now_ms)
            if who in ("master", "both"):
                play.kill(_leading(play))
            if who in ("worker", "both"):
                current = play.engine.current
                assert current is not None
                play.engine.kill(current)

    fell: list[float] = []
    play.when("worker-*", "after commit", befall, nth=0)
    play.run_until("all sources done", done)
    if goal is Goal.SAVEPOINT:
        play.ask("orders", goal)
    play.run_until("an outcome", lambda: play.job("orders").outcome is not None)

    assert fell
    if play.job("orders").outcome is Outcome.SAVEPOINT_DONE:
        play.submit("orders", "savepoint")
        play.until_status("orders", JobStatus.FINISHED)
    assert play.job("orders").outcome is Outcome.FINISHED
    assert play.rows("orders") == list(range(6))
    assert sum(count.rows for count in play.made("orders")[-1].counts.values()) == 12, (
        "read once and written once"
    )
    play.rest()


def test_a_source_that_is_done_holds_up_no_checkpoint_after_a_failover(scene: MakeScene) -> None:
    """F008, F052."""
    jobs = {"orders": replace(stream("new"), tables={"old": 3, "new": 0})}
    play = scene(jobs, masters=2, workers=2)
    play.submit("orders")
    play.run_until("one is done", lambda: len(play.rows("orders", "old")) == 3)

    play.kill_all()
    play.start_fallen()
    before = len(play.rows("orders", "new"))
    play.until_rows("orders", before + 10, "new")

    assert play.made("orders")[-1].sources["source-0-tick"]["done"] is True
    play.rest()


def _points_of_a_takeover(make: MakeScene) -> int:
    play = _takeover(make, 10_000)
    return sum(1 for point in play.points if point.startswith("master-1"))


def _takeover(make: MakeScene, nth: int, error: Exception | None = None) -> Scene:
    """One master dies; the other takes over two jobs, of which one is to be canceled, and has trouble on the way."""
    play = make({"orders": stream(), "bills": batch(10)}, masters=2, workers=2, slots=2)
    play.submit_all()
    play.until_rows("orders", 3)
    play.ask("orders", Goal.SAVEPOINT)
    play.points.clear()
    play.kill("master-0")
    if error is None:
        play.kill_at("master-1", "*", nth=nth)
    else:
        play.fail_at("master-1", "*", error, nth=nth)
    play.run_for(3_500)
    return play


def test_a_takeover_that_is_disturbed_anywhere_comes_to_the_same(scene: MakeScene) -> None:
    """F010, F033, F042: a crash, a failed read or write, a lost answer at each point."""
    size = _points_of_a_takeover(scene)
    assert size > 25
    away = StoreFailed("Cannot go on: the store does not answer.")
    for nth in range(1, min(size, 60) + 1):
        error = (None, away, CommitUnknown("Cannot tell: no answer."))[nth % 3]
        play = _takeover(scene, nth, error)
        play.rest()

        assert play.job("orders").outcome is Outcome.SAVEPOINT_DONE, nth
        assert play.job("bills").outcome is Outcome.FINISHED, nth
        if error is not None:
            assert play.ends("orders") == ["stopped"], nth
            assert play.ends("bills") == ["finished"], nth
        play.close()


def test_ten_new_leaders_take_no_slot(scene: MakeScene) -> None:
    """F012, F032, F036: slots are counted from attempts, and each leader places what waits."""
    jobs = {f"job-{n}": stream() for n in range(3)} | {"late": stream()}
    play = scene(jobs, masters=2, workers=2, slots=2)
    for name in jobs:
        if name != "late":
            play.submit(name)
    for name in ("job-0", "job-1", "job-2"):
        play.until_rows(name, 2)

    for _ in range(10):
        play.kill(_leading(play))
        play.run_for(3_000)
        play.start_fallen()
        play.leader()
    play.submit("late")
    play.until_rows("late", 2)

    assert all(play.ends(name) == [None] for name in jobs)
    play.rest()


def test_a_job_that_has_no_room_for_all_its_pipelines_takes_none(scene: MakeScene) -> None:
    """F013: where jobs are rejected for lack of room; where they wait, what has no slot is PENDING and says so."""
    jobs = {"three": batch(60, "a", "b", "c", pipelines=3), "two": batch(4, "a", "b", pipelines=2)}
    play = scene(jobs, slots=2)
    play.run_for(8_000)
    with pytest.raises(JobRejected, match="it has 3 pipelines, and 2 of 2 slots are free"):
        play.submit("three", strategy=ScheduleStrategy.REJECT)
    play.submit("two", strategy=ScheduleStrategy.REJECT)
    play.until_status("two", JobStatus.FINISHED)

    play.submit("three")
    play.run_for(2_000)
    waiting = [play.shown("three", id_) for id_ in (1, 2, 3)]
    assert [p.status.value for p in waiting] == ["RUNNING", "RUNNING", "PENDING"]
    assert waiting[-1].reason == "all 2 slots of 1 workers are taken"
    play.rest()


def test_a_role_that_was_lost_and_won_again_goes_on_as_before(scene: MakeScene) -> None:
    """F032."""
    play = scene({f"job-{n}": batch(4) for n in range(5)}, masters=2)
    led: list[str] = []
    for name in play.plan.jobs:
        led.append(_leading(play) if play.leader() else "")
        play.submit(name)
        play.until_status(name, JobStatus.FINISHED)
        play.pause(led[-1], 3_000)
        play.run_for(3_500)

    assert set(led) == {"master-0", "master-1"}
    play.rest()


def test_an_older_report_changes_nothing(scene: MakeScene) -> None:
    """F014: heartbeats in the wrong order."""
    play = _running(scene, masters=1, workers=1)
    host = play.cluster.workers["worker-0"].host
    old = host.heartbeat()
    play.until_rows("orders", 10)
    newest = play.leader().observe().workers

    play.ask_leader(lambda master: master.hear(replace(old, attempts=(), slots=0)))

    known = play.leader().observe().workers
    assert {id_: w.heartbeat.slots for id_, w in known.items()} == {
        id_: w.heartbeat.slots for id_, w in newest.items()
    }
    play.run_for(2_000)
    assert play.ends("orders") == [None]
    play.rest()


def test_late_failures_of_an_old_attempt_start_nothing(scene: MakeScene) -> None:
    """F028, F060: a hundred of them."""
    play = _running(scene, workers=2)
    old = play.attempts("orders")[0]
    name = "worker-0" if play.cluster.workers["worker-0"].host._hosted else "worker-1"
    host = play.cluster.workers[name].host
    play.kill(name)
    play.run_until("another attempt", lambda: play.ends("orders") == ["lost", None])
    play.until_rows("orders", len(play.rows("orders")) + 3)

    said = ObservedAttempt(old.key, ended_how=EndedHow.FAILED, reason="late")
    late = replace(host.heartbeat(), attempts=(said,))
    for _ in range(100):
        play.ask_leader(lambda master: master.hear(late))
    play.run_for(2_000)

    assert play.ends("orders") == ["lost", None]
    play.rest()


def test_a_lost_worker_is_named_and_its_pipelines_go_on_elsewhere(scene: MakeScene) -> None:
    """F016, F021: within its lease the status says so, and no retry is spent."""
    play = scene({"orders": stream(retries=0)}, workers=1)
    play.submit("orders")
    play.until_rows("orders", 5)

    play.kill("worker-0")
    took_ms = play.run_until("it is noticed", lambda: play.ends("orders")[0] == "lost")

    assert took_ms <= LIMITS.worker_lease_ms + 500
    (lost,) = play.attempts("orders")
    assert lost.worker_id in lost.reason
    assert play.status("orders") is JobStatus.PENDING
    assert play.shown("orders").reason == "no worker is there"
    play.rest()
    assert play.ends("orders") == ["lost", None]


def test_a_worker_that_is_killed_twenty_times_is_replaced_twenty_times(scene: MakeScene) -> None:
    """F037."""
    play = _running(scene, masters=1)
    for _ in range(20):
        working = play.working()
        rows = len(play.rows("orders"))
        play.kill(working)
        play.run_until("rows again", lambda r=rows: len(play.rows("orders")) > r + 2, 9_000)  # type: ignore[misc]
        play.start_fallen()

    play.rest()


MOMENTS = {
    "queued": "",
    "planned": "after plan attempt",
    "starting": "before claim",
    "claimed": "after claim",
    "running": "after commit",
    "waiting for a retry": "after end attempt",
    "going to a savepoint": "after set goal",
}


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_cancel_is_taken_at_every_moment_of_a_life(
    scene: MakeScene, moment: str, force: bool
) -> None:
    """F017, F030, F038, F045."""
    play = scene({"orders": stream()}, masters=1, workers=0 if moment == "queued" else 1)
    reached: list[str] = []
    if moment == "waiting for a retry":
        play.weather(FAILING)
    if moment != "queued":
        play.when("*", MOMENTS[moment], lambda: reached.append(moment))
    play.submit("orders")
    if moment == "going to a savepoint":
        play.hang("orders", 60_000)
        play.ask("orders", Goal.SAVEPOINT)
    if moment != "queued":
        play.run_until(moment, lambda: bool(reached))

    play.ask("orders", Goal.FORCE if force else Goal.CANCEL)
    took_ms = play.until_status("orders", JobStatus.CANCELED)
    tried = len(play.attempts("orders"))
    play.run_for(6_000)

    assert took_ms <= LIMITS.stop_deadline_ms + 1_000
    assert len(play.attempts("orders")) == tried
    play.rest()


def test_a_worker_that_dies_while_its_job_is_canceled_changes_nothing(scene: MakeScene) -> None:
    """F045."""
    play = _running(scene, workers=2)
    play.hang("orders", 60_000)
    play.run_for(500)

    play.ask("orders", Goal.CANCEL)
    play.kill("worker-0", "worker-1")
    play.until_status("orders", JobStatus.CANCELED)
    play.rest()

    assert len(play.attempts("orders")) == 1


def test_three_hundred_jobs_are_canceled_at_once(scene: MakeScene) -> None:
    """F018: in a time that does not grow with how many there are."""
    jobs = {f"job-{n:03}": stream(interval_ms=20_000, every_ms=10_000) for n in range(323)}
    play = scene(jobs, workers=3)
    play.submit_all()
    play.run_until("all run", lambda: all(play.made(name) for name in jobs), 60_000)

    play.ask_all(Goal.CANCEL)
    took_ms = play.run_until(
        "all ended",
        lambda: all(job.outcome is Outcome.CANCELED for job in play.cluster.reads.all_jobs()),
    )

    assert took_ms < 5_000
    assert all(worker.host.is_empty for worker in play.cluster.workers.values())
    play.rest()


@pytest.mark.parametrize("hears", [True, False])
def test_a_read_that_hangs_for_ever_is_ended_and_gone_on_from(
    scene: MakeScene, hears: bool
) -> None:
    """F020, F022, F041: it is shown as stalled before, and its rows come once. Also one that cannot be closed."""
    play = scene({"orders": stream()})
    if not hears:
        play.change_sources(close=lambda: None)
    play.submit("orders")
    play.until_rows("orders", 5)
    play.hang("orders", 10_000_000)
    play.run_until("a stall", lambda: play.shown("orders").status is PipelineStatus.STALLED, 5_000)
    play.ask("orders", Goal.CANCEL)
    play.until_status("orders", JobStatus.CANCELED, LIMITS.stop_deadline_ms + 2_000)

    play.hang("orders", 0)
    play.run_for(1_000)
    play.submit("orders", "auto")
    play.until_rows("orders", len(play.rows("orders")) + 3)
    play.rest()


def test_a_cleanup_that_cannot_be_done_stands_in_nobodys_way(scene: MakeScene) -> None:
    """F025."""
    play = scene({"bad": batch(6), "good": batch(6), "later": batch(6)})
    play.faults.undeletable["bad"] = FOR_EVER
    for name in play.plan.jobs:
        play.submit(name)
        play.until_status(name, JobStatus.FINISHED)
    play.run_for(4_000)

    (left,) = play.cluster.reads.cleanups()
    assert left.job_id == "bad"
    assert "Cannot remove bad/1/" in left.last_error
    play.rest()


def test_a_leader_that_is_cut_off_from_the_store_does_no_harm(scene: MakeScene) -> None:
    """F026: workers still reach it and not the other; another leads, and nobody obeys two."""
    play = _running(scene)
    cut_off = _leading(play)

    def fail() -> None:
        if play.engine.now_ms < until_ms:
            raise StoreFailed("Cannot reach the store: no route.")

    until_ms = play.engine.now_ms + 12_000
    for point in ("read store", "before *"):
        play.when(cut_off, point, fail, nth=0)
    other = next(name for name in play.cluster.masters if name != cut_off)
    play.cut(play.working(), other)
    play.run_until("another leads", lambda: _leads(play, other), 10_000)
    play.run_for(14_000)

    assert play.status("orders") is JobStatus.RUNNING
    play.rest()


def _leads(play: Scene, name: str) -> bool:
    return play.cluster.masters[name].master.term is not None


@pytest.mark.parametrize("people", ["drop it", "do nothing"])
def test_a_job_that_kills_its_workers_can_be_dropped_and_takes_nobody_with_it(
    scene: MakeScene, people: str
) -> None:
    """F029."""
    limits = replace(LIMITS, crashes_to_isolate=2, crashes_alone_max=3, alone_ms=4_000)
    play = scene({"bad": stream(), "good": stream()}, workers=3, limits=limits)
    play.kill_at("worker-*", "after create bad/1/*", nth=0)
    play.submit_all()

    def loops() -> bool:
        play.start_fallen()
        return play.ends("bad").count("lost") >= 2

    play.run_until("it loops", loops, 60_000)
    if people == "drop it":
        play.ask("bad", Goal.CANCEL)
        play.until_status("bad", JobStatus.CANCELED, 5_000)
    else:
        play.run_until("an end", lambda: _has_ended(play, "bad"), 60_000)
        assert "workers died under it" in play.job("bad").reason

    rows = len(play.rows("good"))
    play.until_rows("good", rows + 10)
    assert play.ends("good").count("lost") <= 2
    play.rest(*["bad"] * (people == "do nothing"))


def _has_ended(play: Scene, job_id: str) -> bool:
    play.start_fallen()
    return play.job(job_id).outcome is not None


def test_a_store_that_is_away_for_minutes_while_an_attempt_fails_is_caught_up_with(
    scene: MakeScene,
) -> None:
    """F044: the end of the attempt is told again and again until it is stored."""
    play = scene({"orders": stream(retries=1)}, masters=2)
    play.submit("orders")
    play.until_rows("orders", 5)

    play.weather(replace(STORE_AWAY, source_fails=1.0))
    play.run_for(180_000)
    play.weather(FAIR)
    took_ms = play.until_status("orders", JobStatus.RUNNING)
    play.until_rows("orders", len(play.rows("orders")) + 3)

    assert took_ms < 10_000
    assert len(play.attempts("orders")) == 2
    play.rest()
