"""Whether a master takes the lead, keeps it, or follows."""

from __future__ import annotations

from enum import Enum

from holdfast.model.lease import Lease


class Lead(Enum):
    TAKE = "take"
    RENEW = "renew"
    FOLLOW = "follow"


def decide_leadership(lease: Lease | None, *, me: str, now_ms: int, ttl_ms: int) -> Lead:
    """The store decides in the end: a take names the term it saw, a renewal its own."""
    if lease is None:
        return Lead.TAKE
    if lease.holder == me:
        return Lead.RENEW if now_ms < lease.expires_at_ms else Lead.TAKE
    if now_ms >= lease.expires_at_ms:
        return Lead.TAKE
    if lease.expires_at_ms - now_ms > 2 * ttl_ms:
        # Its clock is far ahead of ours. Waiting for that instant could be for ever; a term makes taking over safe.
        return Lead.TAKE
    return Lead.FOLLOW
