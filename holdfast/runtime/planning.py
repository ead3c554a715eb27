"""Which epochs come next: asks the sources, keeps the order, and knows when two epochs may be under way at once.

Two may overlap only where each plan tells its end beforehand, no source delivers updates or deletes, and every sink
says that it can bear it. Epochs are then staged side by side and committed in order, so the tail of one epoch's tasks
and its commit cost nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.connectors.base import Budget, Position, ReadPlan, is_done
from holdfast.decide.epochs import (
    IDLE_WAIT_MAX_MS,
    IDLE_WAIT_MIN_MS,
    READ_BYTES_MAX,
    READ_DURATION_MAX_MS,
    READ_ROWS_MAX,
    ROWS_MAX,
    Cadence,
    first_pace,
    next_pace,
)
from holdfast.model.checkpoints import Checkpoint
from holdfast.model.schema import Table
from holdfast.runtime.epoch import EpochWork, PlannedEpoch, Staged
from holdfast.runtime.open_pipeline import OpenPipeline

OVERLAP_MAX = 2


class Planning:
    """The epochs under way of one attempt, oldest first."""

    def __init__(self, pipeline: OpenPipeline, cadence: Cadence) -> None:
        self._pipeline = pipeline
        self._cadence = cadence
        parallelism = max((v.parallelism for v in pipeline.spec.vertices), default=1)
        self._pace = first_pace(cadence, parallelism=parallelism)
        self._under_way: deque[PlannedEpoch] = deque()
        self._positions: dict[str, Position] = {}
        self._number = 0
        self._attempt = 0
        self._lineage = ""
        self._idle_ms = float(IDLE_WAIT_MIN_MS)
        self._may_overlap = False

    def begin(self, tip: Checkpoint, reaching: Mapping[str, Sequence[Table]]) -> None:
        """Go on from the tip, with nothing under way. `reaching`: the tables that reach each sink."""
        self._may_overlap = not any(
            source.emits_kinds for source in self._pipeline.sources.values()
        ) and all(
            sink.overlaps or _overlaps_over(sink, reaching.get(at, ()))
            for at, sink in self._pipeline.sinks.items()
        )
        self._positions = dict(tip.sources)
        self._number = tip.number
        self._attempt = tip.attempt
        self._lineage = tip.lineage

    def may_plan(self) -> bool:
        if not self._under_way:
            return True
        overlap = self._may_overlap and self._cadence.apart_ms == 0
        limited = self._cadence.rows_per_second_max or self._cadence.bytes_per_second_max
        return (
            overlap
            and not limited
            and len(self._under_way) < OVERLAP_MAX
            and not any(epoch.work.is_small for epoch in self._under_way)
        )

    def plan(self) -> PlannedEpoch | None:
        """The next epoch from where the newest planned one ends; None when there is nothing now."""
        plans: dict[str, ReadPlan] = {}
        moved: dict[str, Position] = {}
        for at, source in sorted(self._pipeline.sources.items()):
            position = self._positions[at]
            plan = None if is_done(position) else source.plan(position, self._plan_budget())
            if plan is None:
                continue
            if plan.tasks:
                plans[at] = plan
            elif plan.end is not None and plan.end != position:
                moved[at] = plan.end
        if not plans and not moved:
            return None
        number = self._number + 1 + len(self._under_way)
        work = EpochWork(number, self._attempt, plans, self._read_budget(), self._lineage)
        planned = PlannedEpoch(work, moved, self._pipeline.clock.elapsed_ms())
        self._under_way.append(planned)
        ends = {at: plan.end for at, plan in plans.items() if plan.end is not None}
        self._positions.update({**ends, **moved})
        return planned

    def oldest(self) -> PlannedEpoch | None:
        return self._under_way[0] if self._under_way else None

    def settle(
        self, planned: PlannedEpoch, staged: Staged, took_ms: float
    ) -> Mapping[str, Position] | None:
        """The positions after an epoch that was staged; None when nothing had come, so that it never was."""
        assert self._under_way.popleft() is planned
        reached: dict[str, Position] = dict(planned.moved)
        for at, plan in planned.work.plans.items():
            if plan.end is not None:
                reached[at] = plan.end
                continue
            before = self._positions[at]
            after = self._pipeline.sources[at].position_after(before, staged.reached[at])
            if after != before:
                reached[at] = self._positions[at] = after
        rows = sum(staged.counts[at].rows for at in planned.work.plans if at in staged.counts)
        if not reached and not staged.tokens and not rows:
            return None
        self._number += 1
        self._idle_ms = float(IDLE_WAIT_MIN_MS)
        self._pace = next_pace(self._pace, self._cadence, took_ms=took_ms, rows=rows)
        return reached

    def skip_number(self) -> None:
        """A checkpoint was written that was no epoch of ours."""
        assert not self._under_way
        self._number += 1

    def idle_wait_ms(self) -> float:
        """Longer each time that nothing comes."""
        found = self._idle_ms
        self._idle_ms = min(self._idle_ms * 2, IDLE_WAIT_MAX_MS)
        return found

    def _plan_budget(self) -> Budget:
        return Budget(
            rows_max=self._pace.rows_max,
            bytes_max=ROWS_MAX,
            duration_ms=READ_DURATION_MAX_MS,
            tasks_max=self._pace.tasks_max,
        )

    def _read_budget(self) -> Budget:
        return Budget(
            rows_max=min(self._pace.rows_max, READ_ROWS_MAX),
            bytes_max=READ_BYTES_MAX,
            duration_ms=min(self._cadence.target_ms or READ_DURATION_MAX_MS, READ_DURATION_MAX_MS),
            tasks_max=self._pace.tasks_max,
        )


def _overlaps_over(sink: Any, tables: Sequence[Table]) -> bool:
    return hasattr(sink, "overlaps_over") and bool(sink.overlaps_over(tables))
