"""A model sink with both halves of a transaction, that keeps a journal of every call and judges its caller.

All it knows is in a folder, so processes that get killed and executors may use it too:

    journal.jsonl, violations.jsonl
    staged/<job>/<location>/<part>.json     written, invisible          part = <lineage>.<attempt>.<epoch>.<task>.<try>
    visible/<job>/<location>/<part>.json    published
    gone/<job>/<location>/<part>            discarded or taken back: must never become visible any more
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.connectors.base import (
    Claim,
    Connector,
    Context,
    Guarantee,
    SinkBase,
    StageScope,
    TableBatch,
    Token,
    token_attempt,
    token_epoch,
    token_parts,
)
from holdfast.model.errors import SinkRejected
from holdfast.model.json import Json, JsonObject
from holdfast.model.schema import KIND_COLUMN, Table
from holdfast.spec.options import option


@dataclass(frozen=True)
class SinkOptions:
    """Of the model sink."""

    folder: str = option("Where it keeps everything.", identity=True)
    rewindable: bool = option("Whether it can take back what it published.", default=True)
    overlaps: bool = option("Whether two epochs may be staged at once.", default=False)


@dataclass(frozen=True, slots=True, order=True)
class Part:
    """What one try of one task staged. Sorted as the rows were read."""

    epoch: int
    task: int
    attempt: int
    try_id: str
    lineage: str

    @property
    def name(self) -> str:
        return f"{self.lineage}.{self.attempt}.{self.epoch}.{self.task}.{self.try_id}"


def parse_part(name: str) -> Part:
    lineage, attempt, epoch, task, try_id = name.removesuffix(".json").split(".", 4)
    return Part(int(epoch), int(task), int(attempt), try_id, lineage)


class ModelSink(SinkBase):
    """Stages files, publishes by rename."""

    guarantee = Guarantee.EXACTLY_ONCE
    condition = ""
    commits_cheaply = True

    def __init__(self, options: SinkOptions, context: Context) -> None:
        self.rewindable = options.rewindable
        self.overlaps = options.overlaps
        self.store = SinkStore(Path(options.folder), context.job_id, context.location)
        self.at: Callable[[str], None] = _nothing
        """A crash point inside the calls, in the process that made this object."""
        self.on_publish: Callable[[Token], None] = _nothing
        """Told before rows become visible: for a test to judge whether they may."""

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "at": _nothing, "on_publish": _nothing}

    def prepare(self, tables: Sequence[Table]) -> None:
        """As with `DROP_DATA`: what is visible goes. So a save mode that is applied twice loses rows."""
        self.store.record("prepare", tables=[table.path for table in tables])
        for part in self.store.list_parts("visible"):
            self.store.remove("visible", part)
        self.at("sink prepared")

    def stage(self, scope: StageScope, batches: Iterator[TableBatch]) -> JsonObject | None:
        part = Part(scope.epoch, scope.task, scope.attempt, scope.try_id, scope.lineage)
        self.store.record("stage", part=part.name)
        self.store.judge_scope(scope, part)
        rows: list[Json] = [row for found in batches for row in _rows_of(found)]
        if not rows:
            return None
        self.at("sink before stage")
        self.store.write_staged(part, rows)
        self.at("sink after stage")
        return {"part": part.name, "rows": len(rows)}

    def publish(self, token: Token) -> None:
        self.store.record("publish", attempt=token_attempt(token), epoch=token_epoch(token))
        self.on_publish(token)
        for found in token_parts(token):
            self.at("sink before a part is published")
            self.store.show(parse_part(str(found["part"])))
        self.at("sink after publish")

    def discard(self, claim: Claim) -> None:
        self.store.record("discard", attempt=claim.attempt, keep=claim.keep)
        kept = {parse_part(str(found["part"])) for found in token_parts(claim.keep or NO_PARTS)}
        for part in self.store.list_parts("staged"):
            if _is_older(part, claim) and part not in kept:
                self.at("sink before a part is discarded")
                self.store.bury("staged", part)
        self.at("sink after discard")

    def rewind(self, claim: Claim, epoch: int) -> None:
        self.store.record("rewind", attempt=claim.attempt, epoch=epoch)
        for part in self.store.list_parts("visible"):
            if part.epoch > epoch and _is_older(part, claim):
                self.at("sink before a part is taken back")
                self.store.bury("visible", part)
        self.at("sink after rewind")

    def close(self) -> None:
        self.store.record("close")


NO_PARTS: Token = {"attempt": 0, "epoch": 0, "parts": []}


def _is_older(part: Part, claim: Claim) -> bool:
    """What another lineage left is not this claim's to judge."""
    return part.lineage == claim.lineage and part.attempt < claim.attempt


def _nothing(_: object) -> None:
    return None


def _rows_of(found: TableBatch) -> list[Json]:
    """Each row as `[table, kind, value, …]`."""
    batch = found.batch
    kinds = [0] * batch.num_rows
    if KIND_COLUMN in batch.schema.names:
        kinds = batch.column(KIND_COLUMN).to_pylist()
    names = [name for name in batch.schema.names if name != KIND_COLUMN]
    columns = [batch.column(name).to_pylist() for name in names]
    values = zip(*columns, strict=True) if columns else [()] * batch.num_rows
    return [[found.table, kind, *row] for kind, row in zip(kinds, values, strict=True)]


class SinkStore:
    """The folder of one sink: also what a test reads."""

    def __init__(self, folder: Path, job_id: str, location: str) -> None:
        self.folder = folder
        self._own = f"{job_id}/{location}"
        self._job_id = job_id
        self._location = location

    def visible_rows(self) -> list[list[Json]]:
        """In the order in which they were read."""
        found: list[list[Json]] = []
        for part in self.list_parts("visible"):
            found += json.loads(self._path("visible", part).read_text())
        return found

    def list_parts(self, kind: str) -> list[Part]:
        """`kind`: staged, visible or gone."""
        folder = self.folder / kind / self._own
        if not folder.is_dir():
            return []
        return sorted(parse_part(n) for n in os.listdir(folder) if not n.startswith(_UNFINISHED))

    def violations(self) -> list[str]:
        return [str(found["said"]) for found in self._lines("violations.jsonl")]

    def journal(self) -> list[JsonObject]:
        return self._lines("journal.jsonl")

    def record(self, call: str, **facts: Json) -> None:
        self._append("journal.jsonl", {"call": call, "at": self._own, **facts})

    def judge_scope(self, scope: StageScope, part: Part) -> None:
        """What staging shows of its caller."""
        if (scope.job_id, scope.location) != (self._job_id, self._location):
            self._blame(f"staged for {scope.job_id}/{scope.location} in the sink of {self._own}")
        if self._path("staged", part).exists() or self._path("visible", part).exists():
            self._blame(f"{part.name} was staged twice: two tries met in one name")
        own = [found for found in self.list_parts("visible") if found.lineage == part.lineage]
        if any(found.attempt == part.attempt and found.epoch > part.epoch for found in own):
            self._blame(f"{part.name} was staged behind an epoch that is visible already")

    def write_staged(self, part: Part, rows: list[Json]) -> None:
        target = self._path("staged", part)
        target.parent.mkdir(parents=True, exist_ok=True)
        written = target.with_name(f"{_UNFINISHED}{target.name}")
        written.write_text(json.dumps(rows))
        os.replace(written, target)

    def show(self, part: Part) -> None:
        """Make one part visible. Two may do it at once: the rename of one of them finds nothing more to do."""
        target = self._path("visible", part)
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.replace(self._path("staged", part), target)
        except FileNotFoundError:
            if target.exists():
                return
            if self._path("gone", part).exists():
                raise SinkRejected(
                    f"Cannot publish {part.name}: it was discarded by a newer attempt."
                ) from None
            self._blame(f"{part.name} was published and never staged")
            raise SinkRejected(f"Cannot publish {part.name}: it was never staged.") from None

    def bury(self, kind: str, part: Part) -> None:
        """Remove, and remember that it must not come back."""
        grave = self._path("gone", part)
        grave.parent.mkdir(parents=True, exist_ok=True)
        grave.touch()
        self.remove(kind, part)

    def remove(self, kind: str, part: Part) -> None:
        self._path(kind, part).unlink(missing_ok=True)

    def _path(self, kind: str, part: Part) -> Path:
        return self.folder / kind / self._own / f"{part.name}.json"

    def _blame(self, said: str) -> None:
        self._append("violations.jsonl", {"at": self._own, "said": said})

    def _append(self, name: str, line: JsonObject) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / name, "ab", buffering=0) as file:
            file.write(json.dumps(line).encode() + b"\n")

    def _lines(self, name: str) -> list[JsonObject]:
        path = self.folder / name
        if not path.exists():
            return []
        return [json.loads(line) for line in path.read_text().splitlines()]


_UNFINISHED = "unfinished-"


SINK = Connector(
    name="ModelSink",
    role="sink",
    options=SinkOptions,
    create=ModelSink,
    doc="A two-phase sink in a folder that remembers every call. For tests of the engine.",
    guarantee=lambda options: (Guarantee.EXACTLY_ONCE, ""),
)
