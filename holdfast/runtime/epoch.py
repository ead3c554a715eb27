"""An epoch on its way through the data path: what it is to do, and what it left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.connectors.base import Budget, Position, ReadPlan, Token
from holdfast.model.checkpoints import Count
from holdfast.model.json import JsonObject

SMALL_ROWS_MAX = 10_000
"""Up to here an epoch is done in the driver: ~25 ms against ~150 ms for a round through Python workers."""


@dataclass(frozen=True, slots=True)
class EpochWork:
    """What one epoch is to do."""

    number: int
    attempt: int
    plans: Mapping[str, ReadPlan]
    budget: Budget
    lineage: str = ""

    @property
    def is_open(self) -> bool:
        """Where it ends is known only after it was read."""
        return any(plan.end is None for plan in self.plans.values())

    @property
    def is_small(self) -> bool:
        if self.is_open:
            return True
        estimates = [plan.rows_estimate for plan in self.plans.values()]
        known = [estimate for estimate in estimates if estimate is not None]
        return len(known) == len(estimates) and sum(known) <= SMALL_ROWS_MAX


@dataclass(frozen=True, slots=True)
class PlannedEpoch:
    """An epoch under way."""

    work: EpochWork
    moved: Mapping[str, Position]
    """Sources that only moved on, without rows to read."""
    planned_at_ms: float


@dataclass(frozen=True, slots=True)
class Staged:
    """What one epoch left: everything its checkpoint has to say."""

    number: int
    reached: Mapping[str, Sequence[JsonObject | None]] = field(default_factory=dict)
    tokens: Mapping[str, Token] = field(default_factory=dict)
    counts: Mapping[str, Count] = field(default_factory=dict)
    sink_rows: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
