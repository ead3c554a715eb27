"""Checkpoints for tests, with defaults."""

from __future__ import annotations

from typing import Any

from holdfast.model.checkpoints import Checkpoint, CheckpointKind, Count, SinkState


def a_checkpoint(number: int = 1, **changes: Any) -> Checkpoint:
    values: dict[str, Any] = {
        "job_id": "orders",
        "pipeline_id": 1,
        "number": number,
        "attempt": 1,
        "generation": 1,
        "kind": CheckpointKind.EPOCH,
        "at_ms": 1_000 * number,
        "sources": {"source-0": {"at": number}},
        "sinks": {"sink-0": SinkState(True, {"attempt": 1, "epoch": number, "parts": []})},
        "fingerprint": {"format": 1, "vertices": {}},
        "counts": {"source-0": Count(3, 30)},
        "sink_rows": {"sink-0": {"t": 3}},
        "said": {"source-0": f"row {number}"},
    }
    return Checkpoint(**{**values, **changes})
