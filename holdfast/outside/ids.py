"""Names that nobody else has. Chance comes from here, or from a seeded generator that a test hands in."""

from __future__ import annotations

import random
import secrets
import uuid


def new_id() -> str:
    """An id that no other machine will make: 32 hexadecimal digits."""
    return uuid.uuid4().hex


def new_secret(size: int = 32) -> str:
    """A token that cannot be guessed, safe in urls and file names."""
    return secrets.token_urlsafe(size)


Chance = random.Random
"""What is drawn from. Only `seeded` makes one."""


def seeded(seed: int) -> Chance:
    """A generator whose run can be repeated."""
    return random.Random(seed)
