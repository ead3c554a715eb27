"""A failing plan made short: what can be left out while it still fails is left out. And told as a story."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import fields, replace

from holdfast.testing.sim.faults import Weather
from holdfast.testing.sim.plan import Plan, process_names
from holdfast.testing.sim.run import Verdict, run_plan

TRIES_MAX = 300


def shrink(plan: Plan, run: Callable[[Plan], Verdict] = run_plan) -> tuple[Plan, Verdict]:
    """The shortest that was found and fails in the same way, with what it shows."""
    verdict = run(plan)
    assert verdict.wrong, "only a failing plan can be made short"
    same = _kinds(verdict)
    tries = 0
    found = True
    while found and tries < TRIES_MAX:
        found = False
        for shorter in _shorter(plan):
            tries += 1
            shown = run(shorter)
            if _kinds(shown) & same:
                plan, verdict, found = shorter, shown, True
                break
            if tries >= TRIES_MAX:
                break
    return plan, verdict


def _kinds(verdict: Verdict) -> set[str]:
    """What was wrong, without the names and numbers."""
    return {" ".join(re.findall(r"\b[a-z]{3,}\b", said)[:8]) for said in verdict.wrong}


def _shorter(plan: Plan) -> Iterator[Plan]:
    """Each way to leave something out, the largest first."""
    for name in plan.jobs if len(plan.jobs) > 1 else ():
        jobs = {id_: job for id_, job in plan.jobs.items() if id_ != name}
        yield replace(plan, jobs=jobs, steps=tuple(s for s in plan.steps if s.what != name))
    for kind in fields(Weather):
        if getattr(plan.weather, kind.name):
            yield replace(plan, weather=replace(plan.weather, **{kind.name: 0.0}))
    for index in range(len(plan.steps)):
        yield replace(plan, steps=plan.steps[:index] + plan.steps[index + 1 :])
    for smaller in _smaller(plan):
        names = {*process_names(smaller), *smaller.jobs}
        yield replace(smaller, steps=tuple(s for s in smaller.steps if s.what in names))
    for name, job in plan.jobs.items():
        if len(job.tables) > 1:
            tables = dict(list(job.tables.items())[:1])
            yield replace(plan, jobs={**plan.jobs, name: replace(job, tables=tables, pipelines=1)})


def _smaller(plan: Plan) -> Iterator[Plan]:
    if plan.masters > 1:
        yield replace(plan, masters=plan.masters - 1)
    if plan.workers > 1:
        yield replace(plan, workers=plan.workers - 1)
    if plan.slots is not None:
        yield replace(plan, slots=None)
    if plan.storm_ms > 2_000:
        yield replace(plan, storm_ms=plan.storm_ms / 2)


def tell(plan: Plan, verdict: Verdict) -> str:
    """The story of a run, for people."""
    weather = [
        f"{kind.name.replace('_', ' ')} {getattr(plan.weather, kind.name):g}"
        for kind in fields(Weather)
        if getattr(plan.weather, kind.name)
    ]
    jobs = [
        f"{name} {'+'.join(str(rows or 'endless') for rows in job.tables.values())}"
        + (f" in {job.pipelines} pipelines" if job.pipelines > 1 else "")
        for name, job in plan.jobs.items()
    ]
    slots = "" if plan.slots is None else f" of {plan.slots} slots"
    lines = [
        f"seed {plan.seed}: {plan.masters} masters, {plan.workers} workers{slots}",
        f"jobs: {'; '.join(jobs)}",
        f"weather: {', '.join(weather) or 'fair'}",
        *verdict.story,
        *(f"WRONG: {said}" for said in verdict.wrong),
    ]
    return "\n".join(lines)
