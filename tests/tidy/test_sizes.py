"""Files and functions stay small. What is larger today is named here, and may only shrink."""

from __future__ import annotations

from tests.tidy.sources import EVERYWHERE, functions, modules, shown, text_of

FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 60
LARGER_FILES: dict[str, int] = {}
LARGER_FUNCTIONS: dict[str, int] = {}


def test_files_have_600_lines_at_most() -> None:
    lines = {shown(path): len(text_of(path).splitlines()) for path in modules(*EVERYWHERE)}

    assert _over(lines, FILE_LINES_MAX, LARGER_FILES) == {}


def test_functions_have_60_lines_at_most() -> None:
    lines = {
        f"{shown(path)}:{node.name}": (node.end_lineno or node.lineno) - node.lineno + 1
        for path in modules(*EVERYWHERE)
        for node in functions(path)
    }

    assert _over(lines, FUNCTION_LINES_MAX, LARGER_FUNCTIONS) == {}


def _over(lines: dict[str, int], cap: int, known: dict[str, int]) -> dict[str, int]:
    """What is over the cap, or grew over what is known; and what is known but not over the cap any more."""
    grown = {name: count for name, count in lines.items() if count > known.get(name, cap)}
    settled = {name: lines.get(name, 0) for name in known if lines.get(name, 0) <= cap}
    return {**grown, **settled}
