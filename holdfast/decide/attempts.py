"""What follows when an attempt fails: another one after a wait, or the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

HEALTHY_STRETCH_MS = 600_000
"""A failure this long ago no longer counts: a job healthy for weeks does not die at its fourth hiccup."""
BACKOFF_MAX_MS = 60_000


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
    newest = failed_at_ms[-1]
    recent = [at for at in failed_at_ms if newest - at < HEALTHY_STRETCH_MS]
    if len(recent) > retry_times:
        return GiveUp(f"it failed {len(recent)} times and job.retry.times is {retry_times}")
    wait_ms = min(retry_interval_ms * 2 ** (len(recent) - 1), BACKOFF_MAX_MS)
    return Retry(wait_ms, used=len(recent), of=retry_times)
