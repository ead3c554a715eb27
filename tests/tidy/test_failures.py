"""docs/failures.md is whole and true: every number is answered, and every test it names is there and is about it."""

from __future__ import annotations

import re

from tests.tidy.sources import ROOT, modules, text_of

PAGE = (ROOT / "docs" / "failures.md").read_text(encoding="utf-8")
# Of areas A to E. The numbers that are left out were never given.
NUMBERS = """
001 002 003 004 005 006 008 009 010 012 013 014 016 017 018 020 021 022 024 025 026 028 029 030 032 033 034 036 037
038 040 041 042 044 045 046
048 049 050 052 053 054 056 057 058 060 061 062 064 065
066 068 069 070 072 073 074 076 077 078 080 081 082 084 085 086 088 089 090 092 093 094 096 097 098 100 101 102 104
105 106 108 109 110 112 113 114 116 117 118
120 121 122 124 125 126 128 129 130 132 133 134 136 137
"""
ROW = re.compile(r"^\| (F\d{3}) \|[^|]+\|[^|]+\| `([\w/]+\.py)::(\w+)` \|$", re.MULTILINE)


def _wanted() -> list[str]:
    return [f"F{number}" for number in NUMBERS.split()]


def test_every_number_is_answered_once() -> None:
    answered = [number for number, _, _ in ROW.findall(PAGE)]
    left_out = PAGE.split("## What does not apply")[1]
    explained = re.findall(r"F\d{3}", left_out)

    assert sorted(answered + explained) == _wanted()


def test_every_test_that_is_named_exists() -> None:
    missing = [
        f"{number}: {path}::{name}"
        for number, path, name in ROW.findall(PAGE)
        if not (ROOT / "tests" / path).is_file()
        or f"def {name}(" not in text_of(ROOT / "tests" / path)
    ]

    assert missing == []


def test_numbers_in_tests_are_numbers_of_the_page() -> None:
    own = ROOT / "tests" / "tidy"
    known = {f"F{n}" for n in NUMBERS.split()}
    unknown = {
        f"{path.name}: {number}"
        for path in modules(ROOT / "tests")
        if path.parent != own
        for number in re.findall(r"\bF[01]\d{2}\b", text_of(path))
        if number not in known
    }

    assert unknown == set()
