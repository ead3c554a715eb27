"""Commands that ask a running cluster: submit, stop, jobs, show. Each a thin caller of the API."""

from __future__ import annotations

import argparse
import json
import os
from contextlib import suppress
from typing import Any, TextIO
from urllib.parse import quote, urlencode

from holdfast.cli.job_file import parse_variables, read_whole_text
from holdfast.cli.numbers import at_least
from holdfast.model.errors import ConfigError, ExitCode, Transient
from holdfast.model.json import JsonObject
from holdfast.outside.clock import RealClock
from holdfast.outside.ids import new_id
from holdfast.outside.network import NoAnswer, call_api

SERVER_DEFAULT = "http://127.0.0.1:8080"
LOOK_EVERY_MS = 500
LEADERLESS_MS = 8_000
"""So long a command waits for a leader: several times what a takeover lasts."""
SILENT_MS = 5_000
"""So long is a master waited for where another can be asked instead: a paused one takes calls and answers none."""
POLICIES = ("fail", "previous", "fresh", "latest")
_ENDED = {
    "FINISHED": ExitCode.FINISHED,
    "FAILED": ExitCode.FAILED,
    "CANCELED": ExitCode.CANCELED,
    "SAVEPOINT_DONE": ExitCode.STOPPED,
    "UNKNOWABLE": ExitCode.FAILED,
}


class NoSuchJobThere(ConfigError):
    """A cluster was asked about a job that it does not know."""

    code = "no-such-job-there"


class Refused(ConfigError):
    """The cluster answered that it will not do this."""

    code = "refused"


def add_parser(commands: Any) -> None:
    submit = commands.add_parser("submit", help="hand a job to a cluster")
    submit.add_argument("job", help="the job file (.conf, .json, .sql)")
    submit.add_argument(
        "-i",
        "--variable",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a variable of the job file",
    )
    submit.add_argument(
        "--job-id", help="names the job (default: job.id in env, else from the file's path)"
    )
    submit.add_argument("--name", help="the job's name")
    submit.add_argument(
        "--restore",
        metavar="FROM",
        help="auto, latest, savepoint, checkpoint:<id>, path:<savepoint> or none (default: as its env says, else auto)",
    )
    submit.add_argument("--on-missing", choices=POLICIES, help="when a kept position is gone")
    submit.add_argument("--on-incompatible", choices=POLICIES, help="when the job has changed")
    submit.add_argument(
        "--submission",
        metavar="NAME",
        help="names this request: the same again is the same job, for schedulers that repeat what got no answer",
    )
    submit.add_argument("--wait", action="store_true", help="wait for its end; exit code as of run")
    submit.set_defaults(run=submit_job)
    stop = commands.add_parser("stop", help="end a job of a cluster")
    stop.add_argument("job_id")
    stop.add_argument("--savepoint", action="store_true", help="after its epoch, with a savepoint")
    stop.add_argument("--force", action="store_true", help="wait for nobody")
    stop.set_defaults(run=stop_job)
    jobs = commands.add_parser("jobs", help="list the jobs of a cluster")
    jobs.add_argument("--finished", action="store_true", help="those that have ended")
    jobs.add_argument(
        "--rows", type=at_least(1), default=100, help="at most so many (default: 100)"
    )
    jobs.add_argument("--json", action="store_true", help="print JSON")
    jobs.set_defaults(run=list_jobs)
    show = commands.add_parser("show", help="one job of a cluster, whole")
    show.add_argument("job_id")
    show.set_defaults(run=show_job)
    for parser in (submit, stop, jobs, show):
        add_server(parser)


def add_server(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--server",
        metavar="URL",
        default=os.environ.get("HOLDFAST_SERVER", SERVER_DEFAULT),
        help=f"a master's url, or several with commas (HOLDFAST_SERVER; default {SERVER_DEFAULT})",
    )


def parse_urls(given: str, option: str) -> tuple[str, ...]:
    urls = tuple(url.strip().rstrip("/") for url in given.split(",") if url.strip())
    wrong = [url for url in urls if not url.startswith(("http://", "https://"))]
    if wrong or not urls:
        found = f"found {wrong[0]!r}" if wrong else "found none"
        raise ConfigError(
            f"Cannot read {option}: expected http://host:port, or several with commas, {found}."
        )
    return urls


def submit_job(args: argparse.Namespace, out: TextIO) -> int:
    from pathlib import Path

    path = Path(args.job)
    query = {
        "format": {"json": "json", "sql": "sql"}.get(path.suffix.removeprefix("."), "hocon"),
        # The same submission again is no second one: a lost answer can be asked for again.
        "submission": args.submission or new_id(),
        "jobName": args.name or "",
        "jobId": args.job_id or "",
        "jobFile": str(path.resolve()),
        "restore": args.restore or "",
        "onMissing": args.on_missing or "",
        "onIncompatible": args.on_incompatible or "",
    }
    query |= {f"variable.{k}": v for k, v in parse_variables(args.variable).items()}
    text = read_whole_text(path)
    given = {name: value for name, value in query.items() if value}
    found = ask(args, "POST", f"/submit-job?{urlencode(given)}", text)
    out.write(f"{found['jobId']}\n")
    return _wait(args, str(found["jobId"]), out) if args.wait else 0


def _wait(args: argparse.Namespace, job_id: str, out: TextIO) -> int:
    clock = RealClock()
    while True:
        try:
            found = ask(args, "GET", f"/job-info/{quote(job_id, safe='')}")
        except Transient:
            clock.wait(LOOK_EVERY_MS)
            continue
        if not found.get("jobId"):
            raise NoSuchJobThere(
                f"Cannot wait for job {job_id}: the cluster does not know it any more. Its state store was lost, or its"
                " history has expired; submit it again, and it goes on from its newest checkpoint."
            )
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
    found = ask(args, "POST", "/stop-job", json.dumps(wanted))
    out.write(f"{found['jobId']}\n")
    return 0


def list_jobs(args: argparse.Namespace, out: TextIO) -> int:
    kind = "finished-jobs" if args.finished else "running-jobs"
    found = listed(ask(args, "GET", f"/{kind}?rows={args.rows}"))
    if args.json:
        out.write(json.dumps(found, indent=2) + "\n")
        return 0
    for job in found:
        line = f"{job['jobId']}  {job['jobStatus']}  {job['jobName']}  {_told_of(job)}"
        out.write(line.rstrip() + "\n")
    return 0


def _told_of(job: dict[str, Any]) -> str:
    """Why it ended, or how its pipelines are; what is not as it should be with its reason."""
    if job["errorMsg"]:
        return str(job["errorMsg"])
    return " ".join(
        f"{p['pipelineId']}:{p['pipelineStatus']}" + (f" ({p['reason']})" if p["reason"] else "")
        for p in job["pipelines"]
    )


def show_job(args: argparse.Namespace, out: TextIO) -> int:
    found = ask(args, "GET", f"/job-info/{quote(args.job_id, safe='')}")
    if not found.get("jobId"):
        raise NoSuchJobThere(
            f"Cannot show job {args.job_id}: the cluster knows none of that id. `holdfast jobs` lists what lives,"
            " `holdfast jobs --finished` what has ended."
        )
    out.write(json.dumps(found, indent=2) + "\n")
    return 0


def listed(found: dict[str, Any]) -> list[dict[str, Any]]:
    items = found.get("found")
    return items if isinstance(items, list) else []


def ask(args: argparse.Namespace, method: str, target: str, body: str = "") -> dict[str, Any]:
    """Of the first master that answers. While none leads it is asked again for a while, counted from when that was
    told first: to be told may take long where a paused leader was asked.
    """
    clock = RealClock()
    until_ms: float | None = None
    while True:
        status, found = _ask_once(args, method, target, body)
        until_ms = until_ms or clock.elapsed_ms() + LEADERLESS_MS
        if status == 503 and clock.elapsed_ms() < until_ms:
            clock.wait(LOOK_EVERY_MS)
            continue
        said = str(found.get("message", f"the cluster answered {status}"))
        if status == 503:
            raise Transient(said)
        if status >= 400:
            raise Refused(said)
        return dict(found)


def _ask_once(
    args: argparse.Namespace, method: str, target: str, body: str
) -> tuple[int, JsonObject]:
    *others, last = parse_urls(args.server, "--server")
    for url in others:
        with suppress(NoAnswer):
            return call_api(method, url, target, body.encode(), timeout_ms=SILENT_MS)
    return call_api(method, last, target, body.encode())
