"""What follows when an attempt fails: another one after a wait, or the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

HEALTHY_STRETCH_MS = 600_000
"""After so long without a failure, in which something was committed, the budget is whole: a job healthy for weeks does
not die at its fourth hiccup."""
BACKOFF_MAX_MS = 60_000
DOUBLINGS_MAX = 30


@dataclass(frozen=True, slots=True)
class Failure:
    """Of one attempt."""

    at_ms: int
    advanced: bool
    """Since the failure before it, something was committed."""


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
    failures: Sequence[Failure],
    *,
    can_help: bool,
    retry_times: int,
    retry_interval_ms: int,
    healthy_ms: int = HEALTHY_STRETCH_MS,
) -> Retry | GiveUp:
    """`failures` are all so far, the newest last. `can_help`: might a retry?"""
    if not can_help:
        return GiveUp("the same attempt would fail again")
    used = _count_in_a_row(failures, healthy_ms)
    if used > retry_times:
        return GiveUp(f"it failed {used} times and job.retry.times is {retry_times}")
    wait_ms = min(retry_interval_ms * 2 ** min(used - 1, DOUBLINGS_MAX), BACKOFF_MAX_MS)
    return Retry(wait_ms, used=used, of=retry_times)


def _count_in_a_row(failures: Sequence[Failure], healthy_ms: int) -> int:
    """The newest failures with no healthy stretch between them. A window that slides would forget failures whose waits
    fill it, and a large budget would never be spent. Nor is it healthy to take long and to commit nothing: what fails
    so each time would begin anew for ever.
    """
    count = 1
    for before, after in zip(failures[-2::-1], failures[:0:-1], strict=True):
        if after.advanced and after.at_ms - before.at_ms >= healthy_ms:
            break
        count += 1
    return count
