"""What a master knows when it begins to lead, and what it must not conclude from knowing nothing."""

from __future__ import annotations

from pathlib import Path

from holdfast.master.master import Master, MasterSettings
from holdfast.model.jobs import Goal
from holdfast.outside.files import LocalFiles
from holdfast.store.commits import Commits
from holdfast.store.connection import CommitUnknown, CrashPoint
from holdfast.store.reads import Reads
from holdfast.store.store import Store, no_crash, open_store
from holdfast.testing.builders import a_heartbeat, a_submitted_job, an_observed
from holdfast.testing.crashes import VirtualClock

LEASE_MS = 2_000


def a_master(folder: Path, name: str, clock: VirtualClock, point: CrashPoint = no_crash) -> Master:
    store = open_store(f"sqlite:///{folder / 'state.db'}", now_ms=0, crash_point=point)
    settings = MasterSettings(name, f"http://{name}", LEASE_MS)
    return Master(settings, store, LocalFiles(folder / "checkpoints"), clock)


def run_a_job(master: Master, clock: VirtualClock) -> None:
    """On worker w1, which has reported it."""
    master.tick()
    master.hear(a_heartbeat("w1"))
    assert master.term is not None
    master.store.commits.submit_job(master.term, a_submitted_job("orders"), is_restore=True)
    master.tick()
    [attempt] = master.store.reads.open_attempts()
    master.hear(a_heartbeat("w1", an_observed(attempt, claim=1, tip=2), sent_at_ms=1))
    clock.advance(10)
    master.tick()


def test_a_leader_whose_take_had_no_answer_gives_everyone_time_to_report(tmp_path: Path) -> None:
    clock = VirtualClock()
    first = a_master(tmp_path, "first", clock)
    run_a_job(first, clock)
    lost: list[str] = []

    def lose_one(point: str) -> None:
        if point == "after take lease" and not lost:
            lost.append(point)
            raise CommitUnknown("Cannot tell whether the lease was taken.")

    second = a_master(tmp_path, "second", clock, lose_one)
    clock.advance(LEASE_MS)
    for _ in range(5):
        try:
            second.tick()
        except CommitUnknown:
            clock.advance(100)
        clock.advance(100)

    assert lost
    assert second.term == 2
    [attempt] = second.store.reads.open_attempts()
    assert attempt.key.number == 1
    for _ in range(10):
        clock.advance(400)
        second.tick()
    assert second.store.reads.attempts("orders", 1)[0].ended_how is not None, "its time is over"


def test_who_leads_by_a_store_that_was_lost_takes_a_term_that_workers_obey(tmp_path: Path) -> None:
    clock = VirtualClock()
    master = a_master(tmp_path, "first", clock)
    master.tick()

    master.hear(a_heartbeat("w1", term=7))
    master.tick()

    assert master.term == 8
    assert master.hear(a_heartbeat("w1", term=7, sent_at_ms=1)).term == 8
    clock.advance(LEASE_MS // 2)
    master.tick()
    assert master.term == 8


def test_what_nobody_changed_is_not_read_again_and_what_was_changed_is_seen_at_once(
    tmp_path: Path,
) -> None:
    clock = VirtualClock()
    master = a_master(tmp_path, "first", clock)
    run_a_job(master, clock)

    before = master.observe()
    again = master.observe()
    assert master.term is not None
    master.store.commits.set_goal(master.term, "orders", 1, Goal.CANCEL, at_ms=1)
    after = master.observe()

    assert again.jobs is before.jobs
    assert [job.goal for job in after.jobs] == [Goal.CANCEL]


def test_who_follows_sees_what_the_leader_changes(tmp_path: Path) -> None:
    clock = VirtualClock()
    leader, follower = a_master(tmp_path, "a", clock), a_master(tmp_path, "b", clock)
    leader.tick()
    follower.tick()
    assert follower.observe().jobs == []

    run_a_job(leader, clock)

    assert [job.id for job in follower.observe().jobs] == ["orders"]


def test_what_was_mended_by_hand_is_seen_after_a_while(tmp_path: Path) -> None:
    clock = VirtualClock()
    master = a_master(tmp_path, "first", clock)
    run_a_job(master, clock)
    other = open_store(f"sqlite:///{tmp_path / 'state.db'}", now_ms=0)
    by_hand = Store(other.engine, Reads(other.engine), Commits(other.engine, no_crash))
    master.observe()
    by_hand.commits.set_goal(1, "orders", 1, Goal.CANCEL, at_ms=1)
    by_hand.close()

    clock.advance(10_000)

    assert [job.goal for job in master.observe().jobs] == [Goal.CANCEL]
