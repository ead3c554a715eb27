"""Commands that ask a running cluster: submit, stop, jobs, show. Each a thin caller of the API."""

from __future__ import annotations

import argparse
import json
import os
from typing import Any, TextIO
from urllib.parse import urlencode

from holdfast.cli.job_file import parse_variables, read_whole_text
from holdfast.model.errors import ConfigError, ExitCode, Transient
from holdfast.outside.clock import RealClock
from holdfast.outside.ids import new_id
from holdfast.outside.network import call_api

SERVER_DEFAULT = "http://127.0.0.1:8080"
LOOK_EVERY_MS = 500
_ENDED = {
    "FINISHED": ExitCode.FINISHED,
    "FAILED": ExitCode.FAILED,
    "CANCELED": ExitCode.CANCELED,
    "SAVEPOINT_DONE": ExitCode.STOPPED,
    "UNKNOWABLE": ExitCode.FAILED,
}


class Refused(ConfigError):
    """The cluster answered that it will not do this."""

    code = "refused"


def add_parser(commands: Any) -> None:
    submit = commands.add_parser("submit", help="hand a job to a cluster")
    submit.add_argument("job", help="the job file (.conf, .json, .sql)")
    submit.add_argument("-i", "--variable", action="append", default=[], metavar="NAME=VALUE")
    submit.add_argument(
        "--job-id", help="names the job (default: job.id in env, else from the file's path)"
    )
    submit.add_argument("--name")
    submit.add_argument("--restore", metavar="FROM")
    submit.add_argument("--wait", action="store_true", help="wait for its end; exit code as of run")
    submit.set_defaults(run=submit_job)
    stop = commands.add_parser("stop", help="end a job of a cluster")
    stop.add_argument("job_id")
    stop.add_argument("--savepoint", action="store_true", help="after its epoch, with a savepoint")
    stop.add_argument("--force", action="store_true", help="wait for nobody")
    stop.set_defaults(run=stop_job)
    jobs = commands.add_parser("jobs", help="list the jobs of a cluster")
    jobs.add_argument("--finished", action="store_true", help="those that have ended")
    jobs.set_defaults(run=list_jobs)
    show = commands.add_parser("show", help="one job of a cluster, whole")
    show.add_argument("job_id")
    show.set_defaults(run=show_job)
    for parser in (submit, stop, jobs, show):
        parser.add_argument(
            "--server",
            default=os.environ.get("HOLDFAST_SERVER", SERVER_DEFAULT),
            help=f"a master's url (HOLDFAST_SERVER; default {SERVER_DEFAULT})",
        )


def submit_job(args: argparse.Namespace, out: TextIO) -> int:
    from pathlib import Path

    path = Path(args.job)
    query = {
        "format": {"json": "json", "sql": "sql"}.get(path.suffix.removeprefix("."), "hocon"),
        # The same submission again is no second one: a lost answer can be asked for again.
        "submission": new_id(),
        "jobName": args.name or "",
        "jobId": args.job_id or "",
        "jobFile": str(path.resolve()),
        "restore": args.restore or "",
    }
    query |= {f"variable.{k}": v for k, v in parse_variables(args.variable).items()}
    text = read_whole_text(path)
    given = {name: value for name, value in query.items() if value}
    found = _ask(args, "POST", f"/submit-job?{urlencode(given)}", text)
    out.write(f"{found['jobId']}\n")
    return _wait(args, str(found["jobId"]), out) if args.wait else 0


def _wait(args: argparse.Namespace, job_id: str, out: TextIO) -> int:
    clock = RealClock()
    while True:
        try:
            found = _ask(args, "GET", f"/job-info/{job_id}")
        except Transient:
            clock.wait(LOOK_EVERY_MS)
            continue
        status = str(found.get("jobStatus"))
        if status in _ENDED:
            reason = found.get("errorMsg")
            out.write(f"{status}{f': {reason}' if reason else ''}\n")
            return int(_ENDED[status])
        clock.wait(LOOK_EVERY_MS)


def stop_job(args: argparse.Namespace, out: TextIO) -> int:
    wanted = {
        "jobId": args.job_id,
        "isStopWithSavePoint": args.savepoint,
        "force": args.force,
    }
    found = _ask(args, "POST", "/stop-job", json.dumps(wanted))
    out.write(f"{found['jobId']}\n")
    return 0


def list_jobs(args: argparse.Namespace, out: TextIO) -> int:
    found = _ask(args, "GET", "/finished-jobs" if args.finished else "/running-jobs")
    for job in found["found"] if isinstance(found.get("found"), list) else []:
        pipelines = " ".join(
            f"{p['pipelineId']}:{p['pipelineStatus']}" for p in job.get("pipelines", [])
        )
        line = f"{job['jobId']}  {job['jobStatus']}  {job['jobName']}  {pipelines}"
        out.write(line.rstrip() + "\n")
    return 0


def show_job(args: argparse.Namespace, out: TextIO) -> int:
    found = _ask(args, "GET", f"/job-info/{args.job_id}")
    out.write(json.dumps(found, indent=2) + "\n")
    return 0 if found.get("jobId") else int(ExitCode.USAGE)


def _ask(args: argparse.Namespace, method: str, target: str, body: str = "") -> dict[str, Any]:
    status, found = call_api(method, args.server, target, body.encode())
    if status == 503:
        raise Transient(str(found.get("message", f"the cluster answered {status}")))
    if status >= 400:
        raise Refused(str(found.get("message", f"the cluster answered {status}")))
    return dict(found)
