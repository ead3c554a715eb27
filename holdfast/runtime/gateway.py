"""The JVM in which Spark runs, as a child process with its own log, and PySpark's connection to it."""

from __future__ import annotations

import os
import shutil
import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.outside.processes import Running, launch
from holdfast.runtime.java import base_flags, find_java

if TYPE_CHECKING:
    from holdfast.runtime.session import SparkSettings

START_TIMEOUT_MS = 120_000
STOP_GRACE_MS = 10_000
_LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {folder}/spark.log
appender.file.filePattern = {folder}/spark.%i.log
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d %p %c: %m%n%ex
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 10MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 1
"""
_environment_lock = threading.Lock()


class Gateway:
    """A running JVM and the way to call into it."""

    def __init__(self, process: Running, py4j: Any, scratch: Path) -> None:
        self._process = process
        self.py4j = py4j
        self._scratch = scratch

    def stop(self) -> None:
        """End the JVM. Its Python workers see the end of their pipes and end too."""
        from pyspark import SparkContext

        self.py4j.shutdown()
        if SparkContext._gateway is self.py4j:
            SparkContext._gateway = None
            SparkContext._jvm = None
        self._process.end(grace_ms=STOP_GRACE_MS, ask=None)
        shutil.rmtree(self._scratch, ignore_errors=True)


def start_gateway(settings: SparkSettings, scratch: Path) -> Gateway:
    """Launch the JVM and connect."""
    told = scratch / "gateway"
    log4j = scratch / "log4j2.properties"
    log4j.write_text(_LOG4J.format(folder=scratch))
    process = launch(
        _command(settings, log4j, scratch),
        log=scratch / "jvm.log",
        environment={
            "_PYSPARK_DRIVER_CONN_INFO_PATH": str(told),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
    )
    try:
        process.wait_for_file(told, timeout_ms=START_TIMEOUT_MS)
        py4j = _connect(told)
    except BaseException:
        process.end(grace_ms=0, ask=None)
        raise
    return Gateway(process, py4j, scratch)


def _command(settings: SparkSettings, log4j: Path, scratch: Path) -> list[str]:
    import pyspark

    java = find_java(os.environ)
    jars = sorted((Path(pyspark.__file__).parent / "jars").glob("*.jar"))
    classes = os.pathsep.join(str(jar) for jar in (*jars, *map(Path, settings.jars)))
    return [
        str(java.program),
        *base_flags(settings.driver_memory),
        f"-Djava.io.tmpdir={scratch}",
        f"-Dlog4j2.configurationFile={log4j}",
        "-cp",
        classes,
        "org.apache.spark.deploy.SparkSubmit",
        "pyspark-shell",
    ]


def _connect(told: Path) -> Any:
    """PySpark's own connection, made to a JVM that runs already: port and secret go by its environment variables."""
    from pyspark.java_gateway import launch_gateway

    content = told.read_bytes()
    port, size = struct.unpack(">ii", content[:8])
    secret = content[8 : 8 + size].decode()
    told.unlink()
    with _environment(PYSPARK_GATEWAY_PORT=str(port), PYSPARK_GATEWAY_SECRET=secret):
        return launch_gateway()  # type: ignore[no-untyped-call]


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    """Set for a moment only: children that are started later must not see the secret."""
    with _environment_lock:
        os.environ.update(values)
        os.environ["PYSPARK_PYTHON"] = sys.executable
        try:
            yield
        finally:
            for name in values:
                os.environ.pop(name, None)
