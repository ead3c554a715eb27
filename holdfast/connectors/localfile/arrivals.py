"""Continuous discovery: which files of a listing are new, with a state that does not grow.

Files are read in the order in which they arrived (the time of the inode's change, which nobody can set), once they
have been left alone for a while. What is read is known within an attempt by a listing in memory, and across restarts
by the last arrival that was begun and a digest of what had been read and was still there. Each version of a file
(name, size, time of modification) is read once, also under an old name or time, also in a folder that is moved in.
Not told apart are, after a restart only, files that were touched (permissions, a link) while others were removed:
then the touched ones are read again; none is ever left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from holdfast.connectors.localfile.listing import (
    Key,
    add_digests,
    arrival_key,
    digest_of,
)
from holdfast.connectors.localfile.place import InFlight, Place, pick_touched
from holdfast.connectors.localfile.storage import FileFact
from holdfast.model.errors import PositionGone

Version = tuple[int, int]


@dataclass
class Arrivals:
    """What one attempt knows of one table's files."""

    known: dict[str, Version] | None = None
    """Every version that is read or planned, of files that were there at the last look; None before the first."""
    waiting: list[FileFact] = field(default_factory=list)
    """Found and not planned yet, in order."""

    def look(self, place: Place, facts: Sequence[FileFact], *, settled_ns: int) -> Place:
        """Take in a listing. The place's digest then speaks of the files that are still there."""
        if self.known is None:
            new = _new_since(place, facts)
        else:
            known = self.known
            new = [fact for fact in facts if known.get(fact.name) != _version(fact)]
        names = {fact.name for fact in new}
        done = [fact for fact in facts if fact.name not in names]
        self.known = {fact.name: _version(fact) for fact in done}
        self.waiting = sorted(
            (fact for fact in new if fact.arrived_ns <= settled_ns), key=arrival_key
        )
        return replace(place, count=len(done), digest=digest_of(done))

    def begin(self, place: Place, fact: FileFact, rest: InFlight | None) -> Place:
        """The place behind a waiting file, or in it."""
        assert self.known is not None
        self.known[fact.name] = _version(fact)
        self.waiting.remove(fact)
        key = arrival_key(fact)
        return replace(
            place,
            after=key if place.after is None or _later(key, place.after) else place.after,
            count=place.count + 1,
            digest=add_digests(place.digest, digest_of([fact])),
            in_flight=rest,
        )


def place_behind(facts: Sequence[FileFact]) -> Place:
    """Everything that is there counts as read."""
    after = max((arrival_key(fact) for fact in facts), default=None, key=lambda key: tuple(key))
    return Place(after, len(facts), digest_of(facts))


def _new_since(place: Place, facts: Sequence[FileFact]) -> list[FileFact]:
    """At the first look of an attempt."""
    if place.after is None:
        return list(facts)
    behind = [fact for fact in facts if _later(arrival_key(fact), place.after)]
    before = [fact for fact in facts if not _later(arrival_key(fact), place.after)]
    last_ns = place.after[0]
    assert isinstance(last_ns, int)
    doubtful = [fact for fact in behind if fact.modified_ns <= last_ns]
    touched = pick_touched(place, before, doubtful)
    if touched is not None:
        names = {fact.name for fact in touched}
        return [fact for fact in behind if fact.name not in names]
    if len(before) > place.count:
        raise PositionGone(
            f"Cannot tell which files are new: {len(before)} lie before the position, where"
            f" {place.count} had been read. The clock was set back, or files were put in by"
            " means that keep their inode's time. Restore with on-missing = fresh or latest."
        )
    return behind


def _later(key: Key, than: Key) -> bool:
    return tuple(key) > tuple(than)


def _version(fact: FileFact) -> Version:
    return fact.size, fact.modified_ns
