"""`holdfast storage`: what is kept of which job, how large and how old; and what shall not be kept any longer.

Nothing goes that was not named or whose job lives, and a savepoint only by its own name.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from holdfast.checkpoint.inventory import Holding, take_stock
from holdfast.model.errors import ConfigError, Terminal
from holdfast.node import Node
from holdfast.outside.clock import RealClock
from holdfast.spec.env import parse_duration

DAY_MS = 86_400_000


class StillLive(Terminal):
    """What shall be removed belongs to a job that runs, or shall run."""

    code = "still-live"


def add_parser(commands: Any) -> None:
    storage = commands.add_parser("storage", help="what checkpoint storage holds, and removing it")
    verbs = storage.add_subparsers(dest="verb", required=True, metavar="VERB")
    ls = verbs.add_parser("ls", help="what is kept, of which job, how large and how old")
    ls.add_argument("--json", action="store_true")
    ls.set_defaults(run=list_storage)
    rm = verbs.add_parser("rm", help="remove what is named: a job's checkpoints, or one savepoint")
    rm.add_argument("path", nargs="+", help="as `storage ls` names it")
    gc = verbs.add_parser("gc", help="remove the checkpoints of jobs that have not run for long")
    gc.add_argument(
        "--older-than", required=True, metavar="AGE", help="of their newest checkpoint: 30d, 12h"
    )
    gc.add_argument("--dry-run", action="store_true", help="say what would go, and remove nothing")
    rm.set_defaults(run=remove_named)
    gc.set_defaults(run=collect_garbage)
    for parser in (rm, gc):
        parser.add_argument(
            "--state",
            metavar="URL",
            help="the state store whose live jobs are spared (default: the one in the data folder)",
        )


def list_storage(args: argparse.Namespace, out: TextIO) -> int:
    node = Node(args.data)
    found = list(take_stock(node.files))
    if args.json:
        out.write(json.dumps([asdict(holding) for holding in found], indent=2) + "\n")
        return 0
    now_ms = node.clock.now_ms()
    for holding in found:
        live = "  running" if not holding.is_savepoint and node.is_live(holding.job_id) else ""
        out.write(f"{_words(holding, now_ms)}{live}\n")
    size = sum(holding.bytes for holding in found)
    out.write(f"{len(found)} in {node.data / 'checkpoints'}, {_size(size)}\n")
    return 0


def remove_named(args: argparse.Namespace, out: TextIO) -> int:
    node = Node(args.data)
    by_path = {holding.path: holding for holding in take_stock(node.files)}
    missing = [path for path in args.path if path.rstrip("/") not in by_path]
    if missing:
        raise ConfigError(
            f"Cannot remove {missing[0]}: nothing of that name is kept. `holdfast storage ls` names what is."
        )
    wanted = [by_path[path.rstrip("/")] for path in args.path]
    live = _live_jobs(args) | {h.job_id for h in wanted if node.is_live(h.job_id)}
    for holding in wanted:
        if not holding.is_savepoint and holding.job_id in live:
            raise StillLive(
                f"Cannot remove {holding.path}: job {holding.job_id} runs, or shall run. Stop it first."
            )
    return _remove(node, wanted, out)


def collect_garbage(args: argparse.Namespace, out: TextIO) -> int:
    node = Node(args.data)
    age_ms = _read_age(args.older_than)
    live, now_ms = _live_jobs(args), node.clock.now_ms()
    due = [
        holding
        for holding in take_stock(node.files)
        if not holding.is_savepoint
        and now_ms - holding.at_ms > age_ms
        and holding.job_id not in live
        and not node.is_live(holding.job_id)
    ]
    if args.dry_run:
        for holding in due:
            out.write(f"would go: {_words(holding, now_ms)}\n")
        return 0
    return _remove(node, due, out)


def _remove(node: Node, holdings: Sequence[Holding], out: TextIO) -> int:
    for holding in holdings:
        with ExitStack() as stack:
            if not holding.is_savepoint:
                # Whoever starts it meanwhile is told that it is taken.
                stack.enter_context(node.locked(holding.job_id))
            node.files.remove(holding.path)
        out.write(f"removed {holding.path}: {holding.files} files, {_size(holding.bytes)}\n")
    return 0


def _live_jobs(args: argparse.Namespace) -> set[str]:
    """Of a cluster on this storage: whatever has no outcome may still go on."""
    own = Path(args.data) / "state" / "holdfast.db"
    if args.state is None and not own.is_file():
        return set()
    from holdfast.store.store import open_store

    store = open_store(args.state or f"sqlite:///{own}", now_ms=RealClock().now_ms())
    try:
        return {job.id for job in store.reads.jobs(outcome=None, live=True)}
    finally:
        store.close()


def _read_age(text: str) -> int:
    try:
        return parse_duration(text)
    except ValueError as wrong:
        raise ConfigError(f"Cannot read --older-than {text!r}: {wrong}.") from wrong


def _words(holding: Holding, now_ms: int) -> str:
    age_ms = max(0, now_ms - holding.at_ms)
    days, hours, minutes = age_ms // DAY_MS, age_ms // 3_600_000, age_ms // 60_000
    age = f"{days} d" if days > 1 else f"{hours} h" if hours > 1 else f"{minutes} min"
    return f"{holding.path}  {holding.said}  {holding.files} files, {_size(holding.bytes)}  {age}"


def _size(size: int) -> str:
    return f"{size} B" if size < 10_000 else f"{size / 1_000:.0f} kB"
