"""One word per concept: identifiers do not use what the glossary replaces."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.tidy.sources import modules, shown, tree_of

SAY_INSTEAD = {
    "workflow": "job",
    "incarnation": "generation",
    "dag": "pipeline",
    "subplan": "pipeline",
    "execution": "attempt",
    "phase": "state or status",
    "coordinator": "leader or master",
    "agent": "worker",
    "fence": "lease or term",
    "plugin": "connector",
    "adapter": "connector",
    "arg": "option",
    "shard": "split",
    "bookmark": "position",
    "snapshot": "checkpoint",
    "recover": "restore",
    "reload": "restore",
    "expiry": "deadline",
    "audit": "event",
    "failpoint": "crash point",
    "scenario": "story",
    "manager": "what it does",
    "helper": "what it does",
    "helpers": "what they do",
    "util": "what it does",
    "utils": "what they do",
    "misc": "what it is",
    "impl": "what it does",
}
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def test_identifiers_use_the_words_of_the_glossary() -> None:
    found = [
        f"{shown(path)}:{line} {name}: say {SAY_INSTEAD[word]}, not {word}"
        for path in modules()
        for name, line in _identifiers(path)
        for word in {part.lower() for part in _WORD.findall(name)} & SAY_INSTEAD.keys()
    ]

    assert found == []


def _identifiers(path: Path) -> Iterator[tuple[str, int]]:
    yield path.stem, 1
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
