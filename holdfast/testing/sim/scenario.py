"""One seeded schedule: a cluster, jobs, wishes and weather; then fair weather until it is quiet; then the judgement."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from holdfast.decide.status import PipelineStatus, derive_pipeline
from holdfast.master.submitting import Submission
from holdfast.model.checkpoints import Checkpoint, CheckpointKind
from holdfast.model.jobs import Goal, Job, Outcome
from holdfast.runtime import stop as stop_module
from holdfast.testing.sim.cluster import Cluster, job_text
from holdfast.testing.sim.faults import Weather

STORM_MS = 15_000.0
QUIET_MS = 60_000.0
LOOK_EVERY_MS = 500.0
CALM_MS = 6_000.0
"""An endless job is judged after so much fair weather."""


@dataclass(frozen=True, slots=True)
class Step:
    """Something people or fate do at an instant."""

    at_ms: float
    verb: str
    what: str


@dataclass(frozen=True)
class Plan:
    """Everything of a run that can be left out when it is shrunk."""

    seed: int
    masters: int
    workers: int
    weather: Weather
    source_fails: float
    tables: dict[str, dict[str, int]]
    """Of each job: rows by table; 0: endless."""
    steps: tuple[Step, ...]


@dataclass
class Verdict:
    seed: int
    wrong: list[str] = field(default_factory=list)
    story: list[str] = field(default_factory=list)


def draw_plan(seed: int) -> Plan:
    """The schedule of a seed."""
    from holdfast.outside.ids import seeded

    random = seeded(seed)
    kind = random.random()
    weather = Weather()
    if kind > 0.1:
        weather = Weather(
            crash=random.choice((0.0, 0.002, 0.01)),
            pause=random.choice((0.0, 0.0, 0.003)),
            store_fails=random.choice((0.0, 0.01)),
            commit_unknown=random.choice((0.0, 0.01)),
            file_fails=random.choice((0.0, 0.01)),
            file_unknown=random.choice((0.0, 0.01)),
            message_lost=random.choice((0.0, 0.02, 0.1)),
            message_late=random.choice((0.0, 0.05)),
            message_twice=random.choice((0.0, 0.05)),
        )
    tables: dict[str, dict[str, int]] = {}
    steps: list[Step] = []
    for number in range(random.choice((1, 1, 2, 3))):
        job_id = f"job-{number}"
        count = random.choice((1, 1, 2, 3))
        endless = random.random() < 0.4
        tables[job_id] = {
            f"t{number}{index}": 0 if endless else random.randint(1, 80) for index in range(count)
        }
        at_ms = random.uniform(0, 4_000)
        steps.append(Step(at_ms, "submit", job_id))
        if random.random() < 0.4:
            at_ms += random.choice((0.0, random.uniform(0, 8_000)))
            verb = random.choice(("cancel", "savepoint", "force"))
            steps.append(Step(at_ms, verb, job_id))
            if random.random() < 0.6:
                again_ms = at_ms + random.uniform(500, 8_000)
                steps.append(Step(again_ms, "resubmit", job_id))
    masters, workers = random.choice((1, 2, 2, 3)), random.choice((1, 2, 2, 3))
    names = [f"master-{n}" for n in range(masters)] + [f"worker-{n}" for n in range(workers)]
    for _ in range(random.choice((0, 1, 3, 6)) if kind > 0.1 else 0):
        verb = random.choice(("kill", "kill", "pause", "step"))
        steps.append(Step(random.uniform(1_000, STORM_MS), verb, random.choice(names)))
    if kind > 0.9:
        steps += [Step(4_000.0 + 700 * i, "kill", name) for i, name in enumerate(names)]
    ordered = tuple(sorted(steps, key=lambda step: step.at_ms))
    fails = random.choice((0.0, 0.0, 0.03)) if kind > 0.1 else 0.0
    return Plan(seed, masters, workers, weather, fails, tables, ordered)


def run_plan(plan: Plan) -> Verdict:
    """Deterministic: the same plan gives the same story."""
    before = stop_module._end_aside
    stop_module._end_aside = lambda end: end()
    try:
        return _Run(plan).run()
    finally:
        stop_module._end_aside = before


class _Run:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._cluster = Cluster(plan.seed, masters=plan.masters, workers=plan.workers)
        self._engine = self._cluster.engine
        self._submissions = 0
        self._due: list[Step] = []

    def run(self) -> Verdict:
        cluster, plan = self._cluster, self._plan
        cluster.faults.weather = plan.weather
        cluster.source_fails[0] = plan.source_fails
        waiting = list(plan.steps)
        while self._engine.now_ms < STORM_MS:
            while waiting and waiting[0].at_ms <= self._engine.now_ms:
                self._due.append(waiting.pop(0))
            self._due = [step for step in self._due if not self._do(step)]
            self._restart_fallen()
            self._advance()
        cluster.heal()
        healed_ms = self._engine.now_ms
        self._due += waiting
        while self._engine.now_ms < healed_ms + QUIET_MS:
            self._due = [step for step in self._due if not self._do(step)]
            self._advance()
            if not self._due and self._is_quiet(healed_ms):
                break
        wrong = [*cluster.seen.wrong, *self._judge()]
        return Verdict(plan.seed, wrong, self._engine.story)

    def _advance(self) -> None:
        self._engine.run_until(self._engine.now_ms + LOOK_EVERY_MS)
        self._cluster.note_outcomes()

    def _restart_fallen(self) -> None:
        """Somebody, or a supervisor, starts again what has fallen; not at once."""
        if self._engine.random.random() > 0.25:
            return
        for name, master in list(self._cluster.masters.items()):
            if not master.process.alive:
                self._engine.tell(f"{name} is started again")
                self._cluster.start_master(name)
        for name, worker in list(self._cluster.workers.items()):
            if not worker.process.alive:
                self._engine.tell(f"{name} is started again")
                self._cluster.start_worker(name)

    def _do(self, step: Step) -> bool:
        """Whether it is done; a wish that nobody took is tried again, as people and schedulers do."""
        cluster = self._cluster
        process = None
        if step.what in cluster.masters:
            process = cluster.masters[step.what].process
        elif step.what in cluster.workers:
            process = cluster.workers[step.what].process
        match step.verb:
            case "submit":
                return self._submit(step, restore=None)
            case "resubmit":
                job = cluster.reads.job(step.what)
                return job is None or (
                    job.outcome is not None and self._submit(step, restore="auto")
                )
            case "cancel" | "savepoint" | "force":
                goals = {"cancel": Goal.CANCEL, "savepoint": Goal.SAVEPOINT, "force": Goal.FORCE}
                return cluster.ask(step.what, goals[step.verb])
            case "kill":
                assert process is not None
                self._engine.kill(process)
            case "pause":
                assert process is not None
                self._engine.pause(process, self._engine.random.uniform(500, 8_000))
            case "step":
                assert process is not None
                process.clock_step_ms += self._engine.random.choice(
                    (-90_000, -3_000, 3_000, 90_000)
                )
                self._engine.tell(f"{step.what}'s clock steps")
        return True

    def _submit(self, step: Step, *, restore: str | None) -> bool:
        tables = self._plan.tables[step.what]
        mode = "STREAMING" if 0 in tables.values() else "BATCH"
        text = job_text(tables, mode=mode)
        # The name of the submission stays the same while it is tried: it must never start two.
        name = f"{step.what}@{step.at_ms}"
        given = Submission(text, format="json", job_id=step.what, restore=restore, submission=name)
        return self._cluster.submit(given)

    def _is_quiet(self, healed_ms: float) -> bool:
        jobs = self._cluster.reads.jobs(outcome=None, live=True)
        waits = [job for job in jobs if job.goal is not Goal.RUN or not self._is_endless(job)]
        endless = [job for job in jobs if job not in waits]
        if waits or self._cluster.reads.cleanups():
            return False
        return not endless or self._engine.now_ms > healed_ms + CALM_MS

    def _is_endless(self, job: Job) -> bool:
        return 0 in self._plan.tables[job.id].values()

    # ------------------------------------------------------------------------------------------ judging

    def _judge(self) -> list[str]:
        wrong = [f"{step.verb} {step.what} was never taken" for step in self._due]
        wrong += [said for memory in self._cluster.sinks.values() for said in memory.violations]
        for key, made in sorted(self._cluster.seen.made.items()):
            wrong += [f"{key}: {said}" for said in judge_chain(made)]
        newest: dict[str, Job] = {}
        for job in self._cluster.jobs():
            if job.id not in newest or newest[job.id].generation < job.generation:
                newest[job.id] = job
            wrong += self._judge_outcome(job)
        for job in newest.values():
            wrong += self._judge_rows(job)
        wrong += self._judge_leftovers()
        return wrong

    def _judge_outcome(self, job: Job) -> list[str]:
        name = f"{job.id} of generation {job.generation}"
        match job.goal, job.outcome:
            case Goal.RUN, Outcome.FINISHED:
                return [] if not self._is_endless(job) else [f"{name} is endless and FINISHED"]
            case Goal.RUN, None if self._is_endless(job):
                return self._judge_running(job)
            case Goal.SAVEPOINT, Outcome.SAVEPOINT_DONE | Outcome.FINISHED | Outcome.CANCELED:
                return []
            case Goal.CANCEL | Goal.FORCE, Outcome.CANCELED | Outcome.FINISHED:
                return []
        return [f"{name} has goal '{job.goal.value}' and outcome {job.outcome} ({job.reason})"]

    def _judge_running(self, job: Job) -> list[str]:
        """RUNNING implies a fresh tip, or STALLED."""
        leader = self._cluster.leader()
        if leader is None:
            return ["nobody leads in fair weather"]
        now_ms = leader.clock.now_ms()
        wrong = []
        for pipeline_id in job.submitted.pipeline_ids:
            shown = derive_pipeline(leader.observe(), job, pipeline_id, now_ms)
            made = self._cluster.seen.made.get((job.id, pipeline_id), [])
            age_ms = now_ms - made[-1].at_ms if made else None
            is_fresh = age_ms is not None and age_ms < 4_000
            if shown.status is not PipelineStatus.RUNNING or not is_fresh:
                wrong.append(
                    f"{job.id}/{pipeline_id} shows {shown.status.value}, tip {age_ms} ms old"
                )
        return wrong

    def _judge_rows(self, job: Job) -> list[str]:
        """Exactly the rows up to the newest checkpoint's position are visible, once each."""
        wrong = []
        for pipeline_id in job.submitted.pipeline_ids:
            made = self._cluster.seen.made.get((job.id, pipeline_id), [])
            if not made:
                continue
            tip = made[-1]
            for at, position in tip.sources.items():
                table = tip.tables[at][0]["path"] if tip.tables.get(at) else None  # type: ignore[index, call-overload]
                expected = list(range(int(str(position["next"]))))
                for (job_id, _), memory in self._cluster.sinks.items():
                    if job_id != job.id or table is None:
                        continue
                    found = memory.ids(str(table))
                    if found != expected and not self._is_open(job, found, expected):
                        wrong.append(
                            f"{job.id}: {table} shows {_short(found)}, not {_short(expected)}"
                        )
            if job.outcome is Outcome.FINISHED and not tip.completed:
                wrong.append(f"{job.id} is FINISHED and its tip is not complete")
        return wrong

    def _is_open(self, job: Job, found: Sequence[int], expected: Sequence[int]) -> bool:
        """What was committed by an attempt that was stopped right then is published by the next."""
        is_prefix = list(expected[: len(found)]) == list(found)
        return job.outcome not in (Outcome.FINISHED, None) and is_prefix

    def _judge_leftovers(self) -> list[str]:
        """Of a finished job nothing stays staged; nothing runs that is not wanted."""
        wrong = []
        for job in self._cluster.jobs():
            if job.outcome is Outcome.FINISHED:
                for (job_id, at), memory in self._cluster.sinks.items():
                    if job_id == job.id and memory.staged and self._is_newest(job):
                        wrong.append(f"{job.id}: {len(memory.staged)} parts stay staged in {at}")
        open_keys = {
            attempt.key
            for job in self._cluster.reads.jobs(outcome=None, live=True)
            for attempt in self._cluster.reads.attempts(job.id, job.generation)
            if attempt.is_open
        }
        for name, worker in self._cluster.workers.items():
            for seen in worker.host.heartbeat().attempts:
                if seen.ended_how is None and seen.key not in open_keys:
                    wrong.append(f"{name} runs {seen.key}, which nobody wants")
        return wrong

    def _is_newest(self, job: Job) -> bool:
        found = self._cluster.reads.job(job.id)
        return found is not None and found.generation == job.generation


def judge_chain(made: Sequence[Checkpoint]) -> list[str]:
    """No gaps; nobody advances behind a newer claim; each claim goes on from the tip it found."""
    wrong: list[str] = []
    owner = 0
    for before, now in zip([None, *made], made, strict=False):
        expected = 1 if before is None else before.number + 1
        if now.number != expected:
            wrong.append(f"checkpoint {now.number} was made where {expected} was due")
        if now.kind is CheckpointKind.CLAIM:
            if before is not None and now.attempt <= before.attempt:
                wrong.append(f"claim {now.number} has attempt {now.attempt} again")
            if before is not None and dict(now.sources) != dict(before.sources):
                wrong.append(f"claim {now.number} does not go on from the tip {before.number}")
            owner = now.attempt
        elif now.attempt != owner:
            wrong.append(f"attempt {now.attempt} made {now.number} and {owner} had claimed")
    return wrong


def _short(ids: Sequence[int]) -> str:
    text = json.dumps(list(ids))
    return text if len(text) < 120 else f"{text[:80]}… ({len(ids)} rows)"
