"""The part of JSONPath that answers are picked apart with: `$.a.b`, `['a']`, `[0]`, `[-1]`, `[*]`, `.*`, `..a`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from holdfast.model.json import Json

_STEP = re.compile(
    r"""\.\.(?P<deep>[\w$-]+)|\.(?P<star>\*)|\.(?P<name>[\w$-]+)|\[(?P<every>\*)\]"""
    r"""|\[(?P<index>-?\d+)\]|\[(?P<quote>['"])(?P<quoted>.*?)(?P=quote)\]"""
)


@dataclass(frozen=True, slots=True)
class Step:
    """One step: to a field, an index, all children, or a field at any depth."""

    name: str | None = None
    index: int | None = None
    deep: bool = False

    @property
    def is_every(self) -> bool:
        return self.name is None and self.index is None


Path = tuple[Step, ...]


def parse_path(text: str) -> Path:
    """Raises ValueError that says what is not understood."""
    if not text.startswith("$"):
        raise ValueError(f"a JSONPath begins with $, found {text!r}")
    at, steps = 1, []
    while at < len(text):
        found = _STEP.match(text, at)
        if found is None:
            raise ValueError(f"JSONPath {text!r} is not understood from {text[at:]!r} on")
        steps.append(_step_of(found))
        at = found.end()
    return tuple(steps)


def find_all(value: Json, path: Sequence[Step]) -> list[Json]:
    """All values at the path, in the order they stand."""
    found = [value]
    for step in path:
        found = [child for item in found for child in _children(item, step)]
    return found


def split_rows(paths: Sequence[Path]) -> tuple[Path, list[Path]]:
    """What the paths have in common up to its last `[*]`, which gives the rows, and what remains of each."""
    shared = 0
    for at, steps in enumerate(zip(*paths, strict=False)):
        if any(step != steps[0] for step in steps):
            break
        if steps[0].is_every:
            shared = at + 1
    return paths[0][:shared], [path[shared:] for path in paths]


def _step_of(found: re.Match[str]) -> Step:
    if found["deep"]:
        return Step(name=found["deep"], deep=True)
    if found["index"] is not None:
        return Step(index=int(found["index"]))
    return Step(name=found["name"] or found["quoted"])


def _children(value: Json, step: Step) -> Iterator[Json]:
    if step.deep:
        yield from _at_any_depth(value, str(step.name))
    elif step.is_every:
        yield from value.values() if isinstance(value, dict) else _items(value)
    elif step.index is not None:
        yield from _items(value)[step.index :][:1]
    elif isinstance(value, dict) and step.name in value:
        yield value[step.name]


def _items(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _at_any_depth(value: Json, name: str) -> Iterator[Json]:
    if isinstance(value, dict):
        if name in value:
            yield value[name]
        for child in value.values():
            yield from _at_any_depth(child, name)
    for child in _items(value):
        yield from _at_any_depth(child, name)
