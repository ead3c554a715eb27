"""Every module says what it is for and is used; errors are not swallowed; prose keeps to the project."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.tidy.sources import EVERYWHERE, PACKAGE, ROOT, modules, shown, text_of, tree_of

STARTED_BY_NAME = {
    "holdfast.cli.main",
    "holdfast.cli.docs",
    # For authors of connectors: docs/write-a-connector.md imports it, and is run by a test.
    "holdfast.testing.contract",
}
DOCSTRING_LINES_MAX = 8
LONGER_DOCSTRINGS = {
    "holdfast/connectors/jdbc/splits.py": 13,
    "holdfast/connectors/localfile/staging.py": 10,
    "holdfast/spec/graph.py": 10,
    "holdfast/spec/options.py": 12,
    "holdfast/transforms/python.py": 11,
}
"""These may only shrink."""


def test_every_module_opens_with_a_docstring_of_eight_lines_at_most() -> None:
    found = {
        shown(path): _docstring_lines(path)
        for path in modules(*EVERYWHERE)
        if text_of(path).strip() and not 1 <= _docstring_lines(path) <= _docstring_cap(path)
    }

    assert found == {}


def test_every_module_is_reachable() -> None:
    named = {name for path in modules(*EVERYWHERE) for name in _names_in(path)}
    unreachable = [
        _module_name(path)
        for path in modules(PACKAGE)
        if path.name not in ("__init__.py", "__main__.py")
        and _module_name(path) not in named | STARTED_BY_NAME
    ]

    assert unreachable == []


def test_a_broad_except_raises_again_or_gives_its_reason() -> None:
    found = [
        f"{shown(path)}:{node.lineno}"
        for path in modules(*EVERYWHERE)
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ExceptHandler)
        and _is_broad(node)
        and not any(isinstance(inner, ast.Raise) for inner in ast.walk(node))
        and not re.search(r"noqa: BLE001 - \w+", text_of(path).splitlines()[node.lineno - 1])
    ]

    assert found == []


def test_a_check_that_is_switched_off_says_why() -> None:
    found = [
        f"{shown(path)}:{number}"
        for path in modules(*EVERYWHERE)
        for number, line in enumerate(text_of(path).splitlines(), 1)
        if re.search(r"#\s*noqa\b(?!: [A-Z0-9, ]+ - \w)(?!\()", line)
    ]

    assert found == []


def test_only_outside_imports_clock_chance_ids_and_processes() -> None:
    found = [
        f"{shown(path)}: {name}"
        for path in modules(PACKAGE)
        if "outside" not in path.parts
        for name in _names_in(path)
        if name.partition(".")[0] in ("time", "random", "uuid", "subprocess")
    ]

    assert found == []


def _docstring_cap(path: Path) -> int:
    return LONGER_DOCSTRINGS.get(shown(path), DOCSTRING_LINES_MAX)


def _docstring_lines(path: Path) -> int:
    return len((ast.get_docstring(tree_of(path)) or "").splitlines())


def _module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def _names_in(path: Path) -> set[str]:
    """Modules that a file imports, and those it names in a string, as the registries do."""
    names: set[str] = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names |= {found.rpartition(":")[0] or found for found in _NAMED.findall(node.value)}
    return names


_NAMED = re.compile(r"holdfast(?:\.\w+)+(?::\w+)?")


def _is_broad(handler: ast.ExceptHandler) -> bool:
    kind = handler.type
    return kind is None or (
        isinstance(kind, ast.Name) and kind.id in ("Exception", "BaseException")
    )
