"""Errors are part of the interface: each has a code of its own, and the page has them all."""

from __future__ import annotations

import re
from collections import Counter

from holdfast.cli.errors_page import error_kinds, errors_page
from tests.tidy.sources import ROOT


def test_every_error_class_has_a_code_of_its_own() -> None:
    inherited = [kind.__qualname__ for kind in error_kinds() if "code" not in vars(kind)]
    codes = Counter(kind.code for kind in error_kinds())

    assert inherited == []
    assert [code for code, count in codes.items() if count > 1] == []


def test_every_code_is_lower_case_with_dashes() -> None:
    assert [k.code for k in error_kinds() if not re.fullmatch(r"[a-z]+(-[a-z]+)*", k.code)] == []


def test_every_error_class_says_what_it_means() -> None:
    assert [kind.__qualname__ for kind in error_kinds() if not vars(kind).get("__doc__")] == []


def test_the_page_of_errors_is_as_generated() -> None:
    """When this fails: `make docs`."""
    assert (ROOT / "docs" / "errors.md").read_text(encoding="utf-8") == errors_page()
