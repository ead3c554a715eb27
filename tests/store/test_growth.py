"""The store costs what lives: neither events nor history make it large or slow."""

from __future__ import annotations

from sqlalchemy import insert

from holdfast.model.jobs import Goal, Outcome
from holdfast.model.json import JsonObject
from holdfast.outside.clock import RealClock
from holdfast.store.rows import submitted_to_text
from holdfast.store.schema import attempts, jobs
from holdfast.store.sizes import measure
from holdfast.store.store import Store
from holdfast.testing.builders import a_submitted_job

LIVE, ENDED = 300, 5_000
REPORTS = 800


def _fill(led: Store, first: int, count: int, outcome: Outcome | None) -> None:
    """Jobs with an attempt each."""
    text = submitted_to_text(a_submitted_job())
    names = [f"job-{number:06}" for number in range(first, first + count)]
    ended_at_ms = None if outcome is None else 1_000
    job = {"generation": 1, "submission": "s", "submitted": text, "submitted_at_ms": 0}
    job |= {"goal": Goal.RUN.name, "goal_at_ms": 0, "reason": "", "ended_at_ms": ended_at_ms}
    job["outcome"] = None if outcome is None else outcome.value
    tried = {"generation": 1, "pipeline_id": 1, "number": 1, "worker_id": "w", "reason": ""}
    tried |= {"planned_at_ms": 0, "alone": False, "ended_at_ms": ended_at_ms}
    tried["ended_how"] = None if outcome is None else "finished"
    with led.engine.connect() as tx:
        tx.exec_driver_sql("BEGIN")
        tx.execute(insert(jobs), [{"job_id": name, **job} for name in names])
        tx.execute(insert(attempts), [{"job_id": name, **tried} for name in names])
        tx.exec_driver_sql("COMMIT")


def _looking_ms(led: Store) -> float:
    """The fastest of some: the machine does other things too."""
    clock = RealClock()
    took = []
    for _ in range(7):
        began_ms = clock.elapsed_ms()
        found = led.reads.observe(expired_before_ms=0)
        took.append(clock.elapsed_ms() - began_ms)
        assert len(found.jobs) == len(found.attempts) == LIVE
    return min(took)


def test_a_new_leader_looks_at_what_lives_and_not_at_the_past(led: Store) -> None:
    """F034."""
    _fill(led, 0, LIVE, None)
    alone_ms = _looking_ms(led)

    _fill(led, LIVE, ENDED, Outcome.FINISHED)

    assert _looking_ms(led) < 3 * alone_ms


def test_reports_without_end_leave_the_store_as_small_as_it_was(led: Store) -> None:
    """F121, F124, F125: of rows, of its file and of the log that is written ahead of it."""
    _fill(led, 0, 40, None)
    names = [f"job-{number:06}" for number in range(40)]

    def report(number: int) -> None:
        told: JsonObject = {"tip": number, "rows": number * 7}
        seen = [(name, 1, 1, told) for name in names]
        led.commits.write_reports(1, seen, [("w", {"at": number}, number)], at_ms=number)

    for number in range(50):
        report(number)
    before = measure(led.engine)
    for number in range(50, REPORTS):
        report(number)
        if number % 100 == 0:
            led.tidy()
    after = measure(led.engine)

    assert [kind.rows for kind in after.kinds] == [kind.rows for kind in before.kinds]
    if led.engine.dialect.name == "sqlite":
        # The other one tidies by itself, in its own time, and its log is that of a whole server.
        assert after.store_bytes <= 2 * before.store_bytes
        assert after.wal_bytes is not None
        assert after.wal_bytes <= 16 * 2**20
