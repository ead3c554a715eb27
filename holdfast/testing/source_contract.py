"""What every source promises, as rules that can be run against it.

A rule is a function of a `SourceCase`; its docstring is the promise. Run all of them from pytest:

    @pytest.mark.parametrize("rule", SOURCE_RULES, ids=str)
    def test_my_source(rule, tmp_path):
        rule.check(SourceCase(make=lambda: MySource(tmp_path), rows=EXPECTED))
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from holdfast.connectors.base import Budget, Position, Source, is_done
from holdfast.model.errors import HoldfastError, PositionGone
from holdfast.model.schema import KIND_COLUMN
from holdfast.testing.rules import Rule, always, rule_of
from holdfast.testing.walking import (
    MUCH,
    PATIENCE_MS,
    POLL_MS,
    Step,
    batch_rows,
    chance,
    random_budgets,
    same_budget,
    take_step,
    through_json,
    walk,
)

OVERDUE_MS = 20_000.0
"""Later than this after its deadline, a call counts as blocked. Generous: machines are slow."""


@dataclass(frozen=True)
class SourceCase:
    """A source over a system that holds some rows, with the facts that the rules need."""

    make: Callable[[], Source]
    """A new object over the same system each time, as after a restart."""
    rows: Sequence[str] | None = None
    """All there is to read, from `row_text`. None: whatever one large read gives."""
    ordered: bool = True
    """Whether rows come in the same order whatever the cuts (else they are compared sorted)."""
    unit_rows_max: int = 1
    """Rows of the largest piece that is never cut: a transaction, a split, a batch."""
    position_bytes_max: int = 2_000
    resume_points_max: int = 12
    """From how many of the positions on the way a resume is tried."""
    purge: Callable[[Position], None] | None = None
    """Makes the system forget what is behind this position and a little more."""
    add: Callable[[], Sequence[str]] | None = None
    """Puts more rows into the system of an unbounded source, and tells them."""
    idle_max: int = 3
    """An unbounded source that gave nothing so often in a row has given all there is."""
    poll_ms: float = POLL_MS
    """How long one read of an unbounded source may wait for rows."""


def check_source(case: SourceCase) -> None:
    """All rules, one after the other; for authors who do not care for one test per rule."""
    for rule in SOURCE_RULES:
        if rule.applies(case) is None:
            rule.check(case)


def _is_same_rows_whatever_the_cuts(case: SourceCase) -> None:
    """gives the same rows whatever the cuts: one row, few bytes, no time, one task, random budgets"""
    wanted = _whole(case)
    for name, budgets, idle_max in _cuts(case):
        found = [row for step in _walk(case, budgets, idle_max) for row in step.rows]
        _compare(case, found, wanted, f"cut by {name}")


def _is_resumable_from_every_position(case: SourceCase) -> None:
    """resumes from every position it ever returned with exactly the rows that remain"""
    steps = list(_walk(case, same_budget(_budget(case, rows_max=1, tasks_max=1))))
    wanted = [row for step in steps for row in step.rows]
    _compare(case, wanted, _whole(case), "read row by row")
    for index in _spread(len(steps), case.resume_points_max):
        position = steps[index].before
        remaining = [row for step in steps[index:] for row in step.rows]
        found = _rows_from(case, case.make(), position)
        _compare(case, found, remaining, f"resumed from {position}")


def _is_within_budget(case: SourceCase) -> None:
    """stops at the first limit of its budget, between two transactions"""
    most = case.unit_rows_max
    for rows_max in (1, 3, 10):
        for step in _walk(case, same_budget(_budget(case, rows_max=rows_max, tasks_max=1))):
            limit = rows_max + most - 1
            assert len(step.rows) <= limit, (
                f"{len(step.rows)} rows were read under rows_max {rows_max}; with pieces of"
                f" {most} rows there should be {limit} at most"
            )
    for step in _walk(case, same_budget(_budget(case, bytes_max=1, tasks_max=1))):
        assert len(step.rows) <= most, f"{len(step.rows)} rows were read under bytes_max 1"
    for tasks_max in (1, 2):
        for step in _walk(case, same_budget(_budget(case, tasks_max=tasks_max))):
            found = len(step.plan.tasks)
            assert found <= tasks_max, f"a plan has {found} tasks under tasks_max {tasks_max}"


def _is_within_its_time(case: SourceCase) -> None:
    """blocks no longer than its budget's duration, also when there is nothing to read"""
    source = case.make()
    position = through_json(source.start())
    idle = 0
    while not is_done(position) and idle < 2:
        step = _in_time(source, position)
        idle = 0 if step is not None and step.rows else idle + 1
        position = step.after if step else position


def _is_small_in_state(case: SourceCase) -> None:
    """keeps a position whose size depends neither on rows read nor on splits done"""
    sizes = [len(str(position)) for position in _positions(case)]
    largest = max(sizes)
    assert largest <= case.position_bytes_max, (
        f"a position has {largest} bytes and the facts allow {case.position_bytes_max}"
    )
    quarter = len(sizes) // 4
    if quarter >= 3:
        early, late = sorted(sizes[:quarter])[quarter // 2], sorted(sizes[-quarter:])[quarter // 2]
        assert late <= early * 1.5 + 64, (
            f"positions grow with what is done: {early} bytes early on, {late} bytes later"
        )


def _is_truthful_about_its_end(case: SourceCase) -> None:
    """says `done` when, and only when, it has nothing left and never will"""
    source = case.make()
    positions = _positions(case)
    if not source.bounded:
        assert not any(is_done(p) for p in positions), "an unbounded source said that it is done"
        return
    assert is_done(positions[-1]), f"it ended at {positions[-1]}, which does not say done"
    early = [p for p in positions[:-1] if is_done(p)]
    assert not early, f"it said done at {early[0]} and went on"
    assert _rows_from(case, source, positions[0]) or not _whole(case), "done before the first row"
    plan = case.make().plan(through_json(positions[-1]), _budget(case))
    assert plan is None or (not plan.tasks and plan.end is not None and is_done(plan.end)), (
        f"asked again at its end it plans {plan}"
    )


def _is_replayable(case: SourceCase) -> None:
    """reads a planned range again with the same rows in the same order"""
    source = case.make()
    budget = _budget(case, rows_max=5, tasks_max=2)
    for step in _walk(case, same_budget(budget)):
        for task in step.plan.tasks:
            first = batch_rows(source.read(task, budget))
            again = batch_rows(case.make().read(task, budget))
            assert first == again, f"{task} gave {first[:3]} and then {again[:3]}"
        if step.plan.end is not None:
            rows = [
                row
                for task in reversed(step.plan.tasks)
                for row in batch_rows(source.read(task, budget))
            ]
            assert sorted(rows) == sorted(step.rows), "tasks depend on the order they are read in"


def _is_moving_with_its_rows(case: SourceCase) -> None:
    """moves its position with every row it gives, so that nothing is given twice"""
    for step in _walk(case, same_budget(_budget(case, rows_max=1, tasks_max=1))):
        if step.rows:
            assert step.after != step.before, (
                f"{len(step.rows)} rows came and it is at {step.after}"
            )


def _is_careful_with_positions(case: SourceCase) -> None:
    """never changes a position that it has handed out: a checkpoint holds it"""
    steps = _walk(case, same_budget(_budget(case, rows_max=1, tasks_max=1)))
    for step in list(steps):
        assert step.handed_out == step.after, f"{step.after} has become {step.handed_out}"


def _is_true_to_its_tables(case: SourceCase) -> None:
    """delivers the tables it names, with their columns and types, and kinds only where it says so"""
    source = case.make()
    tables = {table.path: table for table in source.tables()}
    assert tables, "it names no table"
    again = {table.path: table for table in case.make().tables()}
    assert again == tables, "asked again it names other tables"
    for step in _walk(case, same_budget(_budget(case))):
        for found in step.batches:
            assert found.table in tables, f"{found.table!r} is none of {sorted(tables)}"
            _compare_schema(found.batch.schema, tables[found.table].arrow_schema, source)
            if KIND_COLUMN in found.batch.schema.names:
                kinds = set(found.batch.column(KIND_COLUMN).to_pylist())
                assert kinds <= {0, 1, 2, 3}, f"kinds are {kinds}"


def _is_picklable(case: SourceCase) -> None:
    """can be read on an executor: pickles at any time, and its copy reads the same"""
    source = case.make()
    pickle.loads(pickle.dumps(source))
    source.tables()
    position = source.start()
    budget = _budget(case, rows_max=4)
    step = take_step(source, position, budget)
    copy: Source = pickle.loads(pickle.dumps(source))
    if step is None:
        return
    for task in step.plan.tasks:
        pickle.loads(pickle.dumps(task))
    if source.replayable:
        rows = [row for task in step.plan.tasks for row in batch_rows(copy.read(task, budget))]
        _compare(case, rows, step.rows, "read by an unpickled copy")


def _is_telling(case: SourceCase) -> None:
    """tells in words where it stands and that it can still be read from there"""
    positions = _positions(case)
    for index in _spread(len(positions), case.resume_points_max):
        given = through_json(positions[index])
        source = case.make()
        probe = source.probe(given)
        assert probe.readable, f"{given} is on its way and the probe says: {probe.said}"
        assert probe.said.strip(), "the probe says nothing"
        said = source.describe(given)
        assert said.strip(), f"it describes {given} by nothing"
        assert "\n" not in said, f"it describes {given} in several lines"
        fraction = source.fraction(given)
        assert fraction is None or 0 <= fraction <= 1, f"the fraction is {fraction}"
        assert given == positions[index], f"telling changed the position to {given}"


def _is_ended_by_close(case: SourceCase) -> None:
    """lets a blocked read go when it is closed from another thread"""
    source = case.make()
    position = _positions(case)[-1]
    ended = threading.Event()

    def read() -> None:
        try:
            take_step(source, position, Budget(10, MUCH, OVERDUE_MS * 10, 1))
        except HoldfastError:
            pass
        finally:
            ended.set()

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    for _ in range(int(OVERDUE_MS / 50)):
        source.close()
        if ended.wait(0.05):
            break
    assert ended.is_set(), f"a read still blocks {OVERDUE_MS / 1000:.0f} s after close"
    thread.join()


def _is_honest_about_purged_positions(case: SourceCase) -> None:
    """says of a purged position that it is gone, by probe and by PositionGone, and never skips ahead"""
    assert case.purge is not None
    positions = _positions(case)
    case.purge(positions[len(positions) // 2])
    probe = case.make().probe(through_json(positions[0]))
    assert not probe.readable, f"the position is purged and the probe says: {probe.said}"
    assert probe.said.strip(), "the probe says nothing"
    try:
        rows = _rows_from(case, case.make(), positions[0])
    except PositionGone:
        return
    raise AssertionError(f"from a purged position it read {len(rows)} rows")


def _is_unmoved_by_ack(case: SourceCase) -> None:
    """still reads from a position that was acked, and acks twice or late without harm"""
    steps = list(_walk(case, same_budget(_budget(case, rows_max=1, tasks_max=1))))
    if not steps:
        return
    middle = len(steps) // 2
    remaining = [row for step in steps[middle:] for row in step.rows]
    source = case.make()
    for position in (steps[middle].before, steps[middle].before, steps[0].before):
        source.ack(through_json(position))
    found = _rows_from(case, case.make(), steps[middle].before)
    _compare(case, found, remaining, "read on after an ack")


def _is_skipping_by_latest(case: SourceCase) -> None:
    """skips by `latest` what is there, and nothing that comes later"""
    assert case.add is not None
    position = through_json(case.make().latest())
    added = case.add()
    found = _rows_from(case, case.make(), position)
    _compare(case, found, added, "read from latest")


def _is_going_on(case: SourceCase) -> None:
    """finds what comes later from where it stood, however often it found nothing before"""
    assert case.add is not None
    source = case.make()
    position = _positions(case)[-1]
    size = len(str(position))
    for _ in range(5):
        step = take_step(source, position, _budget(case, duration_ms=20.0))
        assert step is None or not step.rows, f"at its end it gave {step and step.rows[:3]}"
        position = step.after if step else position
    assert len(str(position)) <= size + 64, f"its position grows while nothing comes: {position}"
    added = case.add()
    _compare(case, _rows_from(case, case.make(), position), added, "read on")


# --------------------------------------------------------------------------------------------- helpers


def _budget(
    case: SourceCase,
    *,
    rows_max: int = MUCH,
    bytes_max: int = MUCH,
    duration_ms: float | None = None,
    tasks_max: int = 1_000,
) -> Budget:
    if duration_ms is None:
        duration_ms = PATIENCE_MS if case.make().bounded else case.poll_ms
    return Budget(rows_max, bytes_max, duration_ms, tasks_max)


def _in_time(source: Source, position: Position) -> Step | None:
    """A step under 100 ms. One that blocks fails here and is left behind."""
    steps: list[Step | None] = []
    failed: list[BaseException] = []
    budget = Budget(10, MUCH, 100.0, 1)

    def take() -> None:
        try:
            steps.append(take_step(source, position, budget))
        except BaseException as error:  # noqa: BLE001 - raised again by the waiting thread
            failed.append(error)

    thread = threading.Thread(target=take, daemon=True)
    thread.start()
    thread.join(OVERDUE_MS / 1000)
    if failed:
        raise failed[0]
    assert steps, f"a step under duration_ms 100 has not ended {OVERDUE_MS / 1000:.0f} s later"
    return steps[0]


def _cuts(case: SourceCase) -> Iterator[tuple[str, Iterator[Budget], int]]:
    yield "one row", same_budget(_budget(case, rows_max=1, tasks_max=1)), case.idle_max
    yield "three rows", same_budget(_budget(case, rows_max=3, tasks_max=2)), case.idle_max
    yield "few bytes", same_budget(_budget(case, bytes_max=50, tasks_max=1)), case.idle_max
    yield "one task", same_budget(_budget(case, tasks_max=1)), case.idle_max
    yield "no time", same_budget(_budget(case, duration_ms=1.0)), max(case.idle_max, 30)
    duration_ms = _budget(case).duration_ms
    for seed in range(4):
        yield f"random budgets, seed {seed}", random_budgets(seed, duration_ms), case.idle_max


def _walk(
    case: SourceCase, budgets: Iterable[Budget], idle_max: int | None = None
) -> Iterator[Step]:
    source = case.make()
    start = through_json(source.start())
    return walk(source, start, budgets, idle_max=idle_max or case.idle_max)


def _whole(case: SourceCase) -> list[str]:
    if case.rows is not None:
        return list(case.rows)
    return [row for step in _walk(case, same_budget(_budget(case))) for row in step.rows]


def _positions(case: SourceCase) -> list[Position]:
    source = case.make()
    positions = [through_json(source.start())]
    budget = _budget(case, rows_max=1, tasks_max=1)
    for step in walk(source, positions[0], same_budget(budget), idle_max=case.idle_max):
        positions.append(step.after)
    return positions


def _rows_from(case: SourceCase, source: Source, position: Position) -> list[str]:
    budgets = same_budget(_budget(case))
    steps = walk(source, through_json(position), budgets, idle_max=case.idle_max)
    return [row for step in steps for row in step.rows]


def _compare(case: SourceCase, found: Sequence[str], wanted: Sequence[str], how: str) -> None:
    left, right = list(found), list(wanted)
    if not case.ordered:
        left, right = sorted(left), sorted(right)
    if left == right:
        return
    missing = [row for row in right if row not in left]
    extra = [row for row in left if row not in right]
    raise AssertionError(
        f"{how} it gave {len(left)} rows and not {len(right)}:"
        f" missing {missing[:3]}, beyond {extra[:3]}, or in another order or number"
    )


def _compare_schema(found: pa.Schema, wanted: pa.Schema, source: Source) -> None:
    columns = [(field.name, field.type) for field in found if field.name != KIND_COLUMN]
    assert columns == [(field.name, field.type) for field in wanted], (
        f"a batch has {columns} and its table {wanted}"
    )
    if KIND_COLUMN in found.names:
        assert source.emits_kinds, "a batch has kinds and the source says that it emits none"
        assert found.names[-1] == KIND_COLUMN, "the kinds are not behind the columns"
        assert found.field(KIND_COLUMN).type == pa.int8(), "kinds are not int8"


def _spread(size: int, most: int) -> list[int]:
    """Indexes over the whole range, first and last among them."""
    if size <= most:
        return list(range(size))
    chosen = {0, size - 1} | {chance(size, index) % size for index in range(most)}
    return sorted(chosen)


def _replayable(case: SourceCase) -> str | None:
    return None if case.make().replayable else "the source says that it is not replayable"


def _unbounded(case: SourceCase) -> str | None:
    return None if not case.make().bounded else "a bounded source never waits for more"


def _purgeable(case: SourceCase) -> str | None:
    return None if case.purge is not None else "nothing purges what it reads"


def _addable(case: SourceCase) -> str | None:
    return None if case.add is not None else "nothing is added to what it reads"


SOURCE_RULES: tuple[Rule[SourceCase], ...] = (
    rule_of(_is_same_rows_whatever_the_cuts, _replayable),
    rule_of(_is_resumable_from_every_position, _replayable),
    rule_of(_is_within_budget, always),
    rule_of(_is_within_its_time, always),
    rule_of(_is_small_in_state, always),
    rule_of(_is_truthful_about_its_end, always),
    rule_of(_is_replayable, _replayable),
    rule_of(_is_moving_with_its_rows, always),
    rule_of(_is_careful_with_positions, always),
    rule_of(_is_true_to_its_tables, always),
    rule_of(_is_picklable, always),
    rule_of(_is_telling, always),
    rule_of(_is_unmoved_by_ack, _replayable),
    rule_of(_is_ended_by_close, _unbounded),
    rule_of(_is_honest_about_purged_positions, _purgeable),
    rule_of(_is_skipping_by_latest, _addable),
    rule_of(_is_going_on, _addable),
)
