"""A worker that dies, drains or is cut off takes no row with it: real processes with a warm Spark each."""

from __future__ import annotations

import pytest

from holdfast.testing.file_jobs import FileJob
from holdfast.testing.live_cluster import CLOCK, LiveCluster, until
from tests.cluster.conftest import MakeJob

pytestmark = [pytest.mark.spark, pytest.mark.servers, pytest.mark.slow]
MOVED_MS_MAX = 5_000
"""The bar, of which 3.5 s are the lease that must run out first."""
SLOW_MACHINE = 3
LEASE_MS = 3_500


def _run_two(cluster: LiveCluster, make_job: MakeJob) -> list[FileJob]:
    jobs = [make_job("u1", unbounded=True), make_job("u2", unbounded=True, sources=2)]
    for job in jobs:
        job.drop(100)
        cluster.submit(job.text())
    for job in jobs:
        until(f"rows of {job.id}", job.is_complete)
    return jobs


def _expect_exact(cluster: LiveCluster, jobs: list[FileJob]) -> None:
    for job in jobs:
        until(f"all rows of {job.id}", job.is_complete)
        cluster.stop(job.id, savepoint=True)
        cluster.wait_for_status(job.id, "SAVEPOINT_DONE")
        job.judge()


def test_a_job_runs_to_its_end_with_exact_rows(cluster: LiveCluster, make_job: MakeJob) -> None:
    job = make_job(sources=2)
    for source in range(2):
        for _ in range(3):
            job.drop(5_000, source=source)

    cluster.submit(job.text())
    cluster.wait_for_status(job.id, "FINISHED")

    assert job.judge() == 30_000
    assert cluster.attempts(job.id) == [(1, 1, "finished")]


def test_the_pipelines_of_a_killed_worker_write_again_on_another(
    cluster: LiveCluster, make_job: MakeJob
) -> None:
    jobs = _run_two(cluster, make_job)
    moved = jobs[0]
    killed = cluster.worker_of(moved.id)

    killed_at_ms = CLOCK.elapsed_ms()
    killed.kill()
    for job in jobs:
        job.drop(50)
    until(f"new rows of {moved.id}", moved.is_complete)
    took_ms = CLOCK.elapsed_ms() - killed_at_ms

    assert took_ms < MOVED_MS_MAX * SLOW_MACHINE
    assert cluster.attempts(moved.id) == [(1, 1, "lost"), (1, 2, None)]
    assert cluster.worker_of(moved.id) is not killed
    _expect_exact(cluster, jobs)


def test_a_worker_that_is_asked_to_end_hands_its_pipelines_over(
    cluster: LiveCluster, make_job: MakeJob
) -> None:
    jobs = _run_two(cluster, make_job)
    drained = cluster.worker_of(jobs[0].id)

    drained.ask_to_end()
    drained.wait_for_end()
    for job in jobs:
        job.drop(50)

    assert "Traceback" not in drained.log()
    until("the other worker", lambda: cluster.worker_of(jobs[0].id) is not drained)
    assert cluster.attempts(jobs[0].id) == [(1, 1, "stopped"), (1, 2, None)]
    _expect_exact(cluster, jobs)


def test_workers_without_masters_go_on_until_their_lease_ends_and_then_stop_writing(
    cluster: LiveCluster, make_job: MakeJob
) -> None:
    jobs = _run_two(cluster, make_job)

    cut_off_at_ms = CLOCK.elapsed_ms()
    for master in cluster.masters:
        master.pause()
    for job in jobs:
        job.drop(50)
        until(f"rows of {job.id} without a master", job.is_complete, timeout_ms=LEASE_MS)
    for worker in cluster.workers:
        worker.wait_for("No leader answered for a whole lease", timeout_ms=3 * LEASE_MS)
    lease_ms = CLOCK.elapsed_ms() - cut_off_at_ms
    for job in jobs:
        ended = f"Attempt {job.id}/1#1 of generation 1 canceled."
        until(ended, lambda ended=ended: any(ended in w.log() for w in cluster.workers))  # type: ignore[misc]
        job.drop(50)

    assert lease_ms > LEASE_MS - 1_000
    assert not any(job.is_complete() for job in jobs)
    for master in cluster.masters:
        master.go_on()
    _expect_exact(cluster, jobs)


def test_a_worker_paused_past_its_lease_writes_nothing_that_others_have_written(
    cluster: LiveCluster, make_job: MakeJob
) -> None:
    jobs = _run_two(cluster, make_job)
    paused = cluster.worker_of(jobs[0].id)

    paused.pause()
    for job in jobs:
        job.drop(50)
    until("rows by another worker", jobs[0].is_complete)
    paused.go_on()
    for job in jobs:
        job.drop(50)
    paused.wait_for(f"Attempt {jobs[0].id}/1#1 of generation 1 canceled.")

    _expect_exact(cluster, jobs)
    assert cluster.attempts(jobs[0].id) == [(1, 1, "lost"), (1, 2, "stopped")]
