"""From where an attempt goes on: find, compare, probe, decide, as the restore contract has it; the claim acts on it.

Reads storage and asks the sources; what follows from that is decided by `decide/restore.py`. Writes nothing: the same
code answers `holdfast restore plan`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeVar

from holdfast.checkpoint.chain import Chain, ChainMissing
from holdfast.checkpoint.document import DocumentBroken
from holdfast.checkpoint.savepoint import list_savepoints, read_savepoint
from holdfast.connectors.base import Position, is_done, token_lineage
from holdfast.decide.restore import (
    Candidate,
    Found,
    Refuse,
    RestoreMode,
    RestoreRequest,
    StartFresh,
    TryPrevious,
    Use,
    ask_for_tip,
    decide_candidate,
    decide_without_candidate,
    derive_abandoned,
    derive_displaced,
    is_chain_missing,
)
from holdfast.model.checkpoints import Checkpoint, CheckpointKind, SinkState
from holdfast.model.errors import RestoreRefused
from holdfast.model.json import Json
from holdfast.model.restore import Considered, RestoreReport, VertexReport
from holdfast.model.schema import Table, format_type, table_from_json
from holdfast.outside.files import Files, NotThere
from holdfast.outside.ids import new_id
from holdfast.runtime.guarantees import describe_guarantee
from holdfast.runtime.open_pipeline import OpenPipeline
from holdfast.spec.fingerprint import Comparison, compare_fingerprints, pipeline_fingerprint

V = TypeVar("V")
Delivered = Callable[[], Mapping[str, Sequence[Table]]]
"""Asks the sources for their tables; only called when something is to be read."""


class RestoreStopped(RestoreRefused):
    """A restore was refused; the report says for which vertex and why."""

    code = "restore-stopped"

    def __init__(self, report: RestoreReport) -> None:
        super().__init__(
            f"Cannot restore pipeline {report.job_id}/{report.pipeline_id} ({report.asked}):"
            f" {report.decision}. `holdfast restore plan` shows what there is; --on-missing and"
            " --on-incompatible say what may be given up."
        )
        self.report = report


@dataclass(frozen=True, slots=True)
class Start:
    """What an attempt begins with."""

    claim: Checkpoint
    report: RestoreReport
    settled: bool = False
    """The tip says that nothing is left to do, not even to publish: no attempt is needed."""


@dataclass(frozen=True, slots=True)
class _Head:
    """Where the chain stands now: what the claim must follow."""

    number: int
    attempt: int
    generation: int
    tip: Checkpoint | None
    lineage: str
    submission: str


def find_start(
    pipeline: OpenPipeline,
    chain: Chain,
    files: Files,
    request: RestoreRequest,
    delivered: Delivered,
) -> Start:
    """The claim to write. Raises RestoreStopped with the report when the policies refuse."""
    return _Search(pipeline, chain, files, request, delivered).run()


class _Search:
    def __init__(
        self,
        pipeline: OpenPipeline,
        chain: Chain,
        files: Files,
        request: RestoreRequest,
        delivered: Delivered,
    ) -> None:
        self._pipeline = pipeline
        self._chain = chain
        self._files = files
        self._delivered = delivered
        self._fingerprint = pipeline_fingerprint(pipeline.spec)
        self._considered: list[Considered] = []
        self._head = _read_head(chain)
        if is_chain_missing(request, self._head.number):
            raise ChainMissing(chain.job_id, chain.pipeline_id)
        asked_before = request.submission and request.submission == self._head.submission
        self._request = ask_for_tip(request) if asked_before else request

    def run(self) -> Start:
        for candidate in self._candidates():
            found, comparison = self._look_at(candidate)
            verdict = decide_candidate(candidate, found, self._request)
            match verdict:
                case Use(skip, reason):
                    self._note(candidate, "used", reason)
                    assert candidate.checkpoint is not None
                    assert comparison is not None
                    return self._go_on(candidate, candidate.checkpoint, comparison, skip)
                case TryPrevious(reason):
                    self._note(candidate, "passed over", reason)
                case StartFresh(reason, at_latest):
                    self._note(candidate, "passed over", reason)
                    return self._start_fresh(reason, at_latest=at_latest)
                case Refuse(reason):
                    self._note(candidate, "refused", reason)
                    raise RestoreStopped(self._report(f"refused: {reason}", refused=True))
        passed_over = [item.name for item in self._considered]
        match decide_without_candidate(self._request, passed_over):
            case StartFresh(reason, at_latest):
                return self._start_fresh(reason, at_latest=at_latest)
            case verdict:
                reason = verdict.reason
                raise RestoreStopped(self._report(f"refused: {reason}", refused=True))

    # ------------------------------------------------------------------------------------------- find

    def _candidates(self) -> Iterator[Candidate]:
        """Newest first. Read only as far as they are asked for."""
        match self._request.mode:
            case RestoreMode.NONE:
                return
            case RestoreMode.AUTO | RestoreMode.LATEST:
                yield from self._chain_candidates(self._head.number)
            case RestoreMode.CHECKPOINT:
                wanted = self._request.checkpoint
                assert wanted is not None
                if wanted in self._chain.list_numbers():
                    yield from self._chain_candidates(wanted)
            case RestoreMode.SAVEPOINT:
                for path in list_savepoints(self._files, self._pipeline.job_id):
                    yield self._savepoint_candidate(path)
            case RestoreMode.PATH:
                assert self._request.path is not None
                yield self._savepoint_candidate(self._request.path)

    def _chain_candidates(self, newest: int) -> Iterator[Candidate]:
        line = self._read_above(newest)
        generation: int | None = None
        for number in reversed([n for n in self._chain.list_numbers() if n <= newest]):
            name = f"checkpoint {number}"
            try:
                checkpoint = self._chain.read(number)
            except (DocumentBroken, NotThere) as broken:
                if number <= self._head.number or number == newest:
                    yield Candidate(name, None, broken=str(broken))
                continue
            line.append(checkpoint)
            off_line = self._why_off_line(checkpoint, line, asked=number == newest)
            if off_line is not None:
                if number == newest:
                    yield Candidate(name, None, broken=off_line)
                continue
            if generation is not None and checkpoint.generation != generation:
                return
            generation = checkpoint.generation
            yield Candidate(name, checkpoint, is_tip=number == self._head.number)

    def _read_above(self, number: int) -> list[Checkpoint]:
        """What can be read of the chain behind a number."""
        found = []
        for above in self._chain.list_numbers():
            if above > number:
                with suppress(DocumentBroken, NotThere):
                    found.append(self._chain.read(above))
        return found

    def _why_off_line(
        self, checkpoint: Checkpoint, line: Sequence[Checkpoint], *, asked: bool
    ) -> str | None:
        """Why a checkpoint is no place to go on from, given all that came after it."""
        if checkpoint.number in derive_displaced([*line, checkpoint]):
            return f"attempt {checkpoint.attempt} wrote it too late, when the chain had gone on"
        if checkpoint.number not in derive_abandoned(line):
            return None
        if not any(sink.rewindable for sink in self._pipeline.sinks.values()):
            return None if asked else "a later claim went back behind it"
        return "a later claim went back behind it, and sinks took back what it had published"

    def _savepoint_candidate(self, path: str) -> Candidate:
        name = path if "savepoint" in path else f"savepoint {path}"
        pipeline_id = self._pipeline.spec.id
        try:
            savepoint = read_savepoint(self._files, path)
        except DocumentBroken as broken:
            return Candidate(name, None, broken=str(broken), is_savepoint=True)
        found = savepoint.checkpoints.get(pipeline_id)
        if found is None:
            held = ", ".join(str(id_) for id_ in sorted(savepoint.checkpoints))
            broken_text = f"it holds pipelines {held} and not {pipeline_id}"
            return Candidate(name, None, broken=broken_text, is_savepoint=True)
        if self._is_of_this_lineage(found):
            line = self._read_above(found.number)
            off_line = self._why_off_line(found, line, asked=True)
            if off_line is not None:
                return Candidate(name, None, broken=off_line, is_savepoint=True)
        return Candidate(name, found, is_savepoint=True)

    def _is_of_this_lineage(self, found: Checkpoint) -> bool:
        is_same_job = found.job_id == self._pipeline.job_id
        return is_same_job and found.lineage == self._head.lineage

    # -------------------------------------------------------------------------------- compare and probe

    def _look_at(self, candidate: Candidate) -> tuple[Found, Comparison | None]:
        checkpoint = candidate.checkpoint
        if checkpoint is None:
            return Found(), None
        comparison = compare_fingerprints(checkpoint.fingerprint, self._fingerprint)
        if comparison.incompatible:
            return Found(comparison.incompatible, comparison.changed_sources), comparison
        unreadable: dict[str, str] = {}
        for at, position in self._positions(checkpoint, comparison).items():
            if is_done(position):
                continue
            probe = self._pipeline.sources[at].probe(position)
            if not probe.readable:
                unreadable[at] = probe.said
        return Found(unreadable=unreadable), comparison

    def _positions(self, checkpoint: Checkpoint, comparison: Comparison) -> dict[str, Position]:
        """Kept positions by the locations of today."""
        kept = _renamed(checkpoint.sources, comparison)
        return {at: position for at, position in kept.items() if at in self._pipeline.sources}

    # -------------------------------------------------------------------------------------------- decide

    def _go_on(
        self,
        candidate: Candidate,
        base: Checkpoint,
        comparison: Comparison,
        skip: Sequence[str],
    ) -> Start:
        kept = self._positions(base, comparison)
        positions: dict[str, Position] = {}
        for at, source in sorted(self._pipeline.sources.items()):
            if at in skip:
                positions[at] = source.latest()
            else:
                positions[at] = kept[at] if at in kept else source.start()
        is_same_job = base.job_id == self._pipeline.job_id
        is_known = self._is_of_this_lineage(base)
        goes_back = is_known and not candidate.is_tip and base.number < self._head.number
        kept_sinks = _renamed(base.sinks, comparison)
        is_this_line = is_known and base.generation == self._head.generation
        # What a claim was to take back and may not have, whoever goes on from it has to.
        due = base.rewind_due if is_known else None
        sinks = {at: kept_sinks.get(at, SinkState()) for at in sorted(self._pipeline.sinks)}
        is_over = all(is_done(position) for position in positions.values())
        is_prepared = all(state.prepared for state in sinks.values())
        claim = replace(
            self._claim(positions, asks_tables=not (is_over and is_prepared)),
            number=max(self._head.number, base.number if is_same_job else 0) + 1,
            attempt=max(self._head.attempt, base.attempt if is_same_job else 0) + 1,
            generation=base.generation if is_this_line else self._head.generation + 1,
            sinks=sinks,
            counts=_renamed(base.counts, comparison),
            sink_rows=_renamed(base.sink_rows, comparison),
            restored_from=None if candidate.is_tip else candidate.name,
            abandons_after=base.number if goes_back else None,
            rewind_due=base.number if goes_back and due is None else due,
        )
        if not is_same_job:
            # The tokens are the other job's to publish.
            told = {at: replace(state, token=None) for at, state in claim.sinks.items()}
            claim = replace(claim, sinks=told)
        started = self._started(claim, f"goes on from {candidate.name}", comparison, skip)
        is_settled = candidate.is_tip and base.settled and claim.completed
        return replace(started, settled=is_settled and set(kept_sinks) >= set(claim.sinks))

    def _start_fresh(self, reason: str, *, at_latest: bool) -> Start:
        positions = {
            at: source.latest() if at_latest else source.start()
            for at, source in sorted(self._pipeline.sources.items())
        }
        where = "at the newest there is, missing what lies before" if at_latest else "fresh"
        return self._started(self._claim(positions), f"starts {where}: {reason}", None, ())

    def _claim(self, positions: Mapping[str, Position], *, asks_tables: bool = True) -> Checkpoint:
        """A claim that remembers nothing."""
        tables = {} if not asks_tables else self._delivered()
        return Checkpoint(
            job_id=self._pipeline.job_id,
            pipeline_id=self._pipeline.spec.id,
            number=self._head.number + 1,
            attempt=self._head.attempt + 1,
            generation=self._head.generation + 1,
            kind=CheckpointKind.CLAIM,
            at_ms=self._pipeline.clock.now_ms(),
            sources=dict(positions),
            sinks={at: SinkState() for at in sorted(self._pipeline.sinks)},
            fingerprint=self._fingerprint,
            submission=self._request.submission,
            lineage=self._head.lineage or new_id(),
            claim_id=new_id(),
            said={at: self._pipeline.sources[at].describe(p) for at, p in positions.items()},
            tables={
                at: [table.to_json() for table in tables.get(at, ())]
                for at in sorted(self._pipeline.sources)
            },
        )

    # -------------------------------------------------------------------------------------------- report

    def _started(
        self, claim: Checkpoint, decision: str, comparison: Comparison | None, skip: Sequence[str]
    ) -> Start:
        vertices = [*self._say_sources(claim, comparison, skip), *self._say_sinks(claim)]
        report = replace(
            self._report(decision),
            compared=() if comparison is None else tuple(self._say_compared(claim, comparison)),
            vertices=tuple(vertices),
            completed=claim.completed,
            attempt=claim.attempt,
            checkpoint=claim.number,
            restored_from=claim.restored_from,
        )
        return Start(claim, report)

    def _say_compared(self, claim: Checkpoint, comparison: Comparison) -> Iterator[str]:
        same = [at for at in comparison.matches if at not in comparison.changed]
        if same:
            yield f"unchanged: {', '.join(same)}"
        yield from comparison.incompatible
        yield from comparison.notes
        tip = self._head.tip
        for at, tables in claim.tables.items():
            kept = comparison.matches.get(at)
            if tip is not None and kept is not None and kept in tip.tables and tables:
                yield from compare_tables(at, tip.tables[kept], tables)

    def _say_sources(
        self, claim: Checkpoint, comparison: Comparison | None, skip: Sequence[str]
    ) -> Iterator[VertexReport]:
        tip = self._head.tip
        kept = () if comparison is None else comparison.matches
        for at, source in sorted(self._pipeline.sources.items()):
            position = claim.sources[at]
            said = source.describe(position)
            if is_done(position):
                said = "is done, and is not read again"
            elif at in skip:
                said = f"skips to {said}; what lies between is missed"
            elif at not in kept:
                said = f"starts at {said}"
            else:
                said = f"goes on from {said}"
                if claim.abandons_after is not None and tip is not None and at in tip.sources:
                    said += f"; reads again up to {source.describe(tip.sources[at])}"
            yield VertexReport(at, said)

    def _say_sinks(self, claim: Checkpoint) -> Iterator[VertexReport]:
        back = None
        if claim.abandons_after is not None:
            back = (claim.abandons_after + 1, self._head.number)
        for at, sink in sorted(self._pipeline.sinks.items()):
            state = claim.sinks[at]
            said = describe_guarantee(sink, list(self._pipeline.sources.values()), back=back)
            if state.token is not None and token_lineage(state.token) != claim.lineage:
                said += "; what another lineage published after this savepoint is not taken back"
            if state.token is not None:
                said += "; publishes once more what the checkpoint had staged, a no-op where that is done"
            yield VertexReport(at, said)

    def _report(self, decision: str, *, refused: bool = False) -> RestoreReport:
        return RestoreReport(
            job_id=self._pipeline.job_id,
            pipeline_id=self._pipeline.spec.id,
            asked=_asked(self._request),
            decision=decision,
            refused=refused,
            considered=tuple(self._considered),
            at_ms=self._pipeline.clock.now_ms(),
        )

    def _note(self, candidate: Candidate, verdict: str, reason: str) -> None:
        self._considered.append(Considered(candidate.name, verdict, reason))


def _read_head(chain: Chain) -> _Head:
    """Attempts are never reused: each checkpoint above the newest readable one may have been another's."""
    numbers = chain.list_numbers()
    head = chain.head()
    unreadable = 0
    for number in reversed([n for n in numbers if n <= head]):
        try:
            found = chain.read(number)
        except (DocumentBroken, NotThere):
            unreadable += 1
            continue
        tip = found if number == head else None
        attempt = found.attempt + unreadable
        return _Head(head, attempt, found.generation, tip, found.lineage, found.submission)
    return _Head(head, unreadable, 0, None, "", "")


def _renamed(found: Mapping[str, V], comparison: Comparison) -> dict[str, V]:
    """What was kept by the checkpoint's locations, by those of the plan."""
    return {at: found[kept] for at, kept in comparison.matches.items() if kept in found}


def compare_tables(at: str, kept: Sequence[Json], now: Sequence[Json]) -> Iterator[str]:
    """Which tables and columns came, went or changed their type since the checkpoint."""
    before, after = _columns(kept), _columns(now)
    for path in sorted({*before, *after}):
        if path not in after:
            yield f"{at}: table {path} is gone"
        elif path not in before:
            yield f"{at}: table {path} is new"
        else:
            changed = _changed_columns(before[path], after[path])
            if changed:
                yield f"{at}: table {path}: {', '.join(changed)}"


def _columns(tables: Sequence[Json]) -> dict[str, dict[str, str]]:
    parsed = [table_from_json(table) for table in tables if isinstance(table, dict)]
    return {t.path: {c.name: format_type(c.type) for c in t.columns} for t in parsed}


def _changed_columns(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    found = [f"column {name} is gone" for name in before if name not in after]
    found += [f"column {name} {after[name]} is new" for name in after if name not in before]
    found += [
        f"column {name} was {before[name]} and is {after[name]}"
        for name in after
        if name in before and before[name] != after[name]
    ]
    return found


def _asked(request: RestoreRequest) -> str:
    mode = request.mode.value
    if request.pipeline is not None:
        return f"{mode}:{request.pipeline}/{request.checkpoint}"
    if request.checkpoint is not None:
        return f"{mode}:{request.checkpoint}"
    return f"{mode}:{request.path}" if request.path is not None else mode
