"""What scenarios are made of: clusters that end with their test."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from holdfast.testing.sim.plan import JobPlan
from holdfast.testing.sim.script import Scene

MakeScene = Callable[..., Scene]


@pytest.fixture
def scene() -> Iterator[MakeScene]:
    made: list[Scene] = []

    def make(jobs: Mapping[str, JobPlan], **facts: Any) -> Scene:
        made.append(Scene(jobs, **facts))
        return made[-1]

    yield make
    for each in made:
        each.close()
