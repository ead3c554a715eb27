"""The page of all errors: each class says itself what it means, so the page cannot differ from the code."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Iterator
from importlib import import_module

import holdfast
from holdfast.model.errors import (
    ExitCode,
    HoldfastError,
    OutcomeUnknown,
    Terminal,
    Transient,
)

_HEAD = """\
# Errors

Every error says what could not be done, to what, what was found, and what to do next. Its code is stable: logs, exit
reports and the API carry it. The kind says whether trying again can help:

- **terminal**: no; something has to be changed first.
- **transient**: yes; Holdfast tries again by itself as often as `job.retry.times` says, and running the job again goes
  on from its newest checkpoint.
- **outcome unknown**: the call may or may not have happened; Holdfast reads again before it repeats anything.

| code | kind | exit code | what it means |
| --- | --- | --- | --- |
"""


def error_kinds() -> list[type[HoldfastError]]:
    """All error classes that ship, by code."""
    for module in pkgutil.walk_packages(holdfast.__path__, "holdfast."):
        if not module.name.startswith("holdfast.testing") and not module.name.endswith("__main__"):
            import_module(module.name)
    found = {kind for kind in _below(HoldfastError) if _ships(kind)}
    return sorted(found, key=lambda kind: (kind.code, kind.__qualname__))


def errors_page() -> str:
    """Markdown, generated from the classes."""
    rows = [
        f"| `{kind.code}` | {_kind_of(kind)} | {ExitCode(kind.exit_code).value} | {_meaning(kind)} |"
        for kind in error_kinds()
    ]
    return _HEAD + "\n".join(rows) + "\n"


def _below(kind: type[HoldfastError]) -> Iterator[type[HoldfastError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from _below(child)


def _ships(kind: type[HoldfastError]) -> bool:
    return kind.__module__.startswith("holdfast.") and ".testing" not in kind.__module__


def _kind_of(kind: type[HoldfastError]) -> str:
    for base, word in (
        (Terminal, "terminal"),
        (Transient, "transient"),
        (OutcomeUnknown, "outcome unknown"),
    ):
        if issubclass(kind, base):
            return word
    return "neither"


def _meaning(kind: type[HoldfastError]) -> str:
    return " ".join((inspect.getdoc(kind) or "").split()).replace("|", "\\|")
