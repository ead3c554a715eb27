"""The page on writing connectors is run as it is written: its connector, its test and its job."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from holdfast.decide.restore import RestoreRequest
from holdfast.model.ends import JobEnd
from holdfast.model.jobs import Role
from holdfast.node import Node
from holdfast.runtime.catalog import Catalog
from holdfast.spec.parse import parse_job
from holdfast.testing import model_sink
from holdfast.testing.builders import options_of
from holdfast.testing.crashes import CrashAt
from holdfast.testing.world import World

PAGE = Path(__file__).parents[2] / "docs" / "write-a-connector.md"
LINES_MAX = 50


def _blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The page's Python, as one module that pickle can find."""
    module = ModuleType("lines_of_the_page")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for block in _blocks("python"):
        exec(compile(block, str(PAGE), "exec"), module.__dict__)
    return module


def test_the_example_is_as_short_as_the_page_says() -> None:
    lines = [line for line in _blocks("python")[0].splitlines() if line.strip()]

    assert len(lines) <= LINES_MAX


def test_the_example_keeps_the_contract(example: Any, tmp_path: Path) -> None:
    example.test_lines_keeps_the_contract(tmp_path)


def test_the_job_of_the_page_runs(example: Any, tmp_path: Path) -> None:
    text = _blocks("hocon")[0]
    text = text.replace("/var/log/orders.txt", str(tmp_path / "orders.txt"))
    text = text.replace("/data/orders", str(tmp_path / "out"))
    (tmp_path / "orders.txt").write_text("one\ntwo\nthree\n")
    catalog = Catalog(own={(Role.SOURCE, "Lines"): example.SOURCE})
    parsed = parse_job(text, name="job.conf", variables={}, catalog=catalog)
    assert parsed.spec is not None, parsed.problems

    result = Node(tmp_path / "data", catalog=catalog).run("orders", parsed.spec, RestoreRequest())

    assert result.end is JobEnd.FINISHED, result.error
    written = [path.read_text() for path in (tmp_path / "out").glob("[!.]*.csv")]
    assert "".join(written).split() == ["one", "two", "three"]


def test_the_example_resumes_to_the_byte_after_a_crash_anywhere(
    example: Any, tmp_path: Path
) -> None:
    (tmp_path / "orders.txt").write_text("".join(f"line {number}\n" for number in range(20)))
    source = options_of(example.SOURCE, {"path": str(tmp_path / "orders.txt")})

    for number in range(1, 40):
        folder = str(tmp_path / f"sink-{number}")
        sink = options_of(model_sink.SINK, {"folder": folder})
        world = World({"lines": (example.SOURCE, source)}, {"sink": (model_sink.SINK, sink)})
        world.run(CrashAt(number))

        assert world.run().end is JobEnd.FINISHED

        rows = [row[2] for row in world.stores["sink"].visible_rows()]
        assert rows == [f"line {number}" for number in range(20)]
