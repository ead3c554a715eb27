"""A job in a world that a test controls: real loop, real chain, real restore; storage, clock and crashes are ours.

A world outlives its attempts. It records every checkpoint that was ever made, judges each ack and each publish at the
moment it happens, and says at the end what is wrong.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from holdfast.checkpoint.chain import MANIFEST
from holdfast.checkpoint.document import read_document
from holdfast.connectors.base import Connector, Context, Position, Token, token_parts
from holdfast.decide.restore import RestoreRequest
from holdfast.model.checkpoints import Checkpoint, CheckpointKind, checkpoint_from_json
from holdfast.model.ends import JobResult
from holdfast.model.jobs import JobSpec, Role
from holdfast.model.json import Json
from holdfast.outside.files import Files
from holdfast.outside.ids import new_id
from holdfast.runtime.attempt import CrashPoint, no_crash
from holdfast.runtime.catalog import Catalog
from holdfast.runtime.session import SparkHost, SparkSettings
from holdfast.runtime.stop import StopLevel, StopSignal
from holdfast.runtime.watch import EpochCommitted, NoWatch
from holdfast.solo import derive_result
from holdfast.testing.builders import Declared, a_spec, an_env
from holdfast.testing.crashes import CrashingFiles, MemoryFiles, VirtualClock
from holdfast.testing.model_log import LogSource
from holdfast.testing.model_sink import ModelSink, SinkStore, parse_part
from holdfast.worker.attempts import WorkerOutside, run_attempt

JOB_ID = "orders"
AUTO = RestoreRequest()
ROWS_PER_EPOCH = 6


class NoSpark(SparkHost):
    """These worlds stay in the driver: whoever asks for Spark has gone astray."""

    def __init__(self) -> None:
        super().__init__(SparkSettings())

    def session(self) -> Any:
        raise AssertionError("a small epoch without transforms asked for Spark")


def run_once(spec: JobSpec, request: RestoreRequest, outside: WorkerOutside) -> JobResult:
    """One attempt at the one pipeline of a job: sweeps are about it alone, and run it thousands of times."""
    (pipeline,) = spec.pipelines
    request = replace(request, submission=request.submission or new_id())
    try:
        ended = run_attempt(JOB_ID, spec.env, pipeline, request, outside)
    except BaseException as error:  # noqa: BLE001 - the attempt's outermost line: judged by the test
        return derive_result({pipeline.id: error})
    return derive_result({pipeline.id: ended})


@dataclass
class Record:
    """Every checkpoint that was ever made, in the order in which they were."""

    made: list[Checkpoint] = field(default_factory=list)

    def add(self, path: str, data: bytes) -> None:
        if path.endswith(MANIFEST) and not path.startswith("savepoint"):
            self.made.append(checkpoint_from_json(read_document(data, path)))

    def tokens(self, at: str) -> list[Token]:
        found = [checkpoint.sinks.get(at) for checkpoint in self.made]
        return [state.token for state in found if state is not None and state.token is not None]


class World:
    """One job with its surroundings."""

    def __init__(
        self, sources: Mapping[str, Declared], sinks: Mapping[str, Declared], **env: Any
    ) -> None:
        self.clock = VirtualClock()
        self.record = Record()
        self.memory = MemoryFiles(self.clock)
        self.problems: list[str] = []
        """What was seen to go wrong while attempts ran."""
        self.stores: dict[str, SinkStore] = {}
        self.log_ends: dict[str, Callable[[], int]] = {}
        settings = {
            "checkpoint_interval_ms": 1_000,
            "rows_per_second_max": float(ROWS_PER_EPOCH),
            **env,
        }
        self.spec: JobSpec = a_spec(sources, sinks, an_env(job_id=JOB_ID, **settings))
        self._sources, self._sinks = sources, sinks

    def files(self, **fault: Any) -> CrashingFiles:
        """This world's storage, with a fault of its own for one attempt."""
        return CrashingFiles(self.memory, self.clock, on_create=self.record.add, **fault)

    def run(
        self,
        crash_point: CrashPoint = no_crash,
        *,
        files: Files | None = None,
        request: RestoreRequest = AUTO,
    ) -> JobResult:
        """One run: a batch to its end, a stream to what its logs hold now."""
        stop = StopSignal()
        outside = WorkerOutside(
            files=files or self.files(),
            catalog=Catalog(own=self._own(crash_point)),
            host=NoSpark(),
            clock=self.clock,
            watch=StopAtTheEnd(stop, self.log_ends),
            stop=stop,
            crash_point=crash_point,
        )
        return run_once(self.spec, request, outside)

    # -------------------------------------------------------------------------------------------- judging

    def judge_chain(self) -> list[str]:
        """The chain has no gaps, no attempt advances behind a newer claim, and each begins where the tip was."""
        wrong = []
        owner = 0
        for before, made in zip([None, *self.record.made], self.record.made, strict=False):
            expected = 1 if before is None else before.number + 1
            if made.number != expected:
                wrong.append(f"checkpoint {made.number} was made where {expected} was due")
            if made.kind is CheckpointKind.CLAIM:
                wrong += _judge_claim(before, made)
                owner = made.attempt
            elif made.attempt != owner:
                wrong.append(f"attempt {made.attempt} made {made.number} and {owner} had claimed")
        return wrong

    def judge_sinks(self, expected: Mapping[str, Sequence[Json]]) -> list[str]:
        """Each sink holds exactly these rows, by table and in order, and has nothing to complain about."""
        wrong = []
        for at, store in self.stores.items():
            found: dict[str, list[Json]] = {}
            for row in store.visible_rows():
                found.setdefault(str(row[0]), []).append(row)
            for table in sorted({*found, *expected}):
                rows, wanted = found.get(table, []), list(expected.get(table, []))
                if rows != wanted:
                    wrong.append(_difference(f"{at}, table {table}", rows, wanted))
            wrong += [f"{at}: {said}" for said in store.violations()]
        return wrong

    def judge_leftovers(self) -> list[str]:
        return [
            f"{at}: {part.name} is still staged"
            for at, store in self.stores.items()
            for part in store.list_parts("staged")
        ]

    def judge(self, expected: Mapping[str, Sequence[Json]]) -> list[str]:
        """All that is wrong with this world now that it is at rest."""
        wrong = [*self.problems, *self.judge_chain(), *self.judge_sinks(expected)]
        return [*wrong, *self.judge_leftovers()]

    # -------------------------------------------------------------------------------------------- hooks

    def _own(self, crash_point: CrashPoint) -> dict[tuple[Role, str], Connector]:
        """The connectors, with this run's crash point and this world's judges built in."""
        own: dict[tuple[Role, str], Connector] = {}
        for role, declared in ((Role.SOURCE, self._sources), (Role.SINK, self._sinks)):
            for connector, _ in declared.values():
                own[role, connector.name] = replace(
                    connector, create=self._hooking(connector.create, crash_point)
                )
        return own

    def _hooking(
        self, create: Callable[[Any, Context], Any], crash_point: CrashPoint
    ) -> Callable[[Any, Context], Any]:
        def create_hooked(options: Any, context: Context) -> Any:
            made = create(options, context)
            if isinstance(made, ModelSink):
                made.at = crash_point
                made.on_publish = lambda token: self._judge_publish(context.location, token)
                self.stores[context.location] = made.store
            if isinstance(made, LogSource):
                made.on_ack = lambda position: self._judge_ack(context.location, position)
                if not made.bounded:
                    self.log_ends[context.location] = made.log.end
            return made

        return create_hooked

    def _judge_publish(self, at: str, token: Token) -> None:
        if token not in self.record.tokens(at):
            self.problems.append(f"{at}: {token} was published and no checkpoint names it")

    def _judge_ack(self, at: str, position: Position) -> None:
        """An acked position is in a checkpoint, and all sinks show what came before."""
        holding = [c for c in self.record.made if c.sources.get(at) == position]
        if not holding:
            self.problems.append(f"{at}: {position} was acked and is in no checkpoint")
            return
        number = min(c.number for c in holding)
        for checkpoint in self.record.made:
            if checkpoint.number <= number:
                self._judge_published(at, checkpoint)

    def _judge_published(self, at: str, checkpoint: Checkpoint) -> None:
        for sink, state in checkpoint.sinks.items():
            if state.token is None or sink not in self.stores:
                continue
            staged = self.stores[sink].list_parts("staged")
            if any(parse_part(str(part["part"])) in staged for part in token_parts(state.token)):
                self.problems.append(
                    f"{at} was acked before {sink} had published checkpoint {checkpoint.number}"
                )


class StopAtTheEnd(NoWatch):
    """Asks a stream to stop once all that its logs hold is committed."""

    def __init__(self, stop: StopSignal, log_ends: Mapping[str, Callable[[], int]]) -> None:
        self._stop = stop
        self._log_ends = log_ends

    def committed(self, event: EpochCommitted) -> None:
        sources = event.checkpoint.sources
        ends = [sources[at].get("at") == end() for at, end in self._log_ends.items()]
        if ends and all(ends):
            self._stop.ask(StopLevel.AFTER_EPOCH)


class Runner:
    """An attempt in a thread of its own, so that it can stand still while others run."""

    def __init__(self, run: Callable[[], JobResult], over: Callable[[], None]) -> None:
        self._results: list[JobResult] = []

        def work() -> None:
            try:
                self._results.append(run())
            finally:
                over()

        self._thread = threading.Thread(target=work, daemon=True)
        self._thread.start()

    def result(self) -> JobResult:
        self._thread.join(120)
        assert self._results, "an attempt did not come to its end"
        return self._results[0]


def _judge_claim(before: Checkpoint | None, claim: Checkpoint) -> list[str]:
    """A claim repeats its parent's content, unless it says that it went elsewhere."""
    if before is None or claim.restored_from is not None or claim.generation != before.generation:
        return []
    wrong = []
    if dict(claim.sources) != dict(before.sources):
        wrong.append(f"claim {claim.number} does not begin where checkpoint {before.number} stood")
    if claim.sinks != before.sinks:
        wrong.append(f"claim {claim.number} forgets tokens of checkpoint {before.number}")
    if claim.attempt <= before.attempt:
        wrong.append(f"claim {claim.number} uses attempt {claim.attempt} again")
    return wrong


def _difference(where: str, rows: Sequence[Json], wanted: Sequence[Json]) -> str:
    missing = [row for row in wanted if row not in rows]
    extra = [row for row in rows if row not in wanted]
    return (
        f"{where}: {len(rows)} rows and not {len(wanted)}; missing {missing[:3]}, beyond {extra[:3]},"
        " or doubled, or in another order"
    )
