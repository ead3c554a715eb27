"""Rules of the contract suite: a promise in words, how it is checked, and to whom it applies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

Case = TypeVar("Case")


@dataclass(frozen=True, slots=True)
class Rule(Generic[Case]):
    """One promise."""

    name: str
    """`is_replayable`: what a mark names."""
    said: str
    """The promise, as a sentence without its subject."""
    check: Callable[[Case], None]
    """Raises AssertionError that says what was found."""
    applies: Callable[[Case], str | None]
    """None, or why the rule does not concern this case."""

    def __str__(self) -> str:
        return self.name


class MarkKind(Enum):
    """Why a rule that concerns a connector does not hold for it."""

    NOT_YET = "not done by us yet"
    NOT_OFFERED = "not offered by the system"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Mark:
    """A rule that a connector does not keep, and why. The suite checks that it is still broken."""

    rule: str
    kind: MarkKind
    why: str


def always(_: object) -> str | None:
    return None


def rule_of(check: Callable[[Case], None], applies: Callable[[Case], str | None]) -> Rule[Case]:
    name: str = check.__name__.removeprefix("_")
    said = (check.__doc__ or "").strip()
    assert said, f"{name} has no words"
    return Rule(name, said, check, applies)
