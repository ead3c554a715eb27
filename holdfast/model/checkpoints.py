"""Checkpoints: what an epoch leaves in checkpoint storage, and all an attempt needs in order to go on.

Numbers of a pipeline's chain have no gaps and are never reused; an attempt's first checkpoint is its claim.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from holdfast.model.json import Json, JsonObject

FORMAT = 1
"""Of everything stored here. A reader refuses a newer one by name and reads every older one."""


class CheckpointKind(Enum):
    CLAIM = "claim"
    """An attempt took the chain over: the restored positions and tokens, nothing new."""
    EPOCH = "epoch"
    """An epoch was committed, or an idle pipeline confirmed where it stands."""


@dataclass(frozen=True, slots=True)
class SinkState:
    """What the chain keeps of a sink."""

    prepared: bool = False
    """Its save modes were applied in this generation: never again."""
    token: JsonObject | None = None
    """What this checkpoint makes visible."""


@dataclass(frozen=True, slots=True)
class Count:
    """Rows and bytes since the generation began."""

    rows: int = 0
    bytes: int = 0

    def plus(self, other: Count) -> Count:
        return Count(self.rows + other.rows, self.bytes + other.bytes)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One link of a pipeline's chain."""

    job_id: str
    pipeline_id: int
    number: int
    attempt: int
    generation: int
    kind: CheckpointKind
    at_ms: int
    sources: Mapping[str, JsonObject]
    """Position by task location."""
    sinks: Mapping[str, SinkState]
    fingerprint: JsonObject
    submission: str = ""
    """The submission whose attempt wrote it: what was asked of a restore is asked once, by its first claim."""
    lineage: str = ""
    """Random, made with the first checkpoint of an empty chain and kept by all that follow. Sinks that remember epochs
    tell by it that storage was wiped and the numbers began anew."""
    claim_id: str = ""
    """Random for each claim: two attempts never write the same bytes, so a lost answer can be told from a lost race."""
    tables: Mapping[str, list[Json]] = field(default_factory=dict)
    """The tables each source delivered, by task location."""
    counts: Mapping[str, Count] = field(default_factory=dict)
    sink_rows: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Rows committed per sink and table, for sinks that judge the whole job."""
    said: Mapping[str, str] = field(default_factory=dict)
    """Each source's position in words, for people."""
    restored_from: str | None = None
    """Of a claim: the checkpoint or savepoint it took its content from, where that is not its parent."""
    abandons_after: int | None = None
    """Of a claim that went back: checkpoints after this number and before the claim are off the line."""
    rewind_due: int | None = None
    """Sinks still have to take back what epochs after this number published. Gone with the next epoch."""

    @property
    def parent(self) -> int:
        return self.number - 1

    @property
    def completed(self) -> bool:
        """All sources were done: an attempt that starts here publishes and finishes."""
        return bool(self.sources) and all(p.get("done") is True for p in self.sources.values())

    @property
    def settled(self) -> bool:
        """Nothing is left to do: completed, published, and confirmed after that."""
        is_open = any(not s.prepared or s.token is not None for s in self.sinks.values())
        is_claim = self.kind is CheckpointKind.CLAIM
        return self.completed and not is_open and not is_claim and self.rewind_due is None

    def follow(self, **changes: object) -> Checkpoint:
        """The next link, with `changes`. What only concerns a claim does not go on."""
        fresh: dict[str, object] = {
            "number": self.number + 1,
            "restored_from": None,
            "abandons_after": None,
            "rewind_due": None,
        }
        return replace(self, **{**fresh, **changes})  # type: ignore[arg-type]

    def to_json(self) -> JsonObject:
        return {
            "jobId": self.job_id,
            "pipelineId": self.pipeline_id,
            "checkpointId": self.number,
            "parent": self.parent,
            "attempt": self.attempt,
            "generation": self.generation,
            "kind": self.kind.value,
            "at_ms": self.at_ms,
            "completed": self.completed,
            "sources": dict(self.sources),
            "sinks": {
                at: {"prepared": state.prepared, "token": state.token}
                for at, state in self.sinks.items()
            },
            "fingerprint": self.fingerprint,
            "lineage": self.lineage,
            "submission": self.submission,
            "claimId": self.claim_id,
            "tables": {at: list(tables) for at, tables in self.tables.items()},
            "counts": {at: [count.rows, count.bytes] for at, count in self.counts.items()},
            "sinkRows": {at: dict(rows) for at, rows in self.sink_rows.items()},
            "said": dict(self.said),
            "restoredFrom": self.restored_from,
            "abandonsAfter": self.abandons_after,
            "rewindDue": self.rewind_due,
        }


def checkpoint_from_json(found: JsonObject) -> Checkpoint:
    """Raises KeyError, TypeError or ValueError when `found` is not what `to_json` gave."""
    f: dict[str, object] = dict(found)
    sinks: dict[str, JsonObject] = f["sinks"]  # type: ignore[assignment]
    counts: dict[str, list[int]] = f["counts"]  # type: ignore[assignment]
    return Checkpoint(
        job_id=f["jobId"],  # type: ignore[arg-type]
        pipeline_id=f["pipelineId"],  # type: ignore[arg-type]
        number=f["checkpointId"],  # type: ignore[arg-type]
        attempt=f["attempt"],  # type: ignore[arg-type]
        generation=f["generation"],  # type: ignore[arg-type]
        kind=CheckpointKind(f["kind"]),
        at_ms=f["at_ms"],  # type: ignore[arg-type]
        sources=f["sources"],  # type: ignore[arg-type]
        sinks={
            at: SinkState(state["prepared"] is True, state["token"])  # type: ignore[arg-type]
            for at, state in sinks.items()
        },
        fingerprint=f["fingerprint"],  # type: ignore[arg-type]
        lineage=f.get("lineage") or "",  # type: ignore[arg-type]
        submission=f.get("submission") or "",  # type: ignore[arg-type]
        claim_id=f.get("claimId") or "",  # type: ignore[arg-type]
        tables=f["tables"],  # type: ignore[arg-type]
        counts={at: Count(rows, size) for at, (rows, size) in counts.items()},
        sink_rows=f.get("sinkRows") or {},  # type: ignore[arg-type]
        said=f.get("said") or {},  # type: ignore[arg-type]
        restored_from=f["restoredFrom"],  # type: ignore[arg-type]
        abandons_after=f["abandonsAfter"],  # type: ignore[arg-type]
        rewind_due=f["rewindDue"],  # type: ignore[arg-type]
    )
