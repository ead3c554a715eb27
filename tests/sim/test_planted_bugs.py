"""The simulator can see: each planted bug is found within a stated number of seeds, one after the other from 0."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor

import pytest

from tests.sim.planted import BUGS, SEEDS_MAX, Finding, find
from tests.tidy.sources import ROOT

PAGE = (ROOT / "docs" / "simulator.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def findings(request: pytest.FixtureRequest) -> Iterator[dict[str, Future[Finding]]]:
    """Of those that were asked for, side by side."""
    calls = [getattr(item, "callspec", None) for item in request.session.items]
    asked = {str(call.params.get("name")) for call in calls if call is not None}
    names = [name for name in BUGS if name in asked]
    with ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
        yield {name: pool.submit(find, name) for name in names}


@pytest.mark.parametrize("name", BUGS)
def test_the_simulator_finds_that(name: str, findings: dict[str, Future[Finding]]) -> None:
    found = findings[name].result()

    assert found.seed is not None, f"{SEEDS_MAX} seeds and none shows it"


def test_at_least_25_bugs_are_planted() -> None:
    assert len(BUGS) >= 25


def test_the_page_names_every_bug_and_the_seeds_within_which_it_is_found() -> None:
    rows = re.findall(r"^\| (.+?) \| (.+?) \| (\d+) \|$", PAGE, re.MULTILINE)

    assert {name: stands_for for name, stands_for, _ in rows} == {
        name: bug.stands_for for name, bug in BUGS.items()
    }
    assert all(int(seed) < SEEDS_MAX for *_, seed in rows)
    assert f"below {SEEDS_MAX}" in PAGE
