"""The real clock keeps the promises that the loop relies on."""

import threading

from holdfast.outside.clock import RealClock


def test_elapsed_time_never_steps_back() -> None:
    clock = RealClock()
    seen = [clock.elapsed_ms() for _ in range(10_000)]

    assert seen == sorted(seen)


def test_a_wait_ends_early_when_it_is_woken() -> None:
    wake = threading.Event()
    wake.set()

    assert RealClock().wait(600_000, wake) is True


def test_a_wait_that_nobody_wakes_says_so() -> None:
    assert RealClock().wait(1, threading.Event()) is False


def test_an_alarm_rings_while_the_block_takes_too_long() -> None:
    rung = threading.Event()

    with RealClock().alarm(1, rung.set):
        assert rung.wait(60)


def test_an_alarm_does_not_ring_for_a_block_that_ended_or_failed() -> None:
    rung = threading.Event()
    clock = RealClock()

    with clock.alarm(50, rung.set):
        pass
    try:
        with clock.alarm(50, rung.set):
            raise ValueError
    except ValueError:
        pass

    assert not rung.wait(0.2)
