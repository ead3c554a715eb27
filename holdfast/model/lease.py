"""The right to lead: one master at a time, by a lease with a number that only grows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Lease:
    """The leader row, as it was read. Term 0: nobody has ever led."""

    term: int
    holder: str
    """The id of the master process; never reused."""
    url: str
    """Where that master answers; empty in an embedded node."""
    expires_at_ms: int
