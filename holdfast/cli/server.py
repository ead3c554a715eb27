"""`holdfast server` and `holdfast worker`: the processes of a cluster."""

from __future__ import annotations

import argparse
from typing import Any, TextIO

from holdfast.model.errors import ConfigError


def add_parser(commands: Any) -> None:
    server = commands.add_parser("server", help="run a master with its API, and a worker beside it")
    server.add_argument("--host", default="127.0.0.1", help="address to listen on")
    server.add_argument("--port", type=int, default=8080, help="port of the API; 0: any free one")
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
    server.add_argument("--no-worker", action="store_true", help="run the master alone")
    _add_worker_arguments(server)
    server.set_defaults(run=run_server_command)
    worker = commands.add_parser("worker", help="run a worker for the masters of a cluster")
    worker.add_argument("--masters", required=True, metavar="URL,URL", help="where the masters are")
    _add_worker_arguments(worker)
    worker.set_defaults(run=run_worker_command)


def _add_worker_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--slots", type=int, help="attempts at a time (default: as many as asked)")
    parser.add_argument(
        "--tag", action="append", default=[], metavar="NAME=VALUE", help="a tag of the worker"
    )
    parser.add_argument(
        "--spark", action="append", default=[], metavar="NAME=VALUE", help="a setting of Spark"
    )


def run_server_command(args: argparse.Namespace, out: TextIO) -> int:
    from holdfast.cluster import ServerConfig, run_server
    from holdfast.model.jobs import ScheduleStrategy

    run_server(
        args.data,
        ServerConfig(
            host=args.host,
            port=args.port,
            advertise=args.advertise,
            state=args.state,
            strategy=ScheduleStrategy(args.job_schedule_strategy),
            worker=None if args.no_worker else _worker_config(args, ()),
        ),
    )
    return 0


def run_worker_command(args: argparse.Namespace, out: TextIO) -> int:
    from holdfast.cluster import run_worker

    masters = tuple(url.strip() for url in args.masters.split(",") if url.strip())
    run_worker(args.data, _worker_config(args, masters))
    return 0


def _worker_config(args: argparse.Namespace, masters: tuple[str, ...]) -> Any:
    from holdfast.cluster import WorkerConfig

    return WorkerConfig(
        masters=masters, slots=args.slots, tags=_pairs(args.tag), spark=_pairs(args.spark)
    )


def _pairs(given: list[str]) -> dict[str, str]:
    found = {}
    for item in given:
        name, equals, value = item.partition("=")
        if not equals or not name:
            raise ConfigError(f"Cannot read {item!r}: expected NAME=VALUE.")
        found[name] = value
    return found
