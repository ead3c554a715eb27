"""The one Spark session of a process: started at first need, shared by all pipelines, ended with everything it began.

We start the JVM ourselves. It reads the end of its stdin when this process dies, however it dies, and ends too. When it
dies alone, as what takes most memory may at any time, whoever needs Spark next starts another.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shlex
import signal
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.connectors.base import no_spark
from holdfast.model.errors import Canceled, ConfigError, HoldfastError, Transient
from holdfast.runtime.carried import carrying_errors
from holdfast.runtime.gateway import UTC, Gateway
from holdfast.runtime.jars import expect_jars, is_local, path_of
from holdfast.runtime.task_processes import TaskProcesses

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

W = TypeVar("W")
R = TypeVar("R")
_GROUP = "spark.jobGroup.id"
_GROUP_PROPERTIES = (_GROUP, "spark.job.description", "spark.job.interruptOnCancel")
_POOL = "spark.scheduler.pool"
_WRONG_VALUES = (
    "NumberFormatException",
    "IllegalArgumentException",
    "SparkIllegalArgumentException",
)


def default_cache_folder() -> Path:
    """Where what may be lost at any time is kept between runs."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "holdfast"


@dataclass(frozen=True)
class SparkSettings:
    """How to start Spark. `conf` is the job's own (`spark.*`) and has the last word."""

    master: str = "local[*]"
    app_name: str = "holdfast"
    conf: Mapping[str, str] = field(default_factory=dict)
    jars: tuple[str, ...] = ()
    cache_folder: Path = field(default_factory=default_cache_folder)
    scratch_folder: Path | None = None
    driver_memory: str = "1g"

    @property
    def memory(self) -> str:
        """Of the JVM's heap."""
        return self.conf.get("spark.driver.memory", self.driver_memory)

    @property
    def java_flags(self) -> list[str]:
        """The job's own, after ours."""
        return shlex.split(self.conf.get("spark.driver.extraJavaOptions", ""))


@dataclass
class _Thread(threading.local):
    """What this thread works for."""

    group: str | None = None
    applied: str | None = None
    applied_to: SparkSession | None = None


@dataclass(frozen=True, slots=True)
class SessionInDriver:
    """What connectors get to ask for the session. On executors, where it travels with them, there is none."""

    host: SparkHost
    jars: tuple[str, ...]

    def __call__(self) -> SparkSession:
        return self.host.session_with(self.jars)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_on_executor, ())


def _on_executor() -> Callable[[], SparkSession]:
    return no_spark


class SparkNotStarted(Transient):
    """The JVM is there, and Spark could not begin in it."""

    code = "spark-not-started"


class SparkHost:
    """Starts, shares and ends the session. All methods may be called from any thread."""

    def __init__(self, settings: SparkSettings) -> None:
        self._settings = settings
        self._start_lock = threading.Lock()
        """Held while the session starts, which takes seconds, and while it ends."""
        self._lock = threading.Lock()
        """Of the groups: whoever has work of his own need not wait for the start."""
        self._gateway: Gateway | None = None
        self._spark: SparkSession | None = None
        self._stopped = False
        self._thread = _Thread()
        self._numbers = itertools.count(1)
        self._open_groups: dict[str, set[str]] = {}
        self._canceled: set[str] = set()
        self.processes = TaskProcesses.of(settings.master)
        """Executors without Spark, where the master is local: who has no transforms need not wait for a JVM."""
        self._added_jars: set[str] = set()
        self._deaths = 0

    @property
    def deaths(self) -> int:
        """How often the JVM has died by itself, or been killed by others."""
        return self._deaths + self._is_dead

    @property
    def _is_dead(self) -> bool:
        gateway = self._gateway
        return self._spark is not None and gateway is not None and not gateway.is_alive

    def session(self) -> SparkSession:
        """The session, started if this is the first need of it."""
        with self._start_lock:
            self._forget_dead()
            if self._spark is None:
                self._start()
            spark = self._spark
            assert spark is not None
        self._apply_group(spark)
        return spark

    def session_with(self, jars: Sequence[str]) -> SparkSession:
        """The session, with more jars on the class path of this thread and of the executors."""
        spark = self.session()
        late = [jar for jar in jars if jar not in self._settings.jars]
        if late:
            inside: Any = spark
            loader = inside._jsparkSession.sharedState().jarClassLoader()
            with self._lock:
                self._add_jars(inside, loader, [jar for jar in late if jar not in self._added_jars])
            inside._jvm.java.lang.Thread.currentThread().setContextClassLoader(loader)
        return spark

    def _add_jars(self, inside: Any, loader: Any, jars: Sequence[str]) -> None:
        expect_jars(jars)
        for jar in jars:
            inside.sparkContext._jsc.addJar(jar)
            if is_local(jar):
                loader.addURL(inside._jvm.java.io.File(path_of(jar)).toURI().toURL())
            else:
                loader.addURL(inside._jvm.java.net.URI(jar).toURL())
            self._added_jars.add(jar)

    def begin(self) -> None:
        """Start the session in the background, with a first query: there is work for it, but not yet."""

        def start() -> None:
            # Whoever needs the session next meets the failure again, and tells it.
            with contextlib.suppress(Exception):
                self.warm_up()

        threading.Thread(target=start, name="spark-start", daemon=True).start()

    def warm_up(self) -> None:
        """Start the session and run a first query, which takes a second more than later ones."""
        import pyarrow as pa

        frame = self.session().createDataFrame(pa.table({"one": [1]}))
        frame.selectExpr("one + 1 AS two").toArrow()

    def run_tasks(self, run: Callable[[W, str], R], tasks: Sequence[W]) -> list[R]:
        """Run each task on an executor, in one Spark job. The second argument names the try."""
        if not tasks:
            return []
        from pyspark.cloudpickle import dumps, loads

        packed_run = dumps(run)  # type: ignore[no-untyped-call]
        packed = [dumps(task) for task in tasks]  # type: ignore[no-untyped-call]

        def run_partition(items: Iterable[bytes]) -> Iterable[bytes]:
            from pyspark import TaskContext

            context = TaskContext.get()
            assert context is not None
            with carrying_errors():
                for item in items:
                    done = loads(packed_run)(loads(item), str(context.taskAttemptId()))
                    yield dumps(done)  # type: ignore[no-untyped-call]

        spark = self.session()
        done = spark.sparkContext.parallelize(packed, len(packed)).mapPartitions(run_partition)
        return [loads(item) for item in done.collect()]

    @contextmanager
    def group(self, name: str) -> Iterator[None]:
        """Spark jobs of this thread, from here to the end of the block, belong to `name`."""
        outer = self._thread.group
        own = f"{name}#{next(self._numbers)}"
        with self._lock:
            self._open_groups.setdefault(name, set()).add(own)
        self._thread.group = own
        try:
            yield
        finally:
            self._thread.group = outer
            self._leave(name, own)

    def cancel(self, name: str) -> None:
        """End the jobs of all open groups of this name, those not yet begun included."""
        with self._lock:
            groups = sorted(self._open_groups.get(name, ()))
            self._canceled.update(groups)
        if self.processes:
            self.processes.cancel(name)
        spark = self._spark
        if spark is not None and not self._is_dead:
            context: Any = spark.sparkContext
            for group in groups:
                context._jsc.sc().cancelJobGroupAndFutureJobs(group)

    def stop(self) -> None:
        """End the session, the JVM and the Python workers, for good. Doing it twice is the same as once."""
        self._stopped = True
        if self.processes:
            self.processes.stop()
        starting = self._gateway
        if starting is not None and self._spark is None:
            starting.kill()
        with self._start_lock:
            spark, self._spark = self._spark, None
            gateway, self._gateway = self._gateway, None
        if spark is not None:
            _end_accumulators(spark.sparkContext)
            with contextlib.suppress(ConnectionError, OSError):
                spark.stop()
        if gateway is not None:
            gateway.stop()

    def _forget_dead(self) -> None:
        """What threads still do with the session of a dead JVM fails, and is told as its death."""
        gateway = self._gateway
        if not self._is_dead or gateway is None or self._stopped:
            return
        self._deaths += 1
        self._spark = self._gateway = None
        self._added_jars.clear()
        _forget_context()
        gateway.stop()

    def _start(self) -> None:
        if self._stopped:
            raise Canceled("Cannot start Spark: it was stopped.")
        expect_jars(self._settings.jars)
        scratch = self._scratch()
        gateway = self._gateway = Gateway(self._settings, scratch)
        from py4j.protocol import Py4JJavaError

        try:
            self._spark = self._open_session(gateway, scratch)
        except BaseException as error:
            # An error of Java's is put into words while the JVM is there to say them.
            told = _not_started(error) if isinstance(error, Py4JJavaError) else None
            self._gateway = None
            gateway.stop()
            if told is not None:
                raise told from None
            raise

    def _open_session(self, gateway: Gateway, scratch: Path) -> SparkSession:
        py4j = gateway.connect()
        _expect_sql_settings(py4j, self._settings.conf)
        from pyspark import SparkConf, SparkContext
        from pyspark.sql import SparkSession

        conf = SparkConf(loadDefaults=False).setAll(list(self._conf(scratch).items()))
        before = SparkContext._active_spark_context
        with _our_sigint():
            try:
                return SparkSession(SparkContext(conf=conf, gateway=py4j))
            except BaseException:
                # One of somebody else's, who refuses ours, is left alone.
                if SparkContext._active_spark_context is not before:
                    _forget_context()
                raise

    def _apply_group(self, spark: SparkSession) -> None:
        """Tell Spark what this thread works for, when it does not know yet."""
        group = self._thread.group
        if group in self._canceled:
            raise Canceled(f"Cannot go on with {_name_of(group)}: it was canceled.")
        if group == self._thread.applied and spark is self._thread.applied_to:
            return
        context = spark.sparkContext
        if group is None:
            for key in (*_GROUP_PROPERTIES, _POOL):
                context.setLocalProperty(key, None)  # type: ignore[arg-type]
        else:
            context.setJobGroup(group, _name_of(group), interruptOnCancel=True)
            context.setLocalProperty(_POOL, _name_of(group))
        self._thread.applied, self._thread.applied_to = group, spark

    def _leave(self, name: str, own: str) -> None:
        with self._lock:
            self._open_groups[name].discard(own)
            if not self._open_groups[name]:
                del self._open_groups[name]
            self._canceled.discard(own)
        spark = self._spark
        if spark is not None and self._thread.applied == own:
            self._apply_group(spark)

    def _scratch(self) -> Path:
        parent = self._settings.scratch_folder
        if parent is not None:
            parent.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix="holdfast-spark-", dir=parent))

    def _conf(self, scratch: Path) -> dict[str, str]:
        own = {
            "spark.master": self._settings.master,
            "spark.app.name": self._settings.app_name,
            "spark.local.dir": str(scratch),
            "spark.sql.warehouse.dir": str(scratch / "warehouse"),
            "spark.executor.extraJavaOptions": UTC,
            **_CONF,
        }
        if self._settings.jars:
            own["spark.jars"] = ",".join(self._settings.jars)
        return {**own, **self._settings.conf}


_CONF = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Kept even without a UI, in the driver's memory: little of it.
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "200",
    "spark.sql.ui.retainedExecutions": "10",
    "spark.scheduler.mode": "FAIR",
    "spark.locality.wait": "0",
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "holdfast.runtime.spark_daemon",
    # A worker that blocks in a read is killed so long after its job was canceled.
    "spark.python.task.killTimeout": "1s",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.session.timeZone": "UTC",
    # Arrow's timestamps without zone are Spark's TIMESTAMP_NTZ; with it, a plain TIMESTAMP in SQL is one too.
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    # The job file's type time: without it SQL knows neither casts to TIME nor its functions.
    "spark.sql.timeType.enabled": "true",
    # Java's upper and lower case, as SeaTunnel has them: ICU's look for the breaks of words and take ten times as long.
    "spark.sql.icu.caseMappings.enabled": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # The size of a batch is bounded by its rows alone: Spark would ask for its bytes anew with every row, which takes
    # as long as all else. Jobs with very wide rows may lower it.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16384",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.codegen.cache.maxEntries": "1000",
}


def _not_started(error: Any) -> HoldfastError:
    java = error.java_exception
    name = str(java.getClass().getSimpleName())
    said = str(java.getMessage() or "no reason was given").splitlines()[0]
    if name in _WRONG_VALUES:
        return ConfigError(
            f"Cannot start Spark: it cannot read a value among its settings ({said})."
            " Correct what begins with spark. in env."
        )
    return SparkNotStarted(
        f"Cannot start Spark: {name}: {said}. Check spark.master and what else begins with spark. in env."
    )


def _expect_sql_settings(py4j: Any, conf: Mapping[str, str]) -> None:
    """Spark itself would start with a value that it cannot read, and PySpark never comes to the end of telling that."""
    from py4j.protocol import Py4JJavaError

    given = {name: value for name, value in conf.items() if name.startswith("spark.sql.")}
    if not given:
        return
    read = py4j.jvm.org.apache.spark.sql.internal.SQLConf()
    for name, value in sorted(given.items()):
        try:
            read.setConfString(name, value)
        except Py4JJavaError as error:
            said = error.java_exception.getMessage()
            raise ConfigError(
                f"Cannot start Spark with {name} = '{value}': {said}. Correct it in env."
            ) from error


def _forget_context() -> None:
    """PySpark keeps the one context and session of a process, however far they came, and would refuse others beside
    those of a dead JVM. They are not stopped: that would ask the JVM.
    """
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    dead = SparkContext._active_spark_context
    if dead is not None:
        _end_accumulators(dead)
    SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None


def _end_accumulators(context: Any) -> None:
    """Not waited for: their server looks up once a second only, and nobody asks it any more. That the other side is
    gone is no news.
    """
    server, context._accumulatorServer = context._accumulatorServer, None
    if server is not None:
        server.handle_error = lambda request, address: None
        threading.Thread(target=server.shutdown, name="accumulators-end", daemon=True).start()


def _name_of(group: str | None) -> str:
    return "" if group is None else group.rpartition("#")[0]


@contextmanager
def _our_sigint() -> Iterator[None]:
    """PySpark takes over Ctrl-C when it starts in the main thread: the handler that was there comes back."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
