"""Jobs over the API: submitted, listed, stopped, and refused with reasons."""

from __future__ import annotations

import pytest

from holdfast.checkpoint.chain import Chain
from holdfast.decide.world import Limits
from holdfast.model.jobs import ScheduleStrategy
from holdfast.outside.clock import RealClock
from holdfast.testing.builders import a_heartbeat, an_observed
from holdfast.testing.crashes import VirtualClock
from tests.api.conftest import JOB, Sites
from tests.checkpoint.links import a_checkpoint

WORKER_LEASE_MS = Limits().worker_lease_ms


def test_a_job_for_which_there_is_no_room_waits_and_says_why(sites: Sites) -> None:
    site = sites.add()
    worker = sites.add_worker("w1", slots=1)
    site.submit("first")
    site.master.tick()
    worker.beat()
    site.submit("second")
    site.master.tick()

    statuses = {job["jobId"]: job["jobStatus"] for job in site.get("/running-jobs")}
    assert statuses["second"] == "PENDING"
    [waiting] = site.get("/pending-jobs")["pendingJobs"]
    assert waiting["jobId"] == "second"
    assert waiting["failureReason"] == "all 1 slots of 1 workers are taken"
    worker.beat()
    site.master.tick()
    overview = site.get("/overview")
    assert (overview["runningJobs"], overview["pendingJobs"]) == ("1", "1")


def test_where_the_strategy_is_reject_it_is_refused(sites: Sites) -> None:
    clock = VirtualClock()
    site = sites.add(clock, strategy=ScheduleStrategy.REJECT)
    clock.advance(WORKER_LEASE_MS)

    status, found = site.ask("POST", "/submit-job?format=hocon", JOB.format(id="orders", env=""))

    assert (status, found["code"]) == (409, "job-rejected")
    assert "no worker is there" in found["message"]


def test_a_leader_that_has_not_heard_all_workers_yet_rejects_nothing(sites: Sites) -> None:
    clock = VirtualClock()
    site = sites.add(clock, strategy=ScheduleStrategy.REJECT)

    status, found = site.ask("POST", "/submit-job?format=hocon", JOB.format(id="orders", env=""))
    assert (status, found["code"]) == (503, "room-unknown")
    clock.advance(WORKER_LEASE_MS - 1)
    site.master.hear(a_heartbeat("w1"))

    assert site.submit("orders")["generation"] == 1


def test_a_reason_that_passes_by_itself_refuses_nothing(sites: Sites) -> None:
    clock = VirtualClock()
    site = sites.add(clock, strategy=ScheduleStrategy.REJECT)
    site.master.hear(a_heartbeat("w1"))
    site.submit("bad")
    for number in (1, 2, 3):
        site.master.tick()
        [attempt] = site.master.store.reads.open_attempts()
        worker = f"w{number}"
        site.master.hear(a_heartbeat(worker, an_observed(attempt), sent_at_ms=number))
        site.master.tick()
        if number < 3:
            clock.advance(4_000)
            site.master.hear(a_heartbeat(f"w{number + 1}"))
            site.master.tick()
            clock.advance(600)

    site.submit("other")

    [waiting] = site.get("/pending-jobs")["pendingJobs"]
    assert waiting["jobId"] == "other"
    assert "kept for a while" in waiting["failureReason"]


def test_the_same_submission_again_is_the_same_job(sites: Sites) -> None:
    site = sites.add()

    first = site.submit("orders", query="&submission=s1")

    assert site.submit("orders", query="&submission=s1") == first
    status, found = site.ask(
        "POST", "/submit-job?format=hocon&submission=s2", JOB.format(id="orders", env="")
    )
    assert (status, found["code"]) == (409, "job-is-there")


def test_what_was_submitted_is_answered_as_such_though_there_is_no_room(sites: Sites) -> None:
    clock = VirtualClock()
    site = sites.add(clock, strategy=ScheduleStrategy.REJECT)
    clock.advance(WORKER_LEASE_MS)
    worker = sites.add_worker(slots=1)
    first = site.submit("orders", query="&submission=s1")
    site.master.tick()
    worker.beat()

    assert site.submit("orders", query="&submission=s1") == first
    status, found = site.ask("POST", "/submit-job?format=hocon", JOB.format(id="orders", env=""))
    assert (status, found["code"]) == (409, "job-is-there")
    status, found = site.ask("POST", "/submit-job?format=hocon", JOB.format(id="other", env=""))
    assert (status, found["code"]) == (409, "job-rejected")


def test_a_tombstone_is_submitted_again_only_as_a_restore(sites: Sites) -> None:
    clock = VirtualClock()
    site = sites.add(clock)
    site.submit("orders")
    site.post("/stop-job", '{"jobId": "orders"}')
    site.master.tick()
    afresh = "/submit-job?format=hocon&restore=none"

    status, found = site.ask("POST", afresh, JOB.format(id="orders", env=""))
    assert (status, found["code"]) == (409, "job-is-there")
    assert "not cleaned up yet" in found["message"]

    assert site.submit("orders")["generation"] == 2
    site.post("/stop-job", '{"jobId": "orders"}')
    site.master.tick()
    clock.advance(61_000)
    site.master.tick()
    assert site.submit("orders", query="&restore=none")["generation"] == 3


def test_a_flag_is_read_as_text_too(sites: Sites) -> None:
    site = sites.add()
    site.submit("orders")

    site.post("/stop-job", '{"jobId": "orders", "isStopWithSavePoint": "true", "force": "false"}')

    assert site.get("/job-info/orders")["jobStatus"] == "DOING_SAVEPOINT"


def test_one_job_that_is_not_there_keeps_no_other_from_being_stopped(sites: Sites) -> None:
    site = sites.add()
    site.submit("orders")

    status, found = site.ask("POST", "/stop-jobs", '[{"jobId": "nobody"}, {"jobId": "orders"}]')

    assert (status, "nobody" in found["message"]) == (404, True)
    assert site.get("/job-info/orders")["jobStatus"] == "CANCELING"


def test_an_ended_job_is_forgotten_when_its_time_is_over(sites: Sites) -> None:
    clock = VirtualClock()
    site = sites.add(clock)
    site.submit("orders")
    site.post("/stop-job", '{"jobId": "orders"}')
    for _ in range(3):
        site.master.tick()
        clock.advance(61_000)
    assert [job["jobId"] for job in site.get("/finished-jobs/CANCELED")] == ["orders"]

    limit_ms = site.master.settings.limits.history_expire_ms
    for _ in range(limit_ms // 500_000 + 1):
        clock.advance(500_000)
        site.master.tick()

    assert site.get("/finished-jobs") == []
    assert site.get("/job-info/orders") == {"jobId": ""}


@pytest.mark.parametrize(
    ("target", "body", "status", "code"),
    [
        ("/submit-job?format=hocon", "env {", 400, None),
        ("/submit-job?format=xml", "{}", 400, None),
        ("/submit-job?format=hocon", b"\xff\xfe", 400, None),
        ("/submit-job?format=hocon&jobId=../../etc", None, 400, None),
        ("/submit-job?format=hocon&jobId=savepoint", None, 400, None),
        ("/submit-job?format=hocon&restore=tomorrow", None, 400, None),
        ("/submit-job?format=hocon&restoreMode=TOMORROW", None, 400, None),
        ("/submit-job?format=hocon&isStartWithSavePoint=true", None, 400, None),
        ("/submit-job?format=hocon&onMissing=perhaps", None, 400, None),
        ("/submit-jobs", "{}", 400, None),
        ("/stop-job", "not json", 400, None),
        ("/stop-job", "[]", 400, None),
        ("/stop-job", '{"jobId": "nobody"}', 404, "no-such-job"),
        ("/stop-job", '{"jobId": "nobody", "force": "perhaps"}', 400, None),
        ("/stop-jobs", '[{"jobId": "nobody"}]', 404, "no-such-job"),
        ("/savepoint-job", '{"jobId": "nobody"}', 404, "no-such-job"),
        ("/savepoint-job", '{"jobId": "../x"}', 400, None),
        ("/update-tags", '{"a": "b"}', 400, None),
        ("/nothing", "{}", 404, "no-such-path"),
        ("/running-jobs", "{}", 405, "no-such-path"),
        ("/internal/heartbeat", "{}", 500, "defect"),
    ],
)
def test_what_cannot_be_done_is_said_as_json(
    sites: Sites, target: str, body: str | bytes | None, status: int, code: str | None
) -> None:
    site = sites.add()

    given = JOB.format(id="orders", env="") if body is None else body
    found_status, found = site.ask("POST", target, given)

    assert found_status == status, found
    assert found["message"].startswith("Cannot ")
    assert code in (None, found["code"])
    assert site.get("/running-jobs") == []


def test_tags_that_are_no_names_and_values_are_refused(sites: Sites) -> None:
    job = JOB.format(id="orders", env="tag_filter = north,")

    status, found = sites.add().ask("POST", "/submit-job?format=hocon", job)

    assert status == 400
    assert "such as { zone = north }" in found["message"]


@pytest.mark.parametrize(
    "query", ["page=0", "rows=0", "rows=-1", "rows=many", "page=1.5", "rows=99999999999999999999"]
)
def test_a_page_is_a_number_from_one(sites: Sites, query: str) -> None:
    status, found = sites.add().ask("GET", f"/running-jobs?{query}")

    assert status == 400
    assert "expected a whole number from 1" in found["message"]


def test_checkpoints_are_listed_with_what_is_broken(sites: Sites) -> None:
    site = sites.add()
    site.submit("orders")
    chain = Chain(site.master.files, "orders", 1)
    for number in (1, 2, 3):
        chain.extend(a_checkpoint(number))
    site.master.files.write("orders/1/2/manifest.json", b"torn")

    [whole] = site.get("/jobs/checkpoints/orders")["pipelines"]
    history = site.get("/jobs/checkpoints/history/orders?limit=2")
    broken = site.get("/jobs/checkpoints/history/orders?status=failed&pipelineId=1")

    assert whole["latestCompleted"]["checkpointId"] == 3
    assert [one["checkpoint"]["checkpointId"] for one in history] == [3, 2]
    assert [one["checkpoint"]["checkpointId"] for one in broken] == [2]
    assert site.get("/jobs/checkpoints/history/orders?pipelineId=2") == []


def test_jobs_are_listed_page_by_page(sites: Sites) -> None:
    site = sites.add()
    for number in range(5):
        site.submit(f"job-{number}")
        RealClock().wait(2)

    pages = [site.get(f"/running-jobs?rows=2&page={page}") for page in (1, 2, 3)]

    assert [[job["jobId"] for job in page] for page in pages] == [
        ["job-0", "job-1"],
        ["job-2", "job-3"],
        ["job-4"],
    ]


def test_a_job_is_drawn_with_the_names_that_seatunnel_has(sites: Sites) -> None:
    site = sites.add()
    site.submit("orders")

    [job] = site.get("/running-jobs")

    dag = job["jobDag"]
    assert [(v["vertexId"], v["type"]) for v in dag["vertexInfoMap"]] == [
        (1, "source"),
        (2, "sink"),
    ]
    assert dag["pipelineEdges"] == {"1": [{"inputVertexId": 1, "targetVertexId": 2}]}
    assert dag["envOptions"] == job["envOptions"]
    assert {"sourceReceivedCount", "sinkWriteCount"} <= job["metrics"].keys()
