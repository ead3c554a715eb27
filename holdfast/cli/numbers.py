"""Numbers on the command line, checked where they are read."""

from __future__ import annotations

import argparse
from collections.abc import Callable


def at_least(least: int) -> Callable[[str], int]:
    def whole_number(text: str) -> int:
        try:
            found = int(text)
        except ValueError:
            found = least - 1
        if found < least:
            raise argparse.ArgumentTypeError(
                f"expected a whole number from {least}, found {text!r}"
            )
        return found

    return whole_number
