"""What a planted bug is: real code replaced for a while. The product has no switch for any of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Patch:
    """One name of the product, and what stands there instead."""

    owner: Any
    name: str
    broken: Any


@dataclass(frozen=True)
class Bug:
    """A mistake that somebody could make, or has made in an engine of this kind."""

    stands_for: str
    """What people would report."""
    patches: tuple[Patch, ...]


def a_bug(stands_for: str, owner: Any, name: str, broken: Any) -> Bug:
    return Bug(stands_for, (Patch(owner, name, broken),))


@contextmanager
def planted(bug: Bug) -> Iterator[None]:
    """Inside the block the product is broken."""
    before = [vars(patch.owner)[patch.name] for patch in bug.patches]
    for patch in bug.patches:
        setattr(patch.owner, patch.name, patch.broken)
    try:
        yield
    finally:
        for patch, real in zip(bug.patches, before, strict=True):
            setattr(patch.owner, patch.name, real)
