"""Which worker gets an attempt. Slots are counted from the attempts there are, anew in each pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from holdfast.decide.isolation import begun_at_ms, find_suspects, key_of, trial_ms
from holdfast.decide.world import JobKey, World
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
    passes: bool = False
    """By itself, within moments: no room has to be added."""


Wanted = tuple[tuple[tuple[str, str], ...], JobKey | None]
"""Tags, and which suspect asks."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """A worker on which a suspect is on trial."""

    job: JobKey
    advanced: bool


class Room:
    """What is free, in one pass. What the pass itself has placed takes a slot at once."""

    def __init__(self, world: World, open_attempts: Sequence[Attempt], now_ms: int) -> None:
        self.heard = [w for _, w in sorted(world.workers.items()) if world.is_heard(w.id, now_ms)]
        self.ready = [w for w in self.heard if not w.heartbeat.draining]
        self.suspects = find_suspects(world, now_ms)
        self._hosted: dict[str, int] = {}
        self._kept: dict[str, _Kept] = {}
        self._refused: dict[Wanted, NoRoom] = {}
        for attempt in open_attempts:
            self._hosted[attempt.worker_id] = self._hosted.get(attempt.worker_id, 0) + 1
            if attempt.alone and _is_on_trial(world, attempt, now_ms):
                key = (attempt.key.job_id, attempt.key.generation)
                self._kept[attempt.worker_id] = _Kept(key, attempt.advanced)

    def place(self, job: Job) -> Placed | NoRoom:
        """The worker with the fewest attempts among those that fit. A suspect gets an empty one, and nobody is put
        beside it until it has shown that it can run; where no worker is empty it goes where it fits.
        """
        suspect = key_of(job) if key_of(job) in self.suspects else None
        wanted = (tuple(sorted(job.submitted.tag_filter.items())), suspect)
        refused = self._refused.get(wanted)
        if refused is not None:
            return refused
        found = self._choose(job.submitted.tag_filter, suspect)
        if isinstance(found, NoRoom):
            # There is only ever less room in one pass.
            self._refused[wanted] = found
            return found
        self._hosted[found.worker_id] = self._hosted.get(found.worker_id, 0) + 1
        if suspect is not None:
            self._kept[found.worker_id] = _Kept(suspect, advanced=False)
        return found

    def ask(self, job: Job) -> Placed | NoRoom:
        """As `place`, and takes nothing."""
        suspect = key_of(job) if key_of(job) in self.suspects else None
        return self._choose(job.submitted.tag_filter, suspect)

    def ask_for_all(self, job: Job) -> Placed | NoRoom:
        """Whether all pipelines of a job have room at once: half a job takes slots and never ends. Takes nothing."""
        found = self.ask(job)
        wanted = len(job.submitted.pipeline_ids)
        tagged = [w for w in self.ready if _fits(w, job.submitted.tag_filter)]
        free = [
            w.heartbeat.slots - self._hosted.get(w.id, 0)
            for w in tagged
            if w.heartbeat.slots is not None
        ]
        if isinstance(found, NoRoom) or len(free) < len(tagged) or sum(free) >= wanted:
            return found
        return NoRoom(
            f"it has {wanted} pipelines, and {sum(free)} of {self._slots_of(tagged)} slots are free"
        )

    def _choose(self, tags: Mapping[str, str], suspect: JobKey | None) -> Placed | NoRoom:
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
        if suspect is not None and empty:
            return Placed(empty[0].id, alone=True)
        open_to_it = self._open_to(roomy, suspect)
        if not open_to_it:
            return NoRoom(
                "each worker with a free slot is kept for a while for one job that has killed workers",
                passes=True,
            )
        chosen = min(open_to_it, key=lambda w: (self._hosted.get(w.id, 0), w.id))
        return Placed(chosen.id, alone=suspect is not None)

    def _open_to(self, roomy: Sequence[Worker], suspect: JobKey | None) -> Sequence[Worker]:
        """A trial is between a worker and one job, all its pipelines. Where there are only trials, one that goes well
        is good enough: nobody shall wait for long.
        """
        kept = self._kept
        own = [w for w in roomy if w.id in kept and kept[w.id].job == suspect]
        free = [w for w in roomy if w.id not in kept]
        return own or free or [w for w in roomy if kept[w.id].advanced]

    def _has_slot(self, worker: Worker) -> bool:
        slots = worker.heartbeat.slots
        return slots is None or self._hosted.get(worker.id, 0) < slots

    def _slots_of(self, workers: Sequence[Worker]) -> int:
        return sum(worker.heartbeat.slots or 0 for worker in workers)


def _fits(worker: Worker, tags: Mapping[str, str]) -> bool:
    own = worker.heartbeat.tags
    return all(own.get(name) == value for name, value in tags.items())


def _is_on_trial(world: World, attempt: Attempt, now_ms: int) -> bool:
    lasts_ms = trial_ms(world.limits, world.tried_until(attempt))
    return now_ms - begun_at_ms(attempt) < lasts_ms
