"""Java's date patterns in the letters of strptime."""

from __future__ import annotations

import re
from dataclasses import dataclass

_LETTERS = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}


@dataclass(frozen=True, slots=True)
class Pattern:
    """A Java pattern in strptime's letters, and its digits behind the seconds."""

    letters: str
    digits: int


def parse_pattern(java: str) -> Pattern:
    """Raises ValueError for letters that are not known."""
    head, sign, tail = java.partition(".S")
    digits = len(tail) + 1 if sign and set(tail) <= {"S"} else 0
    text = head if digits else java
    out, at = "", 0
    while at < len(text):
        if text[at] == "'":
            until = text.find("'", at + 1)
            until = len(text) if until < 0 else until
            out, at = out + text[at + 1 : until].replace("%", "%%"), until + 1
            continue
        run = re.match(r"([a-zA-Z])\1*|.", text[at:], re.DOTALL)
        assert run is not None
        found = run.group()
        if found[0].isalpha() and found not in _LETTERS:
            raise ValueError(f"'{found}' in '{java}' is not one of yyyy MM dd HH mm ss S")
        out, at = out + _LETTERS.get(found, found.replace("%", "%%")), at + len(found)
    return Pattern(out, digits)
