"""Planted in the data plane: where an attempt begins, what it commits, publishes, discards and removes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from holdfast.checkpoint.chain import Chain, ChainMoved
from holdfast.checkpoint.document import write_document
from holdfast.connectors.base import Claim, Position
from holdfast.decide.restore import Candidate
from holdfast.decide.retention import Kept, decide_retention
from holdfast.model.checkpoints import Checkpoint
from holdfast.outside.files import StorageFailed
from holdfast.runtime import keeping, restore
from holdfast.runtime.attempt import Attempt
from holdfast.runtime.epoch import Staged
from holdfast.runtime.keeping import Keeping
from holdfast.runtime.restore import _Search
from tests.sim.planting import Bug, a_bug

CANDIDATES = _Search._chain_candidates
SEARCH = _Search.__init__
READ_HEAD = restore._read_head
EXTEND = Chain.extend
CLAIM, CLAIM_FOR = Attempt._claim, Attempt._claim_for
COMMIT, PUBLISH, SETTLE = Attempt._commit, Attempt._publish, Attempt._settle
FOLLOW, PREPARE = Attempt._follow, Attempt._prepare


# ----------------------------------------------------------------------------------------------- restore


def _from_the_first(self: _Search, newest: int) -> Iterator[Candidate]:
    found = list(CANDIDATES(self, newest))
    yield from [replace(found[-1], is_tip=True)] if found else []


def _ask_each_time(self: _Search, *given: Any) -> None:
    SEARCH(self, *given)
    self._request = given[3]


def _use_the_attempt_again(chain: Chain) -> restore._Head:
    head = READ_HEAD(chain)
    return replace(head, attempt=max(head.attempt - 1, 0))


def _take_completed_for_settled(self: Checkpoint) -> bool:
    return self.completed


# ------------------------------------------------------------------------------------------------- chain


def _look_and_write(self: Chain, checkpoint: Checkpoint) -> None:
    if checkpoint.number in self.list_numbers():
        raise ChainMoved(checkpoint)
    path = f"{self._path(checkpoint.number)}/manifest.json"
    self._files.write(path, write_document(checkpoint.to_json()))


def _stay_in_progress(self: Chain, checkpoint: Checkpoint) -> None:
    pending: set[str] = vars(self._files).setdefault("pending", set())
    if self._folder in pending:
        raise StorageFailed("Cannot write a checkpoint: another one is in progress.")
    pending.add(self._folder)
    EXTEND(self, checkpoint)
    pending.remove(self._folder)


def _take_no_answer_for_yes(self: Chain, *given: Any) -> None:
    return None


def _count_folders(self: Chain) -> int:
    return max(self.list_numbers(), default=0)


# ----------------------------------------------------------------------------------------------- attempt


def _discard_before_the_claim(self: Attempt, claim: Checkpoint) -> None:
    for at, sink in self._pipeline.sinks.items():
        sink.discard(self._claim_for(claim, at))
    CLAIM(self, claim)


def _claim_without_a_second_look(self: Attempt, claim: Checkpoint) -> None:
    self._point("before claim")
    self._chain.extend(claim)
    self.claimed = True
    self._newest = claim
    self._point("after claim")


def _discard_newer_ones_too(self: Attempt, claim: Checkpoint, at: str) -> Claim:
    return replace(CLAIM_FOR(self, claim, at), attempt=10**9)


def _discard_what_the_tip_names(self: Attempt, claim: Checkpoint, at: str) -> Claim:
    return replace(CLAIM_FOR(self, claim, at), keep=None)


def _settle_without_publishing(self: Attempt, claim: Checkpoint) -> Checkpoint:
    for at, sink in self._pipeline.sinks.items():
        sink.discard(self._claim_for(claim, at))
        if claim.rewind_due is not None:
            sink.rewind(self._claim_for(claim, at), claim.rewind_due)
    return claim


def _settle_without_rewinding(self: Attempt, claim: Checkpoint) -> Checkpoint:
    return SETTLE(self, replace(claim, rewind_due=None))


def _prepare_again(self: Attempt, tip: Checkpoint) -> Checkpoint:
    for at in tip.sinks:
        with suppress(KeyError):
            self._pipeline.sinks[at].prepare(list(self._reaching[at]))
    return PREPARE(self, tip)


def _publish_before_the_commit(self: Attempt, checkpoint: Checkpoint) -> None:
    PUBLISH(self, checkpoint)
    COMMIT(self, checkpoint)


def _ack_before_publishing(self: Attempt, checkpoint: Checkpoint) -> None:
    COMMIT(self, checkpoint)
    for at, source in self._pipeline.sources.items():
        source.ack(checkpoint.sources[at])


def _keep_ends_in_memory(
    self: Attempt, tip: Checkpoint, staged: Staged, reached: Mapping[str, Position]
) -> Checkpoint:
    """A source that is done is told to the checkpoint when all are."""
    made = FOLLOW(self, tip, staged, reached)
    ends: dict[str, Position] = vars(self).setdefault("ends", {})
    ends |= {at: position for at, position in made.sources.items() if position.get("done")}
    made = replace(made, sources={**made.sources, **ends})
    if made.completed:
        return made
    starts = {at: self._pipeline.sources[at].start() for at in ends}
    return replace(made, sources={**made.sources, **starts})


def _go_on_after_a_cancel(self: Attempt) -> None:
    return None


def _leave_what_was_staged(self: Attempt) -> None:
    return None


# --------------------------------------------------------------------------------------------- retention


def _remember_what_was_made(self: Keeping) -> None:
    """Of the attempts before, this one has no memory."""
    due = decide_retention(
        list(self._known.values()),
        interval_ms=self._interval_ms,
        retained_max=self._retained_max,
    )
    for number in due:
        del self._known[number]
        with suppress(StorageFailed):
            self._chain.remove(number)


def _retain_like_an_epoch(found: Sequence[Kept], **limits: int) -> list[int]:
    return decide_retention([replace(kept, is_claim=False) for kept in found], **limits)


BUGS: dict[str, Bug] = {
    "restores from the first checkpoint": a_bug(
        "After a restart everything is read and written again.",
        _Search, "_chain_candidates", _from_the_first,
    ),
    "falls back to the savepoint": a_bug(
        "Each restart of a job goes back to the savepoint it was submitted with.",
        _Search, "__init__", _ask_each_time,
    ),
    "uses an attempt's number again": a_bug(
        "Two attempts have one name: what one staged is taken for the other's.",
        restore, "_read_head", _use_the_attempt_again,
    ),
    "finishes what was only completed": a_bug(
        "The last rows are missing after a crash at the very end of a batch.",
        Checkpoint, "settled", property(_take_completed_for_settled),
    ),
    "checkpoint without exclusive create": a_bug(
        "A worker that was cut off overwrites the checkpoint of its successor.",
        Chain, "extend", _look_and_write,
    ),
    "a failed checkpoint blocks all later ones": a_bug(
        "After one failed write no checkpoint completes any more.",
        Chain, "extend", _stay_in_progress,
    ),
    "no answer is taken for yes": a_bug(
        "A checkpoint that was never written is counted on.",
        Chain, "_look_again", _take_no_answer_for_yes,
    ),
    "half a checkpoint is taken for one": a_bug(
        "A job cannot start any more: its newest checkpoint is incomplete.",
        Chain, "head", _count_folders,
    ),
    "discards before the claim": a_bug(
        "A second start of a running job removes the files of the first.",
        Attempt, "_claim", _discard_before_the_claim,
    ),
    "discards what a newer attempt staged": a_bug(
        "An attempt that slept removes the files of its successor.",
        Attempt, "_claim_for", _discard_newer_ones_too,
    ),
    "discards what the tip names": a_bug(
        "The last epoch before a crash is missing.",
        Attempt, "_claim_for", _discard_what_the_tip_names,
    ),
    "claims without a second look": a_bug(
        "An attempt that slept for long takes a number that retention had freed.",
        Attempt, "_claim", _claim_without_a_second_look,
    ),
    "does not publish what the tip promised": a_bug(
        "The last epoch before a crash is missing.",
        Attempt, "_settle", _settle_without_publishing,
    ),
    "does not take back": a_bug(
        "After a restore from a savepoint, what came after it is there twice.",
        Attempt, "_settle", _settle_without_rewinding,
    ),
    "prepares again": a_bug(
        "After a restart the table was dropped once more.",
        Attempt, "_prepare", _prepare_again,
    ),
    "publishes before the commit": a_bug(
        "Rows are there twice after a crash.",
        Attempt, "_commit", _publish_before_the_commit,
    ),
    "acks before it has published": a_bug(
        "The source has purged what the sink does not have.",
        Attempt, "_commit", _ack_before_publishing,
    ),
    "partial completion in memory only": a_bug(
        "A source that was done is read again after a restart.",
        Attempt, "_follow", _keep_ends_in_memory,
    ),
    "commits what was read under a cancel": a_bug(
        "Rows are missing after a cancel: the read was cut short, its position was not.",
        Attempt, "_end_if_canceled", _go_on_after_a_cancel,
    ),
    "leaves what was staged": a_bug(
        "Files that nobody owns pile up.",
        Attempt, "_withdraw_if_passed", _leave_what_was_staged,
    ),
    "retention from memory": a_bug(
        "Checkpoints of earlier attempts are never removed.",
        Keeping, "_remove_due", _remember_what_was_made,
    ),
    "retention removes claims": a_bug(
        "An attempt that was passed finds its next number free.",
        keeping, "decide_retention", _retain_like_an_epoch,
    ),
}  # fmt: skip
