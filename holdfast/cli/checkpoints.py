"""`holdfast checkpoints JOB`: what is kept of a job, with positions in words."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, TextIO

from holdfast.cli.job_file import add_job_name, resolve_job_id
from holdfast.node import Node, StoredCheckpoint


def add_parser(commands: Any) -> None:
    parser = commands.add_parser("checkpoints", help="list what is kept of a job")
    add_job_name(parser)
    parser.add_argument("--json", action="store_true", help="print whole checkpoints as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, out: TextIO) -> int:
    node = Node(args.data)
    job_id = resolve_job_id(args.job, args.variable)
    found = node.checkpoints(job_id)
    savepoints = node.savepoints(job_id)
    if args.json:
        whole = [s.checkpoint.to_json() for s in found if s.checkpoint]
        out.write(json.dumps({"checkpoints": whole, "savepoints": savepoints}, indent=2) + "\n")
        return 0
    state = "running" if node.is_live(job_id) else "not running"
    out.write(f"Job {job_id}, {state}\n")
    for stored, is_newest in zip(found, _are_newest(found), strict=True):
        _write_one(stored, out, is_tip=is_newest)
    for path in savepoints:
        out.write(f"{path}\n")
    return 0


def _are_newest(found: Sequence[StoredCheckpoint]) -> list[bool]:
    """Which is the newest number of its pipeline. What lies behind a broken one is no tip: a restore refuses first."""
    before = [None, *(stored.pipeline_id for stored in found)]
    return [stored.pipeline_id != above for stored, above in zip(found, before, strict=False)]


def _write_one(stored: StoredCheckpoint, out: TextIO, *, is_tip: bool) -> None:
    name = f"checkpoint {stored.pipeline_id}/{stored.number}"
    checkpoint = stored.checkpoint
    if checkpoint is None:
        out.write(f"{name}  broken: {stored.broken}\n")
        return
    at = datetime.fromtimestamp(checkpoint.at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    marks = [
        checkpoint.kind.value,
        f"attempt {checkpoint.attempt}",
        *(["tip"] if is_tip else []),
        *(["completed"] if checkpoint.completed else []),
        *([f"from {checkpoint.restored_from}"] if checkpoint.restored_from else []),
    ]
    out.write(f"{name}  {at}  {', '.join(marks)}\n")
    for location, said in checkpoint.said.items():
        out.write(f"    {location}: {said}\n")
