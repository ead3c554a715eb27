"""Commands about the workers of a running cluster: workers, update-tags, drain. Each a thin caller of the API."""

from __future__ import annotations

import argparse
import json
from typing import Any, TextIO
from urllib.parse import urlencode

from holdfast.cli.client import add_server, ask, listed
from holdfast.cli.job_file import parse_pairs


def add_parser(commands: Any) -> None:
    workers = commands.add_parser("workers", help="list the workers of a cluster")
    workers.add_argument("--json", action="store_true", help="print JSON")
    workers.set_defaults(run=list_workers)
    tags = commands.add_parser(
        "update-tags",
        help="give a worker other tags",
        description="The worker has these tags from now on, and no others. What runs there goes on.",
    )
    tags.add_argument("worker", help="its id, or the first letters of it")
    tags.add_argument("tag", nargs="*", metavar="NAME=VALUE", help="none: it has no tags")
    tags.set_defaults(run=update_tags)
    drain = commands.add_parser(
        "drain",
        help="end a worker in peace",
        description="Its pipelines end after their epoch and go on elsewhere; then it ends.",
    )
    drain.add_argument("worker", help="its id, or the first letters of it")
    drain.set_defaults(run=drain_worker)
    for parser in (workers, tags, drain):
        add_server(parser)


def list_workers(args: argparse.Namespace, out: TextIO) -> int:
    found = listed(ask(args, "GET", "/workers"))
    if args.json:
        out.write(json.dumps(found, indent=2) + "\n")
        return 0
    for worker in found:
        tags = ",".join(f"{name}={value}" for name, value in sorted(worker["tags"].items()))
        slots = "dynamic" if worker["slots"] is None else worker["slots"]
        status = "DRAINING" if worker["draining"] else worker["status"]
        line = f"{worker['workerId']}  {status}  {worker['host']}  {worker['attempts']} of {slots} slots  {tags}"
        out.write(line.rstrip() + "\n")
    return 0


def update_tags(args: argparse.Namespace, out: TextIO) -> int:
    query = urlencode({"workerId": args.worker})
    ask(args, "POST", f"/update-tags?{query}", json.dumps(parse_pairs(args.tag)))
    return 0


def drain_worker(args: argparse.Namespace, out: TextIO) -> int:
    found = ask(args, "POST", "/drain-worker", json.dumps({"workerId": args.worker}))
    out.write(f"{found['workerId']} drains.\n")
    return 0
