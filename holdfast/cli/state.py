"""`holdfast state stats` and `state compact`: how big the state store is, and making it smaller. Masters may run."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any, TextIO

from holdfast.outside.clock import RealClock

if TYPE_CHECKING:
    from holdfast.store.sizes import StoreSizes

_UNITS = ("B", "KB", "MB", "GB")


def add_parser(commands: Any) -> None:
    parser = commands.add_parser("state", help="the state store: its size, and making it smaller")
    parts = parser.add_subparsers(dest="part", required=True, metavar="PART")
    stats = parts.add_parser("stats", help="rows and bytes by kind of fact")
    stats.add_argument("--json", action="store_true", help="print JSON")
    stats.set_defaults(run=show_stats)
    compact = parts.add_parser("compact", help="give back what is free; masters wait meanwhile")
    compact.set_defaults(run=compact_state)
    for part in (stats, compact):
        part.add_argument(
            "--state",
            metavar="URL",
            help="the state store: postgresql://… or sqlite:///… (default: SQLite in the data folder)",
        )


def show_stats(args: argparse.Namespace, out: TextIO) -> int:
    from holdfast.store.store import measure_store

    sizes = measure_store(_url(args), now_ms=RealClock().now_ms())
    if args.json:
        kinds = {kind.name: {"rows": kind.rows, "bytes": kind.bytes} for kind in sizes.kinds}
        found = {"maps": kinds, "storeBytes": sizes.store_bytes, "walBytes": sizes.wal_bytes}
        out.write(json.dumps(found, indent=2) + "\n")
        return 0
    rows = [("map", "rows", "bytes")]
    rows += [(kind.name, f"{kind.rows:,}", f"{kind.bytes:,}") for kind in sizes.kinds]
    widths = [max(len(row[at]) for row in rows) for at in range(3)]
    for name, count, size in rows:
        out.write(f"{name:<{widths[0]}}  {count:>{widths[1]}}  {size:>{widths[2]}}\n")
    out.write(f"{_on_disk(sizes)}\n")
    return 0


def compact_state(args: argparse.Namespace, out: TextIO) -> int:
    from holdfast.store.store import compact_store

    before, after = compact_store(_url(args), now_ms=RealClock().now_ms())
    out.write(f"before: {_on_disk(before)}\nafter:  {_on_disk(after)}\n")
    return 0


def _on_disk(sizes: StoreSizes) -> str:
    log = "not told by this database" if sizes.wal_bytes is None else _bytes(sizes.wal_bytes)
    return f"on disk {_bytes(sizes.store_bytes)}, write-ahead log {log}"


def _bytes(size: float) -> str:
    for unit in _UNITS[:-1]:
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} {_UNITS[-1]}"


def _url(args: argparse.Namespace) -> str:
    from holdfast.cluster import state_url

    return state_url(args.data, args.state)
