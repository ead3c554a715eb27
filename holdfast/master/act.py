"""Does what was decided: one function per action."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from holdfast.checkpoint.chain import Chain, ChainMissing
from holdfast.checkpoint.document import DocumentBroken
from holdfast.checkpoint.savepoint import write_savepoint_once
from holdfast.decide.actions import (
    Action,
    CleanUp,
    EndAttempt,
    ForgetJob,
    NoteAdvance,
    PlanAttempt,
    RecordOutcome,
    StartAttempt,
    WriteSavepoint,
)
from holdfast.decide.jobs import cleanup_wait_ms
from holdfast.decide.world import Limits, waited_ms
from holdfast.master.cleaning import clean_up_storage
from holdfast.model.errors import HoldfastError
from holdfast.model.jobs import Ending, Outcome
from holdfast.outside.files import Files, NotThere
from holdfast.store.commits import Commits
from holdfast.store.reads import Reads

SAVEPOINT_DEADLINES = 4
_NO_SAVEPOINT = "its savepoint could not be made"


@dataclass(frozen=True)
class Acting:
    """What acting takes. The term goes with every write."""

    term: int
    commits: Commits
    reads: Reads
    files: Files
    now_ms: int
    limits: Limits
    leading_since_ms: int = 0

    def ending(self, outcome: Outcome, reason: str, savepoint: str | None = None) -> Ending:
        due_at_ms = self.now_ms + self.limits.cleanup_delay_ms
        return Ending(outcome, reason, savepoint, self.now_ms, due_at_ms)


def act(action: Action, given: Acting) -> None:
    match action:
        case PlanAttempt():
            plan_attempt(action, given)
        case StartAttempt(key):
            given.commits.start_attempt(given.term, key, at_ms=given.now_ms)
        case NoteAdvance(key):
            given.commits.note_advance(given.term, key)
        case EndAttempt():
            end_attempt(action, given)
        case RecordOutcome():
            record_outcome(action, given)
        case WriteSavepoint():
            write_savepoint(action, given)
        case CleanUp():
            clean_up(action, given)
        case ForgetJob(job_id, generation):
            given.commits.forget_job(given.term, job_id, generation)
        case _:
            assert_never(action)


def plan_attempt(action: PlanAttempt, given: Acting) -> None:
    given.commits.plan_attempt(
        given.term,
        action.key,
        worker_id=action.worker_id,
        alone=action.alone,
        at_ms=given.now_ms,
    )


def end_attempt(action: EndAttempt, given: Acting) -> None:
    given.commits.end_attempt(
        given.term,
        action.key,
        action.how,
        reason=action.reason,
        at_ms=given.now_ms,
        advanced=action.advanced,
    )


def record_outcome(action: RecordOutcome, given: Acting) -> None:
    ending = given.ending(action.outcome, action.reason)
    given.commits.record_outcome(given.term, action.job_id, action.generation, ending)


def write_savepoint(action: WriteSavepoint, given: Acting) -> None:
    """All pipelines stand still. Written under a name that the wish gave it: again is the same."""
    try:
        tips = {id_: Chain(given.files, action.job_id, id_).tip() for id_ in action.pipeline_ids}
        missing = [id_ for id_ in action.advanced if tips.get(id_) is None]
        if missing:
            raise ChainMissing(action.job_id, missing[0])
        found = [tip for tip in tips.values() if tip is not None]
        path = write_savepoint_once(given.files, found, action.at_ms).path if found else None
    except HoldfastError as error:
        if not (isinstance(error, DocumentBroken | NotThere) or is_overdue(action, given)):
            raise
        ending = given.ending(Outcome.FAILED, f"{_NO_SAVEPOINT}: {error}")
    else:
        ending = given.ending(
            Outcome.SAVEPOINT_DONE if path else Outcome.CANCELED,
            action.reason if path else "no pipeline had a checkpoint: there was nothing to keep",
            path,
        )
    given.commits.record_outcome(given.term, action.job_id, action.generation, ending)


def give_up_savepoint(action: WriteSavepoint, given: Acting) -> None:
    """Of storage that neither does it nor fails."""
    ending = given.ending(Outcome.FAILED, f"{_NO_SAVEPOINT}: checkpoint storage gave no answer")
    given.commits.record_outcome(given.term, action.job_id, action.generation, ending)


def is_overdue(action: WriteSavepoint, given: Acting) -> bool:
    """What is broken stays so. Storage that fails or hangs may come back, but a stop always ends: nothing is lost by
    it. Another leader's clock may have dated the wish: what is final waits by this leader's own time as well.
    """
    led_ms = given.now_ms - given.leading_since_ms
    waited = min(waited_ms(action.at_ms, given.now_ms), led_ms)
    return waited > SAVEPOINT_DEADLINES * given.limits.stop_deadline_ms


def clean_up(action: CleanUp, given: Acting) -> None:
    """One that fails is told and waits; the others go on."""
    job = given.reads.job_generation(action.job_id, action.generation)
    try:
        if job is not None:
            clean_up_storage(job, given.files)
    except HoldfastError as error:
        given.commits.postpone_cleanup(
            given.term,
            action.job_id,
            action.generation,
            str(error),
            due_at_ms=given.now_ms + cleanup_wait_ms(action.tries + 1),
        )
        return
    given.commits.finish_cleanup(given.term, action.job_id, action.generation)
