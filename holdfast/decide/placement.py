"""Which worker gets an attempt. Slots are counted from the attempts there are, never up and down."""

from __future__ import annotations

from collections.abc import Sequence
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


def place(
    world: World,
    job: Job,
    *,
    open_attempts: Sequence[Attempt],
    wants_alone: bool,
    now_ms: int,
) -> Placed | NoRoom:
    """The worker with the fewest attempts among those that fit. A job that kills workers gets an empty one, and
    nobody is put beside it; where no worker is empty it goes where it fits, rather than nowhere.
    """
    heard = [w for _, w in sorted(world.workers.items()) if world.is_heard(w.id, now_ms)]
    if not heard:
        return NoRoom("no worker is there")
    ready = [w for w in heard if not w.heartbeat.draining]
    if not ready:
        return NoRoom(f"all {len(heard)} workers are draining")
    tagged = [w for w in ready if _fits(w, job)]
    if not tagged:
        wanted = ", ".join(f"{k}={v}" for k, v in sorted(job.submitted.tag_filter.items()))
        return NoRoom(f"none of {len(ready)} workers has the tags {wanted}")
    roomy = [w for w in tagged if _has_slot(w, open_attempts)]
    if not roomy:
        return NoRoom(f"all slots of {len(tagged)} workers are taken")
    empty = [w for w in roomy if not _hosted(w, open_attempts)]
    if wants_alone and empty:
        return Placed(empty[0].id, alone=True)
    shared = [w for w in roomy if not any(a.alone for a in _hosted(w, open_attempts))]
    if not shared:
        return NoRoom("each worker with a free slot is kept for one job that has killed workers")
    return Placed(min(shared, key=lambda w: (len(_hosted(w, open_attempts)), w.id)).id, alone=False)


def _fits(worker: Worker, job: Job) -> bool:
    tags = worker.heartbeat.tags
    return all(tags.get(name) == value for name, value in job.submitted.tag_filter.items())


def _has_slot(worker: Worker, open_attempts: Sequence[Attempt]) -> bool:
    slots = worker.heartbeat.slots
    return slots is None or len(_hosted(worker, open_attempts)) < slots


def _hosted(worker: Worker, open_attempts: Sequence[Attempt]) -> list[Attempt]:
    return [attempt for attempt in open_attempts if attempt.worker_id == worker.id]
