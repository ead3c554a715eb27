"""Planted in workers: what they tell, what they obey, when they stop."""

from __future__ import annotations

from dataclasses import replace

from holdfast.master.master import Master
from holdfast.model.attempts import AttemptKey
from holdfast.model.workers import Answer, Heartbeat, ObservedAttempt, Worker
from holdfast.worker.host import WorkerHost
from tests.sim.planting import Bug, Patch, a_bug

HEARTBEAT, OBEY, HEAR = WorkerHost.heartbeat, WorkerHost.obey, Master.hear


def _tell_changes(self: WorkerHost) -> Heartbeat:
    """What was told once is known, is it not?"""
    told = HEARTBEAT(self)
    before: dict[AttemptKey, ObservedAttempt] = vars(self).setdefault("told", {})
    changed = tuple(seen for seen in told.attempts if before.get(seen.key) != seen)
    before |= {seen.key: seen for seen in changed}
    return replace(told, attempts=changed)


def _add_changes(self: Master, heartbeat: Heartbeat) -> Answer:
    known = self._workers.get(heartbeat.worker_id)
    seen = {} if known is None else {each.key: each for each in known.heartbeat.attempts}
    seen |= {each.key: each for each in heartbeat.attempts}
    return HEAR(self, replace(heartbeat, attempts=tuple(seen.values())))


def _tell_ends_once(self: WorkerHost) -> Heartbeat:
    told = HEARTBEAT(self)
    self._hosted = {k: hosted for k, hosted in self._hosted.items() if not hosted.seen.ended_how}
    return told


def _obey_anybody(self: WorkerHost, answer: Answer) -> None:
    self._term = 0
    OBEY(self, answer)


def _believe_in_the_lease(self: WorkerHost) -> int:
    return 0


def _count_from_the_answer(self: WorkerHost, answer: Answer) -> None:
    OBEY(self, replace(answer, sent_at_ms=int(self._clock.elapsed_ms())))


def _forget_what_is_not_wanted(self: WorkerHost, key: AttemptKey) -> None:
    del self._hosted[key]


def _hear_old_news(self: Master, heartbeat: Heartbeat) -> Answer:
    """Whatever came last is the newest."""
    known = self._workers.get(heartbeat.worker_id)
    if known is not None:
        told = replace(known.heartbeat, sent_at_ms=-1)
        self._workers[heartbeat.worker_id] = Worker(told, known.heard_at_ms)
    return HEAR(self, heartbeat)


BUGS: dict[str, Bug] = {
    "heartbeat sends only changes": Bug(
        "After a failover the new leader takes running pipelines for lost.",
        (
            Patch(WorkerHost, "heartbeat", _tell_changes),
            Patch(Master, "hear", _add_changes),
        ),
    ),
    "an end is told once": a_bug(
        "A pipeline that has finished is begun again: the message was lost.",
        WorkerHost, "heartbeat", _tell_ends_once,
    ),
    "effects without the term": a_bug(
        "A worker obeys a master that was deposed.",
        WorkerHost, "obey", _obey_anybody,
    ),
    "no lease of its own": a_bug(
        "A worker that is cut off goes on beside its successor.",
        WorkerHost, "check_lease", _believe_in_the_lease,
    ),
    "the lease runs from the answer": a_bug(
        "A worker behind a slow network goes on beside its successor.",
        WorkerHost, "obey", _count_from_the_answer,
    ),
    "forgets what is not wanted": a_bug(
        "A canceled job goes on in a thread that nobody knows.",
        WorkerHost, "_unwant", _forget_what_is_not_wanted,
    ),
    "old news replace new ones": a_bug(
        "A late message makes a running pipeline look lost.",
        Master, "hear", _hear_old_news,
    ),
}  # fmt: skip
