"""What follows when an attempt fails: another one after a wait, or the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

HEALTHY_STRETCH_MS = 600_000
"""After so long without a failure the budget is whole: a job healthy for weeks does not die at its fourth hiccup."""
BACKOFF_MAX_MS = 60_000
DOUBLINGS_MAX = 30


@dataclass(frozen=True, slots=True)
class Retry:
    """Start another attempt."""

    wait_ms: int
    used: int
    of: int


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The pipeline has failed."""

    reason: str


def decide_after_failure(
    failed_at_ms: Sequence[int], *, can_help: bool, retry_times: int, retry_interval_ms: int
) -> Retry | GiveUp:
    """`failed_at_ms` are the instants of all failures so far, the newest last. `can_help`: might a retry?"""
    if not can_help:
        return GiveUp("the same attempt would fail again")
    used = _count_in_a_row(failed_at_ms)
    if used > retry_times:
        return GiveUp(f"it failed {used} times and job.retry.times is {retry_times}")
    wait_ms = min(retry_interval_ms * 2 ** min(used - 1, DOUBLINGS_MAX), BACKOFF_MAX_MS)
    return Retry(wait_ms, used=used, of=retry_times)


def _count_in_a_row(failed_at_ms: Sequence[int]) -> int:
    """The newest failures with no healthy stretch between them. A window that slides would forget failures whose waits
    fill it, and a large budget would never be spent."""
    count = 1
    for before, after in zip(failed_at_ms[-2::-1], failed_at_ms[:0:-1], strict=True):
        if after - before >= HEALTHY_STRETCH_MS:
            break
        count += 1
    return count
