"""The project's own source, parsed once for all tidy tests."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "holdfast"
EVERYWHERE = (PACKAGE, ROOT / "tests", ROOT / "bench")


def modules(*folders: Path) -> list[Path]:
    """All Python files below the folders, in order."""
    found = [path for folder in folders or (PACKAGE,) for path in folder.rglob("*.py")]
    return sorted(path for path in found if "__pycache__" not in path.parts)


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(text_of(path), str(path))


def shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
