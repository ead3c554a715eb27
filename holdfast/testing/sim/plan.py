"""The schedule of a seed: a cluster, jobs, weather, and what people and fate do when. All of it can be left out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from holdfast.decide.world import Limits
from holdfast.outside.ids import Chance, seeded
from holdfast.testing.sim.faults import FAIR, SLEEPS, Weather

HEALTHY_MS = 5_000
LIMITS = Limits(
    healthy_stretch_ms=HEALTHY_MS,
    worker_lease_ms=3_500,
    stop_deadline_ms=6_000,
    cleanup_delay_ms=1_500,
    stall_grace_ms=2_000,
    # Weather kills workers far more often than any job does.
    crashes_to_isolate=1_000,
    crashes_alone_max=1_000,
)


@dataclass(frozen=True, slots=True)
class Step:
    """Something people or fate do at an instant."""

    at_ms: float
    verb: str
    what: str
    """The job or process."""
    much: float = 0.0
    """Milliseconds of a pause, of a hanging source, or by which a clock steps."""


@dataclass(frozen=True)
class JobPlan:
    """A job in a few numbers."""

    tables: Mapping[str, int]
    """Rows of each; 0: endless."""
    pipelines: int = 1
    """The tables are dealt to so many."""
    interval_ms: int = 1_000
    every_ms: int = 200
    """A row comes so often."""
    retries: int = 1_000
    is_sick: bool = False
    """Its sources fail each time, and for ever."""

    @property
    def is_endless(self) -> bool:
        return 0 in self.tables.values()

    def text(self) -> str:
        """The job file."""
        env = {
            "job.mode": "STREAMING" if self.is_endless else "BATCH",
            "checkpoint.interval": self.interval_ms,
            "job.retry.times": self.retries,
            "job.retry.interval.seconds": 1,
        }
        sources: list[dict[str, Any]] = [
            {
                "plugin_name": "Tick",
                "plugin_output": name,
                "table": name,
                "rows": rows,
                "every_ms": self.every_ms,
            }
            for name, rows in self.tables.items()
        ]
        names = list(self.tables)
        sinks = [
            {"plugin_name": "Memory", "plugin_input": names[number :: self.pipelines]}
            for number in range(self.pipelines)
        ]
        return json.dumps({"env": env, "source": sources, "sink": sinks})


@dataclass(frozen=True)
class Plan:
    """A whole run."""

    seed: int
    jobs: Mapping[str, JobPlan]
    steps: tuple[Step, ...]
    masters: int = 1
    workers: int = 1
    slots: int | None = None
    weather: Weather = FAIR
    storm_ms: float = 6_000.0
    limits: Limits = field(default=LIMITS)
    only_masters: bool = False
    """Nothing befalls a worker, and there is always a master: no pipeline may notice."""


def draw_plan(seed: int) -> Plan:
    """Most seeds draw a bit of everything; some a single kind of trouble, in which more can be asked."""
    random = seeded(seed)
    kinds = (*KINDS_OF_PLANS.items(),)
    draw = random.choices([d for d, _ in kinds], weights=[w for _, w in kinds])[0]
    return draw(seed, random)


def _stormy(seed: int, random: Chance) -> Plan:
    plan = _people(seed, random)
    names = process_names(plan)
    fate: list[Step] = []
    for _ in range(random.choice((0, 1, 3, 6))):
        verb = random.choice(("kill", "kill", "pause", "clock", "drain", "step down", "hang"))
        fate.append(_fate(random, verb, names, list(plan.jobs), plan.storm_ms))
    if random.random() < 0.1:
        fate.append(Step(0.0, "undeletable", random.choice(list(plan.jobs))))
    return replace(plan, steps=plan.steps + tuple(fate), weather=_draw_weather(random))


def _fate(random: Chance, verb: str, names: list[str], jobs: list[str], storm_ms: float) -> Step:
    at_ms = random.uniform(500, storm_ms)
    match verb:
        case "hang":
            return Step(at_ms, verb, random.choice(jobs), random.uniform(500, 12_000))
        case "pause":
            return Step(at_ms, verb, random.choice(names), random.uniform(500, 8_000))
        case "clock":
            much = random.choice((-90_000.0, -3_000.0, 3_000.0, 90_000.0))
            return Step(at_ms, verb, random.choice(names), much)
        case "drain":
            return Step(at_ms, verb, random.choice([n for n in names if n.startswith("worker")]))
        case "step down":
            return Step(at_ms, verb, random.choice([n for n in names if n.startswith("master")]))
    return Step(at_ms, verb, random.choice(names))


def _draw_weather(random: Chance) -> Weather:
    """Each kind of trouble in some of the schedules: all at once would hide what a few can do."""

    def some(*chances: float) -> float:
        return random.choice((0.0, 0.0, *chances))

    return Weather(
        crash=some(0.002, 0.01),
        pause=some(0.003),
        store_fails=some(0.02),
        store_read_fails=some(0.005, 0.03),
        commit_unknown=some(0.02),
        file_fails=some(0.01, 0.05),
        file_read_fails=some(0.01),
        file_unknown=some(0.01, 0.05),
        file_slow=some(0.01),
        file_torn=some(0.01),
        message_lost=some(0.02, 0.1),
        message_late=some(0.05, 0.2),
        message_twice=some(0.05),
        message_reordered=some(0.05, 0.2),
        source_fails=some(0.03),
    )


def _fair(seed: int, random: Chance) -> Plan:
    return replace(_people(seed, random), storm_ms=2_500.0)


def _rolling(seed: int, random: Chance) -> Plan:
    """All masters and all workers are restarted, one after the other, in peace or not."""
    plan = replace(_people(seed, random), storm_ms=9_000.0)
    names = process_names(plan)
    random.shuffle(names)
    is_gentle = random.random() < 0.5
    at_ms, apart_ms = random.uniform(1_000, 2_500), random.uniform(300, 1_200)
    steps: list[Step] = []
    for name in names:
        gently = "drain" if name.startswith("worker") else "step down"
        if is_gentle:
            steps.append(Step(at_ms - apart_ms / 2, gently, name))
        steps.append(Step(at_ms, "kill", name))
        at_ms += apart_ms
    return replace(plan, steps=plan.steps + tuple(steps))


def _masters_only(seed: int, random: Chance) -> Plan:
    """A leader dies, sleeps or goes, and another is there: running pipelines must not notice."""
    plan = replace(_people(seed, random), masters=random.choice((2, 3)), storm_ms=6_000.0)
    jobs = {name: replace(job, retries=0) for name, job in plan.jobs.items()}
    steps = [step for step in plan.steps if step.verb == "submit"]
    verb = random.choice(("kill", "pause", "step down"))
    master = f"master-{random.randrange(plan.masters)}"
    steps.append(_fate(random, verb, [master], list(jobs), plan.storm_ms))
    return replace(plan, jobs=jobs, steps=tuple(steps), only_masters=True)


def _people(seed: int, random: Chance) -> Plan:
    """Jobs and what is asked of them, at good and bad moments, in fair weather."""
    jobs: dict[str, JobPlan] = {}
    steps: list[Step] = []
    for number in range(random.choice((1, 1, 2, 3))):
        name = f"job-{number}"
        jobs[name] = _draw_job(number, random)
        steps += _draw_wishes(name, random)
    pipelines = sum(job.pipelines for job in jobs.values())
    return Plan(
        seed,
        jobs,
        tuple(steps),
        masters=random.choice((1, 2, 2, 3)),
        workers=random.choice((1, 2, 2, 3)),
        slots=random.choice((None, None, pipelines, pipelines + 1)),
        storm_ms=random.choice((4_000.0, 6_000.0, 9_000.0)),
    )


def _draw_job(number: int, random: Chance) -> JobPlan:
    count = random.choice((1, 1, 2, 3))
    is_endless = random.random() < 0.4
    tables = {
        f"t{number}{index}": 0 if is_endless else random.choice((1, 5, 12, 25))
        for index in range(count)
    }
    pipelines = 2 if count > 1 and random.random() < 0.3 else 1
    interval_ms = random.choice((600, 1_000))
    return JobPlan(tables, pipelines, interval_ms, random.choice((150, 250, 400)))


def _draw_wishes(name: str, random: Chance) -> list[Step]:
    at_ms = random.uniform(0, 2_500)
    steps = [Step(at_ms, "submit", name)]
    if random.random() < 0.1:
        steps.append(Step(at_ms + random.uniform(1, 3_000), "submit meanwhile", name))
    while random.random() < 0.45 and len(steps) < 6:
        at_ms += random.choice((1.0, random.uniform(1, 4_000)))
        verb = random.choice(("cancel", "savepoint", "savepoint", "force"))
        steps.append(Step(at_ms, verb, name))
        if random.random() < 0.3:
            # Somebody changes his mind.
            verb = random.choice(("cancel", "savepoint", "force"))
            steps.append(Step(at_ms + random.uniform(0.1, 600), verb, name))
        if random.random() < 0.3:
            break
        at_ms += random.choice((1.0, random.uniform(200, 4_000)))
        again = random.choice(("again", "again", "again from savepoint", "again afresh"))
        steps.append(Step(at_ms, again, name))
    return steps


# ------------------------------------------------------------------------------- one kind of trouble each


def _cut_off(seed: int, random: Chance) -> Plan:
    """Workers whose network is slow, then gone, and who come back."""
    plan = replace(_running(seed, random), workers=random.choice((2, 3)), storm_ms=12_000.0)
    steps = list(plan.steps)
    for _ in range(random.choice((1, 2))):
        worker = f"worker-{random.randrange(plan.workers)}"
        at_ms, slow_ms = random.uniform(1_500, 4_000), random.choice((0.0, 3_000.0))
        if slow_ms:
            steps.append(Step(at_ms, "slow", worker, slow_ms))
        verb = random.choice(("cut", "cut", "deaf"))
        steps.append(Step(at_ms + slow_ms, verb, worker, random.uniform(2_000, 9_000)))
    return replace(plan, steps=tuple(steps))


def _sleepers(seed: int, random: Chance) -> Plan:
    """Workers stand still where it matters most, often for longer than their lease."""
    plan = replace(_running(seed, random), workers=3, storm_ms=15_000.0)
    kinds = random.sample(SLEEPS, k=random.choice((1, 2, 2)))
    chances = {f"sleep_at_{kind}": random.choice((0.1, 0.3, 0.6)) for kind in kinds}
    return replace(plan, weather=Weather(source_fails=0.03, **chances))


def _overtaken(seed: int, random: Chance) -> Plan:
    """Attempts that sleep before they discard, and others that have staged something by the time they wake."""
    job = JobPlan({"t0": random.choice((0, 0, 60))}, 1, 600, 150)
    where = f"sleep_at_{random.choice(('commit', 'create', 'publish'))}"
    weather = Weather(sleep_at_discard=0.5, **{where: random.choice((0.3, 0.6))})
    return Plan(
        seed,
        {"job-0": job},
        (Step(0.0, "submit", "job-0"),),
        workers=3,
        weather=weather,
        storm_ms=24_000.0,
    )


def _left_behind(seed: int, random: Chance) -> Plan:
    """Somebody drains a worker, does not wait for it, and starts its job again elsewhere."""
    job = JobPlan({"t0": 0}, 1, 600, 150)
    at_ms = random.uniform(1_500, 3_000)
    steps = [
        Step(0.0, "submit", "job-0"),
        Step(at_ms, "deaf", "worker-0", random.uniform(2_000, 4_000)),
        Step(at_ms + 20, "drain", "worker-0"),
        Step(at_ms + random.uniform(300, 600), "force", "job-0"),
        Step(at_ms + 800, random.choice(("again", "again", "again from savepoint")), "job-0"),
    ]
    weather = Weather(sleep_at_claim=0.6, sleep_at_discard=random.choice((0.0, 0.3)))
    jobs = {"job-0": job}
    return Plan(seed, jobs, tuple(steps), workers=2, weather=weather, storm_ms=8_000.0)


def _ends(seed: int, random: Chance) -> Plan:
    """Small batch jobs, and all that can go wrong at an end."""
    jobs = {
        f"job-{number}": JobPlan({f"t{number}": random.choice((1, 5))}, 1, 600, 150)
        for number in range(3)
    }
    steps = [Step(random.uniform(0, 2_000), "submit", name) for name in jobs]
    steps += [Step(random.uniform(2_000, 4_000), "again", name) for name in jobs]
    weather = Weather(
        crash=random.choice((0.02, 0.05)),
        file_fails=random.choice((0.0, 0.05)),
        file_unknown=random.choice((0.0, 0.05)),
    )
    return Plan(seed, jobs, tuple(steps), masters=2, workers=2, weather=weather, storm_ms=5_000.0)


def _cleanups(seed: int, random: Chance) -> Plan:
    """A job that is started again, with little room, while what its last end left is still to be cleaned up."""
    jobs = {
        "job-0": JobPlan({"t0": 25, "t1": 25, "t2": 25}, 3, 600, 150),
        "job-1": JobPlan({"t3": 0, "t4": 0}, 2, 600, 250),
    }
    at_ms = random.uniform(1_500, 2_800)
    steps = [
        Step(100.0, "submit", "job-0"),
        Step(at_ms, "savepoint", "job-0"),
        Step(at_ms + 500, "submit", "job-1"),
        Step(at_ms + 900, "again", "job-0"),
        Step(4_000.0, "again from savepoint", "job-0"),
    ]
    if random.random() < 0.4:
        steps.append(Step(0.0, "undeletable", "job-0", 25_000.0))
        jobs["job-2"] = JobPlan({"t5": 5}, 1, 600, 150)
        steps.append(Step(random.uniform(5_500, 7_500), "submit", "job-2"))
    weather = Weather(crash=random.choice((0.0, 0.001)), file_fails=0.01)
    return Plan(seed, jobs, tuple(steps), masters=2, slots=3, weather=weather, storm_ms=8_000.0)


def _hanging(seed: int, random: Chance) -> Plan:
    """Sources that give nothing for long: a stop ends all the same, and who waits is told to have stalled."""
    plan = replace(_running(seed, random), storm_ms=3_000.0)
    job = random.choice(list(plan.jobs))
    steps = [
        *plan.steps,
        Step(random.uniform(800, 3_000), "hang", job, random.uniform(15_000, 40_000)),
    ]
    if random.random() < 0.7:
        at_ms = random.uniform(3_000, 5_000)
        steps.append(Step(at_ms, random.choice(("savepoint", "cancel")), job))
        steps.append(Step(at_ms + 500, "again", job))
    return replace(plan, steps=tuple(steps))


def _wearing(seed: int, random: Chance) -> Plan:
    """Sources that fail now and then, for which a small budget is enough; and some that fail for ever."""
    every_ms = random.choice((150, 400))
    jobs = {
        "job-0": JobPlan({"t0": 0}, 1, 600, every_ms, retries=1),
        "job-1": JobPlan({"t1": random.choice((0, 5))}, 1, 600, every_ms, 2, is_sick=True),
    }
    steps = [Step(100.0, "submit", name) for name in jobs] + [Step(0.0, "fail", "job-1", 1e6)]
    apart_ms = HEALTHY_MS + 1_500
    steps += [Step(1_000 + apart_ms * number, "fail", "job-0", 1) for number in range(1, 4)]
    return Plan(seed, jobs, tuple(steps), masters=2, workers=2, storm_ms=4.5 * apart_ms)


def _crowded(seed: int, random: Chance) -> Plan:
    """More to run than there is room for at once; all of it ends, so all of it gets its turn."""
    plan = _people(seed, random)
    jobs = {}
    for number in range(3):
        tables = {f"t{number}{index}": random.choice((1, 12)) for index in range(2)}
        jobs[f"job-{number}"] = JobPlan(tables, random.choice((1, 2)), 600, 150)
    steps = [Step(random.uniform(0, 1_500), "submit", name) for name in jobs]
    for verb in random.choices(("kill", "drain"), k=random.choice((0, 1, 2))):
        name = f"worker-{random.randrange(plan.workers)}"
        steps.append(Step(random.uniform(1_000, 4_000), verb, name))
    return replace(plan, jobs=jobs, steps=tuple(steps), slots=1)


def _two_leaders(seed: int, random: Chance) -> Plan:
    """Masters whose clocks do not agree take the lead from each other."""
    plan = replace(_running(seed, random), masters=random.choice((2, 3)), storm_ms=8_000.0)
    steps = list(plan.steps)
    if random.random() < 0.6:
        # Its clock shows every lease of the others as over, all the time.
        steps.append(Step(300.0, "clock", "master-1", 90_000.0))
    for _ in range(random.choice((1, 2, 4))):
        much = random.choice((-90_000.0, -3_000.0, 1_700.0, 1_700.0, 90_000.0, 90_000.0))
        name = f"master-{random.randrange(plan.masters)}"
        steps.append(Step(random.uniform(1_000, 7_000), "clock", name, much))
    weather = Weather(message_lost=random.choice((0.1, 0.3)), message_late=0.1, pause=0.002)
    return replace(plan, steps=tuple(steps), weather=weather)


def _sleeping_leaders(seed: int, random: Chance) -> Plan:
    """Leaders that stand still in the midst of what they do, and wake when another leads."""
    plan = replace(_people(seed, random), masters=random.choice((2, 3)), storm_ms=8_000.0)
    return replace(plan, weather=Weather(sleep_at_write=random.choice((0.03, 0.1))))


def _running(seed: int, random: Chance) -> Plan:
    """Jobs that are let alone, and have something to do for long."""
    jobs = {}
    for number in range(random.choice((1, 2))):
        rows = random.choice((0, 0, 40))
        jobs[f"job-{number}"] = JobPlan({f"t{number}": rows}, 1, 600, random.choice((150, 250)))
    steps = [Step(random.uniform(0, 500), "submit", name) for name in jobs]
    workers = random.choice((1, 2))
    return Plan(seed, jobs, tuple(steps), masters=random.choice((1, 2)), workers=workers)


KINDS_OF_PLANS = {
    _stormy: 32,
    _fair: 2,
    _rolling: 5,
    _masters_only: 6,
    _people: 6,
    _cut_off: 7,
    _sleepers: 5,
    _overtaken: 5,
    _left_behind: 6,
    _ends: 8,
    _cleanups: 6,
    _hanging: 4,
    _wearing: 2,
    _crowded: 3,
    _two_leaders: 8,
    _sleeping_leaders: 3,
}
"""How often each is drawn."""


def process_names(plan: Plan) -> list[str]:
    masters = [f"master-{number}" for number in range(plan.masters)]
    return masters + [f"worker-{number}" for number in range(plan.workers)]
