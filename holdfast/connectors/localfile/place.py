"""Where the reading of one table stands: a few numbers, however many files there are.

The files behind a place are known by their order (`after` is the key of the last file begun) and by a digest of the
set, so that a restart can tell whether the listing is still the one that the job began with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import comb

from holdfast.connectors.localfile.listing import Key, digest_of
from holdfast.connectors.localfile.storage import FileFact
from holdfast.model.json import JsonObject

TRIES_MAX = 20_000
"""Sets that are tried in order to tell touched files from new ones."""


@dataclass(frozen=True, slots=True)
class InFlight:
    """A file of which a part is read: what it was, and where the next piece begins."""

    name: str
    size: int
    modified_ns: int
    next: int

    def is_version(self, fact: FileFact) -> bool:
        return (self.name, self.size, self.modified_ns) == (fact.name, fact.size, fact.modified_ns)


@dataclass(frozen=True, slots=True)
class Place:
    """Of one table."""

    after: Key | None = None
    """The last file of which reading was begun; None at the start."""
    count: int = 0
    """`once`: files behind `after` that are still to be read. `continuous`: files that are read and still there."""
    digest: int = 0
    """Of these files."""
    newest_ns: int = 0
    """`once`: the last arrival in the listing at the start: later ones are not of this job."""
    bytes_left: int = 0
    bytes_total: int = 0
    in_flight: InFlight | None = None

    def to_json(self) -> JsonObject:
        found: JsonObject = {
            "after": self.after,
            "count": self.count,
            "digest": f"{self.digest:016x}",
            "newest_ns": self.newest_ns,
            "bytes_left": self.bytes_left,
            "bytes_total": self.bytes_total,
        }
        if self.in_flight is not None:
            own = self.in_flight
            found["in_flight"] = [own.name, own.size, own.modified_ns, own.next]
        return found


def place_from_json(found: object) -> Place:
    """Raises KeyError, TypeError or ValueError for what `to_json` never gave."""
    assert isinstance(found, dict)
    flying = found.get("in_flight")
    return Place(
        after=found["after"],
        count=found["count"],
        digest=int(found["digest"], 16),
        newest_ns=found["newest_ns"],
        bytes_left=found["bytes_left"],
        bytes_total=found["bytes_total"],
        in_flight=None if flying is None else InFlight(*flying),
    )


def place_before(facts: Sequence[FileFact]) -> Place:
    """The start of a bounded read over a listing."""
    size = sum(fact.size for fact in facts)
    newest = max((fact.arrived_ns for fact in facts), default=0)
    return Place(None, len(facts), digest_of(facts), newest, size, size)


def same_listing(place: Place, behind: Sequence[FileFact]) -> list[FileFact] | None:
    """Those of the files behind a bounded place that were there at the start; None when it cannot be told.

    Files that came later are left out, whatever their names and times of modification. Files whose inode alone was
    touched since (permissions, a link) are told from them by the digest.
    """
    early = [fact for fact in behind if fact.arrived_ns <= place.newest_ns]
    doubtful = [
        fact
        for fact in behind
        if fact.arrived_ns > place.newest_ns and fact.modified_ns <= place.newest_ns
    ]
    touched = pick_touched(place, early, doubtful)
    if touched is None:
        return None
    there = {fact.name for fact in (*early, *touched)}
    return [fact for fact in behind if fact.name in there]


def pick_touched(
    place: Place, certain: Sequence[FileFact], doubtful: Sequence[FileFact]
) -> list[FileFact] | None:
    """Which of the doubtful files make up, with the certain ones, the set that the digest is of; None for none."""
    missing = place.count - len(certain)
    if not 0 <= missing <= len(doubtful) or comb(len(doubtful), missing) > TRIES_MAX:
        return None
    wanted = (place.digest - digest_of(certain)) % 2**64
    for tried in combinations(doubtful, missing):
        if digest_of(tried) == wanted:
            return list(tried)
    return None


def advanced(place: Place, key: Key, fact: FileFact, rest: InFlight | None) -> Place:
    """A bounded place behind a file, or in it."""
    return replace(
        place,
        after=key,
        count=place.count - 1,
        digest=(place.digest - digest_of([fact])) % 2**64,
        bytes_left=max(0, place.bytes_left - fact.size),
        in_flight=rest,
    )
