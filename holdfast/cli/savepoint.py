"""`holdfast savepoint JOB`: keep where a job stands, self-contained, until somebody deletes it."""

from __future__ import annotations

import argparse
import json
from typing import Any, TextIO

from holdfast.cli.client import ask
from holdfast.cli.job_file import add_job_name, resolve_job_id
from holdfast.node import Node


def add_parser(commands: Any) -> None:
    parser = commands.add_parser("savepoint", help="keep where a job stands, until you delete it")
    add_job_name(parser)
    parser.add_argument(
        "--server",
        metavar="URL",
        help="ask the masters of a cluster, and not the data folder of this machine",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, out: TextIO) -> int:
    if args.server:
        wanted = json.dumps({"jobId": resolve_job_id(args.job, args.variable)})
        out.write(f"{ask(args, 'POST', '/savepoint-job', wanted)['path']}\n")
        return 0
    node = Node(args.data)
    savepoint = node.savepoint(resolve_job_id(args.job, args.variable))
    held = ", ".join(f"{id_}/{c.number}" for id_, c in sorted(savepoint.checkpoints.items()))
    out.write(f"{savepoint.path}\n")
    out.write(f"  holds checkpoint {held} of job {savepoint.job_id}\n")
    for checkpoint in savepoint.checkpoints.values():
        for at, said in checkpoint.said.items():
            out.write(f"  {at}: {said}\n")
    out.write(f"  go on from it: holdfast run … --restore path:{savepoint.path}\n")
    return 0
