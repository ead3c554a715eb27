"""The state store with ten thousand jobs that live and ten thousand that have ended, on both databases: what a pass of
the leader and a list for people cost, and how big the store gets under a million updates of metrics.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from sqlalchemy import Table, insert
from starlette.responses import JSONResponse

from bench.figures import Figure, Ground
from holdfast.api.app import Call, Handler
from holdfast.api.cluster import overview
from holdfast.api.jobs import finished_jobs, job_info, running_jobs
from holdfast.api.serving import Serving
from holdfast.decide.jobs import decide
from holdfast.decide.world import Limits
from holdfast.master.master import Master, MasterSettings
from holdfast.model.attempts import AttemptKey
from holdfast.model.jobs import Goal, JobMode, ScheduleStrategy
from holdfast.model.json import JsonObject
from holdfast.model.wire import observed_to_json
from holdfast.model.workers import Heartbeat, ObservedAttempt
from holdfast.outside.clock import RealClock
from holdfast.outside.files import LocalFiles
from holdfast.outside.network import forward
from holdfast.runtime.catalog import Catalog
from holdfast.store.rows import submitted_to_text, to_text
from holdfast.store.schema import attempts, events, jobs, metrics
from holdfast.store.sizes import measure
from holdfast.store.store import Store, open_store
from holdfast.testing.builders import a_heartbeat, a_submitted_job
from holdfast.testing.servers import fresh_database

ENDED, LIVE, WORKERS = 10_000, 10_000, 50
HOSTED = LIVE // WORKERS
TIMES = 9
LISTED = 100
INSERTED_AT_ONCE = 500
LONG_MS = 3_600_000
PIPELINES, ROUNDS = 1_000, 1_000
CLOCK = RealClock()
_TEXT = Path(__file__).parents[1].joinpath("examples", "orders.conf").read_text(encoding="utf-8")
_LOCATIONS = ("source-0-fakesource", "transform-0-sql", "sink-0-localfile")
_GRAPH = {
    "vertices": [
        {"pipelineId": 1, "location": at, "role": at.split("-")[0], "kind": at.split("-")[2]}
        for at in _LOCATIONS
    ]
}


def state(ground: Ground) -> Iterator[Figure]:
    """What the log of a PostgreSQL server keeps is that server's setting: its sizes are those of the tables."""
    for case in (_passes, _updates):
        yield from case("SQLite", f"sqlite:///{ground.folder}/state/{case.__name__}.db", ground)
        with fresh_database(ground.postgres) as database:
            yield from case("PostgreSQL", database.dsn(), ground)


def _passes(kind: str, url: str, ground: Ground) -> Iterator[Figure]:
    """All live jobs run and have advanced: a pass finds nothing to do, as nearly all do."""
    store = open_store(url, now_ms=CLOCK.now_ms())
    _fill(store)
    limits = Limits(worker_lease_ms=LONG_MS)
    settings = MasterSettings("bench", "http://bench", lease_ttl_ms=LONG_MS, limits=limits)
    master = Master(settings, store, LocalFiles(ground.folder / "none"), CLOCK)
    master.tick()
    heartbeats = [_heartbeat(number) for number in range(WORKERS)]
    for heartbeat in heartbeats:
        master.hear(heartbeat)
    now_ms = master.now_ms()
    world = master.observe()
    assert (len(world.jobs), len(world.attempts)) == (LIVE, LIVE)
    assert decide(world, now_ms) == []
    serving = Serving(master, Catalog(), ScheduleStrategy.WAIT, forward)

    def answer(handler: Handler, **path: str) -> Callable[[], object]:
        call = Call(path, {"rows": str(LISTED)}, b"", "")
        return lambda: JSONResponse(handler(serving, call)).body

    cases: dict[str, Callable[[], object]] = {
        "decide()": lambda: decide(replace(world), now_ms),
        "observe and decide": lambda: decide(master.observe(), now_ms),
        f"answer to a worker of {HOSTED}": lambda: master.hear(heartbeats[0]),
        f"list {LISTED} live": answer(running_jobs),
        f"list {LISTED} ended": answer(finished_jobs),
        "overview": answer(overview),
        "one job": answer(job_info, job_id="live-00500"),
    }
    for name, call in cases.items():
        yield Figure(f"{kind}, {LIVE:,} live and {ENDED:,} ended jobs: {name}", _spread_ms(call))
    yield Figure(f"{kind}, the store of these", f"{_bytes_of(store) / 2**20:.0f} MB")
    store.close()


def _spread_ms(call: Callable[[], object]) -> str:
    """What passed, and what of it was this process at work: others may use the machine too."""
    call()
    passed_ms, worked_ms = [], []
    for _ in range(TIMES):
        began_s, worked_s = time.perf_counter(), time.process_time()
        call()
        passed_ms.append((time.perf_counter() - began_s) * 1000)
        worked_ms.append((time.process_time() - worked_s) * 1000)
    return f"{median(passed_ms):.1f} ms ({min(worked_ms):.1f} at work)"


def _updates(kind: str, url: str, ground: Ground) -> Iterator[Figure]:
    """A thousand pipelines whose reports are written over a thousand times, between renewals and tidying as a leader
    does them.
    """
    store = open_store(url, now_ms=0)
    store.commits.take_lease(seen_term=0, holder="bench", url="", expires_at_ms=0)
    ids = [f"live-{n:05}" for n in range(PIPELINES)]
    _insert(store, jobs, [_job_row(id_, 0) for id_ in ids])
    biggest = 0
    began_s = time.monotonic()
    for round_ in range(ROUNDS):
        reports = [(id_, 1, 1, observed_to_json(_observed(id_, round_))) for id_ in ids]
        store.commits.write_reports(1, reports, [("w", {}, round_)], at_ms=round_)
        store.commits.renew_lease(1, expires_at_ms=round_)
        if round_ % 50 == 49:
            biggest = max(biggest, _bytes_of(store))
            store.tidy()
    took_s = time.monotonic() - began_s
    sizes = f"{biggest / 2**20:.0f} MB, {_bytes_of(store) / 2**20:.0f} MB"
    yield Figure(f"{kind}, {PIPELINES * ROUNDS:,} updates of metrics: at most, at the end", sizes)
    each_ms = took_s / ROUNDS * 1000
    yield Figure(f"{kind}, one write of {PIPELINES:,} of them", f"{each_ms:.0f} ms")
    store.close()


def _bytes_of(store: Store) -> int:
    sizes = measure(store.engine)
    own_log = sizes.wal_bytes if store.engine.dialect.name == "sqlite" else 0
    return sizes.store_bytes + (own_log or 0)


# ------------------------------------------------------------------------------------------------- what there is


def _fill(store: Store) -> None:
    now_ms = CLOCK.now_ms()
    live = [f"live-{n:05}" for n in range(LIVE)]
    ended = [f"ended-{n:05}" for n in range(ENDED)]
    over = {"ended_at_ms": now_ms}
    _insert(store, jobs, [_job_row(id_, now_ms) for id_ in live])
    _insert(store, jobs, [_job_row(id_, now_ms) | over | {"outcome": "FINISHED"} for id_ in ended])
    hosted = [_attempt_row(id_, f"w{n // HOSTED:02}", now_ms) for n, id_ in enumerate(live)]
    _insert(store, attempts, hosted)
    done = over | {"ended_how": "finished"}
    _insert(store, attempts, [_attempt_row(id_, "w00", now_ms) | done for id_ in ended])
    reports = [(id_, to_text(observed_to_json(_observed(id_, 9)))) for id_ in (*live, *ended)]
    key = {"generation": 1, "at_ms": now_ms}
    _insert(
        store,
        metrics,
        [{"job_id": id_, "pipeline_id": 1, "observed": told, **key} for id_, told in reports],
    )
    _insert(store, events, [{"job_id": id_, "said": "Ended FINISHED", **key} for id_ in ended])


def _insert(store: Store, table: Table, rows: Sequence[dict[str, Any]]) -> None:
    """A few at a time: a session that is idle in a transaction for seconds is ended, as a sleeping master's."""
    with store.engine.connect() as connection:
        for at in range(0, len(rows), INSERTED_AT_ONCE):
            connection.exec_driver_sql("BEGIN")
            connection.execute(insert(table), rows[at : at + INSERTED_AT_ONCE])
            connection.exec_driver_sql("COMMIT")


def _job_row(job_id: str, now_ms: int) -> dict[str, Any]:
    submitted = a_submitted_job(job_id, text=_TEXT, mode=JobMode.STREAMING, graph=_GRAPH)
    return {
        "job_id": job_id,
        "generation": 1,
        "submission": submitted.submission,
        "submitted": submitted_to_text(submitted),
        "submitted_at_ms": now_ms,
        "goal": Goal.RUN.name,
        "goal_at_ms": now_ms,
        "outcome": None,
        "ended_at_ms": None,
        "reason": "",
    }


def _attempt_row(job_id: str, worker_id: str, now_ms: int) -> dict[str, Any]:
    return {
        "job_id": job_id,
        "generation": 1,
        "pipeline_id": 1,
        "number": 1,
        "worker_id": worker_id,
        "planned_at_ms": now_ms,
        "alone": False,
        "started_at_ms": now_ms,
        "reason": "",
        "advanced": True,
        "ended_how": None,
        "ended_at_ms": None,
    }


def _heartbeat(number: int) -> Heartbeat:
    hosted = range(number * HOSTED, (number + 1) * HOSTED)
    return a_heartbeat(f"w{number:02}", *[_observed(f"live-{n:05}", 9) for n in hosted])


def _observed(job_id: str, tip: int) -> ObservedAttempt:
    counts = dict.fromkeys(_LOCATIONS, (tip * 1000, tip * 50000))
    restored: JsonObject = {
        "checkpointId": 1,
        "jobId": job_id,
        "pipelineId": 1,
        "decision": "begins afresh: there is no checkpoint",
        "vertices": [{"location": at, "said": "begins at its first row"} for at in _LOCATIONS],
    }
    key = AttemptKey(job_id, 1, 1, 1)
    return ObservedAttempt(key, tip, tip, counts=counts, fraction=0.5, restored=restored)
