"""ARCHITECTURE.md stays short and true: each invariant names a test that exists, each path is there."""

from __future__ import annotations

import re

from tests.tidy.sources import ROOT

PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
LINES_MAX = 250


def test_the_page_has_250_lines_at_most() -> None:
    assert len(PAGE.splitlines()) <= LINES_MAX


def test_every_invariant_names_a_test_that_exists() -> None:
    invariants = re.findall(r"^\| (I\d+) \|.*\| `([^`:]+)::(\w+)` \|$", PAGE, re.MULTILINE)
    missing = [
        f"{number}: {path}::{name}"
        for number, path, name in invariants
        if not (ROOT / path).is_file() or f"def {name}(" not in (ROOT / path).read_text("utf-8")
    ]

    assert [number for number, _, _ in invariants] == [
        f"I{n}" for n in range(1, len(invariants) + 1)
    ]
    assert len(invariants) >= 18
    assert missing == []


def test_every_module_it_names_exists() -> None:
    named = set(re.findall(r"`([a-z_]+(?:/[a-z_]+)*(?:\.py|/))`", PAGE))
    missing = [
        name
        for name in sorted(named)
        if not any((base / name).exists() for base in (ROOT, ROOT / "holdfast"))
    ]

    assert missing == []
