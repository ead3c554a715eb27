"""What the parser must know of connectors and transforms: told from above, since `spec` imports neither."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from holdfast.model.jobs import JobMode, Role


@dataclass(frozen=True, slots=True)
class Declared:
    """A connector or transform as the parser sees it."""

    name: str
    """As declared: `Jdbc`. A job file may write it in any case."""
    options: type[Any]
    check: Callable[[Any, JobMode], Sequence[str]]
    """Problems that no single option shows."""


class Catalog(Protocol):
    """All that a job file may name."""

    def find(self, role: Role, name: str) -> Declared | None: ...

    def names(self, role: Role) -> list[str]: ...
