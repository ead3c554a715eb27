"""The check of the term and the write are one: on real connections, with another master between them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from holdfast.model.attempts import EndedHow
from holdfast.model.jobs import Ending, Goal, Outcome
from holdfast.store.commits import Commits
from holdfast.store.connection import Deposed, StoreFailed, open_engine
from holdfast.store.store import Store, open_store
from holdfast.testing.builders import a_key, a_submitted_job
from holdfast.testing.crashes import CrashAt, Crashed
from holdfast.testing.servers import Database

JOB = ("orders", 1)
Write = Callable[[Commits, int], object]
ENDING = Ending(Outcome.FINISHED, "", None, 5, 65)
WRITES: dict[str, Write] = {
    "renew lease": lambda c, term: c.renew_lease(term, expires_at_ms=9),
    "submit job": lambda c, term: c.submit_job(term, a_submitted_job("new"), is_restore=False),
    "set goal": lambda c, term: c.set_goal(term, *JOB, Goal.CANCEL, at_ms=1),
    "record outcome": lambda c, term: c.record_outcome(term, *JOB, ENDING),
    "finish cleanup": lambda c, term: c.finish_cleanup(term, "ended", 1),
    "postpone cleanup": lambda c, term: c.postpone_cleanup(term, "ended", 1, "no", due_at_ms=1),
    "forget job": lambda c, term: c.forget_job(term, "ended", 1),
    "plan attempt": lambda c, term: c.plan_attempt(
        term, a_key(pipeline_id=2), worker_id="w", alone=False, at_ms=1
    ),
    "start attempt": lambda c, term: c.start_attempt(term, a_key(), at_ms=1),
    "note advance": lambda c, term: c.note_advance(term, a_key()),
    "end attempt": lambda c, term: c.end_attempt(term, a_key(), EndedHow.LOST, reason="", at_ms=1),
    "write reports": lambda c, term: c.write_reports(
        term, [(*JOB, 1, {"tip": 9})], [("w", {}, 1)], at_ms=1
    ),
    "record event": lambda c, term: c.record_event(term, *JOB, "said", at_ms=1),
    "give up lease": lambda c, term: c.give_up_lease(term),
}
every_write = pytest.mark.parametrize(
    "write", WRITES.values(), ids=[n.replace(" ", "-") for n in WRITES]
)


@pytest.fixture
def filled(led: Store) -> Store:
    """A live job with an open attempt, and one that has ended."""
    led.commits.submit_job(1, a_submitted_job(), is_restore=False)
    led.commits.plan_attempt(1, a_key(), worker_id="w", alone=False, at_ms=0)
    led.commits.submit_job(1, a_submitted_job("ended"), is_restore=False)
    led.commits.record_outcome(1, "ended", 1, ENDING)
    return led


@pytest.fixture
def other(filled: Store, url: str) -> Iterator[Store]:
    """Another master's connections to the same store."""
    other = open_store(url, now_ms=0)
    yield other
    other.close()


def picture(store: Store) -> object:
    """All that any of the writes could change."""
    reads = store.reads
    return (
        reads.lease(),
        reads.observe(expired_before_ms=0),
        reads.jobs(outcome=None, live=False),
        reads.metrics(*JOB),
        reads.events("orders"),
        reads.workers(),
    )


def take_over(store: Store) -> None:
    assert store.commits.take_lease(seen_term=1, holder="b", url="http://b", expires_at_ms=99)


def test_the_table_of_writes_is_whole() -> None:
    public = {name.replace("_", " ") for name in vars(Commits) if not name.startswith("_")}

    assert public - {"take lease"} == set(WRITES)


@every_write
def test_a_deposed_master_writes_nothing(filled: Store, other: Store, write: Write) -> None:
    take_over(other)
    before = picture(other)

    with pytest.raises(Deposed) as refused:
        write(filled.commits, 1)

    assert refused.value.found == 2
    assert picture(other) == before


@every_write
def test_a_crash_before_a_write_leaves_nothing_and_one_behind_it_all(
    filled: Store, url: str, write: Write
) -> None:
    before = picture(filled)
    crashing = Commits(filled.engine, CrashAt(1))
    with pytest.raises(Crashed):
        write(crashing, 1)
    untouched = picture(filled)
    crashing = Commits(filled.engine, CrashAt(2))
    with pytest.raises(Crashed):
        write(crashing, 1)

    assert untouched == before
    assert picture(filled) != before


@every_write
def test_crash_points_are_named_after_the_write(filled: Store, write: Write) -> None:
    point = CrashAt()
    write(Commits(filled.engine, point), 1)

    [name] = [name for name, known in WRITES.items() if known is write]
    assert point.names == [f"before {name}", f"after {name}"]


def test_a_take_over_waits_for_a_write_that_has_checked_its_term(
    filled: Store, other: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old master sleeps between its check and its write, and the new one takes over just then."""
    checked, go_on = threading.Event(), threading.Event()
    from holdfast.store import connection

    real = connection._check_term

    def sleepy(tx: object, doing: str, term: int, *, lock: bool) -> None:
        real(tx, doing, term, lock=lock)  # type: ignore[arg-type]
        checked.set()
        assert go_on.wait(10)

    monkeypatch.setattr(connection, "_check_term", sleepy)
    old = threading.Thread(target=WRITES["set goal"], args=(filled.commits, 1))
    old.start()
    assert checked.wait(10)
    taken = threading.Event()

    def lead() -> None:
        take_over(other)
        taken.set()

    new = threading.Thread(target=lead)
    new.start()
    was_let_in = taken.wait(0.3)
    go_on.set()
    old.join(10)
    new.join(10)

    assert not was_let_in
    assert taken.is_set()
    found = other.reads.observe(expired_before_ms=0)
    assert found.lease is not None
    assert found.lease.term == 2
    assert [job.goal for job in found.jobs] == [Goal.CANCEL]


def test_of_two_first_masters_one_leads(store: Store, url: str) -> None:
    both = threading.Barrier(2)
    taken = []

    def take(holder: str) -> None:
        own = open_store(url, now_ms=0)
        both.wait(10)
        taken.append(own.commits.take_lease(seen_term=0, holder=holder, url="", expires_at_ms=1))
        own.close()

    threads = [threading.Thread(target=take, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)

    assert [lease.term for lease in taken if lease] == [1]
    assert len(taken) == 2


@pytest.mark.servers
@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_a_master_that_sleeps_inside_a_transaction_does_not_keep_others_from_leading(
    filled: Store, other: Store, url: str
) -> None:
    asleep = open_engine(url)
    with asleep.connect() as connection:
        connection.exec_driver_sql("BEGIN")
        connection.exec_driver_sql("SELECT term FROM leader FOR SHARE").close()
        take_over(other)

        connection.invalidate()
    asleep.dispose()


def test_a_store_that_cannot_be_reached_is_an_error_that_may_pass() -> None:
    with pytest.raises(StoreFailed, match="Cannot open the state store"):
        open_store("postgresql://nobody:secret@127.0.0.1:1/none", now_ms=0)


@pytest.mark.servers
def test_what_was_answered_is_on_disk_however_the_server_is_set_up(
    postgres_database: Database,
) -> None:
    """The server of the tests commits asynchronously: killed, it would forget a job that was just submitted."""
    engine = open_engine(postgres_database.dsn())
    with engine.connect() as connection:
        found = connection.exec_driver_sql("SHOW synchronous_commit").scalar()
    engine.dispose()

    assert found == "on"
