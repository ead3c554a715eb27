"""What people see of some jobs: a picture of these alone, which costs what they hold and not what else there is.

The leader knows its workers; a stand-by goes by what the leader wrote last, so that it answers the same a little later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from holdfast.decide.isolation import key_of
from holdfast.decide.placement import NoRoom, Placed, Room
from holdfast.decide.status import PipelineShown, derive_pipeline, derive_status
from holdfast.decide.world import JobKey, World
from holdfast.master.master import Master
from holdfast.model.attempts import AttemptKey
from holdfast.model.jobs import Job
from holdfast.model.json import JsonObject
from holdfast.model.wire import heartbeat_from_json, key_from_json
from holdfast.model.workers import Worker
from holdfast.store.reads import Reads, Stored

NOTHING_STORED = Stored(None, (), (), (), ())
Reported = Mapping[JobKey, Mapping[int, JsonObject]]
"""The newest report of each pipeline."""


@dataclass(frozen=True)
class Look:
    """All of it at one instant."""

    world: World
    reported: Reported
    now_ms: int
    _master: Master = field(repr=False)

    def status(self, job: Job) -> str:
        return derive_status(self.world, job, self.now_ms).value

    def pipelines(self, job: Job) -> list[PipelineShown]:
        """Of one that lives: what has ended has none."""
        if job.outcome is not None:
            return []
        return [self._pipeline(job, id_) for id_ in job.submitted.pipeline_ids]

    def report(self, job: Job, pipeline_id: int) -> JsonObject:
        return self.reported.get(key_of(job), {}).get(pipeline_id, {})

    def _pipeline(self, job: Job, pipeline_id: int) -> PipelineShown:
        return derive_pipeline(self.world, job, pipeline_id, self.now_ms, lambda: self.room)

    @cached_property
    def room(self) -> Room:
        """Takes all open attempts: only who waits asks for it."""
        return Room(self.world, self._master.store.reads.open_attempts(), self.now_ms)


def look_at(master: Master, jobs: Sequence[Job]) -> Look:
    reads = master.store.reads
    keys = [key_of(job) for job in jobs]
    live = [key_of(job) for job in jobs if job.outcome is None]
    reported = reads.metrics_of(keys)
    stored = Stored(None, jobs, reads.attempts_of(live), (), ())
    world = master.picture_of(stored)
    if master.term is None:
        world = _as_written(world, reads, reported)
    return Look(world, reported, master.now_ms(), master)


def _as_written(world: World, reads: Reads, reported: Reported) -> World:
    tips = {
        key: at_ms
        for of_job in reported.values()
        for seen in of_job.values()
        for key, at_ms in _tip_of(seen)
    }
    return replace(world, workers=workers_as_written(reads), tip_since_ms=tips)


def ask_for_room(master: Master, job: Job) -> Placed | NoRoom:
    """Where a job that is not there yet would begin, all of it at once."""
    look = look_at(master, [job])
    return look.room.ask_for_all(job)


def list_workers(master: Master) -> list[Worker]:
    """Of the leader all that it has heard not long ago; of a stand-by what the leader wrote of them."""
    known = master.picture_of(NOTHING_STORED).workers if master.term is not None else None
    found = workers_as_written(master.store.reads) if known is None else known
    return [worker for _, worker in sorted(found.items())]


def workers_as_written(reads: Reads) -> Mapping[str, Worker]:
    found = [Worker(heartbeat_from_json(told), at_ms) for told, at_ms in reads.workers()]
    return {worker.id: worker for worker in found}


def _tip_of(seen: JsonObject) -> Sequence[tuple[AttemptKey, int]]:
    at_ms = seen.get("tipAtMs")
    return [(key_from_json(seen["key"]), at_ms)] if isinstance(at_ms, int) and at_ms else []
