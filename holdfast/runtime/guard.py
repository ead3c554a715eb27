"""A read in the driver that outlasts its budget is ended from outside, whatever it waits for."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.connectors.base import Budget, ReadTask, Source, TableBatch
from holdfast.model.errors import Transient
from holdfast.outside.clock import Clock


class ReadOverdue(Transient):
    """A source did not come back within its budget."""

    code = "read-overdue"


def guarded_read(
    source: Source, task: ReadTask, budget: Budget, *, clock: Clock, grace_ms: float
) -> Iterator[TableBatch]:
    """As `source.read`, but each step ends: past budget and grace the source is closed from another thread."""
    overdue: list[bool] = []

    def ring() -> None:
        overdue.append(True)
        source.close()

    batches = iter(source.read(task, budget))
    while True:
        try:
            with clock.alarm(budget.duration_ms + grace_ms, ring):
                batch = next(batches)
        except StopIteration:
            return
        except Exception as error:
            if overdue:
                raise _overdue(budget, grace_ms) from error
            raise
        if overdue:
            raise _overdue(budget, grace_ms)
        yield batch


def _overdue(budget: Budget, grace_ms: float) -> ReadOverdue:
    return ReadOverdue(
        f"Cannot go on reading: the source gave nothing for {(budget.duration_ms + grace_ms) / 1000:g} s"
        f" where it may take {budget.duration_ms / 1000:g} s. Its connection was closed; the pipeline"
        " goes on from its newest checkpoint in a new attempt."
    )
