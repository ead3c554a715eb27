"""How long an epoch of 1000 rows takes, end to end, when the path is warm."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from statistics import median, quantiles

from bench.figures import Figure, Ground
from holdfast.decide.restore import RestoreRequest
from holdfast.node import Node
from holdfast.runtime.stop import StopLevel, StopSignal
from holdfast.runtime.watch import EpochCommitted, NoWatch
from holdfast.spec.parse import parse_job

EPOCHS = 60
WARM_UP = 20
COLUMNS = "id = bigint, name = string, amount = double"


class _Stopwatch(NoWatch):
    """Stops the job when it has seen enough epochs with rows."""

    def __init__(self, stop: StopSignal) -> None:
        self._stop = stop
        self.took_ms: list[float] = []

    def committed(self, event: EpochCommitted) -> None:
        if event.took_ms > 0:
            self.took_ms.append(event.took_ms)
        if len(self.took_ms) >= EPOCHS:
            self._stop.ask(StopLevel.AFTER_EPOCH)


def latency_of_epochs(ground: Ground) -> Iterator[Figure]:
    """Plan to publish, by the loop's own clock, into PostgreSQL."""
    ground.postgres.execute(
        "DROP TABLE IF EXISTS small", "CREATE TABLE small (id bigint, name text, amount float8)"
    )
    fresh = {
        "plain": "",
        "Sql": 'transform { Sql { query = "select id, upper(name) as name, amount from rows" } }',
    }
    for name, transform in fresh.items():
        for exactly_once in (False, True):
            took = _epochs(ground, transform, exactly_once)
            said = "exactly-once" if exactly_once else "at-least-once"
            p50, p99 = median(took), quantiles(took, n=100)[98]
            yield Figure(f"1000 rows, {name}, {said}", f"p50 {p50:.0f} ms, p99 {p99:.0f} ms")


def _epochs(ground: Ground, transform: str, exactly_once: bool) -> list[float]:
    database = ground.postgres
    text = f"""env {{ job.mode = STREAMING, checkpoint.interval = 60000 }}
    source {{ FakeSource {{ plugin_output = rows, row.num = 1000, split.num = 1,
        split.read-interval = 1, schema {{ fields {{ {COLUMNS} }} }} }} }}
    {transform}
    sink {{ Jdbc {{
        url = "{database.url()}", driver = "org.postgresql.Driver"
        user = "{database.user}", password = "{database.password}"
        generate_sink_sql = true, database = "{database.database}", table = "public.small"
        is_exactly_once = {str(exactly_once).lower()}
    }} }}"""
    node = Node(ground.folder / "latency")
    parsed = parse_job(text, name="latency.conf", variables={}, catalog=node.catalog)
    assert parsed.spec is not None, parsed.problems
    stop = StopSignal()
    watch = _Stopwatch(stop)
    guard = threading.Timer(120, lambda: stop.ask(StopLevel.NOW))
    guard.start()
    job_id = f"latency-{'sql' if transform else 'plain'}-{exactly_once}".lower()
    result = node.run(job_id, parsed.spec, RestoreRequest(), watch=watch, stop=stop)
    guard.cancel()
    assert result.error is None, result.error
    return watch.took_ms[WARM_UP:]
