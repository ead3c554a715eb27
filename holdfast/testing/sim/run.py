"""Runs one plan: the weather it says, then fair weather until it is quiet; then the judgement."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from holdfast.master.submitting import Submission
from holdfast.model.jobs import Goal, Job
from holdfast.testing.sim.cluster import Cluster, Request
from holdfast.testing.sim.faults import FOR_EVER
from holdfast.testing.sim.judge import blame_slots, find_unwanted, judge_end, judge_look
from holdfast.testing.sim.plan import Plan, Step

LOOK_EVERY_MS = 500.0
QUIET_MS = 120_000.0
AWAKE_MS = 1_200.0
"""After the last pause ended, everybody has told everybody by then."""
UNWANTED_MS = 5_000.0
"""What nobody wants ends by then: a lost message costs a heartbeat, and a lease ends by itself."""
CALM_MS = 2_500.0
"""An endless job is judged after so much fair weather."""
RESTART_CHANCE = 0.3
"""At each look, of what has fallen: somebody, or a supervisor, starts it again, and not at once."""
_GOALS = {"cancel": Goal.CANCEL, "savepoint": Goal.SAVEPOINT, "force": Goal.FORCE}
_AGAIN = {
    "submit": None,
    "submit meanwhile": None,
    "again": "auto",
    "again from savepoint": "savepoint",
    "again afresh": "none",
}


@dataclass
class Verdict:
    """What a run showed. Without `wrong` all invariants held."""

    seed: int
    wrong: list[str] = field(default_factory=list)
    story: list[str] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    checked: Counter[str] = field(default_factory=Counter)


def run_plan(plan: Plan) -> Verdict:
    """Deterministic: the same plan gives the same story."""
    return _Run(plan).run()


class _Run:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._cluster = Cluster(
            plan.seed,
            masters=plan.masters,
            workers=plan.workers,
            limits=plan.limits,
            slots=plan.slots,
        )
        self._engine = self._cluster.engine
        self._waiting = sorted(plan.steps, key=lambda step: step.at_ms)
        self._due: list[Step] = []
        self._requests: dict[Step, Request] = {}
        self._healed_ms = 0.0
        self._asked_ms = 0.0
        """When somebody did something last."""

    def run(self) -> Verdict:
        cluster, plan = self._cluster, self._plan
        cluster.faults.weather = plan.weather
        while self._engine.now_ms < plan.storm_ms:
            self._do_due()
            if self._engine.random.random() < RESTART_CHANCE:
                cluster.start_fallen()
            self._advance()
        cluster.heal()
        self._healed_ms = self._engine.now_ms
        wanting: list[str] = []
        while self._engine.now_ms < self._healed_ms + QUIET_MS:
            self._do_due()
            cluster.start_fallen()
            self._advance()
            wanting = judge_look(cluster, plan, self._healed_ms)
            if self._is_quiet() or len(cluster.seen.wrong) > 3:
                break
        else:
            for said in wanting:
                cluster.seen.blame(f"it never came to rest: {said}")
        never = [f"{step.verb} {step.what} was never taken" for step in self._due]
        wrong = [*cluster.seen.wrong, *never, *judge_end(cluster, plan)]
        story, counts = self._engine.story, cluster.faults.counts
        cluster.sql.close()
        return Verdict(plan.seed, wrong, story, counts, cluster.seen.checked)

    def _advance(self) -> None:
        """To the next look, or to the instant at which somebody does something."""
        until_ms = self._engine.now_ms + LOOK_EVERY_MS
        if self._waiting:
            until_ms = min(until_ms, max(self._waiting[0].at_ms, self._engine.now_ms + 1))
        self._engine.run_until(until_ms)
        self._cluster.seen.look(self._cluster.reads.all_jobs())
        blame_slots(self._cluster, self._plan)

    # ---------------------------------------------------------------------------------------------- steps

    def _do_due(self) -> None:
        while self._waiting and self._waiting[0].at_ms <= self._engine.now_ms:
            self._due.append(self._waiting.pop(0))
        left: list[Step] = []
        for step in self._due:
            # What is wished of a job is wished in this order.
            if any(earlier.what == step.what for earlier in left) or not self._do(step):
                left.append(step)
            else:
                self._asked_ms = self._engine.now_ms
        self._due = left

    def _do(self, step: Step) -> bool:
        """Whether it is done; a wish that nobody took is tried again, as people and schedulers do."""
        if step.verb in _GOALS or step.verb in _AGAIN:
            return self._ask(step)
        cluster = self._cluster
        match step.verb:
            case "kill":
                process = cluster.process(step.what)
                cluster.faults.counts["process killed"] += process.alive
                self._engine.kill(process)
            case "pause":
                cluster.faults.counts["process paused"] += 1
                self._engine.pause(cluster.process(step.what), step.much)
            case "clock":
                cluster.faults.counts["clock stepped"] += 1
                cluster.process(step.what).clock_step_ms += int(step.much)
                self._engine.tell(f"{step.what}'s clock steps by {step.much:.0f} ms")
            case "hang" | "fail" | "undeletable" | "cut" | "deaf" | "slow":
                self._disturb(step)
            case "drain":
                self._drain(step.what)
            case "step down":
                self._step_down(step.what)
            case _:
                raise AssertionError(f"nobody can {step.verb}")
        return True

    def _disturb(self, step: Step) -> None:
        """What is around the processes: sources, storage, the network."""
        around, faults = self._cluster.around, self._cluster.faults
        if step.verb == "fail":
            around.failing[step.what] += int(step.much)
            self._engine.tell(f"the sources of {step.what} fail {step.much:.0f} times")
            return
        until_ms, said = {
            "hang": (around.hangs_until_ms, f"the sources of {step.what} hang"),
            "undeletable": (faults.undeletable, f"what {step.what} has stored cannot be removed"),
            "cut": (faults.cut_until_ms, f"{step.what} is cut off"),
            "deaf": (faults.deaf_until_ms, f"{step.what} hears no answers"),
            "slow": (faults.slow_until_ms, f"the network of {step.what} is slow"),
        }[step.verb]
        until_ms[step.what] = self._engine.now_ms + step.much if step.much else FOR_EVER
        self._engine.tell(f"{said} for {step.much:.0f} ms" if step.much else said)

    def _drain(self, name: str) -> None:
        """In peace: its pipelines go elsewhere, each after its epoch; what comes after starts it anew."""
        worker = self._cluster.workers[name]
        self._cluster.faults.counts["worker drained"] += 1
        self._engine.tell(f"{name} is drained")
        worker.host.drain()

        def end() -> None:
            for _ in range(30):
                self._engine.sleep(100)
                if worker.host.is_empty:
                    break
            self._engine.kill(worker.process)

        self._engine.spawn(worker.process, end)

    def _step_down(self, name: str) -> None:
        master = self._cluster.masters[name]
        self._cluster.faults.counts["leader stepped down"] += master.master.term is not None
        self._engine.tell(f"{name} steps down and ends")

        def end() -> None:
            try:
                master.master.step_down()
            finally:
                self._engine.kill(master.process)

        self._engine.spawn(master.process, end)

    def _ask(self, step: Step) -> bool:
        if step.verb.startswith("again") and self._is_idle(step):
            return True
        under_way = self._requests.get(step)
        if under_way is not None and under_way.process.alive and not under_way.is_over:
            return False
        if under_way is not None and (under_way.is_taken or step.verb == "submit meanwhile"):
            return True
        request = self._call(step)
        if request is not None:
            self._requests[step] = request
        return False

    def _is_idle(self, step: Step) -> bool:
        """There is nothing to go on with, or somebody was quicker and submitted it meanwhile."""
        job = self._cluster.reads.job(step.what)
        if job is None:
            return True
        by = [s for s in self._plan.steps if self._submission_of(s) == job.submitted.submission]
        is_meanwhile = any(s.verb == "submit meanwhile" for s in by)
        return is_meanwhile and job.outcome is None and job.goal is Goal.RUN

    def _submission_of(self, step: Step) -> str:
        """It stays the same while it is tried: it must never start two."""
        return f"{step.what}@{step.at_ms:.0f}"

    def _call(self, step: Step) -> Request | None:
        cluster = self._cluster
        if step.verb in _GOALS:
            return cluster.ask(step.what, _GOALS[step.verb])
        name = self._submission_of(step)
        job = cluster.reads.job(step.what)
        is_ours = job is not None and job.submitted.submission == name
        if (
            not step.verb.startswith("submit")
            and not is_ours
            and (job is None or job.outcome is None)
        ):
            return None
        restore = _AGAIN[step.verb]
        ids = range(1, 1 + self._plan.jobs[step.what].pipelines)
        if restore == "savepoint" and not cluster.seen.holds_all(step.what, ids):
            restore = "auto"
        text = self._plan.jobs[step.what].text()
        given = Submission(text, format="json", job_id=step.what, restore=restore, submission=name)
        return cluster.submit(given)

    # ---------------------------------------------------------------------------------------------- quiet

    def _is_quiet(self) -> bool:
        """All that was asked is done or, where it is endless, under way; and everybody has been awake for long."""
        cluster, now_ms = self._cluster, self._engine.now_ms
        awake_ms = cluster.awake_ms()
        if self._due or self._waiting or now_ms < max(awake_ms, self._healed_ms) + AWAKE_MS:
            return False
        live = [job for job in cluster.reads.all_jobs() if job.outcome is None]
        if cluster.reads.cleanups() or not all(self._may_live(job) for job in live):
            return False
        calm_ms = now_ms - max(awake_ms, self._healed_ms)
        since_ms = max(awake_ms, self._healed_ms, self._asked_ms)
        if now_ms < since_ms + UNWANTED_MS and any(find_unwanted(cluster)):
            return False
        return not live or (
            calm_ms > CALM_MS and not judge_look(cluster, self._plan, self._healed_ms)
        )

    def _may_live(self, job: Job) -> bool:
        return job.goal is Goal.RUN and self._plan.jobs[job.id].is_endless
