"""The rule that needs the whole loop: killed between any two calls and recovered, a sink holds what it guarantees.

The real loop, chain and restore run a small job into the sink, once for each crash point, with a crash there and a
new attempt after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holdfast.connectors.base import Guarantee
from holdfast.model.ends import JobEnd
from holdfast.testing import model_table
from holdfast.testing.builders import Declared
from holdfast.testing.crashes import CrashAt, Crashed
from holdfast.testing.model_table import TableOptions
from holdfast.testing.world import World

TABLE = TableOptions(table="t", splits=5, rows_per_split=2)
IDS = range(TABLE.splits * TABLE.rows_per_split)


@dataclass(frozen=True)
class RecoveryCase:
    """A sink over an empty system of its own."""

    declared: Declared
    """The connector and its options. The rows are `id` bigint (the key) and `text` string of table `t`."""
    visible: Callable[[], Sequence[int]]
    """The ids that a reader of the system sees, doubles included."""
    leftovers: Callable[[], Sequence[str]] = lambda: ()


def check_recovery(make: Callable[[int], RecoveryCase]) -> int:
    """Crash at every point, each in the system that `make` gives for its number; says how many there were."""
    counting = CrashAt()
    whole = make(0)
    result = _world(whole).run(counting)
    assert result.end is JobEnd.FINISHED, f"without a crash: {result.end}, {result.error!r}"
    _judge(whole, "without a crash")
    for number in range(1, len(counting.names) + 1):
        _check_point(make(number), number)
    return len(counting.names)


def _check_point(case: RecoveryCase, number: int) -> None:
    world = _world(case)
    crash = CrashAt(number)
    crashed = world.run(crash)
    told = f"crashed at point {number} ({crash.names[-1]!r}) and run again"
    assert isinstance(crashed.error, Crashed), f"{told}: {crashed.error!r}"
    result = world.run()
    assert result.end is JobEnd.FINISHED, f"{told}: {result.end}, {result.error!r}"
    _judge(case, told)
    wrong = world.judge_chain()
    assert not wrong, f"{told}: {wrong}"


def _world(case: RecoveryCase) -> World:
    return World({"source-0-modeltable": (model_table.SOURCE, TABLE)}, {"sink-0-it": case.declared})


def _judge(case: RecoveryCase, told: str) -> None:
    connector, options = case.declared
    assert connector.guarantee is not None, f"sink {connector.name} declares no guarantee"
    guarantee, _ = connector.guarantee(options)
    found = sorted(case.visible())
    match guarantee:
        case Guarantee.EXACTLY_ONCE | Guarantee.EFFECTIVELY_ONCE:
            assert found == list(IDS), f"{told}: {guarantee.value}, and it holds {found}"
        case Guarantee.AT_LEAST_ONCE:
            missing = sorted(set(IDS) - set(found))
            assert not missing, f"{told}: {guarantee.value}, and it lacks {missing}"
        case Guarantee.NONE:
            pass
    left = case.leftovers()
    assert not left, f"{told}: it left {list(left)[:5]} behind"
