"""What a restore found and decided, for people: printed, stored beside the claim, served."""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.model.json import JsonObject


@dataclass(frozen=True, slots=True)
class Considered:
    """A restore point that was looked at."""

    name: str
    verdict: str
    """`used`, `passed over`, `refused`."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class VertexReport:
    """What the restore means for one source or sink."""

    location: str
    said: str


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """The steps of one restore: find, compare, probe, decide; and what then holds."""

    job_id: str
    pipeline_id: int
    asked: str
    decision: str
    """In words: `goes on from checkpoint 12`, `starts fresh: …`, `refused: …`."""
    refused: bool = False
    considered: tuple[Considered, ...] = ()
    compared: tuple[str, ...] = ()
    vertices: tuple[VertexReport, ...] = ()
    completed: bool = False
    """All is done already: it publishes once more and finishes without reading."""
    at_ms: int = 0
    attempt: int = 0
    checkpoint: int = 0
    """The claim's number."""
    restored_from: str | None = field(default=None)

    def lines(self) -> list[str]:
        """The report as it is printed."""
        found = [f"Restore of {self.job_id}/{self.pipeline_id} ({self.asked}): {self.decision}"]
        for item in self.considered:
            reason = f": {item.reason}" if item.reason else ""
            found.append(f"  find     {item.name} {item.verdict}{reason}")
        found += [f"  compare  {line}" for line in self.compared]
        found += [f"  {v.location}: {v.said}" for v in self.vertices]
        return found

    def to_json(self) -> JsonObject:
        return {
            "jobId": self.job_id,
            "pipelineId": self.pipeline_id,
            "asked": self.asked,
            "decision": self.decision,
            "refused": self.refused,
            "considered": [[c.name, c.verdict, c.reason] for c in self.considered],
            "compared": list(self.compared),
            "vertices": {v.location: v.said for v in self.vertices},
            "completed": self.completed,
            "at_ms": self.at_ms,
            "attempt": self.attempt,
            "checkpointId": self.checkpoint,
            "restoredFrom": self.restored_from,
        }
