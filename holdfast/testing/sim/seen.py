"""What was noticed on the way and must hold for ever after: every checkpoint, every outcome, every promise."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holdfast.checkpoint.chain import MANIFEST
from holdfast.checkpoint.savepoint import FOLDER, INDEX
from holdfast.connectors.base import Position, Token, token_attempt, token_epoch, token_lineage
from holdfast.master.submitting import Submission
from holdfast.model.checkpoints import Checkpoint, CheckpointKind, checkpoint_from_json
from holdfast.model.jobs import Goal, Job, Outcome
from holdfast.model.json import JsonObject
from holdfast.store.reads import Reads
from holdfast.testing.model_sink import Part
from holdfast.testing.sim.parts import Surroundings
from holdfast.testing.sim.storage import Storage

_STRENGTH = {Goal.RUN: 0, Goal.SAVEPOINT: 1, Goal.CANCEL: 2, Goal.FORCE: 3}
RunningElsewhere = Callable[[str, int], list[str]]


@dataclass(frozen=True)
class Made:
    """A checkpoint, and what could only be known when it was made."""

    checkpoint: Checkpoint
    at_ms: float
    """By a clock that nobody steps."""
    base: JsonObject | None = None
    """Of a claim that was asked to go back: the positions it was asked for."""
    is_late: bool = False
    """It took a number that had been tidied away: it is no link of the chain."""


class Seen:
    """Judges what can only be judged at once, and keeps what is judged at the end."""

    def __init__(self, storage: Storage, reads: Reads, around: Surroundings) -> None:
        self._storage = storage
        self._reads = reads
        self._around = around
        self.made: dict[tuple[str, int], list[Made]] = {}
        """Every checkpoint that was ever made, by job and pipeline, in order."""
        self.outcomes: dict[tuple[str, int], Outcome] = {}
        self.wrong: list[str] = []
        self.checked: Counter[str] = Counter()
        """How often each invariant was asked."""
        self._tokens: set[tuple[str, str, str, int, int]] = set()
        self._restores: dict[str, str] = {}
        self._fresh_ms: dict[str, float] = {}
        """When a pipeline of each job began afresh last, and when a savepoint of it was complete."""
        self._saved_ms: dict[str, float] = {}
        self.wished_ms: dict[tuple[str, int], float] = {}
        """Since when each generation is to end."""
        self._goals: dict[tuple[str, int], int] = {}
        """How strong the goal of each generation has been."""

    def blame(self, said: str) -> None:
        if said not in self.wrong:
            self.wrong.append(said)

    # ------------------------------------------------------------------------------------------- the chain

    def asked_restore(self, given: Submission) -> None:
        self._restores[str(given.submission)] = given.restore or "auto"

    def created(self, path: str, data: bytes, elsewhere: RunningElsewhere) -> None:
        if path.startswith(FOLDER) and path.endswith(INDEX):
            return self._judge_savepoint(path, json.loads(data)["body"])
        if not path.endswith(MANIFEST):
            return
        made = checkpoint_from_json(json.loads(data)["body"])
        if path.startswith(FOLDER):
            self.checked["a savepoint holds the tips"] += 1
            tip = self.made[made.job_id, made.pipeline_id][-1].checkpoint
            if dict(tip.sources) != dict(made.sources):
                self.blame(f"{path} holds checkpoint {made.number} and the tip is {tip.number}")
            return
        line = self.made.setdefault((made.job_id, made.pipeline_id), [])
        base = None
        if made.kind is CheckpointKind.CLAIM:
            base = self._asked_base(made, line[-1].checkpoint if line else None)
            self.checked["a pipeline runs once"] += 1
            others = elsewhere(made.job_id, made.pipeline_id)
            if len(others) > 1:
                self.blame(f"{made.job_id}/{made.pipeline_id} runs twice: {', '.join(others)}")
        is_late = any(made.number < other.checkpoint.number for other in line)
        line.append(Made(made, self._around.engine.now_ms, base, is_late))
        for at, state in made.sinks.items():
            if state.token is not None:
                self._tokens.add(_token_key(made.job_id, at, state.token))

    def _judge_savepoint(self, path: str, index: JsonObject) -> None:
        self._saved_ms[str(index["jobId"])] = self._around.engine.now_ms
        held = {int(id_) for id_ in dict(index["pipelines"])}  # type: ignore[arg-type]
        due = {pipeline_id for job_id, pipeline_id in self.made if job_id == index["jobId"]}
        if held != due:
            self.blame(f"{path} holds pipelines {sorted(held)} and not {sorted(due)}")

    def holds_all(self, job_id: str, pipeline_ids: Sequence[int]) -> bool:
        """Whether the newest savepoint has something of each pipeline: one that had not begun is not in it. Nor is what
        a fresh start has dropped since.
        """
        if self._fresh_ms.get(job_id, -1.0) > self._saved_ms.get(job_id, 0.0):
            return False
        return all(self._newest_savepoint(job_id, id_) is not None for id_ in pipeline_ids)

    def _asked_base(self, claim: Checkpoint, before: Checkpoint | None) -> JsonObject | None:
        """None: the tip. A submission is asked once where it wants to begin; later its own tip comes first."""
        if before is not None and before.submission == claim.submission:
            return None
        match self._restores.get(claim.submission, "auto"):
            case "none":
                self._fresh_ms[claim.job_id] = self._around.engine.now_ms
                return {at: {"next": 0} for at in claim.sources}
            case "savepoint":
                return self._newest_savepoint(claim.job_id, claim.pipeline_id)
        return None

    def _newest_savepoint(self, job_id: str, pipeline_id: int) -> JsonObject | None:
        folder = f"savepoint/{job_id}"
        for item in sorted(self._storage.list_folder(folder), key=lambda i: -int(i.name)):
            path = f"{folder}/{item.name}"
            if any(i.name == INDEX for i in self._storage.list_folder(path)):
                if not self._storage.list_folder(f"{path}/{pipeline_id}"):
                    return None
                kept = self._storage.read(f"{path}/{pipeline_id}/{MANIFEST}")
                sources: JsonObject = json.loads(kept)["body"]["sources"]
                return sources
        return None

    def newest(self, job_id: str, pipeline_id: int) -> Made | None:
        """One that slept may make an older number last, is told so, and has done nothing."""
        line = self.made.get((job_id, pipeline_id))
        return max(line, key=lambda made: made.checkpoint.number) if line else None

    # --------------------------------------------------------------------------------- sources and sinks

    def published(self, job_id: str, at: str, token: Token) -> None:
        self.checked["nothing is published before its commit"] += 1
        if _token_key(job_id, at, token) not in self._tokens:
            self.blame(f"{job_id}: {at} publishes epoch {token_epoch(token)} before its commit")

    def acked(self, job_id: str, at: str, position: Position) -> None:
        """Only what a checkpoint holds, and what is visible by then."""
        self.checked["sources forget what is visible"] += 1
        line = next(
            line
            for (id_, _), line in self.made.items()
            if id_ == job_id and at in line[-1].checkpoint.sources
        )
        known = [made.checkpoint for made in line[-3:]]
        reached = max(_next(c.sources[at]) for c in known)
        if _next(position) > reached:
            self.blame(f"{job_id}: {at} is told to forget up to {position}, beyond the tip")
        owner = next((c for c in reversed(known) if c.sources[at] == position), None)
        for sink, state in owner.sinks.items() if owner is not None else ():
            memory = self._around.sinks.get((job_id, sink))
            if state.token is None or memory is None:
                continue
            parts = [p for p in memory.staged if p.epoch == token_epoch(state.token)]
            if any(p.attempt == token_attempt(state.token) for p in parts):
                self.blame(f"{job_id}: {at} is told to forget what {sink} has not published")

    def tidied(self, path: str) -> None:
        """A worker removes something: never the tip, and no claim."""
        job_id, pipeline_id, number = path.split("/")
        self.checked["retention spares the tip and claims"] += 1
        line = self.made.get((job_id, int(pipeline_id)), ())
        gone = [made for made in line if made.checkpoint.number == int(number)]
        if any(m.checkpoint.kind is CheckpointKind.CLAIM and not m.is_late for m in gone):
            self.blame(f"{path} is removed, and it is a claim")
        if gone and int(number) == max(made.checkpoint.number for made in line):
            self.blame(f"{path} is removed, and it is the tip")

    def discarded(self, job_id: str, at: str, part: Part) -> None:
        """Only what attempts staged that were passed: whoever owns the chain may still commit its own."""
        self.checked["what the owner staged is spared"] += 1
        claims = [
            made.checkpoint
            for (id_, _), line in self.made.items()
            if id_ == job_id and at in line[-1].checkpoint.sinks
            for made in line
            if made.checkpoint.kind is CheckpointKind.CLAIM
        ]
        owner = max(claims, key=lambda claim: claim.number)
        if owner.lineage == part.lineage and part.attempt >= owner.attempt:
            self.blame(
                f"{job_id}: {part.name} in {at} is discarded, and its attempt owns the chain"
            )

    # ------------------------------------------------------------------------------------- control plane

    def wrote(self, doing: str, holder: str) -> None:
        """A master has written to the state store: only who leads may."""
        self.checked["only the leader writes"] += 1
        lease = self._reads.lease()
        if lease is not None and lease.holder != holder:
            self.blame(f"{holder} has done '{doing}' and {lease.holder} leads")

    def obeyed(self, worker: str, before: int, after: int) -> None:
        """A worker never follows an older term than it knows."""
        self.checked["no older term is obeyed"] += 1
        if after < before:
            self.blame(f"{worker} obeys term {after}, and it knows term {before}")

    def look(self, jobs: Sequence[Job]) -> None:
        """An outcome is final, a goal only gets stronger, and a submission is one generation."""
        submitted = Counter((job.id, job.submitted.submission) for job in jobs)
        for (job_id, submission), count in submitted.items():
            if count > 1:
                self.blame(f"{job_id}: submission {submission} has {count} generations")
        for job_id, count in Counter(job.id for job in jobs if job.outcome is None).items():
            if count > 1:
                self.blame(f"{count} generations of {job_id} live")
        for job in jobs:
            self.checked["an outcome is final"] += 1
            key = (job.id, job.generation)
            strength = _STRENGTH[job.goal]
            if job.goal is not Goal.RUN:
                self.wished_ms.setdefault(key, self._around.engine.now_ms)
            if strength < self._goals.get(key, 0):
                self.blame(f"{job.id} of generation {key[1]} has the weaker goal {job.goal.value}")
            self._goals[key] = max(strength, self._goals.get(key, 0))
            known = self.outcomes.get(key)
            if known is not None and job.outcome is not known:
                self.blame(f"{job.id} of generation {key[1]} was {known.value}, is {job.outcome}")
            if known is None and job.outcome is not None:
                self.outcomes[key] = job.outcome

    def cleaned(self, path: str) -> None:
        """A master removes something: never what a live submission has made."""
        try:
            data = self._storage.read(f"{path}/{MANIFEST}")
        except Exception:  # noqa: BLE001 - whatever cannot be read belongs to nobody
            return
        self.checked["a cleanup spares newer generations"] += 1
        made = checkpoint_from_json(json.loads(data)["body"])
        job = self._reads.job(made.job_id)
        if job is not None and job.outcome is None and job.submitted.submission == made.submission:
            self.blame(f"a cleanup removes {path}, which live generation {job.generation} has made")


def _next(position: JsonObject) -> int:
    return int(str(position["next"]))


def _token_key(job_id: str, at: str, token: Token) -> tuple[str, str, str, int, int]:
    return (job_id, at, token_lineage(token), token_attempt(token), token_epoch(token))
