"""The README's commands, run as written, print what it says."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.docs.following import ROOT, Step, difference, follow, steps_of

README = ROOT / "README.md"


def _a_free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_readme_does_what_it_says(tmp_path: Path) -> None:
    port = str(_a_free_port())
    steps = steps_of(README)
    outputs = follow(
        steps,
        tmp_path,
        replace={"8080": port, "/tmp/orders": str(tmp_path / "orders")},
        env={"HOLDFAST_SERVER": f"http://127.0.0.1:{port}"},
    )

    assert len(outputs) == len(steps)
    wrong = [
        said
        for step, found in zip(steps, outputs, strict=True)
        if (said := difference(step, found))
    ]
    assert wrong == [], "\n".join(wrong)


def test_a_line_that_did_not_come_is_seen() -> None:
    step = Step("anything", ["Job orders-12345678 FINISHED after 3 s.", "…", "  rows: 3"])

    assert (
        difference(step, "Job orders-aaaaaaaa FINISHED after 17.1 s.\nmore\n  rows: 4,000\n")
        is None
    )
    assert difference(step, "Job orders-aaaaaaaa FAILED after 17.1 s.\n  rows: 4\n") is not None
    assert difference(step, "Job orders-aaaaaaaa FINISHED after 17.1 s.\n") is not None
