"""The commands of the page for operators, run as written, print what it says."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from holdfast.testing.servers import free_port
from tests.docs.following import ROOT, difference, follow, steps_of

PAGE = ROOT / "docs" / "cluster.md"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_page_for_operators_does_what_it_says(tmp_path: Path) -> None:
    port = str(free_port())
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    (bin_folder / "holdfast").symlink_to(ROOT / "bin" / "holdfast")
    (tmp_path / "incoming").mkdir()
    steps = steps_of(PAGE)

    outputs = follow(
        steps,
        tmp_path,
        replace={
            "8080": port,
            "/tmp/cluster.log": str(tmp_path / "cluster.log"),
            "/tmp/incoming": str(tmp_path / "incoming"),
            "holdfast ": f"{bin_folder}/holdfast ",
        },
        env={"HOLDFAST_SERVER": f"http://127.0.0.1:{port}"},
    )

    assert len(outputs) == len(steps)
    outputs = [output.replace(socket.gethostname(), "host") for output in outputs]
    wrong = [
        said
        for step, found in zip(steps, outputs, strict=True)
        if (said := difference(step, found))
    ]
    assert wrong == [], "\n".join(wrong)
