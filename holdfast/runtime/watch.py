"""What an attempt tells while it runs: for displays, metrics and tests. Nothing is ever decided from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from holdfast.model.checkpoints import Checkpoint, Count
from holdfast.model.restore import RestoreReport


@dataclass(frozen=True, slots=True)
class EpochStaged:
    """An epoch was read, transformed and staged; nothing of it is visible yet."""

    pipeline_id: int
    number: int
    counts: Mapping[str, Count]
    """Of this epoch, by task location."""


@dataclass(frozen=True, slots=True)
class EpochCommitted:
    """Its checkpoint exists and its sinks have published."""

    pipeline_id: int
    checkpoint: Checkpoint
    fraction: float | None
    """How much of all bounded sources is behind, where they know."""
    took_ms: float


class Watch(Protocol):
    def restored(self, report: RestoreReport) -> None: ...

    def staged(self, event: EpochStaged) -> None: ...

    def committed(self, event: EpochCommitted) -> None: ...

    def retrying(self, pipeline_id: int, reason: str, wait_ms: int) -> None: ...

    def stalled(self, pipeline_id: int) -> None:
        """It runs, and its checkpoints have not advanced for two intervals. Told once, until they do."""


class NoWatch:
    """Looks away."""

    def restored(self, report: RestoreReport) -> None:
        return None

    def staged(self, event: EpochStaged) -> None:
        return None

    def committed(self, event: EpochCommitted) -> None:
        return None

    def retrying(self, pipeline_id: int, reason: str, wait_ms: int) -> None:
        return None

    def stalled(self, pipeline_id: int) -> None:
        return None
