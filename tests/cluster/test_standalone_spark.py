"""Executors on a real Spark cluster: what dies there is run again there, and no row is lost or doubled."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.testing.live_cluster import live_cluster, until
from holdfast.testing.standalone_spark import standalone_spark
from tests.cluster.conftest import MakeJob

pytestmark = [pytest.mark.spark, pytest.mark.servers, pytest.mark.slow]
FILES, ROWS_PER_FILE = 40, 15_000


@pytest.mark.timeout(600)
def test_a_job_goes_on_when_a_machine_of_its_spark_cluster_dies_in_an_epoch(
    tmp_path: Path, make_job: MakeJob
) -> None:
    job = make_job(env="parallelism = 2\n checkpoint.interval = 2000")
    for _ in range(FILES):
        job.drop(ROWS_PER_FILE)
    with standalone_spark(tmp_path / "spark") as spark:
        given = ("--spark", f"spark.master={spark.url}", "--spark", "spark.executor.memory=512m")
        with live_cluster(tmp_path / "cluster", worker_arguments=given) as cluster:
            cluster.submit(job.text())
            # The next epochs are being staged while the first one is published: one of them is cut.
            until("the first epoch", job.count, timeout_ms=120_000)
            used = spark.executors(0)
            spark.kill_worker(0)
            assert not job.is_complete()
            cluster.wait_for_status(job.id, "FINISHED", timeout_ms=180_000)

            assert used > 0
            assert spark.executors(1) > 0
            assert job.judge() == FILES * ROWS_PER_FILE
            assert {ended for _, _, ended in cluster.attempts(job.id)} == {"finished"}
