"""Jobs under which workers die: suspected, tried alone, and at last given up; and that the innocent are not."""

from collections.abc import Mapping

from holdfast.decide.actions import EndAttempt, NoteAdvance, PlanAttempt
from holdfast.decide.attempts import HEALTHY_STRETCH_MS
from holdfast.decide.isolation import count_deaths, find_suspects
from holdfast.decide.jobs import decide
from holdfast.decide.placement import NoRoom, Placed, Room
from holdfast.decide.world import Limits, World
from holdfast.model.attempts import Attempt, EndedHow
from holdfast.model.jobs import Outcome
from holdfast.testing.builders import a_job, a_worker, a_world, an_attempt, an_observed
from tests.decide.playing import Play

LOST = EndedHow.LOST
ALONE_MS = Limits().alone_ms


def lost(number: int, *, at_ms: int = 0, until_ms: int = 100, **changes: object) -> Attempt:
    return an_attempt(
        number,
        worker_id=f"dead-{number}",
        at_ms=at_ms,
        ended=LOST,
        ended_at_ms=until_ms,
        **changes,  # type: ignore[arg-type]
    )


def suspects(*attempts: Attempt, now_ms: int = 1_000) -> Mapping[tuple[str, int], int]:
    return find_suspects(a_world(a_job(), attempts=attempts), now_ms)


def test_one_death_makes_no_suspect_and_two_do() -> None:
    assert suspects(lost(1)) == {}
    assert list(suspects(lost(1), lost(2))) == [("orders", 1)]


def test_what_had_committed_something_is_suspected_half_as_much() -> None:
    ran = [lost(number, advanced=True) for number in range(1, 5)]

    assert suspects(*ran[:3]) == {}
    assert list(suspects(*ran)) == [("orders", 1)]


def test_deaths_before_it_was_seen_to_run_say_little() -> None:
    assert suspects(lost(1, started=False), lost(2, started=False)) == {}


def test_deaths_of_long_ago_are_forgotten() -> None:
    assert suspects(lost(1), lost(2), now_ms=HEALTHY_STRETCH_MS + 99)
    assert suspects(lost(1), lost(2), now_ms=HEALTHY_STRETCH_MS + 100) == {}


def test_who_ran_alone_and_committed_something_is_cleared() -> None:
    cleared = an_attempt(3, alone=True, advanced=True, ended=EndedHow.STOPPED, ended_at_ms=500)

    assert suspects(lost(1), lost(2), cleared) == {}


# ------------------------------------------------------------------------------------------ where it is put


def room_of(world: World, now_ms: int = 1_000) -> Room:
    return Room(world, [attempt for attempt in world.attempts if attempt.is_open], now_ms)


def test_a_suspect_gets_an_empty_worker_and_nobody_is_put_beside_it() -> None:
    other = an_attempt(of="other", worker_id="w1")
    world = a_world(
        a_job(),
        attempts=[lost(1), lost(2), other],
        workers=[a_worker("w1", heard_at_ms=1_000), a_worker("w2", heard_at_ms=1_000)],
    )
    room = room_of(world)

    assert room.place(a_job()) == Placed("w2", alone=True)
    assert room.place(a_job("new")) == Placed("w1", alone=False)
    assert room.place(a_job("newer")) == Placed("w1", alone=False)


def test_all_pipelines_of_a_suspect_share_its_trial() -> None:
    world = a_world(
        a_job(), attempts=[lost(1), lost(2)], workers=[a_worker("w1", heard_at_ms=1_000)]
    )
    room = room_of(world)

    assert [room.place(a_job()) for _ in range(2)] == [Placed("w1", alone=True)] * 2
    assert isinstance(room.place(a_job("other")), NoRoom)


def test_without_an_empty_worker_a_suspect_is_on_trial_beside_others() -> None:
    others = [an_attempt(of="a", worker_id="w1"), an_attempt(of="b", worker_id="w1")]
    world = a_world(
        a_job(),
        attempts=[lost(1), lost(2), *others],
        workers=[a_worker("w1", heard_at_ms=1_000)],
    )
    room = room_of(world)

    assert room.place(a_job()) == Placed("w1", alone=True)
    assert isinstance(room.place(a_job("new")), NoRoom)


def trial(*before: Attempt, now_ms: int, advanced: bool = False) -> Placed | NoRoom:
    """Of another job, beside one that has been on trial since 1000."""
    number = len(before) + 1
    tried = an_attempt(number, worker_id="w1", at_ms=1_000, alone=True, advanced=advanced)
    world = a_world(
        a_job(), attempts=[*before, tried], workers=[a_worker("w1", heard_at_ms=now_ms)]
    )
    return room_of(world, now_ms).place(a_job("new"))


def test_a_trial_ends_after_a_while() -> None:
    assert isinstance(trial(now_ms=1_000 + ALONE_MS - 1), NoRoom)
    assert trial(now_ms=1_000 + ALONE_MS) == Placed("w1", alone=False)


def test_a_trial_takes_longer_where_workers_took_longer_to_die() -> None:
    slow = lost(1, at_ms=-60_000, until_ms=0)

    assert isinstance(trial(slow, now_ms=1_000 + 120_000 - 1), NoRoom)
    assert trial(slow, now_ms=1_000 + 120_000) == Placed("w1", alone=False)


def test_a_trial_that_goes_well_is_good_enough_where_there_is_nothing_else() -> None:
    assert trial(now_ms=1_001, advanced=True) == Placed("w1", alone=False)


def test_suspects_are_placed_first() -> None:
    deaths = [lost(1), lost(2)]
    world = a_world(
        a_job("a"),
        a_job("orders"),
        attempts=deaths,
        workers=[a_worker("w1", heard_at_ms=1_000)],
    )

    planned = [a for a in decide(world, 1_000) if isinstance(a, PlanAttempt)]

    assert [(p.key.job_id, p.alone) for p in planned] == [("orders", True)]


# ------------------------------------------------------------------------------------------ given up


def test_only_deaths_on_trial_count() -> None:
    limits = Limits()
    on_trial = [lost(number, alone=True) for number in (1, 2, 3)]

    assert count_deaths(limits, on_trial) == 3
    assert count_deaths(limits, [lost(1), lost(2), lost(3, alone=True)]) == 1
    assert count_deaths(limits, [*on_trial, lost(4)]) == 0
    stopped = an_attempt(4, ended=EndedHow.STOPPED, ended_at_ms=100)
    assert count_deaths(limits, [*on_trial, stopped]) == 0


def test_whoever_commits_in_between_is_not_given_up() -> None:
    tried = [
        lost(1, alone=True),
        lost(2, alone=True),
        lost(3, alone=True, advanced=True),
        lost(4, alone=True),
    ]

    assert count_deaths(Limits(), tried) == 1


def test_a_death_after_the_trial_may_be_a_neighbour_s_doing() -> None:
    late = [
        lost(n, alone=True, at_ms=n * 100_000, until_ms=n * 100_000 + ALONE_MS + 1) for n in (1, 5)
    ]

    assert count_deaths(Limits(), late[:1]) == 0


def test_a_job_that_kills_its_worker_at_once_is_given_up_and_its_neighbours_run() -> None:
    play = Play(a_job("good"), a_job("killer"), a_job("other"), workers=["w1"])
    play.kills_worker("killer", after_ms=500)

    play.run_until_ms(600_000)

    assert play.outcome("killer") is Outcome.FAILED
    assert "died under it" in play.reason("killer")
    assert play.outcome("good") is play.outcome("other") is None
    assert play.is_running("good")
    assert play.is_running("other")


def test_a_slow_killer_is_given_up_too() -> None:
    play = Play(a_job("good"), a_job("killer"), a_job("other"), workers=["w1", "w2"])
    play.kills_worker("killer", after_ms=30_000)

    play.run_until_ms(1_200_000)

    assert play.outcome("killer") is Outcome.FAILED
    assert play.outcome("good") is play.outcome("other") is None
    assert play.is_running("good")
    assert play.is_running("other")


def test_a_slow_neighbour_is_not_blamed() -> None:
    play = Play(a_job("good"), a_job("killer"), workers=["w1"])
    play.commits_every_ms("good", 120_000)
    play.kills_worker("killer", after_ms=30_000)

    play.run_until_ms(3_000_000)

    assert play.outcome("killer") is Outcome.FAILED
    assert play.outcome("good") is None
    assert play.is_running("good")


def test_jobs_whose_workers_are_killed_by_others_are_not_given_up() -> None:
    play = Play(a_job("a"), a_job("b"), workers=["w1"])

    for at_ms in range(5_000, 600_000, 5_000):
        play.run_until_ms(at_ms)
        play.kill_all_workers()
    play.run_until_ms(700_000)

    assert play.outcome("a") is play.outcome("b") is None
    assert play.is_running("a")
    assert play.is_running("b")


def test_what_had_advanced_is_noted_while_its_worker_lives() -> None:
    attempt = an_attempt()
    seen = an_observed(attempt, claim=4, tip=5)
    world = a_world(a_job(), attempts=[attempt], workers=[a_worker("w1", seen)])

    assert decide(world, 0) == [NoteAdvance(attempt.key)]


def test_a_claim_is_no_advance() -> None:
    attempt = an_attempt()
    seen = an_observed(attempt, claim=4)
    world = a_world(a_job(), attempts=[attempt], workers=[a_worker("w1", seen)])

    assert decide(world, 0) == []


def test_a_lost_attempt_keeps_what_was_noted_of_it() -> None:
    attempt = an_attempt(advanced=True)
    world = a_world(a_job(), attempts=[attempt])

    [end] = decide(world, 0)

    assert isinstance(end, EndAttempt)
    assert end.how is LOST
    assert end.advanced
