"""The JVM in which Spark runs, as a child process with its own log, and PySpark's connection to it."""

from __future__ import annotations

import os
import shutil
import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.outside.processes import launch
from holdfast.runtime.archive import locate_archive
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
UTC = "-Duser.timezone=UTC"
"""JDBC drivers take a wall clock time for one of the JVM's zone: in one with summer time some would not exist."""
_environment_lock = threading.Lock()


class Gateway:
    """A JVM of ours: launched at once, connected to when it is ready, ended with all it holds."""

    def __init__(self, settings: SparkSettings, scratch: Path) -> None:
        java, jars = find_java(os.environ), _spark_jars()
        self._scratch = scratch
        self._told = scratch / "gateway"
        self._archive = locate_archive(java, jars, settings.cache_folder)
        flags = [*base_flags(settings.memory), *self._archive.flags(scratch), *settings.java_flags]
        self._process = launch(
            [str(java.program), *flags, *_arguments(settings, jars, scratch)],
            log=scratch / "jvm.log",
            environment={
                "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._told),
                "PYSPARK_PYTHON": sys.executable,
                "SPARK_LOCAL_IP": "127.0.0.1",
            },
        )
        self._py4j: Any = None

    def connect(self) -> Any:
        """Py4J's gateway, once the JVM is up."""
        _import_meanwhile()
        self._process.wait_for_file(self._told, timeout_ms=START_TIMEOUT_MS)
        self._py4j = _connect(self._told)
        return self._py4j

    @property
    def is_alive(self) -> bool:
        return self._process.is_alive

    def kill(self) -> None:
        """End the JVM at once, whatever it is at. `stop` still has to follow."""
        self._process.end(grace_ms=0, ask=None)

    def stop(self) -> None:
        """End the JVM. Its Python workers see the end of their pipes and end too."""
        from pyspark import SparkContext

        if self._py4j is not None:
            self._py4j.shutdown()
            if SparkContext._gateway is self._py4j:
                SparkContext._gateway = None
                SparkContext._jvm = None
        self._process.end(grace_ms=STOP_GRACE_MS if self._py4j is not None else 0, ask=None)
        if self._py4j is not None:
            self._archive.build_if_missing(self._scratch)
        shutil.rmtree(self._scratch, ignore_errors=True)


def _spark_jars() -> list[Path]:
    """In a fixed order: an archive fits one order only."""
    found = find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    return sorted((Path(found.origin).parent / "jars").glob("*.jar"))


def _arguments(settings: SparkSettings, jars: list[Path], scratch: Path) -> list[str]:
    log4j = scratch / "log4j2.properties"
    log4j.write_text(_LOG4J.format(folder=scratch))
    resolved = [item for item in settings.conf.items() if item[0].startswith("spark.jars")]
    return [
        f"-Djava.io.tmpdir={scratch}",
        UTC,
        f"-Dlog4j2.configurationFile={log4j}",
        "-cp",
        os.pathsep.join([*map(str, jars), *settings.jars]),
        "org.apache.spark.deploy.SparkSubmit",
        *(text for key, value in resolved for text in ("--conf", f"{key}={value}")),
        "pyspark-shell",
    ]


def _import_meanwhile() -> None:
    """What takes Python a second to import, while the JVM boots."""
    import_module("pyspark.sql")
    import_module("pyspark.sql.pandas.conversion")
    import_module("pandas")


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
