"""What masters answer about workers and each other: a stand-by as well as the leader."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.model.attempts import EndedHow
from holdfast.model.workers import ObservedAttempt
from holdfast.outside.clock import RealClock
from holdfast.testing.builders import a_heartbeat, a_key, an_observed
from holdfast.testing.crashes import VirtualClock
from holdfast.worker.host import WorkerHost
from tests.api.conftest import Site, Sites


@contextmanager
def beating(*workers: WorkerHost) -> Iterator[None]:
    """Heartbeats go on while the block asks for something."""
    ended = threading.Event()

    def beat() -> None:
        while not ended.is_set():
            for worker in workers:
                worker.beat()
            RealClock().wait(20)

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def told_of(site: Site, job_id: str) -> tuple[str, str, str]:
    found = site.get(f"/job-info/{job_id}")
    [pipeline] = found["pipelines"]
    return found["jobStatus"], pipeline["pipelineStatus"], pipeline["checkpointHealth"]


def run_for(site: Site, clock: VirtualClock, *, ms: int) -> None:
    """The one attempt commits every second."""
    for _ in range(0, ms, 1_000):
        clock.advance(1_000)
        attempts = site.master.store.reads.open_attempts()
        seen = [
            an_observed(a, claim=1, tip=2 + clock.now_ms() // 1_000, tip_at_ms=clock.now_ms())
            for a in attempts
        ]
        site.master.hear(a_heartbeat("w1", *seen, sent_at_ms=clock.now_ms()))
        site.master.tick()


def test_a_stand_by_tells_of_a_job_what_the_leader_tells(sites: Sites) -> None:
    clock = VirtualClock()
    leader, stand_by = sites.add(clock), sites.add(clock)
    leader.master.hear(a_heartbeat("w1"))
    leader.submit("orders")
    run_for(leader, clock, ms=300_000)

    assert told_of(leader, "orders") == ("RUNNING", "RUNNING", "OK")
    assert told_of(stand_by, "orders") == ("RUNNING", "RUNNING", "OK")
    assert stand_by.get("/running-jobs") == leader.get("/running-jobs")
    assert stand_by.get("/workers")[0]["status"] == "ALIVE"


def test_a_stand_by_tells_of_a_stalled_job_that_it_is(sites: Sites) -> None:
    clock = VirtualClock()
    leader, stand_by = sites.add(clock), sites.add(clock)
    leader.master.hear(a_heartbeat("w1"))
    leader.submit("orders", env="checkpoint.interval = 1000,")
    run_for(leader, clock, ms=10_000)
    [attempt] = leader.master.store.reads.open_attempts()
    stuck = an_observed(attempt, claim=1, tip=9_999_999_999, tip_at_ms=clock.now_ms())
    for _ in range(10):
        clock.advance(1_000)
        leader.master.hear(a_heartbeat("w1", stuck, sent_at_ms=clock.now_ms()))
        leader.master.tick()

    assert told_of(leader, "orders") == ("RUNNING", "STALLED", "STALLED")
    assert told_of(stand_by, "orders") == ("RUNNING", "STALLED", "STALLED")


def test_what_an_attempt_told_last_is_kept_though_it_ends_at_once(sites: Sites) -> None:
    clock = VirtualClock()
    leader = sites.add(clock)
    leader.master.hear(a_heartbeat("w1"))
    leader.submit("orders")
    leader.master.tick()
    [attempt] = leader.master.store.reads.open_attempts()
    counts = {"source-0-fakesource": (5, 50), "sink-0-console": (5, 50)}
    seen = an_observed(attempt, tip=3, claim=1, ended_how=EndedHow.FINISHED, counts=counts)
    clock.advance(10)
    leader.master.hear(a_heartbeat("w1", seen, sent_at_ms=1))

    leader.master.tick()
    leader.master.tick()

    shown = leader.get("/job-info/orders")
    assert (shown["jobStatus"], shown["metrics"]["SinkCommittedCount"]) == ("FINISHED", 5)


def test_what_an_older_attempt_still_tells_does_not_hide_the_newest(sites: Sites) -> None:
    clock = VirtualClock()
    leader = sites.add(clock)
    leader.master.hear(a_heartbeat("w2"))
    leader.submit("orders")
    leader.master.tick()
    clock.advance(1_000)
    for worker, number, tip in (("w1", 2, 70), ("w2", 1, 7)):
        seen = ObservedAttempt(a_key("orders", number), tip=tip)
        leader.master.hear(a_heartbeat(worker, seen, sent_at_ms=1))
    clock.advance(1_000)
    leader.master.tick()

    assert leader.master.store.reads.metrics("orders", 1)[1]["tip"] == 70


def test_writes_to_a_stand_by_are_done_by_the_leader(sites: Sites) -> None:
    leader, stand_by = sites.add(), sites.add()

    submitted = stand_by.submit("orders")
    stand_by.post("/stop-job", '{"jobId": "orders"}')
    leader.master.tick()

    assert submitted == {"jobId": "orders", "jobName": "orders", "generation": 1}
    assert leader.get("/job-info/orders")["jobStatus"] == "CANCELED"
    assert stand_by.get("/overview")["isLeader"] == "False"
    assert stand_by.get("/overview")["leader"] == leader.url


def test_a_leader_whose_address_leads_elsewhere_sends_no_request_round_in_a_ring(
    sites: Sites,
) -> None:
    leader, stand_by = sites.add(), sites.add()
    taken = leader.master.store.commits.take_lease(
        seen_term=1, holder="other", url=stand_by.url, expires_at_ms=2**53
    )
    assert taken is not None

    status, found = stand_by.ask("POST", "/stop-job", '{"jobId": "orders"}')

    assert (status, found["code"]) == (503, "not-leading")
    assert stand_by.url in found["message"]


def test_while_nobody_leads_writes_are_refused_for_now(sites: Sites) -> None:
    site = sites.add()
    site.master.step_down()

    status, found = site.ask("POST", "/stop-job", '{"jobId": "orders"}')

    assert (status, found["code"]) == (503, "not-leading")
    assert "no master leads at this moment" in found["message"]


def test_tags_that_are_asked_of_any_master_reach_the_worker(sites: Sites) -> None:
    leader, stand_by = sites.add(), sites.add()
    worker = sites.add_worker("w1")
    leader.submit("orders", env="tag_filter { zone = north },")
    leader.master.tick()
    [waiting] = leader.get("/pending-jobs")["pendingJobs"]
    assert waiting["failureReason"] == "none of 1 workers has the tags zone=north"

    with beating(worker):
        stand_by.post("/update-tags?workerId=w", '{"zone": "north"}')
    leader.master.tick()

    assert leader.get("/workers")[0]["tags"] == {"zone": "north"}
    assert leader.get("/pending-jobs")["pendingJobs"] == []


def test_a_worker_that_is_asked_to_drain_takes_nothing_more(sites: Sites) -> None:
    leader = sites.add()
    worker = sites.add_worker("w1")

    with beating(worker):
        assert leader.post("/drain-worker", '{"workerId": "w1"}') == {"workerId": "w1"}
    leader.submit("orders")
    leader.master.tick()

    assert worker.is_draining
    [waiting] = leader.get("/pending-jobs")["pendingJobs"]
    assert waiting["failureReason"] == "all 1 workers are draining"


def test_a_worker_that_nobody_knows_cannot_be_asked(sites: Sites) -> None:
    leader = sites.add()
    sites.add_worker("w1")
    sites.add_worker("w2")

    for named in ("x", "w", ""):
        status, found = leader.ask("POST", "/drain-worker", f'{{"workerId": "{named}"}}')
        assert (status, found["code"]) == (404, "no-such-worker"), named
