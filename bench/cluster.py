"""Clusters of real processes: how long nobody leads, how long a pipeline stands still when its worker dies, and what
two hundred idle streams cost.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from bench.figures import Figure, Ground, cpu_seconds_of, memory_of
from holdfast.testing.file_jobs import FileJob
from holdfast.testing.live_cluster import LiveCluster, live_cluster, until
from holdfast.testing.servers import fresh_database

TIMES = 5
FIRST_ONLY = [(1, 1, None)]
IDLE_JOBS = 200
INTERVAL_MS = 10_000
GRACE_S = 2
"""As stall detection allows it."""
INTERVALS_WATCHED = 3


def failover(ground: Ground) -> Iterator[Figure]:
    """The leader is killed while two bounded and two unbounded jobs run, of one source and of two."""
    with _cluster(ground, "failover", workers=1) as (cluster, folder):
        jobs = _four_jobs(cluster, ground, folder)
        took_s = [_kill_leader(cluster, jobs) for _ in range(TIMES)]
        unmoved = sum(cluster.attempts(job.id) == FIRST_ONLY for job in jobs)
        rows = sum(_end_of(cluster, job) for job in jobs)
        failed = sum(process.log().count(" failed") for process in cluster.workers)
    yield Figure(f"kill -9 of the leader, {TIMES} times: nobody leads", _spread(took_s))
    yield Figure("jobs still in their first attempt", f"{unmoved} of {len(jobs)}")
    yield Figure("attempts that failed", f"{failed}")
    yield Figure("rows in both sinks, each once", f"{rows:,}")


def moved(ground: Ground) -> Iterator[Figure]:
    """A worker is killed; each of its pipelines has new rows to commit on the other, which is warm. Jobs are new each
    time: one whose workers die again and again waits between its attempts.
    """
    took_s: list[float] = []
    rows = 0
    with _cluster(ground, "moved", workers=2) as (cluster, folder):
        for time_ in range(TIMES):
            jobs = [
                FileJob(folder, ground.postgres, f"moved-{time_}-{n}", 1 + n % 2, unbounded=True)
                for n in range(4)
            ]
            for job in jobs:
                job.drop(100)
                cluster.submit(job.text())
            for job in jobs:
                until(f"rows of {job.id}", job.is_complete)
            took_s += _kill_worker(cluster, jobs)
            rows += sum(_end_of(cluster, job) for job in jobs)
    yield Figure(f"kill -9 of a worker, {TIMES} times: until it commits again", _spread(took_s))
    yield Figure("pipelines that moved", f"{len(took_s)}")
    yield Figure("rows in both sinks, each once", f"{rows:,}")


def idle(ground: Ground) -> Iterator[Figure]:
    """Streams that wait for files; one worker hosts them all."""
    with _cluster(ground, "idle", workers=1) as (cluster, folder):
        worker, master = cluster.workers[0], cluster.masters[0]
        ids = [f"idle-{n:03}" for n in range(IDLE_JOBS)]
        starts_s = [_start_of(cluster, folder, job_id) for job_id in ids]
        until("a position of each", lambda: len(_ages(cluster)) == IDLE_JOBS)
        before = [cpu_seconds_of(process.pid) for process in (worker, master)]
        began = time.monotonic()
        oldest_s, late = _watch_positions(cluster, INTERVALS_WATCHED * INTERVAL_MS / 1000)
        watched_s = time.monotonic() - began
        after = [cpu_seconds_of(process.pid) for process in (worker, master)]
        kept = [memory_of(process.pid) for process in (worker, master)]
        moved_on = sum(cluster.attempts(job_id) != FIRST_ONLY for job_id in ids)
    used = [(b - a) / watched_s for a, b in zip(before, after, strict=True)]
    starts_s.sort()
    p95 = starts_s[int(len(starts_s) * 0.95)]
    yield Figure(f"{IDLE_JOBS} idle streams: memory of the worker", f"{kept[0] / 2**30:.2f} GB")
    yield Figure("memory of the master", f"{kept[1] / 2**20:.0f} MB")
    yield Figure(
        "submission to RUNNING, median / p95 / max",
        f"{median(starts_s):.2f} / {p95:.2f} / {starts_s[-1]:.2f} s",
    )
    yield Figure("oldest confirmed position seen", f"{oldest_s} s")
    yield Figure("positions that were late, of all looks", f"{late}")
    yield Figure("attempts that were not the first", f"{moved_on}")
    yield Figure("processor of the worker / the master", f"{used[0]:.0%} / {used[1]:.0%} of a core")


def _four_jobs(cluster: LiveCluster, ground: Ground, folder: Path) -> list[FileJob]:
    """The bounded ones take minutes."""
    slowly = "checkpoint.interval = 300\n read_limit.rows_per_second = 200"
    jobs = [
        FileJob(folder, ground.postgres, "failover-b1", env=slowly),
        FileJob(folder, ground.postgres, "failover-b2", env=slowly, sources=2),
        FileJob(folder, ground.postgres, "failover-u1", unbounded=True),
        FileJob(folder, ground.postgres, "failover-u2", unbounded=True, sources=2),
    ]
    for job in jobs:
        for source in range(job.sources):
            for _ in range(100):
                job.drop(2 if job.unbounded else 120 // job.sources, source=source)
        cluster.submit(job.text())
    for job in jobs:
        until(f"rows of {job.id}", job.count)
    return jobs


def _kill_leader(cluster: LiveCluster, jobs: list[FileJob]) -> float:
    """Seconds without one. New rows arrive after it, and the killed one comes back."""
    leader = cluster.leader()
    began = time.monotonic()
    leader.kill()
    follower = cluster.leader()
    took_s = time.monotonic() - began
    assert follower is not leader
    for job in jobs:
        if job.unbounded:
            job.drop(10)
    for job in jobs:
        if job.unbounded:
            until(f"new rows of {job.id}", job.is_complete)
    leader.start()
    until("the other master", lambda: leader.answers())
    return took_s


def _kill_worker(cluster: LiveCluster, jobs: list[FileJob]) -> list[float]:
    """Seconds until each pipeline that it hosted has committed what came after the kill."""
    killed = cluster.worker_of(jobs[0].id)
    hosted = [job for job in jobs if cluster.worker_of(job.id) is killed]
    began = time.monotonic()
    killed.kill()
    for job in hosted:
        job.drop(10)
    took_s: dict[str, float] = {}

    def all_wrote() -> bool:
        for job in hosted:
            if job.id not in took_s and job.is_complete():
                took_s[job.id] = time.monotonic() - began
        return len(took_s) == len(hosted)

    until("new rows of all that moved", all_wrote)
    cluster.revive()
    return sorted(took_s.values())


def _end_of(cluster: LiveCluster, job: FileJob) -> int:
    until(f"all rows of {job.id}", job.is_complete, timeout_ms=300_000)
    if job.unbounded:
        cluster.stop(job.id, savepoint=True)
    cluster.wait_for_status(job.id, "SAVEPOINT_DONE" if job.unbounded else "FINISHED")
    return job.judge()


def _start_of(cluster: LiveCluster, folder: Path, job_id: str) -> float:
    (folder / job_id / "in").mkdir(parents=True)
    text = f"""\
env {{ job.id = "{job_id}", job.name = "{job_id}", job.mode = STREAMING, checkpoint.interval = {INTERVAL_MS} }}
source {{ LocalFile {{
  path = "{folder / job_id / "in"}", file_format_type = "csv", discovery_mode = "continuous"
  schema {{ table = "t", columns = [{{ name = id, type = bigint }}, {{ name = text, type = string }}] }}
}} }}
sink {{ LocalFile {{ path = "{folder / job_id / "out"}", file_format_type = "csv" }} }}
"""
    began = time.monotonic()
    cluster.submit(text)
    cluster.wait_for_status(job_id, "RUNNING")
    return time.monotonic() - began


def _watch_positions(cluster: LiveCluster, seconds: float) -> tuple[int, int]:
    """The oldest confirmed position that was ever shown, and how many were past interval and grace."""
    until_s = time.monotonic() + seconds
    oldest_s, late = 0, 0
    while time.monotonic() < until_s:
        ages = _ages(cluster)
        assert len(ages) == IDLE_JOBS, f"{len(ages)} of {IDLE_JOBS} run"
        oldest_s = max(oldest_s, *ages)
        late += sum(age > INTERVAL_MS / 1000 + GRACE_S for age in ages)
        time.sleep(1)
    return oldest_s, late


def _ages(cluster: LiveCluster) -> list[int]:
    """Of the confirmed positions of all that run. What began a moment ago is told a second later."""
    listed = cluster.ask("GET", f"/running-jobs?rows={IDLE_JOBS}")["found"]
    shown = [pipeline for job in listed for pipeline in job["pipelines"]]
    name = "secondsSinceLastCheckpoint"
    return [pipeline[name] for pipeline in shown if name in pipeline]


@contextmanager
def _cluster(ground: Ground, name: str, *, workers: int) -> Iterator[tuple[LiveCluster, Path]]:
    folder = ground.folder / name
    with (
        fresh_database(ground.postgres) as state,
        live_cluster(folder, masters=2, workers=workers, state=state.dsn()) as cluster,
    ):
        yield cluster, folder


def _spread(took_s: list[float]) -> str:
    return f"{median(took_s):.2f} s, at most {max(took_s):.2f} s"
