"""A stop only grows, wakes whoever waits, and ends what blocks without waiting for it."""

import threading

from holdfast.runtime.stop import StopLevel, StopSignal


def test_a_stop_only_grows() -> None:
    stop = StopSignal()
    stop.ask(StopLevel.NOW)
    stop.ask(StopLevel.AFTER_EPOCH)

    assert stop.level is StopLevel.NOW


def test_any_stop_wakes_whoever_waits() -> None:
    stop = StopSignal()

    stop.ask(StopLevel.AFTER_EPOCH)

    assert stop.wake.is_set()


def test_only_now_ends_what_blocks_and_only_once() -> None:
    stop, ended = StopSignal(), threading.Semaphore(0)
    stop.on_now(ended.release)

    stop.ask(StopLevel.AFTER_EPOCH)
    assert not ended.acquire(timeout=0.05)
    stop.ask(StopLevel.NOW)
    assert ended.acquire(timeout=60)
    stop.ask(StopLevel.NOW)
    assert not ended.acquire(timeout=0.05)


def test_who_comes_after_now_is_ended_as_well() -> None:
    stop, ended = StopSignal(), threading.Event()
    stop.ask(StopLevel.NOW)

    stop.on_now(ended.set)

    assert ended.wait(60)


def test_an_end_that_hangs_or_fails_keeps_nobody_waiting() -> None:
    stop, hanging, ended = StopSignal(), threading.Event(), threading.Event()

    def fail() -> None:
        raise OSError

    for end in (lambda: hanging.wait(60), fail, ended.set):
        stop.on_now(end)  # type: ignore[arg-type]

    stop.ask(StopLevel.NOW)

    assert ended.wait(60)
    hanging.set()


def test_who_has_forgotten_is_not_called() -> None:
    stop, ended = StopSignal(), threading.Event()
    stop.on_now(ended.set)
    stop.forget(ended.set)

    stop.ask(StopLevel.NOW)

    assert not ended.wait(0.05)


def test_a_stop_asked_within_a_stop_does_not_hang() -> None:
    stop = StopSignal()
    with stop._lock:
        stop.ask(StopLevel.AFTER_EPOCH)

    assert stop.level is StopLevel.AFTER_EPOCH


def test_a_follower_is_asked_what_its_leader_is_asked() -> None:
    leader, follower = StopSignal(), StopSignal()

    with leader.followed_by(follower):
        leader.ask(StopLevel.AFTER_EPOCH)
        assert follower.level is StopLevel.AFTER_EPOCH
    leader.ask(StopLevel.NOW)

    assert follower.level is StopLevel.AFTER_EPOCH


def test_a_follower_that_comes_late_is_asked_what_was_asked_before() -> None:
    leader, follower = StopSignal(), StopSignal()
    leader.ask(StopLevel.NOW)

    with leader.followed_by(follower):
        assert follower.level is StopLevel.NOW
