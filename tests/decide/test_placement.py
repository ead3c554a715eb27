"""Which worker gets an attempt, and why one gets none."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from holdfast.decide.placement import NoRoom, Placed, Room
from holdfast.model.attempts import Attempt, EndedHow
from holdfast.model.jobs import Job
from holdfast.model.workers import Worker
from holdfast.testing.builders import a_job, a_worker, a_world, an_attempt

LEASE_MS = 3_500


def room(
    *workers: Worker, attempts: Sequence[Attempt] = (), jobs: Sequence[Job] = (), now_ms: int = 0
) -> Room:
    world = a_world(*jobs, attempts=attempts, workers=workers)
    return Room(world, [attempt for attempt in attempts if attempt.is_open], now_ms)


def test_without_workers_there_is_no_room() -> None:
    assert room().place(a_job()) == NoRoom("no worker is there")


def test_a_worker_that_fell_silent_is_none() -> None:
    worker = a_worker(heard_at_ms=0)

    assert room(worker, now_ms=LEASE_MS).place(a_job()) == Placed("w1", alone=False)
    assert room(worker, now_ms=LEASE_MS + 1).place(a_job()) == NoRoom("no worker is there")


def test_a_draining_worker_gets_nothing_more() -> None:
    workers = [a_worker("w1", draining=True), a_worker("w2", draining=True)]

    assert room(*workers).place(a_job()) == NoRoom("all 2 workers are draining")
    assert room(*workers, a_worker("w3")).place(a_job()) == Placed("w3", alone=False)


def test_all_tags_that_a_job_asks_for_must_fit() -> None:
    workers = [a_worker("w1", tags={"zone": "a"}), a_worker("w2", tags={"zone": "b", "gpu": "1"})]
    wanted = a_job(tag_filter={"zone": "b"})
    missing = a_job(tag_filter={"zone": "a", "gpu": "1"})

    assert room(*workers).place(wanted) == Placed("w2", alone=False)
    said = "none of 2 workers has the tags gpu=1, zone=a"
    assert room(*workers).place(missing) == NoRoom(said)


def test_the_worker_with_the_fewest_attempts_is_chosen_and_the_first_among_equals() -> None:
    hosted = [an_attempt(of="a", worker_id="w1"), an_attempt(of="b", worker_id="w2")]
    found = room(a_worker("w1"), a_worker("w2"), a_worker("w3"), attempts=hosted)

    assert [found.place(a_job(id_)) for id_ in "cdefg"] == [
        Placed(worker_id, alone=False) for worker_id in ("w3", "w1", "w2", "w3", "w1")
    ]


def test_slots_are_what_is_not_taken_by_open_attempts() -> None:
    hosted = [
        an_attempt(of="a", started=False),
        an_attempt(of="b", ended=EndedHow.FAILED),
        an_attempt(of="c"),
    ]
    found = room(a_worker(slots=3), attempts=hosted)

    assert found.place(a_job("d")) == Placed("w1", alone=False)
    assert found.place(a_job("e")) == NoRoom("all 3 slots of 1 workers are taken")


def test_a_refusal_for_lack_of_tags_is_none_for_jobs_without() -> None:
    found = room(a_worker())

    assert isinstance(found.place(a_job("a", tag_filter={"gpu": "1"})), NoRoom)
    assert found.place(a_job("b")) == Placed("w1", alone=False)


def test_to_ask_takes_nothing() -> None:
    found = room(a_worker(slots=1))

    assert found.ask(a_job("a")) == found.ask(a_job("b")) == Placed("w1", alone=False)
    assert found.place(a_job("c")) == Placed("w1", alone=False)
    assert isinstance(found.ask(a_job("a")), NoRoom)


@given(
    slots=st.lists(st.none() | st.integers(0, 4), max_size=4),
    hosted=st.lists(st.integers(0, 3), max_size=10),
    wanted=st.integers(0, 12),
)
def test_no_worker_gets_more_than_it_has_slots_and_nobody_waits_while_there_are_some(
    slots: list[int | None], hosted: list[int], wanted: int
) -> None:
    workers = [a_worker(f"w{at}", slots=count) for at, count in enumerate(slots)]
    attempts = [an_attempt(of=f"old-{n}", worker_id=f"w{at}") for n, at in enumerate(hosted)]
    found = room(*workers, attempts=attempts)
    taken = {f"w{at}": hosted.count(at) for at in range(4)}

    for number in range(wanted):
        free = [w for w in workers if w.heartbeat.slots is None or taken[w.id] < w.heartbeat.slots]
        placed = found.place(a_job(f"new-{number}"))

        assert isinstance(placed, Placed) == bool(free)
        if isinstance(placed, Placed):
            assert placed.worker_id in {worker.id for worker in free}
            taken[placed.worker_id] += 1


def test_a_worker_that_is_kept_for_a_trial_is_a_reason_that_passes() -> None:
    bad, other = a_job("bad"), a_job("other")
    tried = [
        an_attempt(1, of="bad", ended=EndedHow.LOST),
        an_attempt(2, of="bad", ended=EndedHow.LOST),
        an_attempt(3, of="bad", alone=True),
    ]

    kept = room(a_worker("w1"), attempts=tried, jobs=[bad, other]).place(other)
    full = room(a_worker("w1", slots=1), attempts=tried, jobs=[bad, other]).place(other)

    assert isinstance(kept, NoRoom)
    assert kept.passes
    assert full == NoRoom("all 1 slots of 1 workers are taken")
