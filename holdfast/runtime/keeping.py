"""Keeps a chain short: removes what retention no longer wants, going by what is in storage."""

from __future__ import annotations

from contextlib import suppress

from holdfast.checkpoint.chain import Chain
from holdfast.checkpoint.document import DocumentBroken
from holdfast.decide.retention import Kept, decide_retention
from holdfast.model.checkpoints import Checkpoint, CheckpointKind
from holdfast.model.errors import OutcomeUnknown
from holdfast.outside.clock import Clock
from holdfast.outside.files import NotThere, StorageFailed

RETAINED_MAX = 20
TIDY_EVERY_MS = 1_000
_MAY_PASS = (StorageFailed, OutcomeUnknown)


class Keeping:
    """Looks at most once a second; a removal that fails is tried again at the next look and blocks nothing."""

    def __init__(
        self, chain: Chain, clock: Clock, *, interval_ms: int, retained_max: int = RETAINED_MAX
    ) -> None:
        self._chain = chain
        self._clock = clock
        self._interval_ms = interval_ms
        self._retained_max = retained_max
        self._known: dict[int, Kept] = {}
        self._tidied_at_ms: float | None = None

    def after_commit(self, tip: Checkpoint) -> None:
        self._known[tip.number] = _kept(tip)
        now_ms = self._clock.elapsed_ms()
        if self._tidied_at_ms is None or now_ms - self._tidied_at_ms >= TIDY_EVERY_MS:
            self._tidied_at_ms = now_ms
            self._tidy()

    def at_end(self, tip: Checkpoint) -> None:
        self._known[tip.number] = _kept(tip)
        self._tidy()

    def _tidy(self) -> None:
        """What a checkpoint says never changes, so it is read once; which there are is looked up every time."""
        with suppress(*_MAY_PASS):
            self._remove_due()

    def _remove_due(self) -> None:
        numbers = self._chain.list_numbers()
        self._known = {n: kept for n in numbers if (kept := self._look_up(n)) is not None}
        due = decide_retention(
            list(self._known.values()),
            interval_ms=self._interval_ms,
            retained_max=self._retained_max,
        )
        for number in due:
            with suppress(*_MAY_PASS):
                self._chain.remove(number)

    def _look_up(self, number: int) -> Kept | None:
        """None for what cannot be read: what is broken or unfinished is left for people to see."""
        if number in self._known:
            return self._known[number]
        try:
            return _kept(self._chain.read(number))
        except (DocumentBroken, NotThere):
            return None


def _kept(checkpoint: Checkpoint) -> Kept:
    is_claim = checkpoint.kind is CheckpointKind.CLAIM
    return Kept(checkpoint.number, checkpoint.at_ms, is_claim)
