"""`holdfast restore plan`: what a restore would do, and what would then hold. Writes nothing."""

from __future__ import annotations

import argparse
import json
from typing import Any, TextIO

from holdfast.cli.job_file import (
    add_job_arguments,
    add_restore_arguments,
    read_job_file,
    read_request,
)
from holdfast.model.errors import ExitCode
from holdfast.model.restore import RestoreReport
from holdfast.node import Node
from holdfast.runtime.restore import RestoreStopped


def add_parser(commands: Any) -> None:
    parser = commands.add_parser("restore", help="look at what a restore would do")
    kinds = parser.add_subparsers(dest="restore_command", required=True, metavar="COMMAND")
    plan = kinds.add_parser("plan", help="print the restore report without acting")
    add_job_arguments(plan)
    add_restore_arguments(plan)
    plan.add_argument("--json", action="store_true", help="print it as JSON")
    plan.set_defaults(run=run)


def run(args: argparse.Namespace, out: TextIO) -> int:
    node = Node(args.data)
    job = read_job_file(args, node.catalog)
    request = read_request(args, job.spec)
    refused: RestoreReport | None = None
    try:
        reports = [s.report for s in node.plan_restore(job.job_id, job.spec, request)]
    except RestoreStopped as stopped:
        refused = stopped.report
        reports = [stopped.report]
    if args.json:
        out.write(json.dumps([report.to_json() for report in reports], indent=2) + "\n")
    else:
        out.write("\n".join(line for report in reports for line in report.lines()) + "\n")
    return int(ExitCode.RESTORE_REFUSED if refused else ExitCode.FINISHED)
