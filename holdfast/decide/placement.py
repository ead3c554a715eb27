"""Which worker gets an attempt. Slots are counted from the attempts there are, anew in each pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from holdfast.decide.world import World
from holdfast.model.attempts import Attempt
from holdfast.model.jobs import Job
from holdfast.model.workers import Worker


@dataclass(frozen=True, slots=True)
class Placed:
    worker_id: str
    alone: bool


@dataclass(frozen=True, slots=True)
class NoRoom:
    """Why a pipeline is PENDING, in words."""

    reason: str


Wanted = tuple[tuple[tuple[str, str], ...], bool]


class Room:
    """What is free, in one pass. What the pass itself has placed takes a slot at once."""

    def __init__(self, world: World, open_attempts: Sequence[Attempt], now_ms: int) -> None:
        self.heard = [w for _, w in sorted(world.workers.items()) if world.is_heard(w.id, now_ms)]
        self.ready = [w for w in self.heard if not w.heartbeat.draining]
        self._hosted: dict[str, int] = {}
        self._kept: set[str] = set()
        self._refused: dict[Wanted, NoRoom] = {}
        for attempt in open_attempts:
            begun_ms = attempt.started_at_ms or attempt.planned_at_ms
            is_alone = attempt.alone and now_ms - begun_ms < world.limits.alone_ms
            self._add(attempt.worker_id, alone=is_alone)

    def _add(self, worker_id: str, *, alone: bool) -> None:
        self._hosted[worker_id] = self._hosted.get(worker_id, 0) + 1
        if alone:
            self._kept.add(worker_id)

    def place(self, job: Job, *, wants_alone: bool) -> Placed | NoRoom:
        """The worker with the fewest attempts among those that fit. A job that kills workers gets an empty one, and
        nobody is put beside it until it has shown that it can run; where no worker is empty it goes where it fits.
        """
        wanted = (tuple(sorted(job.submitted.tag_filter.items())), wants_alone)
        refused = self._refused.get(wanted)
        if refused is not None:
            return refused
        found = self._choose(job.submitted.tag_filter, wants_alone=wants_alone)
        if isinstance(found, Placed):
            self._add(found.worker_id, alone=found.alone)
        else:
            # There is only ever less room in one pass.
            self._refused[wanted] = found
        return found

    def ask(self, job: Job, *, wants_alone: bool) -> Placed | NoRoom:
        """As `place`, and takes nothing."""
        return self._choose(job.submitted.tag_filter, wants_alone=wants_alone)

    def _choose(self, tags: Mapping[str, str], *, wants_alone: bool) -> Placed | NoRoom:
        if not self.heard:
            return NoRoom("no worker is there")
        if not self.ready:
            return NoRoom(f"all {len(self.heard)} workers are draining")
        tagged = [w for w in self.ready if _fits(w, tags)]
        if not tagged:
            wanted = ", ".join(f"{name}={value}" for name, value in sorted(tags.items()))
            return NoRoom(f"none of {len(self.ready)} workers has the tags {wanted}")
        roomy = [w for w in tagged if self._has_slot(w)]
        if not roomy:
            return NoRoom(f"all {self._slots_of(tagged)} slots of {len(tagged)} workers are taken")
        empty = [w for w in roomy if not self._hosted.get(w.id)]
        if wants_alone and empty:
            return Placed(empty[0].id, alone=True)
        shared = [w for w in roomy if w.id not in self._kept]
        if not shared:
            return NoRoom(
                "each worker with a free slot is kept for a while for one job that has killed workers"
            )
        chosen = min(shared, key=lambda w: (self._hosted.get(w.id, 0), w.id))
        return Placed(chosen.id, alone=False)

    def _has_slot(self, worker: Worker) -> bool:
        slots = worker.heartbeat.slots
        return slots is None or self._hosted.get(worker.id, 0) < slots

    def _slots_of(self, workers: Sequence[Worker]) -> int:
        return sum(worker.heartbeat.slots or 0 for worker in workers)


def _fits(worker: Worker, tags: Mapping[str, str]) -> bool:
    own = worker.heartbeat.tags
    return all(own.get(name) == value for name, value in tags.items())
