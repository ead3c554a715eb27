"""`holdfast server` and `holdfast worker`: the processes of a cluster."""

from __future__ import annotations

import argparse
from typing import Any, TextIO

from holdfast.cli.client import parse_urls
from holdfast.cli.job_file import parse_pairs
from holdfast.cli.numbers import at_least
from holdfast.decide.world import Limits
from holdfast.model.errors import ConfigError

LEASE_TTL_MS = 2_000
LIMITS = Limits()
TAKEOVER_MS = 1_000
"""What a takeover may last beyond the lease of the leader that is gone."""
_EVERYWHERE = ("0.0.0.0", "::", "")


def add_parser(commands: Any) -> None:
    server = commands.add_parser("server", help="run a master with its API, and a worker beside it")
    server.add_argument("--host", default="127.0.0.1", help="address to listen on")
    server.add_argument(
        "--port", type=at_least(0), default=8080, help="port of the API; 0: any free one"
    )
    server.add_argument("--advertise", metavar="URL", help="the url under which others reach it")
    server.add_argument(
        "--state",
        metavar="URL",
        help="the state store: postgresql://… for several masters (default: SQLite in the data folder)",
    )
    server.add_argument(
        "--job-schedule-strategy",
        choices=("REJECT", "WAIT"),
        default="REJECT",
        help="what becomes of a job for which there is no room",
    )
    server.add_argument(
        "--context-path", metavar="PATH", default="", help="what all paths of the API begin with"
    )
    server.add_argument(
        "--history-job-expire-minutes",
        type=at_least(1),
        default=LIMITS.history_expire_ms // 60_000,
        metavar="N",
        help="so long is what a job was kept after its end (default: %(default)s)",
    )
    server.add_argument(
        "--state-cleanup-delay-ms",
        type=at_least(0),
        default=LIMITS.cleanup_delay_ms,
        metavar="N",
        help="so long after its end a job's leftovers stay, and its id with them (default: %(default)s)",
    )
    server.add_argument(
        "--lease-ms",
        type=at_least(500),
        default=LEASE_TTL_MS,
        metavar="N",
        help="a leader that is silent for so long is replaced (default: %(default)s)",
    )
    server.add_argument(
        "--worker-lease-ms",
        type=at_least(1_000),
        default=LIMITS.worker_lease_ms,
        metavar="N",
        help="a worker that is silent for so long is given up (default: %(default)s)",
    )
    server.add_argument("--no-worker", action="store_true", help="run the master alone")
    _add_worker_arguments(server)
    server.set_defaults(run=run_server_command)
    worker = commands.add_parser("worker", help="run a worker for the masters of a cluster")
    worker.add_argument("--masters", required=True, metavar="URL,URL", help="where the masters are")
    _add_worker_arguments(worker)
    worker.set_defaults(run=run_worker_command)


def _add_worker_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--slots",
        type=at_least(1),
        metavar="N",
        help="attempts at a time (default: as many as asked)",
    )
    parser.add_argument(
        "--tag", action="append", default=[], metavar="NAME=VALUE", help="a tag of the worker"
    )
    parser.add_argument(
        "--spark", action="append", default=[], metavar="NAME=VALUE", help="a setting of Spark"
    )


def run_server_command(args: argparse.Namespace, out: TextIO) -> int:
    from holdfast.cluster import ServerConfig, run_server
    from holdfast.model.jobs import ScheduleStrategy

    if args.worker_lease_ms < args.lease_ms + TAKEOVER_MS:
        raise ConfigError(
            f"Cannot run with --worker-lease-ms {args.worker_lease_ms}: workers would give up before another master"
            f" leads. Expected at least --lease-ms and {TAKEOVER_MS} more: {args.lease_ms + TAKEOVER_MS}."
        )
    if args.advertise is None and args.host in _EVERYWHERE and _is_shared(args.state):
        raise ConfigError(
            f"Cannot run one of several masters at {args.host}: others cannot reach it by that. Name the url under"
            " which they do by --advertise."
        )
    run_server(
        args.data,
        ServerConfig(
            host=args.host,
            port=args.port,
            advertise=args.advertise,
            state=args.state,
            strategy=ScheduleStrategy(args.job_schedule_strategy),
            context_path=_context_path(args.context_path),
            lease_ttl_ms=args.lease_ms,
            limits=Limits(
                worker_lease_ms=args.worker_lease_ms,
                cleanup_delay_ms=args.state_cleanup_delay_ms,
                history_expire_ms=args.history_job_expire_minutes * 60_000,
            ),
            worker=None if args.no_worker else _worker_config(args, ()),
        ),
    )
    return 0


def _is_shared(state: str | None) -> bool:
    return state is not None and not state.startswith("sqlite:")


def _context_path(given: str) -> str:
    path = given.strip("/")
    return f"/{path}" if path else ""


def run_worker_command(args: argparse.Namespace, out: TextIO) -> int:
    from holdfast.cluster import run_worker

    masters = parse_urls(args.masters, "--masters")
    run_worker(args.data, _worker_config(args, masters))
    return 0


def _worker_config(args: argparse.Namespace, masters: tuple[str, ...]) -> Any:
    from holdfast.cluster import WorkerConfig

    return WorkerConfig(
        masters=masters,
        slots=args.slots,
        tags=parse_pairs(args.tag, "--tag "),
        spark=parse_pairs(args.spark, "--spark "),
    )
