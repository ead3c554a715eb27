"""Wires the blocks of a job file into a graph and cuts it into pipelines.

- `plugin_output` names what a source or transform gives, `plugin_input` (one name or several) what a transform or
  sink takes. Every name is given once.
- Without `plugin_input` a block takes the previous step's output: a transform that of the transform before it, or
  the only source's; a sink that of the last transform, or the only source's. With several sources and nothing named
  there is no previous step to speak of: a problem, and never a guess (SeaTunnel refuses it as well).
- One source, at most one transform and one sink: an input's name that nobody gives is taken to mean the step before,
  where that has no name. SeaTunnel runs such files, so they can be brought over; a note says so.
- What no sink takes is left out, with a note.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.model.jobs import Role
from holdfast.spec.config import Problem
from holdfast.spec.options import nearest


@dataclass(frozen=True, slots=True)
class Step:
    """One block as far as wiring goes."""

    role: Role
    kind: str
    location: str
    line: int
    output: str | None
    inputs: tuple[str, ...] | None
    """The names it takes; None where the file does not say."""
    inputs_line: int = 0

    @property
    def shown(self) -> str:
        return f"{self.role.value} {self.kind}"


@dataclass(slots=True)
class Wiring:
    """`inputs`: for each location those it reads from. `pipelines`: locations, each behind those it reads."""

    inputs: dict[str, tuple[str, ...]] = field(default_factory=dict)
    pipelines: list[list[str]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    notes: list[Problem] = field(default_factory=list)


def wire(steps: Sequence[Step]) -> Wiring:
    """Steps in file order, sources first, to pipelines; with every problem found on the way."""
    wiring = Wiring()
    outputs = _collect_outputs(steps, wiring)
    for step in steps:
        wiring.inputs[step.location] = _inputs_of(step, steps, outputs, wiring)
    _check_roles(steps, wiring)
    loop = _find_loop(wiring.inputs)
    if loop:
        _report_loop(loop, steps, wiring)
        return wiring
    used = _leading_to_sinks(steps, wiring.inputs)
    for step in steps:
        if step.location not in used and not wiring.problems:
            said = f"{step.shown}: no sink takes what it gives; it is left out"
            wiring.notes.append(Problem(step.line, said))
    wiring.pipelines = _components([s.location for s in steps if s.location in used], wiring.inputs)
    return wiring


def _collect_outputs(steps: Sequence[Step], wiring: Wiring) -> dict[str, Step]:
    outputs: dict[str, Step] = {}
    for step in steps:
        if step.output is None:
            continue
        if step.role is Role.SINK:
            wiring.notes.append(
                Problem(step.line, f"{step.shown}: 'plugin_output' has no effect on a sink")
            )
            continue
        first = outputs.setdefault(step.output, step)
        if first is not step:
            said = (
                f"{step.shown}: 'plugin_output' is '{step.output}', as that of {first.shown}"
                f" in line {first.line} is; each needs a name of its own"
            )
            wiring.problems.append(Problem(step.line, said))
    return outputs


def _inputs_of(
    step: Step, steps: Sequence[Step], outputs: Mapping[str, Step], wiring: Wiring
) -> tuple[str, ...]:
    if step.role is Role.SOURCE:
        if step.inputs is not None:
            said = f"{step.shown}: a source takes no input ('plugin_input')"
            wiring.problems.append(Problem(step.inputs_line, said))
        return ()
    if step.inputs is None:
        return _implied_input(step, steps, wiring)
    if not step.inputs:
        said = f"{step.shown}: 'plugin_input' names nothing"
        wiring.problems.append(Problem(step.inputs_line, said))
    found = [_named_input(name, step, steps, outputs, wiring) for name in step.inputs]
    return tuple(dict.fromkeys(at for at in found if at is not None))


def _named_input(
    name: str, step: Step, steps: Sequence[Step], outputs: Mapping[str, Step], wiring: Wiring
) -> str | None:
    given = outputs.get(name)
    if given is not None:
        return given.location
    before = _steps_before(step, steps)
    if _is_simple(steps) and before and before[-1].output is None:
        wiring.notes.append(
            Problem(
                step.inputs_line,
                f"{step.shown}: nothing is named '{name}'; {before[-1].shown} is taken, which has no name",
            )
        )
        return before[-1].location
    names = ", ".join(f"'{known}'" for known in outputs) or "none"
    said = (
        f"{step.shown}: there is no output '{name}' to take.{nearest(name, outputs)}"
        f" The outputs of this file are: {names}"
    )
    wiring.problems.append(Problem(step.inputs_line, said))
    return None


def _implied_input(step: Step, steps: Sequence[Step], wiring: Wiring) -> tuple[str, ...]:
    before = _steps_before(step, steps)
    transforms = [s for s in before if s.role is Role.TRANSFORM]
    if transforms:
        return (transforms[-1].location,)
    if len(before) == 1:
        return (before[0].location,)
    if before:
        names = ", ".join(f'"{s.output}"' for s in before if s.output is not None)
        unnamed = [s for s in before if s.output is None]
        missing = (
            "; give each source a 'plugin_output' and name them in 'plugin_input'"
            if unnamed
            else f"; say which it takes: plugin_input = [{names}], or one of them"
        )
        said = f"{step.shown}: there are {len(before)} sources and it does not say which it takes{missing}"
        wiring.problems.append(Problem(step.line, said))
    return ()


def _steps_before(step: Step, steps: Sequence[Step]) -> list[Step]:
    """The sources, and the transforms that stand before it in the file."""
    found: list[Step] = []
    for other in steps:
        if other is step or other.role is Role.SINK:
            break
        found.append(other)
    return found


def _is_simple(steps: Sequence[Step]) -> bool:
    counts = [sum(s.role is role for s in steps) for role in Role]
    return counts[0] == 1 and counts[1] <= 1 and counts[2] == 1


def _check_roles(steps: Sequence[Step], wiring: Wiring) -> None:
    for role in (Role.SOURCE, Role.SINK):
        if not any(step.role is role for step in steps):
            wiring.problems.append(
                Problem(None, f"there is no {role.value}: a job needs one at least")
            )


def _find_loop(inputs: Mapping[str, Sequence[str]]) -> list[str]:
    """Some locations that read from each other in a ring, or nothing."""
    left = dict(inputs)
    while True:
        free = [at for at, read in left.items() if not any(r in left for r in read)]
        if not free:
            break
        for at in free:
            del left[at]
    if not left:
        return []
    walk = [next(iter(left))]
    while walk.count(walk[-1]) < 2:
        walk.append(next(r for r in left[walk[-1]] if r in left))
    return walk[walk.index(walk[-1]) :]


def _report_loop(loop: list[str], steps: Sequence[Step], wiring: Wiring) -> None:
    first = next(step for step in steps if step.location == loop[0])
    said = f"{first.shown}: its input comes from itself: {' <- '.join(loop)}"
    wiring.problems.append(Problem(first.line, said))


def _leading_to_sinks(steps: Sequence[Step], inputs: Mapping[str, Sequence[str]]) -> set[str]:
    waiting = [step.location for step in steps if step.role is Role.SINK]
    used: set[str] = set()
    while waiting:
        at = waiting.pop()
        if at not in used:
            used.add(at)
            waiting += inputs[at]
    return used


def _components(locations: Sequence[str], inputs: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Connected parts in file order, each with its locations behind those they read."""
    part_of = {at: at for at in locations}

    def root(at: str) -> str:
        while part_of[at] != at:
            at = part_of[at]
        return at

    for at in locations:
        for read in inputs[at]:
            part_of[root(at)] = root(read)
    parts: dict[str, list[str]] = {}
    for at in locations:
        parts.setdefault(root(at), []).append(at)
    return [_sorted(part, inputs) for part in parts.values()]


def _sorted(part: list[str], inputs: Mapping[str, Sequence[str]]) -> list[str]:
    """In file order, but for what reads from further down."""
    done: dict[str, None] = {}
    left = part
    while left:
        waiting = []
        for at in left:
            if all(read in done for read in inputs[at]):
                done[at] = None
            else:
                waiting.append(at)
        assert len(waiting) < len(left), "loops were told before this"
        left = waiting
    return list(done)
