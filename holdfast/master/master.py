"""One master process: leads or follows, hears workers, and once a tick does what `decide` says.

Workers are observed before the store is read, and every write names the term: a master that was paused past its lease
finds itself deposed at its next write, and its answers are refused by workers that know a newer term.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from holdfast.decide.actions import Action, EndAttempt
from holdfast.decide.jobs import decide, derive_desired
from holdfast.decide.leadership import Lead, decide_leadership
from holdfast.decide.world import Limits, World
from holdfast.master.act import Acting, act
from holdfast.master.aside import Aside, Storing
from holdfast.model.attempts import AttemptKey
from holdfast.model.errors import HoldfastError, Terminal
from holdfast.model.lease import Lease
from holdfast.model.wire import heartbeat_to_json, observed_to_json
from holdfast.model.workers import Answer, Heartbeat, ObservedAttempt, Worker
from holdfast.outside.clock import Clock
from holdfast.outside.files import Files
from holdfast.outside.threads import Threads
from holdfast.store.connection import Deposed, StoreFailed
from holdfast.store.reads import Stored
from holdfast.store.store import Store

WORKER_FORGOTTEN_MS = 60_000
LOOK_AGAIN_MS = 10_000
STORE_FAILURES_MAX = 3
"""So many in a row in one pass, and the rest of it is left to the next: the store is away."""


class NotLeading(Terminal):
    """This master follows."""

    code = "not-leading"

    def __init__(self, leader_url: str) -> None:
        super().__init__(
            f"Cannot do that here: this master follows. The leader is at {leader_url}."
            if leader_url
            else "Cannot do that now: no master leads at this moment. One will within seconds; ask again."
        )
        self.leader_url = leader_url


@dataclass(frozen=True, slots=True)
class MasterSettings:
    me: str
    """Of this process; never reused."""
    url: str = ""
    lease_ttl_ms: int = 2_000
    write_behind_ms: int = 1_000
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class Asked:
    """What people want of a worker."""

    tags: Mapping[str, str] | None = None
    drain: bool = False


@dataclass(frozen=True, slots=True)
class _Kept:
    """What was read of the store, and how many changes had been tried until then."""

    stored: Stored
    tried: int
    at_ms: int

    def is_true(self, term: int | None, tried: int, now_ms: int) -> bool:
        is_ours = term is not None and self.stored.term == term
        return is_ours and self.tried == tried and 0 <= now_ms - self.at_ms < LOOK_AGAIN_MS


class Master:
    """`tick` is called by one thread, `hear` and the rest by any."""

    def __init__(
        self,
        settings: MasterSettings,
        store: Store,
        files: Files,
        clock: Clock,
        threads: Threads | None = None,
    ) -> None:
        """`threads`: for what is done in checkpoint storage; None: the tick does it itself."""
        self.settings = settings
        self.store = store
        self.files = files
        self.clock = clock
        self._lock = threading.RLock()
        self._lease: Lease | None = None
        self._begun_term = 0
        self._leading_since_ms = 0
        self._renewed_at_ms = 0
        self._newest_term = 0
        """That a worker told of. Newer than the one this master leads with, it is of a store that was lost or set back
        since, and workers would refuse what they are told for ever.
        """
        self._anchor: tuple[int, float] | None = None
        """The wall clock and the one that never steps, when this master began to lead."""
        self._workers: dict[str, Worker] = {}
        self._tips: dict[AttemptKey, tuple[int, int]] = {}
        self._reported_at_ms = 0
        self._asked: dict[str, Asked] = {}
        self._kept: _Kept | None = None
        self.wake = threading.Event()
        """Set when there may be something to do before the next tick is due."""
        self._aside = None if threads is None else Aside(threads, self.wake.set)
        self.failed: Mapping[Action, str] = {}
        """What the newest tick could not do, and why. It is tried again."""

    def now_ms(self) -> int:
        """While it leads its time goes on evenly, whatever is done to the wall clock: a step of that says nothing of
        how long a worker has been silent.
        """
        if self._anchor is None:
            return self.clock.now_ms()
        wall_ms, elapsed_ms = self._anchor
        return wall_ms + int(self.clock.elapsed_ms() - elapsed_ms)

    # ------------------------------------------------------------------------------------------- leading

    @property
    def term(self) -> int | None:
        """The term this master leads with, as far as it knows."""
        lease = self._lease
        if lease is None or self.clock.now_ms() >= lease.expires_at_ms:
            return None
        return lease.term

    @property
    def is_new(self) -> bool:
        """It leads for less than a worker's lease: there may be workers that it has not heard yet."""
        led_ms = self.now_ms() - self._leading_since_ms
        return led_ms < self.settings.limits.worker_lease_ms

    def leading_term(self) -> int:
        """Raises NotLeading."""
        term = self.term
        if term is None:
            found = self.store.reads.lease()
            raise NotLeading("" if found is None or found.holder == self.settings.me else found.url)
        return term

    def tick(self) -> None:
        """Take or keep the lead, and act. A store that fails is asked again at the next tick."""
        with self._lock:
            try:
                self._lead()
                if self.term is not None:
                    self._run(self.term)
            except Deposed:
                self._lease = None
            except StoreFailed:
                return

    def _lead(self) -> None:
        now_ms = self.clock.now_ms()
        ttl_ms = self.settings.lease_ttl_ms
        is_outrun = self._newest_term > (self.term or 0)
        if self.term is not None and now_ms - self._renewed_at_ms < ttl_ms // 4 and not is_outrun:
            return
        found = self.store.reads.lease()
        expires_at_ms = now_ms + ttl_ms
        match decide_leadership(found, me=self.settings.me, now_ms=now_ms, ttl_ms=ttl_ms):
            case Lead.FOLLOW:
                self._lease = None
                self._anchor = None
            case Lead.RENEW if found is not None and found.term >= self._newest_term:
                self.store.commits.renew_lease(found.term, expires_at_ms=expires_at_ms)
                self._lead_by(replace(found, expires_at_ms=expires_at_ms), now_ms)
            case Lead.RENEW | Lead.TAKE:
                self._take(0 if found is None else found.term, expires_at_ms, now_ms)

    def _take(self, seen_term: int, expires_at_ms: int, now_ms: int) -> None:
        taken = self.store.commits.take_lease(
            seen_term=seen_term,
            holder=self.settings.me,
            url=self.settings.url,
            expires_at_ms=expires_at_ms,
            above=self._newest_term,
        )
        if taken is None:
            self._lease = None
        else:
            self._lead_by(taken, now_ms)

    def _lead_by(self, lease: Lease, now_ms: int) -> None:
        """Of a new term it knows nothing yet and gives everyone time to report; also when the answer to its take was
        lost, and the first that it sees of its term is what it can renew.
        """
        self._lease, self._renewed_at_ms = lease, now_ms
        if lease.term != self._begun_term:
            self._begun_term = lease.term
            self._anchor = (now_ms, self.clock.elapsed_ms())
            self._leading_since_ms = now_ms
            self._workers.clear()
            self._tips.clear()
            self._asked.clear()

    def step_down(self) -> None:
        """End in peace: nobody has to wait for the lease to run out."""
        with self._lock:
            term = self.term
            self._lease = None
            if term is not None:
                self.store.commits.give_up_lease(term)

    # -------------------------------------------------------------------------------------------- hearing

    def hear(self, heartbeat: Heartbeat) -> Answer:
        """What a worker reports, and what it shall do. Raises NotLeading."""
        with self._lock:
            if heartbeat.term > self.leading_term():
                self._newest_term = max(self._newest_term, heartbeat.term)
                self.wake.set()
            now_ms = self.now_ms()
            known = self._workers.get(heartbeat.worker_id)
            if known is None or heartbeat.sent_at_ms >= known.heartbeat.sent_at_ms:
                self._workers[heartbeat.worker_id] = Worker(heartbeat, now_ms)
                self._note_tips(heartbeat, now_ms)
                if known is None or _has_news(known.heartbeat, heartbeat):
                    self.wake.set()
            # The answer costs what this worker hosts, not all there is.
            stored = self.store.reads.observe_worker(heartbeat.worker_id)
            world = self.picture_of(stored, self._workers)
            asked = self._still_asked(heartbeat)
            return Answer(
                term=self.leading_term(),
                sent_at_ms=heartbeat.sent_at_ms,
                lease_ms=self.settings.limits.worker_lease_ms,
                attempts=derive_desired(world, heartbeat.worker_id, now_ms),
                tags=asked.tags,
                drain=asked.drain,
            )

    def ask_worker(self, worker_id: str, asked: Asked) -> None:
        """Told with its next answers, until its heartbeat shows that it has been heard. Not stored: a worker's tags
        live and end with it. Raises NotLeading.
        """
        with self._lock:
            self.leading_term()
            self._asked[worker_id] = asked

    def is_asked(self, worker_id: str) -> bool:
        """Whether it has still to be told."""
        return worker_id in self._asked

    def _still_asked(self, heartbeat: Heartbeat) -> Asked:
        asked = self._asked.get(heartbeat.worker_id, Asked())
        tags_done = asked.tags is None or dict(heartbeat.tags) == dict(asked.tags)
        if tags_done and (heartbeat.draining or not asked.drain):
            self._asked.pop(heartbeat.worker_id, None)
            return Asked()
        return asked

    def _note_tips(self, heartbeat: Heartbeat, now_ms: int) -> None:
        for seen in heartbeat.attempts:
            if seen.restored is None:
                continue
            known = self._tips.get(seen.key)
            if known is None or seen.tip > known[0]:
                self._tips[seen.key] = (seen.tip, now_ms)

    # -------------------------------------------------------------------------------------------- deciding

    def observe(self) -> World:
        """Workers first, then the store: one picture."""
        workers: Mapping[str, Worker] = dict(self._workers)
        return self.picture_of(self._observe_store(), workers)

    def _observe_store(self) -> Stored:
        """Only a leader knows that nothing has changed: it alone makes changes. It looks at all again now and then, as
        nothing keeps people from mending a store by hand.
        """
        now_ms, tried, kept = self.now_ms(), self.store.commits.tried, self._kept
        known = None
        if kept is not None and kept.is_true(self.term, tried, now_ms):
            known = kept.stored
        expired_before_ms = now_ms - self.settings.limits.history_expire_ms
        stored = self.store.reads.observe(expired_before_ms=expired_before_ms, known=known)
        if known is None:
            self._kept = _Kept(stored, tried, now_ms)
        return stored

    def picture_of(self, stored: Stored, workers: Mapping[str, Worker] | None = None) -> World:
        tips = self._tips
        return World(
            term=0 if stored.lease is None else stored.lease.term,
            leading_since_ms=self._leading_since_ms,
            jobs=stored.jobs,
            attempts=stored.attempts,
            workers=dict(self._workers) if workers is None else workers,
            cleanups=stored.cleanups,
            expired=stored.expired,
            tip_since_ms={
                attempt.key: tips[attempt.key][1]
                for attempt in stored.attempts
                if attempt.key in tips
            },
            limits=self.settings.limits,
        )

    def _run(self, term: int) -> None:
        now_ms = self.now_ms()
        self._forget_silent(now_ms)
        world = self.observe()
        self._forget_tips(world)
        acting = Acting(
            term,
            self.store.commits,
            self.store.reads,
            self.files,
            now_ms,
            world.limits,
            self._leading_since_ms,
        )
        actions = decide(world, now_ms)
        ended = {action.key for action in actions if isinstance(action, EndAttempt)}
        if ended:
            # Its worker forgets it as soon as it is written: what it told last would be lost.
            self._write_reports(term, now_ms, only=ended)
        self._act(actions, acting)
        if now_ms - self._reported_at_ms >= self.settings.write_behind_ms:
            self._write_reports(term, now_ms)
            self._reported_at_ms = now_ms

    def _act(self, actions: Sequence[Action], acting: Acting) -> None:
        """What cannot be done stands in nobody's way."""
        failed: dict[Action, str] = {}
        in_a_row = 0
        for action in actions:
            if self._aside is not None and isinstance(action, Storing):
                self._aside.begin(action, acting)
                continue
            try:
                act(action, acting)
                in_a_row = 0
            except Deposed:
                raise
            except HoldfastError as error:
                failed[action] = str(error)
                in_a_row += isinstance(error, StoreFailed)
                if in_a_row == STORE_FAILURES_MAX:
                    break
        aside = {} if self._aside is None else self._aside.failed(actions)
        self.failed = {**failed, **aside}

    def _forget_silent(self, now_ms: int) -> None:
        for worker_id, worker in list(self._workers.items()):
            if now_ms - worker.heard_at_ms > WORKER_FORGOTTEN_MS:
                del self._workers[worker_id]

    def _forget_tips(self, world: World) -> None:
        live = {attempt.key for attempt in world.attempts if attempt.is_open}
        self._tips = {key: known for key, known in self._tips.items() if key in live}

    def _write_reports(
        self, term: int, now_ms: int, *, only: Set[AttemptKey] | None = None
    ) -> None:
        """In memory until now, and of the past it keeps nothing. Of a pipeline its newest attempt counts: an older one
        may still be told of by a worker that was cut off.
        """
        heard = []
        newest: dict[tuple[str, int, int], ObservedAttempt] = {}
        for worker_id, worker in sorted(self._workers.items()):
            told = replace(worker.heartbeat, attempts=())
            heard.append((worker_id, heartbeat_to_json(told), worker.heard_at_ms))
            for seen in worker.heartbeat.attempts:
                pipeline = (seen.key.job_id, seen.key.generation, seen.key.pipeline_id)
                known = newest.get(pipeline)
                if known is None or known.key.number < seen.key.number:
                    newest[pipeline] = seen
        reports = [
            (*pipeline, observed_to_json(seen))
            for pipeline, seen in newest.items()
            if only is None or seen.key in only
        ]
        self.store.commits.write_reports(term, reports, heard, at_ms=now_ms)


def _has_news(before: Heartbeat, after: Heartbeat) -> bool:
    """Whether there may be something to do at once. Positions and counts are looked at when the next tick is due."""
    return _facts(before) != _facts(after)


def _facts(told: Heartbeat) -> object:
    attempts = [(seen.key, seen.ended_how) for seen in told.attempts]
    return attempts, told.slots, told.tags, told.draining
