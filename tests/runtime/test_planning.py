"""Which epochs come next, in which order, and when two may be under way."""

from typing import Any

from holdfast.connectors.base import Budget, Position, ReadPlan, ReadTask, SinkBase, SourceBase
from holdfast.decide.epochs import IDLE_WAIT_MAX_MS, IDLE_WAIT_MIN_MS, derive_cadence
from holdfast.model.jobs import Pipeline
from holdfast.runtime.epoch import Staged
from holdfast.runtime.open_pipeline import OpenPipeline
from holdfast.runtime.planning import Planning
from holdfast.testing.builders import an_env
from holdfast.testing.crashes import VirtualClock
from tests.checkpoint.links import a_checkpoint

LARGE = 1_000_000


class Counting(SourceBase):
    """Each plan is one number further, until `until`."""

    def __init__(
        self, until: int = 100, *, known: bool = True, rows: int = LARGE, kinds: bool = False
    ) -> None:
        self.until, self.known, self.rows = until, known, rows
        self.emits_kinds = kinds

    def plan(self, position: Position, budget: Budget) -> ReadPlan | None:
        at = int(str(position["at"]))
        if at >= self.until:
            return None
        end: Position | None = {"at": at + 1} if self.known else None
        return ReadPlan((ReadTask({"at": at}),), end, self.rows)

    def position_after(self, position: Position, reached: Any) -> Position:
        return reached[-1] or position


class Overlapping(SinkBase):
    overlaps = True


def planning(*sources: Any, sink: Any = None, **env: Any) -> Planning:
    settings = an_env(**env)
    sinks: dict[str, Any] = {"sink-0": sink or Overlapping()}
    pipeline = OpenPipeline(
        job_id="orders",
        spec=Pipeline(1, ()),
        env=settings,
        sources={f"source-{n}": source for n, source in enumerate(sources)},
        transforms={},
        sinks=sinks,
        clock=VirtualClock(),
    )
    found = Planning(pipeline, derive_cadence(settings, commits_cheaply=True))
    positions = {f"source-{n}": {"at": 0} for n in range(len(sources))}
    found.begin(a_checkpoint(7, attempt=3, lineage="l", sources=positions), {})
    return found


def test_epochs_follow_the_tip_in_number_attempt_and_lineage() -> None:
    epoch = planning(Counting()).plan()

    assert epoch is not None
    assert (epoch.work.number, epoch.work.attempt, epoch.work.lineage) == (8, 3, "l")


def test_a_second_epoch_begins_where_the_first_ends() -> None:
    found = planning(Counting())
    first, second = found.plan(), found.plan()

    assert first is not None
    assert second is not None
    assert second.work.number == 9
    assert second.work.plans["source-0"].end == {"at": 2}
    assert found.oldest() is first


def test_two_large_epochs_may_overlap_and_a_third_waits() -> None:
    found = planning(Counting())
    found.plan()
    assert found.may_plan()
    found.plan()
    assert not found.may_plan()


def test_epochs_do_not_overlap_where_order_or_limits_matter() -> None:
    for found in (
        planning(Counting(kinds=True)),
        planning(Counting(), sink=SinkBase()),
        planning(Counting(rows=10)),
        planning(Counting(known=False)),
        planning(Counting(), rows_per_second_max=5.0),
    ):
        assert found.may_plan()
        assert found.plan() is not None
        assert not found.may_plan()


def test_nothing_to_read_is_no_epoch() -> None:
    found = planning(Counting(until=0), Counting(until=0))

    assert found.plan() is None
    assert found.oldest() is None


def test_a_poll_that_brought_nothing_never_was_an_epoch() -> None:
    found = planning(Counting(known=False))
    empty = found.plan()
    assert empty is not None

    assert found.settle(empty, Staged(8, {"source-0": [None]}), 1.0) is None

    again = found.plan()
    assert again is not None
    assert again.work.number == 8


def test_a_position_known_after_the_read_is_the_one_reached() -> None:
    found = planning(Counting(known=False))
    epoch = found.plan()
    assert epoch is not None

    assert found.settle(epoch, Staged(8, {"source-0": [{"at": 5}]}), 1.0) == {"source-0": {"at": 5}}
    following = found.plan()
    assert following is not None
    assert following.work.plans["source-0"].tasks[0].payload == {"at": 5}


def test_a_source_that_is_done_is_not_asked_again() -> None:
    class Done(Counting):
        def plan(self, position: Position, budget: Budget) -> ReadPlan | None:
            raise AssertionError("asked though it was done")

    found = planning(Counting(), Done())
    found.begin(a_checkpoint(7, sources={"source-0": {"at": 0}, "source-1": {"done": True}}), {})

    epoch = found.plan()
    assert epoch is not None
    assert set(epoch.work.plans) == {"source-0"}


def test_a_source_that_only_moved_is_in_the_epoch_without_a_read() -> None:
    class Ending(Counting):
        def plan(self, position: Position, budget: Budget) -> ReadPlan | None:
            return ReadPlan((), {**position, "done": True})

    found = planning(Ending())
    epoch = found.plan()
    assert epoch is not None

    assert not epoch.work.plans
    assert found.settle(epoch, Staged(8), 1.0) == {"source-0": {"at": 0, "done": True}}


def test_waits_for_news_grow_to_a_limit_and_shrink_with_news() -> None:
    found = planning(Counting())
    waits = [found.idle_wait_ms() for _ in range(12)]

    assert waits[0] == IDLE_WAIT_MIN_MS
    assert waits == sorted(waits)
    assert waits[-1] == IDLE_WAIT_MAX_MS

    epoch = found.plan()
    assert epoch is not None
    found.settle(epoch, Staged(8), 1.0)
    assert found.idle_wait_ms() == IDLE_WAIT_MIN_MS
