"""What holds at a sink after a restore: its own promise, less what the sources and the way back take from it."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.connectors.base import Guarantee, Sink, Source


def describe_guarantee(
    sink: Sink, sources: Sequence[Source], *, back: tuple[int, int] | None
) -> str:
    """`back`: the first and last checkpoint whose rows come again, for a restore that goes back."""
    declared = sink.guarantee.value + (f" ({sink.condition})" if sink.condition else "")
    if sink.guarantee is Guarantee.NONE:
        return declared
    if not all(source.replayable for source in sources):
        return (
            f"{declared} for what was staged; a source cannot read again what was lost before that"
        )
    if back is None:
        return declared
    which = f"checkpoint {back[0]}" if back[0] == back[1] else f"checkpoints {back[0]} to {back[1]}"
    if sink.rewindable:
        return f"{declared}; what {which} published is taken back first"
    if sink.guarantee is Guarantee.EFFECTIVELY_ONCE:
        return f"{declared}; the rows of {which} are written again over themselves"
    return f"at-least-once: it cannot take rows back, so those of {which} come a second time"
