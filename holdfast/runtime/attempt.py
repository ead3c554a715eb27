"""One attempt at running one pipeline: claim the chain, settle what the tip left open, then epoch after epoch.

    plan -> read -> transform -> stage -> commit -> publish -> ack

The commit is the exclusive create of the next checkpoint: before it nothing of an epoch is visible, after it all of it
will be, by this attempt or by the next. The same loop serves batch and stream. Nothing here reads a clock, a file or a
random number by itself, so that a test can stop it at every crash point.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum

from holdfast.checkpoint.chain import Chain, ChainMoved
from holdfast.connectors.base import Claim, Position, is_done
from holdfast.decide.epochs import Cadence, derive_cadence, derive_rest_ms
from holdfast.model.checkpoints import Checkpoint, CheckpointKind, Count, SinkState
from holdfast.model.errors import Canceled, HoldfastError
from holdfast.model.schema import Table
from holdfast.runtime.data_path import DataPath
from holdfast.runtime.epoch import PlannedEpoch, Staged
from holdfast.runtime.keeping import Keeping
from holdfast.runtime.open_pipeline import OpenPipeline
from holdfast.runtime.planning import Planning
from holdfast.runtime.restore import Start
from holdfast.runtime.stop import StopLevel, StopSignal
from holdfast.runtime.watch import EpochCommitted, EpochStaged, Watch

RESTORE_REPORT = "restore.json"
"""Beside the claim's manifest: why the attempt began where it did."""
CrashPoint = Callable[[str], None]
"""Called with the name of a place before or after a durable step. A test may raise there."""


def no_crash(point: str) -> None:
    return None


class Ended(Enum):
    """How an attempt ended that did not fail."""

    FINISHED = "finished"
    FINISHED_BEFORE = "finished before"
    """Its chain says so: nothing was read, and nothing was left to publish."""
    STOPPED = "stopped"


@dataclass(frozen=True)
class AttemptOutside:
    """What an attempt is given from outside."""

    chain: Chain
    keeping: Keeping
    watch: Watch
    stop: StopSignal
    crash_point: CrashPoint = no_crash


class Attempt:
    """Runs from a claim. One object for one run."""

    def __init__(
        self,
        pipeline: OpenPipeline,
        path: DataPath,
        reaching: Mapping[str, list[Table]],
        outside: AttemptOutside,
    ) -> None:
        self._pipeline = pipeline
        self._path = path
        self._reaching = reaching
        self._chain = outside.chain
        self._keeping = outside.keeping
        self._watch = outside.watch
        self._stop = outside.stop
        self._point = outside.crash_point
        self._clock = pipeline.clock
        self._cadence = cadence_of(pipeline)
        self._planning = Planning(pipeline, self._cadence)
        self.claimed = False
        self._newest: Checkpoint | None = None
        """The last checkpoint that this attempt wrote."""

    def run(self, start: Start) -> Ended:
        """`start` holds the checkpoint to write first: the claim."""
        self._stop.on_now(self._end_now)
        try:
            return self._run(start)
        except ChainMoved:
            self._withdraw_if_passed()
            raise
        except Exception as error:
            self._withdraw_if_passed()
            if self._stop.level is StopLevel.NOW:
                raise Canceled(f"Pipeline {self._pipeline.name} was canceled.") from error
            raise
        finally:
            self._stop.forget(self._end_now)
            self._path.end()

    def _run(self, start: Start) -> Ended:
        claim = start.claim
        self._claim(claim)
        self._chain.write_beside(claim.number, RESTORE_REPORT, start.report.to_json())
        self._watch.restored(start.report)
        tip = self._prepare(self._settle(claim))
        if not tip.completed:
            tip = self._run_epochs(tip)
        if not tip.completed:
            return Ended.STOPPED
        self._finish(tip)
        return Ended.FINISHED

    def _end_now(self) -> None:
        self._path.cancel()
        self._pipeline.close()

    # ------------------------------------------------------------------------------------- before epochs

    def _claim(self, claim: Checkpoint) -> None:
        """Own the chain, or raise ChainMoved. Only from here on may anything be touched."""
        self._point("before claim")
        self._chain.extend(claim)
        if self._chain.head() != claim.number:
            # Someone slept between reading the tip and here, while the chain went on and was tidied: the number was
            # free, yet it is not the head.
            raise ChainMoved(claim)
        self.claimed = True
        self._newest = claim
        self._point("after claim")

    def _settle(self, claim: Checkpoint) -> Checkpoint:
        """Older attempts' leftovers go, and what the tip promised becomes visible."""
        for at, sink in sorted(self._pipeline.sinks.items()):
            due = self._claim_for(claim, at)
            self._point(f"before discard {at}")
            sink.discard(due)
            self._point(f"after discard {at}")
            if claim.rewind_due is not None and sink.rewindable:
                sink.rewind(due, claim.rewind_due)
                self._point(f"after rewind {at}")
        self._publish(claim)
        return claim

    def _claim_for(self, claim: Checkpoint, at: str) -> Claim:
        state = claim.sinks.get(at, SinkState())
        return Claim(claim.job_id, claim.pipeline_id, at, claim.attempt, state.token, claim.lineage)

    def _prepare(self, tip: Checkpoint) -> Checkpoint:
        """Save modes run once in a generation: a checkpoint remembers that they have."""
        todo = [at for at in sorted(self._pipeline.sinks) if not tip.sinks[at].prepared]
        if not todo:
            return tip
        for at in todo:
            self._point(f"before prepare {at}")
            self._must_lead(tip)
            self._pipeline.sinks[at].prepare(list(self._reaching[at]))
            self._point(f"after prepare {at}")
        states = {at: SinkState(True, None) for at in todo}
        rows = {at: {table.path: 0 for table in self._reaching[at]} for at in todo}
        prepared = tip.follow(
            kind=CheckpointKind.EPOCH,
            at_ms=self._clock.now_ms(),
            sinks={**tip.sinks, **states},
            sink_rows={**rows, **tip.sink_rows},
        )
        self._commit(prepared)
        return prepared

    def _must_lead(self, tip: Checkpoint) -> None:
        """Save modes may drop what is there, and nothing takes that back: an attempt that was passed must not."""
        if self._chain.head() != tip.number:
            raise ChainMoved(tip.follow())

    def _withdraw_if_passed(self) -> None:
        """What a passed attempt staged and never committed would stay for ever if the job has ended meanwhile.

        Whoever passed it keeps of it what its last checkpoint names, and nothing else. An attempt that fails while
        it leads must leave all: its last commit may have happened though nobody told it.
        """
        with suppress(HoldfastError):
            newest = self._newest
            if newest is None or self._chain.head() == newest.number:
                return
            if self._chain.read(newest.number + 1).attempt == newest.attempt:
                return
            for at, sink in sorted(self._pipeline.sinks.items()):
                sink.discard(replace(self._claim_for(newest, at), attempt=newest.attempt + 1))

    # -------------------------------------------------------------------------------------------- epochs

    def _run_epochs(self, tip: Checkpoint) -> Checkpoint:
        """Until all is done or a stop is asked for. Where epochs may overlap, the next is staged meanwhile."""
        began = self._clock.elapsed_ms()
        confirmed = began
        self._planning.begin(tip, self._reaching)
        while not tip.completed:
            self._end_if_canceled()
            while self._stop.level is StopLevel.GO_ON and self._planning.may_plan():
                planned = self._planning.plan()
                if planned is None:
                    break
                self._path.begin(planned)
            oldest = self._planning.oldest()
            if oldest is None:
                if self._stop.level is not StopLevel.GO_ON:
                    return tip
                tip, confirmed = self._idle(tip, confirmed)
                continue
            staged = self._path.finish(oldest)
            self._end_if_canceled()
            took_ms = self._clock.elapsed_ms() - max(oldest.planned_at_ms, confirmed)
            reached = self._planning.settle(oldest, staged, took_ms)
            if reached is None:
                tip, confirmed = self._idle(tip, confirmed)
                continue
            tip = self._complete(tip, oldest, staged, reached)
            confirmed = self._clock.elapsed_ms()
            self._rest_after(staged, oldest, took_ms)
        return tip

    def _end_if_canceled(self) -> None:
        """What was read while everything was being closed may be cut short: it is never committed."""
        if self._stop.level is StopLevel.NOW:
            raise Canceled(f"Pipeline {self._pipeline.name} was canceled.")

    def _complete(
        self,
        tip: Checkpoint,
        planned: PlannedEpoch,
        staged: Staged,
        reached: Mapping[str, Position],
    ) -> Checkpoint:
        """Commit, publish, ack."""
        done = self._follow(tip, staged, reached)
        assert done.number == planned.work.number, (
            "epochs are committed in the order they were planned"
        )
        self._watch.staged(EpochStaged(done.pipeline_id, done.number, staged.counts))
        self._commit(done)
        self._publish(done)
        for at in sorted(reached):
            self._point(f"before ack {at}")
            self._pipeline.sources[at].ack(done.sources[at])
        self._point("after ack")
        self._tell(done, planned)
        return done

    def _follow(
        self, tip: Checkpoint, staged: Staged, reached: Mapping[str, Position]
    ) -> Checkpoint:
        counts = dict(tip.counts)
        for at, count in staged.counts.items():
            counts[at] = counts.get(at, Count()).plus(count)
        rows = {at: dict(tables) for at, tables in tip.sink_rows.items()}
        for at, tables in staged.sink_rows.items():
            for table, number in tables.items():
                rows.setdefault(at, {})[table] = rows.get(at, {}).get(table, 0) + number
        sinks = {at: replace(state, token=staged.tokens.get(at)) for at, state in tip.sinks.items()}
        said = {at: self._pipeline.sources[at].describe(to) for at, to in reached.items()}
        return tip.follow(
            kind=CheckpointKind.EPOCH,
            at_ms=self._clock.now_ms(),
            sources={**tip.sources, **reached},
            said={**tip.said, **said},
            sinks=sinks,
            counts=counts,
            sink_rows=rows,
        )

    def _idle(self, tip: Checkpoint, confirmed: float) -> tuple[Checkpoint, float]:
        """Nothing came, from a plan or from a poll that waited in vain: confirm when that is due, then rest."""
        is_due = self._clock.elapsed_ms() - confirmed >= self._cadence.interval_ms
        if is_due and self._planning.oldest() is None:
            tip = self._confirm(tip)
            confirmed = self._clock.elapsed_ms()
        self._rest(self._planning.idle_wait_ms())
        return tip, confirmed

    def _confirm(self, tip: Checkpoint) -> Checkpoint:
        """Nothing came, and the position is still this: said in storage, at no cost to Spark."""
        confirmed = self._write_confirmed(tip)
        self._planning.skip_number()
        for at, source in sorted(self._pipeline.sources.items()):
            source.ack(confirmed.sources[at])
        return confirmed

    def _write_confirmed(self, tip: Checkpoint) -> Checkpoint:
        """The tip once more, with nothing left to publish."""
        states = {at: replace(state, token=None) for at, state in tip.sinks.items()}
        confirmed = tip.follow(kind=CheckpointKind.EPOCH, at_ms=self._clock.now_ms(), sinks=states)
        self._commit(confirmed)
        self._watch.committed(EpochCommitted(confirmed.pipeline_id, confirmed, None, 0.0))
        self._keeping.after_commit(confirmed)
        return confirmed

    def _commit(self, checkpoint: Checkpoint) -> None:
        self._point("before commit")
        self._chain.extend(checkpoint)
        self._newest = checkpoint
        self._point("after commit")

    def _publish(self, checkpoint: Checkpoint) -> None:
        for at, sink in sorted(self._pipeline.sinks.items()):
            token = checkpoint.sinks[at].token if at in checkpoint.sinks else None
            if token is None:
                continue
            self._point(f"before publish {at}")
            sink.publish(token)
            self._point(f"after publish {at}")

    def _tell(self, done: Checkpoint, planned: PlannedEpoch) -> None:
        took_ms = self._clock.elapsed_ms() - planned.planned_at_ms
        fraction = fraction_of(self._pipeline, done.sources)
        self._watch.committed(EpochCommitted(done.pipeline_id, done, fraction, took_ms))
        self._keeping.after_commit(done)

    # -------------------------------------------------------------------------------------------- waiting

    def _rest_after(self, staged: Staged, planned: PlannedEpoch, took_ms: float) -> None:
        read = [staged.counts.get(at, Count()) for at in self._pipeline.sources]
        rest_ms = derive_rest_ms(
            self._cadence,
            took_ms=took_ms,
            rows=sum(count.rows for count in read),
            size=sum(count.bytes for count in read),
        )
        since_ms = self._clock.elapsed_ms() - planned.planned_at_ms
        self._rest(max(rest_ms, self._cadence.apart_ms - since_ms))

    def _rest(self, duration_ms: float) -> None:
        if duration_ms > 0 and self._stop.level is StopLevel.GO_ON:
            self._clock.wait(duration_ms, self._stop.wake)

    def _finish(self, tip: Checkpoint) -> None:
        """All is published. Sinks that judge the whole job do it now; then the end is confirmed, for good."""
        for at, sink in sorted(self._pipeline.sinks.items()):
            finish = getattr(sink, "finish", None)
            if finish is not None:
                self._point(f"before finish {at}")
                finish(dict(tip.sink_rows.get(at, {})))
        if not tip.settled:
            tip = self._write_confirmed(tip)
        self._keeping.at_end(tip)


def cadence_of(pipeline: OpenPipeline) -> Cadence:
    cheap = all(sink.commits_cheaply for sink in pipeline.sinks.values())
    return derive_cadence(pipeline.env, commits_cheaply=cheap)


def fraction_of(pipeline: OpenPipeline, positions: Mapping[str, Position]) -> float | None:
    """The mean of what the sources say; None as soon as one does not know."""
    found: list[float] = []
    for at, source in pipeline.sources.items():
        if is_done(positions[at]):
            found.append(1.0)
            continue
        fraction = source.fraction(positions[at])
        if fraction is None:
            return None
        found.append(fraction)
    return sum(found) / len(found) if found else None
