"""The Spark session: started once, canceled at once, ended whole."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from holdfast.model.carried import DatabaseRefused, ExecutorFailed
from holdfast.model.errors import Canceled, HoldfastError, PositionGone
from holdfast.outside.clock import RealClock
from holdfast.outside.processes import launch, run
from holdfast.runtime.carried import restore_error
from holdfast.runtime.jars import JarMissing
from holdfast.runtime.session import SessionInDriver, SparkHost, SparkSettings
from tests.runtime.watching import is_alive, wait_for

pytestmark = pytest.mark.spark


def test_tasks_run_in_one_job_and_their_results_keep_their_order(host: SparkHost) -> None:
    seen = host.run_tasks(lambda work, try_id: (work, try_id), ["c", "a", "b"])

    assert [work for work, _ in seen] == ["c", "a", "b"]
    assert len({try_id for _, try_id in seen}) == 3


def test_an_error_of_ours_keeps_class_message_and_code(host: SparkHost) -> None:
    def fail(work: int, try_id: str) -> None:
        raise PositionGone(f"Cannot read part {work}: it is gone.")

    with pytest.raises(Exception, match="HOLDFAST-ERROR") as caught:
        host.run_tasks(fail, [7])

    restored = restore_error(caught.value)
    assert type(restored) is PositionGone
    assert (str(restored), restored.code) == ("Cannot read part 7: it is gone.", "position-gone")


def test_a_jar_that_comes_later_is_on_the_class_path_of_every_thread(
    host: SparkHost, tmp_path: Path
) -> None:
    jar = tmp_path / "it's mine.jar"
    with ZipFile(jar, "w") as file:
        file.writestr("held/here.txt", "")

    def look(jars: list[str]) -> str:
        jvm: Any = host.session_with(jars)._jvm
        return str(
            jvm.java.lang.Thread.currentThread()
            .getContextClassLoader()
            .getResource("held/here.txt")
        )

    assert look([]) == "None"
    assert look([str(jar)]).endswith("held/here.txt")
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(look, [str(jar)]).result().endswith("held/here.txt")


def test_what_asks_for_the_session_travels_and_finds_none_there() -> None:
    asks = SessionInDriver(SparkHost(SparkSettings()), ())

    with pytest.raises(AssertionError, match="nothing here runs on Spark"):
        pickle.loads(pickle.dumps(asks))()


def test_a_jar_that_is_not_there_is_one_message(host: SparkHost) -> None:
    with pytest.raises(JarMissing, match=r"Cannot put jar /gone\.jar .* no such file"):
        host.session_with(["/gone.jar"])


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("java.sql.SQLSyntaxErrorException", DatabaseRefused),
        ("oracle.jdbc.OracleSQLException", ExecutorFailed),
    ],
)
def test_what_a_jdbc_driver_says_inside_spark_is_one_line(
    name: str, kind: type[HoldfastError]
) -> None:
    text = f"Job aborted due to stage failure: Lost task 0.0 (executor driver): {name}: No such thing.\n\tat x.Y"

    restored = restore_error(RuntimeError(text))

    assert type(restored) is kind
    assert str(restored) == "Cannot run a Spark job: the database says: No such thing."


def test_threads_share_one_session(host: SparkHost) -> None:
    with ThreadPoolExecutor(4) as threads:
        sessions = list(threads.map(lambda _: host.session(), range(8)))

    assert len({id(session) for session in sessions}) == 1


def test_a_group_has_a_pool_of_its_own_only_inside_its_block(host: SparkHost) -> None:
    context = host.session().sparkContext
    with host.group("orders/0"):
        host.session()
        inside = context.getLocalProperty("spark.scheduler.pool")

    assert inside == "orders/0"
    assert context.getLocalProperty("spark.scheduler.pool") is None
    assert context.getLocalProperty("spark.jobGroup.id") is None


def test_a_user_still_owns_ctrl_c(host: SparkHost) -> None:
    host.session()

    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_arrow_timestamps_without_zone_stay_without(host: SparkHost) -> None:
    found = host.session().sql("SELECT TIMESTAMP '2026-01-02 03:04:05' AS at").dtypes

    assert found == [("at", "timestamp_ntz")]


def test_cancel_ends_a_task_that_is_stuck_in_a_read(host: SparkHost) -> None:
    with _silent_server() as (port, accepted):
        ended = _in_group(host, "stuck/0", _block_on(port))
        worker = accepted()

        host.cancel("stuck/0")

        assert isinstance(ended(30), Exception)
        assert wait_for(lambda: not is_alive(worker), 15_000)


def test_cancel_leaves_other_groups_alone(host: SparkHost) -> None:
    with _silent_server() as (port, accepted):
        ended = _in_group(host, "stuck/1", _block_on(port))
        accepted()

        with host.group("well/0"):
            host.cancel("stuck/1")
            assert host.run_tasks(lambda work, _: work + 1, [1]) == [2]

        assert isinstance(ended(30), Exception)


def test_a_canceled_group_starts_no_further_job(host: SparkHost) -> None:
    with host.group("late/0"):
        spark = host.session()
        host.cancel("late/0")

        with pytest.raises(Exception, match=r"[Cc]ancel"):
            spark.range(10).count()
        with pytest.raises(Canceled):
            host.run_tasks(lambda work, _: work, [1])

    with host.group("late/0"):
        assert host.run_tasks(lambda work, _: work, [1]) == [1]


_HOLDS_A_SESSION = """
import os, pathlib, sys
import threading, time
from holdfast.outside.processes import run
from holdfast.runtime.session import SparkHost, SparkSettings
host = SparkHost(SparkSettings(master="local[2]", scratch_folder=pathlib.Path(sys.argv[2])))
pids = host.run_tasks(lambda work, _: (os.getpid(), os.getppid()), [1])[0]
jvm = run(["ps", "-o", "ppid=", "-p", str(pids[1])], timeout_ms=10000).out.strip()
stuck = threading.Thread(
    target=lambda: host.run_tasks(lambda work, _: time.sleep(3600), [1]), daemon=True
)
stuck.start()
while not host.session().sparkContext.statusTracker().getActiveJobsIds():
    time.sleep(0.05)
ready = pathlib.Path(sys.argv[1])
ready.with_suffix(".part").write_text(" ".join(map(str, (jvm, *pids))))
ready.with_suffix(".part").rename(ready)
if sys.argv[3] == "wait":
    sys.stdin.read()
host.stop()
"""


@pytest.mark.parametrize("end", ["wait", "stop"])
def test_nothing_outlives_us_whether_killed_or_stopped(tmp_path: Path, end: str) -> None:
    ready, scratch = tmp_path / "ready", tmp_path / "scratch"
    arguments = [str(ready), str(scratch), end]
    running = launch([sys.executable, "-c", _HOLDS_A_SESSION, *arguments], log=tmp_path / "log")
    running.wait_for_file(ready, timeout_ms=180_000)
    pids = [int(pid) for pid in ready.read_text().split()]

    if end == "wait":
        os.kill(running.pid, signal.SIGKILL)

    assert wait_for(lambda: not any(map(is_alive, pids)), 30_000)
    assert wait_for(lambda: not running.is_alive, 30_000)
    assert "WARN" not in (tmp_path / "log").read_text()
    assert (list(scratch.iterdir()) == []) is (end == "stop")


_LOSES_ITS_JVM = """
import os, signal, sys, threading, time
from holdfast.outside.processes import run
from holdfast.runtime.session import SparkHost, SparkSettings
host = SparkHost(SparkSettings(master="local[2]"))
with host.group("orders/1"):
    [daemon] = host.run_tasks(lambda work, _: os.getppid(), [1])
    jvm = int(run(["ps", "-o", "ppid=", "-p", str(daemon)], timeout_ms=10000).out)
    assert host.deaths == 0
    os.kill(jvm, signal.SIGKILL)
    while host.deaths == 0:
        time.sleep(0.05)
    print("came:", host.run_tasks(lambda work, _: work + 1, [1, 2]), host.deaths)
    threading.Timer(3, lambda: host.cancel("orders/1")).start()
    try:
        host.run_tasks(lambda work, _: time.sleep(3600), [1])
    except Exception:
        print("came: canceled")
with host.group("orders/1"):
    print("came:", host.session().sql("SELECT 41 + 1").collect()[0][0])
host.stop()
"""


def test_a_jvm_that_was_killed_is_followed_by_another() -> None:
    ended = run([sys.executable, "-c", _LOSES_ITS_JVM], timeout_ms=240_000)

    came = [line for line in ended.out.splitlines() if line.startswith("came: ")]
    assert came == ["came: [2, 3] 1", "came: canceled", "came: 42"], ended.out
    assert ended.code == 0


_LOSES_ITS_JVM_WHEN_IT_STARTS = """
from pyspark import SparkContext
from holdfast.runtime.session import SparkHost, SparkSettings
host = SparkHost(SparkSettings(master="local[2]"))
real = SparkContext._initialize_context
def killed(self, jconf):
    host._gateway.kill()
    return real(self, jconf)
SparkContext._initialize_context = killed
try:
    host.session()
except Exception as error:
    print("came:", type(error).__name__)
SparkContext._initialize_context = real
print("came:", host.run_tasks(lambda work, _: work + 1, [1, 2]))
host.stop()
"""


def test_a_jvm_that_is_killed_while_spark_starts_is_followed_by_another() -> None:
    ended = run([sys.executable, "-c", _LOSES_ITS_JVM_WHEN_IT_STARTS], timeout_ms=240_000)

    came = [line for line in ended.out.splitlines() if line.startswith("came: ")]
    assert came[1:] == ["came: [2, 3]"], ended.out
    assert ended.code == 0


def test_stop_does_notwait_for_a_start_in_the_background(tmp_path: Path) -> None:
    host = SparkHost(SparkSettings(scratch_folder=tmp_path))
    clock = RealClock()
    host.begin()
    assert wait_for(lambda: any(tmp_path.glob("*/jvm.log")), 60_000)

    began = clock.elapsed_ms()
    host.stop()

    assert clock.elapsed_ms() - began < 10_000
    assert wait_for(lambda: list(tmp_path.iterdir()) == [], 10_000)
    with pytest.raises(Canceled):
        host.session()


def _block_on(port: int) -> Callable[[int, str], bytes]:
    def block(_work: int, _try_id: str) -> bytes:
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(f"{os.getpid()}\n".encode())
            return connection.recv(1)

    return block


class _silent_server:
    """Accepts, is told a process id, and never answers."""

    def __enter__(self) -> tuple[int, Callable[[], int]]:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._listening.settimeout(120)
        return self._listening.getsockname()[1], self._accept

    def _accept(self) -> int:
        self._connection, _ = self._listening.accept()
        return int(self._connection.makefile().readline())

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self._listening.close()


def _in_group(
    host: SparkHost, name: str, task: Callable[[int, str], object]
) -> Callable[[float], BaseException | None]:
    """Run a task in a thread; the answer waits for its end."""
    found: list[BaseException | None] = []

    def work() -> None:
        try:
            with host.group(name):
                host.run_tasks(task, [1])
            found.append(None)
        except Exception as error:  # noqa: BLE001 - the test looks at whatever came
            found.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()

    def ended(timeout_s: float) -> BaseException | None:
        thread.join(timeout_s)
        assert found, "the task still runs"
        return found[0]

    return ended
