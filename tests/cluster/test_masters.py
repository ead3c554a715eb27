"""What happens to masters does not happen to jobs: real processes, one PostgreSQL for their state."""

from __future__ import annotations

import pytest

from holdfast.testing.file_jobs import FileJob
from holdfast.testing.live_cluster import CLOCK, LiveCluster, until
from holdfast.testing.servers import PostgresServer
from tests.cluster.conftest import MakeJob

pytestmark = [pytest.mark.spark, pytest.mark.servers, pytest.mark.slow]
WITHOUT_LEADER_MS_MAX = 3_000
"""The bar, on a machine that others use too: the lease is 2 s and cannot end sooner than it should."""
SLOW_MACHINE = 2
FIRST_ONLY = [(1, 1, None)]


def _run_four(cluster: LiveCluster, make_job: MakeJob) -> list[FileJob]:
    """Bounded ones that take eight seconds and unbounded ones, of one source and of two; all write already."""
    slowly = "checkpoint.interval = 300\n read_limit.rows_per_second = {}"
    jobs = [
        make_job("b1", env=slowly.format(200)),
        make_job("b2", env=slowly.format(400), sources=2),
        make_job("u1", unbounded=True),
        make_job("u2", unbounded=True, sources=2),
    ]
    for job in jobs:
        for source in range(job.sources):
            for _ in range(8):
                job.drop(20 if job.unbounded else 200, source=source)
        cluster.submit(job.text())
    for job in jobs:
        until(f"rows of {job.id}", job.count)
    return jobs


def _expect_exact(cluster: LiveCluster, jobs: list[FileJob]) -> None:
    """All that was dropped arrives, each row once."""
    for job in jobs:
        until(f"all rows of {job.id}", job.is_complete, timeout_ms=120_000)
        if job.unbounded:
            cluster.stop(job.id, savepoint=True)
        cluster.wait_for_status(job.id, "SAVEPOINT_DONE" if job.unbounded else "FINISHED")
        job.judge()


def _drop_more(jobs: list[FileJob]) -> None:
    for job in jobs:
        if job.unbounded:
            job.drop(100)


def test_a_killed_leader_is_followed_within_seconds_and_no_attempt_ends(
    cluster: LiveCluster, make_job: MakeJob
) -> None:
    jobs = _run_four(cluster, make_job)

    leader = cluster.leader()
    killed_at_ms = CLOCK.elapsed_ms()
    leader.kill()
    follower = cluster.leader()
    without_ms = CLOCK.elapsed_ms() - killed_at_ms

    assert follower is not leader
    assert without_ms < WITHOUT_LEADER_MS_MAX * SLOW_MACHINE
    _drop_more(jobs)
    for job in jobs:
        if job.unbounded:
            until(f"new rows of {job.id}", job.is_complete)
    assert [cluster.attempts(job.id) for job in jobs] == [FIRST_ONLY] * 4
    _expect_exact(cluster, jobs)


def test_a_leader_paused_past_its_lease_steps_down_and_does_no_harm(
    cluster: LiveCluster, make_job: MakeJob
) -> None:
    jobs = _run_four(cluster, make_job)

    paused = cluster.leader()
    paused.pause()
    follower = cluster.leader()
    _drop_more(jobs)
    paused.go_on()
    until("the paused one to step down", lambda: not paused.leads())

    assert cluster.leader() is follower
    assert [cluster.attempts(job.id) for job in jobs] == [FIRST_ONLY] * 4
    _expect_exact(cluster, jobs)


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_a_restart_of_the_state_store_ends_no_job(
    cluster: LiveCluster, make_job: MakeJob, state_server: PostgresServer, how: str
) -> None:
    jobs = _run_four(cluster, make_job)

    if how == "killed":
        state_server.kill()
    else:
        state_server.stop()
    state_server.start()

    cluster.leader()
    _drop_more(jobs)
    _expect_exact(cluster, jobs)
    ends = {ended for job in jobs for _, _, ended in cluster.attempts(job.id)}
    assert ends <= {"finished", "stopped", "canceled"}, "none failed, none was lost"
