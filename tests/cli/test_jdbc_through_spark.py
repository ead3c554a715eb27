"""Jobs over databases that only a JDBC driver speaks to, as real processes, on Apache Derby in a folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.model.errors import ExitCode
from holdfast.outside.clock import RealClock
from tests.cli.processes import Shell

pytestmark = pytest.mark.spark
ROWS = 24_000
DRIVER = "org.apache.derby.iapi.jdbc.AutoloadedDriver"


# A killed process leaves its JVM behind for a moment, and Derby lets one JVM in at a time: hence the retries.


def derby(folder: Path, more: str, *, jdbc: str = "") -> str:
    return f'Jdbc {{ url = "jdbc:derby:{folder}/db{jdbc}", driver = "{DRIVER}", {more} }}'


def job(job_id: str, source: str, sink: str, *, env: str = "") -> str:
    return f"""
        env {{ job.mode = BATCH, job.id = {job_id}, job.retry.times = 10, job.retry.interval.seconds = 1, {env} }}
        source {{ {source} }}
        transform {{ Sql {{ query = "select *, id * 2 as twice from it" }} }}
        sink {{ {sink} }}
    """


def fill(shell: Shell) -> None:
    source = f"""FakeSource {{ plugin_output = it, row.num = {ROWS}, split.num = 4, bigint.max = 1000000000,
        schema {{ columns = [{{ name = id, type = bigint }}, {{ name = name, type = string }}] }} }}"""
    sink = derby(shell.folder, "generate_sink_sql = true, table = orders", jdbc=";create=true")
    shell.write(f"env {{ job.mode = BATCH }} source {{ {source} }} sink {{ {sink} }}")
    ended = shell.run("run", "job.conf")
    assert ended.code == 0, ended.err


def newest(shell: Shell) -> int:
    chain = shell.data / "checkpoints" / "copy" / "1"
    return max((int(child.name) for child in chain.glob("[0-9]*")), default=0)


@pytest.mark.slow
def test_a_copy_that_is_killed_holds_each_row_once(shell: Shell) -> None:
    fill(shell)
    source = derby(shell.folder, "plugin_output = it, table_path = orders, split.size = 1000,"
                   " partition_column = id")  # fmt: skip
    sink = derby(shell.folder, "generate_sink_sql = true, table = copy")
    shell.write(job("copy", source, sink, env=f"read_limit.rows_per_second = {ROWS // 8}"))
    live = shell.start("run", "job.conf")
    while newest(shell) < 3 and live.process.poll() is None:
        RealClock().wait(20)
    live.process.kill()
    assert live.end().code != 0

    shell.write(job("copy", source, sink))
    ended = shell.run("run", "job.conf")

    assert ended.code == 0, ended.err
    assert "goes on from checkpoint" in ended.err
    sums = 'count(*) c, sum(t."twice") - 2 * sum(t."id") d'
    asked = json.dumps(f'select {sums} from "copy" t')
    shell.write(
        "env { job.mode = BATCH, job.id = ask }"
        f"source {{ {derby(shell.folder, f'query = {asked}')} }} sink {{ Console {{}} }}"
    )
    assert shell.run("run", "job.conf").rows == [f"{ROWS}, 0"]


def test_a_jar_that_is_not_there_is_found_by_check(shell: Shell) -> None:
    source = derby(shell.folder, "plugin_output = it, table_path = t")
    shell.write(job("it", source, "Console {}", env='jars = "/gone/driver.jar"'))

    checked = shell.run("check", "job.conf")

    assert checked.code == ExitCode.CONFIG_ERROR
    assert "job.conf:2: env: jars: there is no file /gone/driver.jar on this machine" in checked.out
