"""A worker: hosts attempts, reports everything it knows, does what the newest leader wants, and nothing else.

Every heartbeat carries the whole of what it knows, every answer the whole of what it shall have: an attempt that is not
named shall not run. Without an answer for as long as its lease it ends its attempts by itself, before a master may give
their pipelines away. An answer of an older term than it has seen is refused.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from holdfast.model.attempts import AttemptKey, EndedHow
from holdfast.model.restore import RestoreReport
from holdfast.model.wire import answer_from_json, heartbeat_to_json
from holdfast.model.workers import Answer, DesiredAttempt, Heartbeat, ObservedAttempt, Wish
from holdfast.outside.clock import Clock
from holdfast.outside.network import Network, NoAnswer
from holdfast.outside.threads import Threads
from holdfast.runtime.stop import StopLevel, StopSignal
from holdfast.runtime.watch import EpochCommitted, EpochStaged, Watch

HEARTBEAT_MS = 250
LEASE_CHECK_MS = 100
SILENT_REST_MS = 2_000
"""So long is a master that did not answer not asked again, where there are others."""
HEARTBEAT_PATH = "/internal/heartbeat"

RunAttempt = Callable[[DesiredAttempt, Watch, StopSignal], tuple[EndedHow, str]]
"""Runs one attempt to its end and says how it ended. Raises nothing."""


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    me: str
    masters: tuple[str, ...]
    host: str = ""
    slots: int | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    heartbeat_ms: int = HEARTBEAT_MS


class _Hosted(Watch):
    """One attempt here, and what is known of it. Written by its thread, read by the heartbeat's."""

    def __init__(self, key: AttemptKey, changed: Callable[[], None], threads: Threads) -> None:
        self.stop = StopSignal(threads)
        self.seen = ObservedAttempt(key)
        self.ended_by_us = ""
        """Why, where it was this worker that asked it to end."""
        self._changed = changed

    def restored(self, report: RestoreReport) -> None:
        self.seen = replace(
            self.seen, restored=report.to_json(), tip=report.checkpoint, tip_at_ms=report.at_ms
        )
        self._changed()

    def staged(self, event: EpochStaged) -> None:
        return None

    def committed(self, event: EpochCommitted) -> None:
        tip = event.checkpoint
        done = tuple(at for at, position in tip.sources.items() if position.get("done") is True)
        fraction = self.seen.fraction if event.fraction is None else event.fraction
        self.seen = replace(
            self.seen,
            tip=tip.number,
            tip_at_ms=tip.at_ms,
            sources_done=done,
            counts={at: (count.rows, count.bytes) for at, count in tip.counts.items()},
            fraction=fraction,
        )

    def retrying(self, pipeline_id: int, reason: str, wait_ms: int) -> None:
        return None

    def stalled(self, pipeline_id: int) -> None:
        return None

    def ended(self, how: EndedHow, reason: str) -> None:
        self.seen = replace(self.seen, ended_how=how, reason=reason)
        self._changed()


class WorkerHost:
    """`beat` and `check_lease` are each called by one thread of their own, again and again."""

    def __init__(
        self,
        settings: WorkerSettings,
        run_attempt: RunAttempt,
        *,
        network: Network,
        clock: Clock,
        threads: Threads,
    ) -> None:
        self._settings = settings
        self._run_attempt = run_attempt
        self._network = network
        self._clock = clock
        self._threads = threads
        self._lock = threading.RLock()
        self._hosted: dict[AttemptKey, _Hosted] = {}
        self._tags = dict(settings.tags)
        self._draining = False
        self._term = 0
        self._lease_until_ms = 0.0
        self._masters = list(settings.masters)
        self._rest_until_ms: dict[str, float] = {}
        self.wake = threading.Event()
        """Set when there is something to report before the next heartbeat is due."""

    # ------------------------------------------------------------------------------------------ reporting

    def heartbeat(self) -> Heartbeat:
        with self._lock:
            return Heartbeat(
                worker_id=self._settings.me,
                host=self._settings.host,
                sent_at_ms=int(self._clock.elapsed_ms()),
                slots=self._settings.slots,
                tags=dict(self._tags),
                draining=self._draining,
                attempts=tuple(hosted.seen for _, hosted in sorted(self._hosted.items())),
                term=self._term,
            )

    def beat(self) -> bool:
        """Report once and obey the answer. Tells whether a leader answered."""
        self.wake.clear()
        heartbeat = self.heartbeat()
        body = heartbeat_to_json(heartbeat)
        for url in self._masters_to_ask():
            try:
                status, found = self._network.call(url, HEARTBEAT_PATH, body)
            except NoAnswer:
                self._rest_until_ms[url] = self._clock.elapsed_ms() + SILENT_REST_MS
                continue
            if status == 200:
                self._prefer(url)
                self.obey(answer_from_json(found))
                return True
            leader = found.get("leader")
            if isinstance(leader, str) and leader and leader not in self._masters:
                self._masters.append(leader)
        return False

    def _masters_to_ask(self) -> list[str]:
        """A silent one costs a timeout: the lease must not be spent on it while another may lead already."""
        now_ms = self._clock.elapsed_ms()
        rested = [url for url in self._masters if now_ms >= self._rest_until_ms.get(url, 0.0)]
        return rested or list(self._masters)

    def _prefer(self, url: str) -> None:
        self._masters.remove(url)
        self._masters.insert(0, url)

    # ------------------------------------------------------------------------------------------ obeying

    def obey(self, answer: Answer) -> None:
        """What is wanted and not here begins; what is here and not wanted ends."""
        with self._lock:
            if answer.term < self._term:
                return
            self._term = answer.term
            until_ms = float(answer.sent_at_ms + answer.lease_ms)
            self._lease_until_ms = max(self._lease_until_ms, until_ms)
            if self._clock.elapsed_ms() >= self._lease_until_ms:
                return
            wanted = {attempt.key: attempt for attempt in answer.attempts}
            for attempt in answer.attempts:
                self._want(attempt)
            for key in [key for key in self._hosted if key not in wanted]:
                self._unwant(key)
            if answer.tags is not None:
                self.update_tags(answer.tags)
            if answer.drain and not self._draining:
                self.drain()

    def _want(self, attempt: DesiredAttempt) -> None:
        hosted = self._hosted.get(attempt.key)
        if hosted is None:
            hosted = self._hosted[attempt.key] = _Hosted(attempt.key, self.wake.set, self._threads)
            if attempt.wish is Wish.RUN and attempt.job_text:
                self._start(attempt, hosted)
            else:
                hosted.ended(EndedHow.CANCELED, "it was not running here")
        elif attempt.wish is Wish.STOP:
            hosted.stop.ask(StopLevel.AFTER_EPOCH)
        elif attempt.wish is Wish.CANCEL:
            hosted.stop.ask(StopLevel.NOW)

    def _unwant(self, key: AttemptKey) -> None:
        hosted = self._hosted[key]
        if hosted.seen.ended_how is not None:
            del self._hosted[key]
        else:
            hosted.stop.ask(StopLevel.NOW)

    def _start(self, attempt: DesiredAttempt, hosted: _Hosted) -> None:
        def run() -> None:
            how, reason = EndedHow.FAILED, "its thread ended without a word: see the worker's log"
            try:
                how, reason = self._run_attempt(attempt, hosted, hosted.stop)
            finally:
                by_us = hosted.ended_by_us if how is EndedHow.CANCELED else ""
                hosted.ended(how, reason or by_us)

        try:
            self._threads.start(f"attempt {attempt.key}", run)
        except RuntimeError as error:
            # None can be had at this moment. It is no fault of the pipeline, and the others here go on.
            hosted.ended(EndedHow.CANCELED, f"its worker could not start a thread for it ({error})")

    # ------------------------------------------------------------------------------------------ the lease

    def check_lease(self) -> int:
        """Past the lease nothing may be written any more: whoever has the pipelines now must not be disturbed.
        Tells how many attempts it has just asked to end.
        """
        with self._lock:
            if self._clock.elapsed_ms() < self._lease_until_ms:
                return 0
            running = [
                hosted
                for hosted in self._hosted.values()
                if hosted.seen.ended_how is None and hosted.stop.level is not StopLevel.NOW
            ]
            for hosted in running:
                hosted.ended_by_us = (
                    f"worker {self._settings.me} had no answer of a leader for a whole lease"
                )
                hosted.stop.ask(StopLevel.NOW)
            return len(running)

    # ------------------------------------------------------------------------------------------ people

    def drain(self) -> None:
        """Ask the leader to take the pipelines elsewhere, each after its epoch."""
        with self._lock:
            self._draining = True
        self.wake.set()

    @property
    def is_draining(self) -> bool:
        return self._draining

    @property
    def is_empty(self) -> bool:
        """Nothing runs here."""
        with self._lock:
            return all(hosted.seen.ended_how is not None for hosted in self._hosted.values())

    def update_tags(self, tags: Mapping[str, str]) -> None:
        with self._lock:
            self._tags = dict(tags)
        self.wake.set()

    def cancel_all(self) -> None:
        with self._lock:
            for hosted in self._hosted.values():
                hosted.ended_by_us = f"worker {self._settings.me} ended"
                hosted.stop.ask(StopLevel.NOW)
