"""What transforms may rely on, whatever epochs are under way."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from holdfast.model.jobs import Pipeline, Role, Vertex
from holdfast.runtime.frames import Frames
from holdfast.runtime.open_pipeline import OpenPipeline
from holdfast.testing.builders import an_env
from holdfast.testing.crashes import VirtualClock
from holdfast.transforms.base import TableFrame


class Meeting:
    """A transform that waits a moment for somebody else to be in it as well."""

    def __init__(self) -> None:
        self._both = threading.Barrier(2)
        self.met = False

    def apply(self, inputs: Sequence[TableFrame]) -> list[TableFrame]:
        try:
            self._both.wait(0.3)
            self.met = True
        except threading.BrokenBarrierError:
            self._both.reset()
        return []


def test_a_transform_is_never_applied_to_two_epochs_at_once() -> None:
    """Both would give their rows the same name, and one would read those of the other."""
    transform = Meeting()
    found: Any = object()
    vertices = (
        Vertex(Role.SOURCE, "Fake", "source-0", None, (), "fake", 1, 1),
        Vertex(Role.TRANSFORM, "Sql", "transform-0", None, ("source-0",), "sql", 1, 2),
    )
    pipeline = OpenPipeline(
        job_id="orders",
        spec=Pipeline(1, vertices),
        env=an_env(),
        sources={},
        transforms={"transform-0": transform},
        sinks={},
        clock=VirtualClock(),
    )
    frames = Frames(pipeline, found, found)

    epochs = [
        threading.Thread(target=frames._flows, args=({"source-0": [found]},)) for _ in range(2)
    ]
    for epoch in epochs:
        epoch.start()
    for epoch in epochs:
        epoch.join()

    assert not transform.met
