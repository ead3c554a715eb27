"""Which checkpoints of a chain are kept. Decided from what is in storage, never from a memory of it.

The tip is never removed, and neither is a claim: a claim's number is what stops the attempt it passed by.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kept:
    """A checkpoint in storage."""

    number: int
    at_ms: int
    is_claim: bool


def decide_retention(found: Sequence[Kept], *, interval_ms: int, retained_max: int) -> list[int]:
    """The numbers to remove, oldest first.

    Of the epochs the newest of each interval stays, up to `retained_max` of them beside the tip.
    """
    ordered = sorted(found, key=lambda kept: kept.number, reverse=True)
    remove: list[int] = []
    retained = 0
    newest_at_ms: int | None = None
    for kept in ordered[1:]:
        if kept.is_claim:
            continue
        interval = kept.at_ms // max(interval_ms, 1)
        is_new_interval = newest_at_ms is None or interval < newest_at_ms // max(interval_ms, 1)
        if is_new_interval and retained < retained_max:
            retained += 1
            newest_at_ms = kept.at_ms
        else:
            remove.append(kept.number)
    return sorted(remove)
