"""What a Console can be told."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.spec.options import option


@dataclass(frozen=True)
class Options:
    """The options of a Console."""

    print_data: bool = option(
        "Whether rows are printed; they are counted in any case.",
        default=True,
        name="log.print.data",
    )
    delay_ms: int = option(
        "Milliseconds to wait after each row.", default=0, name="log.print.delay.ms", minimum=0
    )
