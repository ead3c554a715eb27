"""Functions of others whose options differ between the releases that we run with."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any, TypeVar

R = TypeVar("R")


def with_known_options(function: Callable[..., R], **options: Any) -> Callable[..., R]:
    """The function, given those of the options that this release of it has."""
    there = signature(function).parameters
    known = {name: value for name, value in options.items() if name in there}
    return lambda *given: function(*given, **known)
