"""`python -m bench [case …] [--rows N]`: runs the cases and prints one table."""

from __future__ import annotations

import argparse
import platform
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from bench import checkpoints, cluster, databases, epochs, files, restart, starts, state
from bench.figures import Figure, Ground
from holdfast.testing.servers import postgres_server

CASES = {
    "postgres": databases.postgres_to_postgres,
    "transform": databases.postgres_through_sql,
    "parquet": databases.postgres_to_parquet,
    "load": files.file_to_postgres,
    "fake": files.fake_to_console,
    "checkpoints": checkpoints.cost_of_checkpoints,
    "splits": checkpoints.size_of_checkpoint,
    "epochs": epochs.latency_of_epochs,
    "starts": starts.cold_and_warm_start,
    "restart": restart.kill_and_rerun,
    "failover": cluster.failover,
    "moved": cluster.moved,
    "idle": cluster.idle,
    "state": state.state,
}
SERVER = {
    "shared_buffers": "512MB",
    "max_wal_size": "8GB",
    "synchronous_commit": "off",
    "max_prepared_transactions": "64",
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("cases", nargs="*", help=f"of {', '.join(CASES)}; all if none is given")
    parser.add_argument("--rows", type=int, default=5_000_000, help="rows of the big table")
    args = parser.parse_args()
    unknown = [name for name in args.cases if name not in CASES]
    if unknown:
        parser.error(f"there is no case {unknown[0]}; cases are {', '.join(CASES)}")
    chosen = args.cases or list(CASES)
    print(f"{datetime.now(UTC):%Y-%m-%d}  {platform.platform()}  rows {args.rows:,}")
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder,
        postgres_server(SERVER) as postgres,
    ):
        ground = Ground(Path(folder), postgres, args.rows)
        for name in chosen:
            for figure in CASES[name](ground):
                show(name, figure)
    return 0


def show(case: str, figure: Figure) -> None:
    ratio = "" if figure.ratio is None else f"{figure.ratio:6.2f} x {figure.against}"
    print(f"{case:12} {figure.name:52} {figure.value:>22}  {ratio}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
