"""Model systems that are broken on purpose, one bug each: what the contract suite has to catch."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from holdfast.connectors.base import (
    Budget,
    Claim,
    Context,
    Position,
    Probe,
    ReadPlan,
    ReadTask,
    StageScope,
    TableBatch,
    Token,
    token_epoch,
    token_parts,
)
from holdfast.model.json import JsonObject
from holdfast.model.schema import Table
from holdfast.outside.clock import RealClock
from holdfast.testing.model_log import LogOptions, LogSource, transaction_batches
from holdfast.testing.model_sink import ModelSink, Part, SinkOptions, SinkStore, parse_part
from holdfast.testing.model_table import SplitSource, TableOptions


class _Log(LogSource):
    def __init__(self, options: LogOptions) -> None:
        super().__init__(options, RealClock())


class TearsTransactions(_Log):
    """Says that a transaction is read before all of its rows are given."""

    def read(self, task: ReadTask, budget: Budget) -> Iterator[TableBatch]:
        rows = 0
        for found in super().read(task, replace(budget, rows_max=10**9)):
            at = self._end_of_transaction(task, rows)
            yield replace(found, reached={"at": at})
            rows += found.batch.num_rows
            if rows >= budget.rows_max:
                return

    def _end_of_transaction(self, task: ReadTask, rows: int) -> int:
        at = int(str(task.payload["at"]))
        for transaction, next_at in self.log.read_from(at):
            rows -= len(transaction)
            at = next_at
            if rows < 0:
                break
        return at


class RepeatsTheLastTransaction(_Log):
    """Tells where the last transaction begins and not where it ends."""

    def read(self, task: ReadTask, budget: Budget) -> Iterator[TableBatch]:
        before: JsonObject = {"at": task.payload["at"]}
        for found in super().read(task, budget):
            if found.reached is None:
                yield found
                continue
            yield replace(found, reached=before)
            before = found.reached


class MovesWhatItHandedOut(_Log):
    """Keeps one position and writes the newest into it: what a checkpoint holds would go on moving."""

    def position_after(self, position: Position, reached: Sequence[JsonObject | None]) -> Position:
        kept: dict[str, Any] = self.__dict__.setdefault("kept", {})
        kept.update(super().position_after(position, reached))
        return kept


class ForgetsTheBudget(_Log):
    def read(self, task: ReadTask, budget: Budget) -> Iterator[TableBatch]:
        return super().read(task, replace(budget, rows_max=10**9, bytes_max=10**9))


class ForgetsBytes(_Log):
    def read(self, task: ReadTask, budget: Budget) -> Iterator[TableBatch]:
        return super().read(task, replace(budget, bytes_max=10**9))


class KeepsAHistory(_Log):
    def position_after(self, position: Position, reached: Sequence[JsonObject | None]) -> Position:
        found = super().position_after(position, reached)
        past = position.get("past") or []
        assert isinstance(past, list)
        return {**found, "past": [*past, position["at"]]}


class EndsEarly(_Log):
    """Done one transaction before the end."""

    def start(self) -> Position:
        found = super().start()
        ends = [next_at for _, next_at in self.log.read_from(0)]
        return {**found, "until": ends[-2]}


class NeverEnds(_Log):
    def _position(self, at: int, until: int | None) -> Position:
        found = super()._position(at, until)
        found.pop("done", None)
        return found

    def plan(self, position: Position, budget: Budget) -> ReadPlan | None:
        if position["at"] == position["until"]:
            return None
        return super().plan(position, budget)


class ChangesWhatItWasGiven(_Log):
    def plan(self, position: Position, budget: Budget) -> ReadPlan | None:
        found = super().plan(position, budget)
        position["planned"] = True
        return found


class RemembersInItself(_Log):
    """Goes on from where this object stands, whatever position it is given."""

    def __init__(self, options: LogOptions) -> None:
        super().__init__(options)
        self.own: Position | None = None

    def plan(self, position: Position, budget: Budget) -> ReadPlan | None:
        return super().plan(self.own or self.start(), budget)

    def position_after(self, position: Position, reached: Sequence[JsonObject | None]) -> Position:
        self.own = super().position_after(position, reached)
        return self.own


class ReadsOtherRowsAgain(_Log):
    def read(self, task: ReadTask, budget: Budget) -> Iterator[TableBatch]:
        stamp = os.urandom(4).hex()
        for transaction, next_at in self.log.read_from(int(str(task.payload["at"]))):
            rows = [replace(row, text=f"{row.text} {stamp}") for row in transaction]
            yield from transaction_batches(rows, {"at": next_at})
            return


class HoldsALock(_Log):
    def __init__(self, options: LogOptions) -> None:
        super().__init__(options)
        self.lock = threading.Lock()


class NamesAnotherTable(_Log):
    def tables(self) -> Sequence[Table]:
        return [replace(table, path=f"db.{table.path}") for table in super().tables()]


class GivesAnotherType(_Log):
    def read(self, task: ReadTask, budget: Budget) -> Iterator[TableBatch]:
        for found in super().read(task, budget):
            ids = found.batch.column("id").cast(pa.int32())
            yield replace(found, batch=found.batch.set_column(0, "id", ids))


class KeepsWhatJsonDoesNot(_Log):
    def position_after(self, position: Position, reached: Sequence[JsonObject | None]) -> Position:
        found: Any = super().position_after(position, reached)
        return {**found, "pair": (1, 2)}


class SkipsWhatWasPurged(_Log):
    def _check_kept(self, at: int) -> None:
        return None


class SaysItCanBeRead(_Log):
    def probe(self, position: Position) -> Probe:
        return Probe(True, "all is well")


class SaysNothing(_Log):
    def describe(self, position: Position) -> str:
        return ""


class PurgesTooMuch(_Log):
    def ack(self, position: Position) -> None:
        for _, next_at in self.log.read_from(int(str(position["at"]))):
            self.log.purge(next_at)
            return


class HangsForEver(_Log):
    """Waits for news and for nothing else."""

    def _wait_for_news(self, at: int, deadline_ms: float) -> None:
        super()._wait_for_news(at, deadline_ms + 10_000_000)


class IsDeafToClose(_Log):
    def close(self) -> None:
        return None


class TakesNothingForTheEnd(_Log):
    """Its newest position lies one transaction before what is there."""

    def latest(self) -> Position:
        return super().start()


class MissesTheLastSplit(SplitSource):
    def plan(self, position: Position, budget: Budget) -> ReadPlan | None:
        found = super().plan(position, budget)
        if found is not None and len(found.tasks) > 1:
            return replace(found, tasks=found.tasks[:-1])
        return found


class PlansTooMuch(SplitSource):
    def plan(self, position: Position, budget: Budget) -> ReadPlan | None:
        return super().plan(position, replace(budget, tasks_max=10**6, rows_max=10**9))


class ListsWhatIsDone(SplitSource):
    def _position(self, next_split: int) -> Position:
        return {**super()._position(next_split), "finished": list(range(next_split))}


LogMaker = Callable[[LogOptions], LogSource]
SplitMaker = Callable[[TableOptions], SplitSource]

BROKEN_LOGS: list[tuple[LogMaker, str]] = [
    (TearsTransactions, "is_same_rows_whatever_the_cuts"),
    (RepeatsTheLastTransaction, "is_moving_with_its_rows"),
    (MovesWhatItHandedOut, "is_careful_with_positions"),
    (ForgetsTheBudget, "is_within_budget"),
    (ForgetsBytes, "is_within_budget"),
    (KeepsAHistory, "is_small_in_state"),
    (EndsEarly, "is_same_rows_whatever_the_cuts"),
    (NeverEnds, "is_truthful_about_its_end"),
    (ChangesWhatItWasGiven, "is_same_rows_whatever_the_cuts"),
    (RemembersInItself, "is_resumable_from_every_position"),
    (ReadsOtherRowsAgain, "is_replayable"),
    (HoldsALock, "is_picklable"),
    (NamesAnotherTable, "is_true_to_its_tables"),
    (GivesAnotherType, "is_true_to_its_tables"),
    (KeepsWhatJsonDoesNot, "is_resumable_from_every_position"),
    (SkipsWhatWasPurged, "is_honest_about_purged_positions"),
    (SaysItCanBeRead, "is_honest_about_purged_positions"),
    (SaysNothing, "is_telling"),
    (PurgesTooMuch, "is_unmoved_by_ack"),
]
BROKEN_HANGING_LOGS: list[tuple[LogMaker, str]] = [
    (HangsForEver, "is_within_its_time"),
    (IsDeafToClose, "is_ended_by_close"),
    (TakesNothingForTheEnd, "is_skipping_by_latest"),
]
BROKEN_TABLES: list[tuple[SplitMaker, str]] = [
    (MissesTheLastSplit, "is_same_rows_whatever_the_cuts"),
    (PlansTooMuch, "is_within_budget"),
    (ListsWhatIsDone, "is_small_in_state"),
]


# ----------------------------------------------------------------------------------------------- sinks


class ShowsAtOnce(ModelSink):
    def stage(self, scope: StageScope, batches: Iterator[TableBatch]) -> JsonObject | None:
        part = super().stage(scope, batches)
        if part is not None:
            self.store.show(parse_part(str(part["part"])))
        return part


class PublishesTwice(ModelSink):
    """Under a new name each time."""

    def publish(self, token: Token) -> None:
        for found in token_parts(token):
            part = parse_part(str(found["part"]))
            rows = _find_rows(self.store, part)
            copy = replace(part, try_id=os.urandom(4).hex())
            self.store.write_staged(copy, rows)
            self.store.show(copy)


class FailsWhenPublishedAlready(ModelSink):
    def publish(self, token: Token) -> None:
        for found in token_parts(token):
            name = f"{found['part']}.json"
            folder = self.store.folder
            own = "orders/sink-0-it"
            (folder / "visible" / own).mkdir(parents=True, exist_ok=True)
            os.replace(folder / "staged" / own / name, folder / "visible" / own / name)


class CopiesWithoutCare(ModelSink):
    """Publishes by looking first and appending then: two at once append twice."""

    looked = threading.Barrier(3)

    def publish(self, token: Token) -> None:
        parts = [parse_part(str(found["part"])) for found in token_parts(token)]
        is_done = bool(self.store.list_parts("visible"))
        if len(parts) > 2:
            self.looked.wait(timeout=20)
        if is_done:
            return
        for part in parts:
            copy = replace(part, try_id=os.urandom(4).hex())
            self.store.write_staged(copy, _find_rows(self.store, part))
            self.store.show(copy)


class DiscardsEverything(ModelSink):
    def discard(self, claim: Claim) -> None:
        super().discard(replace(claim, attempt=10**9))


class DiscardsTheKept(ModelSink):
    def discard(self, claim: Claim) -> None:
        super().discard(replace(claim, keep=None))


class DiscardsNothing(ModelSink):
    def discard(self, claim: Claim) -> None:
        return None


class IgnoresLineages(ModelSink):
    """Takes epoch 2 for epoch 2."""

    def stage(self, scope: StageScope, batches: Iterator[TableBatch]) -> JsonObject | None:
        return super().stage(replace(scope, lineage="one"), batches)

    def discard(self, claim: Claim) -> None:
        super().discard(replace(claim, lineage="one"))


class DiscardsByPrefix(ModelSink):
    def discard(self, claim: Claim) -> None:
        for place in (self.store.folder / "staged").glob("*/*"):
            if f"{place.parent.name}/{place.name}".startswith(claim.job_id):
                store = SinkStore(self.store.folder, place.parent.name, place.name)
                for part in store.list_parts("staged"):
                    if part.attempt < claim.attempt:
                        store.bury("staged", part)


class LosesTheTry(ModelSink):
    """Two tries of one task meet in one name; the loser's rows take the place of the winner's."""

    def stage(self, scope: StageScope, batches: Iterator[TableBatch]) -> JsonObject | None:
        part = super().stage(replace(scope, try_id="0"), batches)
        if part is not None and scope.try_id != "0":
            return {**part, "part": f"{part['part']}-{scope.try_id}"}
        return part


class PublishesAllItFinds(ModelSink):
    """Whatever was staged for the epoch, named by the token or not."""

    def publish(self, token: Token) -> None:
        for part in self.store.list_parts("staged"):
            if part.epoch == token_epoch(token):
                self.store.show(part)


class LeavesStagedFiles(ModelSink):
    def publish(self, token: Token) -> None:
        super().publish(token)
        for found in token_parts(token):
            part = parse_part(str(found["part"]))
            self.store.write_staged(part, _find_rows(self.store, part))

    def discard(self, claim: Claim) -> None:
        return None


class GivesAPartForNothing(ModelSink):
    def stage(self, scope: StageScope, batches: Iterator[TableBatch]) -> JsonObject | None:
        return super().stage(scope, batches) or {"part": "x.0.0.0.0", "rows": 0}


class PreparesOnce(ModelSink):
    def prepare(self, tables: Sequence[Table]) -> None:
        (self.store.folder / "made").mkdir(parents=True)


class KeepsRowsInMemory(ModelSink):
    """Its rows die with the object."""

    def __init__(self, options: SinkOptions, context: Context) -> None:
        super().__init__(options, context)
        self.rows: dict[str, list[Any]] = {}

    def stage(self, scope: StageScope, batches: Iterator[TableBatch]) -> JsonObject | None:
        part = super().stage(scope, batches)
        if part is not None:
            found = parse_part(str(part["part"]))
            self.rows[found.name] = _find_rows(self.store, found)
            self.store.remove("staged", found)
        return part

    def publish(self, token: Token) -> None:
        for found in token_parts(token):
            part = parse_part(str(found["part"]))
            self.store.write_staged(part, self.rows.get(part.name, []))
            self.store.show(part)


class ShowsAFailedTask(ModelSink):
    def stage(self, scope: StageScope, batches: Iterator[TableBatch]) -> JsonObject | None:
        part = None
        for index, found in enumerate(batches):
            own = replace(scope, try_id=f"{scope.try_id}-{index}")
            part = super().stage(own, iter([found]))
            if part is not None:
                self.store.show(parse_part(str(part["part"])))
        return part


class RewindsNothing(ModelSink):
    def rewind(self, claim: Claim, epoch: int) -> None:
        return None


class RewindsTooMuch(ModelSink):
    def rewind(self, claim: Claim, epoch: int) -> None:
        super().rewind(claim, epoch - 1)


class PromisesMore(ModelSink):
    """Declares exactly-once and appends at once."""

    condition = "of none"


def _find_rows(store: SinkStore, part: Part) -> list[Any]:
    for kind in ("staged", "visible"):
        path = Path(store.folder, kind, "orders", "sink-0-it", f"{part.name}.json")
        if path.exists():
            found: list[Any] = json.loads(path.read_text())
            return found
    return []


BROKEN_SINKS: list[tuple[Callable[[SinkOptions, Context], ModelSink], str]] = [
    (ShowsAtOnce, "is_hiding_what_is_staged"),
    (PublishesTwice, "is_publishing_once"),
    (FailsWhenPublishedAlready, "is_publishing_once"),
    (CopiesWithoutCare, "is_publishing_once_for_two"),
    (DiscardsEverything, "is_sparing_newer_attempts"),
    (DiscardsTheKept, "is_sparing_the_kept_token"),
    (DiscardsNothing, "is_discarding_what_older_attempts_left"),
    (DiscardsByPrefix, "is_sparing_its_neighbours"),
    (IgnoresLineages, "is_telling_lineages_apart"),
    (LosesTheTry, "is_publishing_what_the_token_names"),
    (PublishesAllItFinds, "is_publishing_what_the_token_names"),
    (LeavesStagedFiles, "is_done_without_leftovers"),
    (GivesAPartForNothing, "is_told_of_no_rows"),
    (PreparesOnce, "is_prepared_again"),
    (KeepsRowsInMemory, "is_showing_what_it_took"),
    (ShowsAFailedTask, "is_unharmed_by_a_failing_read"),
    (RewindsNothing, "is_rewinding"),
    (RewindsTooMuch, "is_rewinding"),
    (PromisesMore, "is_as_declared"),
]
