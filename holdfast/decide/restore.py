"""From where a pipeline goes on: candidates, what was found about each, and the policies decide.

The order is the restore contract's: find, compare, probe, decide. The reading of storage and the asking of sources
is done by `runtime/restore.py`, which hands what it found to the functions here. Nothing is skipped in silence:
every candidate that was passed over is named with its reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from holdfast.model.checkpoints import Checkpoint, CheckpointKind
from holdfast.model.errors import ConfigError
from holdfast.model.json import JsonObject


class Policy(Enum):
    """What to do when the wanted restore point cannot be used as it is."""

    FAIL = "fail"
    PREVIOUS = "previous"
    FRESH = "fresh"
    LATEST = "latest"


class RestoreMode(Enum):
    AUTO = "auto"
    """The tip where the job id was seen before, else a fresh start."""
    LATEST = "latest"
    """The tip; refused where there is none."""
    SAVEPOINT = "savepoint"
    """The job's newest savepoint."""
    CHECKPOINT = "checkpoint"
    PATH = "path"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class RestoreRequest:
    """What was asked for by `--restore`, `env` or REST."""

    mode: RestoreMode = RestoreMode.AUTO
    checkpoint: int | None = None
    path: str | None = None
    on_missing: Policy = Policy.FAIL
    on_incompatible: Policy = Policy.FAIL
    pipeline: int | None = None
    """Whose checkpoint was named; None: that of the job's only pipeline."""
    submission: str = ""
    """Who asks. Once an attempt of this submission has claimed a pipeline, its own newest checkpoint comes first."""
    claimed: bool = False
    """It is known that one has: where there is no chain, it is not that nothing was kept."""


def parse_restore(
    text: str | None, on_missing: str = "fail", on_incompatible: str = "fail"
) -> RestoreRequest:
    """`auto | latest | savepoint | checkpoint:[<pipeline>/]<id> | path:<savepoint> | none`. Raises ConfigError."""
    policies = RestoreRequest(
        on_missing=_parse_policy("on-missing", on_missing),
        on_incompatible=_parse_policy("on-incompatible", on_incompatible),
    )
    name, _, argument = (text or "auto").strip().partition(":")
    found = re.fullmatch(r"(?:([1-9]\d{0,8})/)?([1-9]\d{0,17})", argument, re.ASCII)
    if name == "checkpoint" and found:
        pipeline = None if found[1] is None else int(found[1])
        wanted = replace(policies, checkpoint=int(found[2]), pipeline=pipeline)
        return replace(wanted, mode=RestoreMode.CHECKPOINT)
    if name == "path" and argument:
        return replace(policies, mode=RestoreMode.PATH, path=argument)
    simple = {
        m.value: m for m in RestoreMode if m not in (RestoreMode.CHECKPOINT, RestoreMode.PATH)
    }
    if name in simple and not argument:
        return replace(policies, mode=simple[name])
    raise ConfigError(
        f"Cannot read --restore {text!r}: expected auto, latest, savepoint, checkpoint:<id>,"
        " checkpoint:<pipeline>/<id>, path:<savepoint> or none."
    )


def request_of(
    request: RestoreRequest, pipeline_id: int, pipeline_ids: Sequence[int]
) -> RestoreRequest:
    """What was asked for one pipeline of these.

    Checkpoints are numbered per pipeline: who names one means one pipeline, and the others go on from their tips.
    Raises ConfigError where it is not clear which one is meant.
    """
    if request.mode is not RestoreMode.CHECKPOINT:
        return request
    listed = ", ".join(str(id_) for id_ in pipeline_ids)
    if request.pipeline is None and len(pipeline_ids) > 1:
        raise ConfigError(
            f"Cannot restore checkpoint {request.checkpoint}: the job has pipelines {listed}, each with checkpoints of"
            f" its own. Name one as checkpoint:<pipeline>/<id>; the others go on from their tips."
        )
    if request.pipeline is not None and request.pipeline not in pipeline_ids:
        raise ConfigError(
            f"Cannot restore checkpoint {request.pipeline}/{request.checkpoint}: the job has pipelines {listed} and"
            f" not {request.pipeline}. `holdfast checkpoints` lists what there is."
        )
    if request.pipeline in (None, pipeline_id):
        return request
    return ask_for_tip(request)


def ask_for_tip(request: RestoreRequest) -> RestoreRequest:
    """The pipeline's own newest checkpoint, under the same policies."""
    return RestoreRequest(
        on_missing=request.on_missing,
        on_incompatible=request.on_incompatible,
        submission=request.submission,
        claimed=request.claimed,
    )


def read_restore(found: JsonObject) -> RestoreRequest:
    """What was stored of a submission's wish: `from`, `onMissing`, `onIncompatible`, as text."""
    return parse_restore(str(found["from"]), str(found["onMissing"]), str(found["onIncompatible"]))


def _parse_policy(name: str, text: str) -> Policy:
    try:
        return Policy(text.strip().lower())
    except ValueError:
        raise ConfigError(
            f"Cannot read {name} {text!r}: expected fail, previous, fresh or latest."
        ) from None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A restore point, as it was found in storage. `checkpoint` is None when it is broken."""

    name: str
    checkpoint: Checkpoint | None
    broken: str | None = None
    is_tip: bool = False
    is_savepoint: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """What comparing and probing found out about one candidate."""

    incompatible: Sequence[str] = ()
    """Reasons, one for each vertex that does not fit."""
    changed_sources: Sequence[str] = ()
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """What was said of each source whose position cannot be read any more."""


@dataclass(frozen=True, slots=True)
class Use:
    """Go on from this candidate. Sources in `skip` start at their newest instead (data is missed)."""

    skip: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class TryPrevious:
    reason: str


@dataclass(frozen=True, slots=True)
class StartFresh:
    reason: str
    at_latest: bool = False


@dataclass(frozen=True, slots=True)
class Refuse:
    reason: str


Verdict = Use | TryPrevious | StartFresh | Refuse


def derive_displaced(chain: Sequence[Checkpoint]) -> set[int]:
    """Numbers that are no link of the line: claims of attempts that came too late.

    Such a claim took a number that had been tidied away, was told so and touched nothing. It is known by its attempt,
    which is above that of checkpoints behind it.
    """
    displaced: set[int] = set()
    lowest: int | None = None
    for checkpoint in sorted(chain, key=lambda c: c.number, reverse=True):
        if lowest is not None and checkpoint.attempt > lowest:
            displaced.add(checkpoint.number)
        else:
            lowest = checkpoint.attempt
    return displaced


def derive_abandoned(chain: Sequence[Checkpoint]) -> set[int]:
    """Numbers that a later claim went back behind: their output was taken back or will be written again."""
    abandoned: set[int] = set()
    for checkpoint in chain:
        if checkpoint.kind is CheckpointKind.CLAIM and checkpoint.abandons_after is not None:
            abandoned |= set(range(checkpoint.abandons_after + 1, checkpoint.number))
    return abandoned


def decide_candidate(candidate: Candidate, found: Found, request: RestoreRequest) -> Verdict:
    """What to do with one candidate."""
    if candidate.broken is not None:
        return _apply(request.on_missing, candidate.broken, "on-missing", ())
    if found.incompatible:
        reason = "; ".join(found.incompatible)
        return _apply(request.on_incompatible, reason, "on-incompatible", found.changed_sources)
    if found.unreadable:
        reason = "; ".join(f"{at}: {said}" for at, said in sorted(found.unreadable.items()))
        return _apply(request.on_missing, reason, "on-missing", tuple(sorted(found.unreadable)))
    return Use()


def is_chain_missing(request: RestoreRequest, head: int) -> bool:
    """Whether the storage that was looked into cannot be the one that this submission has written to. To begin anew
    there, or at the savepoint it once began at, would repeat all rows since, and nobody has agreed to that.
    """
    agreed = request.on_missing in (Policy.FRESH, Policy.LATEST)
    return request.claimed and head == 0 and not agreed


def decide_without_candidate(request: RestoreRequest, passed_over: Sequence[str]) -> Verdict:
    """What to do when there is no candidate (left)."""
    if passed_over:
        reason = "no older restore point is left"
        if request.on_missing is Policy.FRESH:
            return StartFresh(reason)
        return Refuse(reason)
    if request.mode is RestoreMode.NONE:
        return StartFresh("as was asked; what is kept is not looked at")
    if request.mode is RestoreMode.AUTO:
        return StartFresh("nothing is kept of this job id")
    reason = _said_of_absent(request)
    if request.on_missing is Policy.FRESH:
        return StartFresh(reason)
    if request.on_missing is Policy.LATEST:
        return StartFresh(reason, at_latest=True)
    return Refuse(reason)


def _said_of_absent(request: RestoreRequest) -> str:
    if request.mode is RestoreMode.SAVEPOINT:
        return "there is no savepoint of this job; `holdfast savepoint` makes one"
    if request.mode is RestoreMode.CHECKPOINT:
        return f"there is no checkpoint {request.checkpoint}; `holdfast checkpoints` lists what there is"
    return "nothing is kept of this job id"


def _apply(policy: Policy, reason: str, option: str, skip: Sequence[str]) -> Verdict:
    said = f"{reason.rstrip('.')} ({option} = {policy.value})"
    if policy is Policy.PREVIOUS:
        return TryPrevious(said)
    if policy is Policy.FRESH:
        return StartFresh(said)
    if policy is Policy.LATEST and skip:
        return Use(tuple(skip), said)
    if policy is Policy.LATEST:
        return StartFresh(said, at_latest=True)
    return Refuse(said)
