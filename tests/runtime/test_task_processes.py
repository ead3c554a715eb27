"""Tasks in processes of our own: each is run once, the first failure ends the others, and nothing outlives us."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.model.errors import Canceled, PositionGone
from holdfast.outside.processes import launch
from holdfast.runtime.task_processes import ProcessDied, TaskProcesses
from tests.runtime.watching import is_alive, wait_for

TIMEOUT_MS = 30_000


@pytest.fixture
def processes() -> Iterator[TaskProcesses]:
    found = TaskProcesses(2)
    yield found
    found.stop()


def _never() -> bool:
    return False


def _twice(work: int, try_id: str) -> tuple[int, str, int]:
    return work * 2, try_id, os.getpid()


def _fail_on_three(work: int, _try_id: str) -> int:
    if work == 3:
        raise PositionGone(f"Cannot read part {work}: it is gone.")
    if work > 3:
        time.sleep(3600)
    return work


def _break(_work: int, _try_id: str) -> int:
    print("words that nobody asked for")  # noqa: T201 - what a task prints must not be taken for its answer
    raise ValueError("it broke")


def _die(_work: int, _try_id: str) -> None:
    os.write(2, b"its last words\n")
    os.kill(os.getpid(), signal.SIGKILL)


def _tell_and_hang(where: str, _try_id: str) -> None:
    part = Path(f"{where}.part")
    part.write_text(str(os.getpid()))
    part.rename(where)
    time.sleep(3600)


def test_results_keep_their_order_and_processes_are_used_again(processes: TaskProcesses) -> None:
    first = processes.run_tasks(_twice, [1, 2, 3, 4, 5], name="p", is_canceled=_never)
    second = processes.run_tasks(_twice, [6], name="p", is_canceled=_never)

    assert [found for found, _, _ in first + second] == [2, 4, 6, 8, 10, 12]
    assert len({try_id for _, try_id, _ in first + second}) == 6
    assert len({pid for _, _, pid in first + second}) <= 2
    assert os.getpid() not in {pid for _, _, pid in first}


def test_the_first_failure_ends_the_others_and_is_the_one_that_is_told(
    processes: TaskProcesses,
) -> None:
    with pytest.raises(PositionGone, match="Cannot read part 3: it is gone") as caught:
        processes.run_tasks(_fail_on_three, [9, 3], name="p", is_canceled=_never)

    assert caught.value.code == "position-gone"
    assert processes.run_tasks(_twice, [1], name="p", is_canceled=_never)[0][0] == 2


def test_an_exception_is_told_by_its_last_line(processes: TaskProcesses) -> None:
    with pytest.raises(Exception, match="Cannot run a task: ValueError: it broke"):
        processes.run_tasks(_break, [1], name="p", is_canceled=_never)


def test_a_process_that_dies_is_told_and_replaced(processes: TaskProcesses) -> None:
    with pytest.raises(ProcessDied, match="SIGKILL: its last words"):
        processes.run_tasks(_die, [1], name="orders/1", is_canceled=_never)

    assert processes.run_tasks(_twice, [1], name="orders/1", is_canceled=_never)[0][0] == 2


def test_cancel_kills_what_runs_under_a_name_and_nothing_else(
    processes: TaskProcesses, tmp_path: Path
) -> None:
    ended = _in_thread(processes, "stuck", tmp_path / "stuck")
    pid = _pid_in(tmp_path / "stuck")

    processes.cancel("well")
    assert processes.run_tasks(_twice, [1], name="well", is_canceled=_never)[0][0] == 2
    assert is_alive(pid)
    processes.cancel("stuck")

    assert isinstance(ended(), Canceled)
    assert wait_for(lambda: not is_alive(pid))


def test_what_was_canceled_before_never_begins(processes: TaskProcesses, tmp_path: Path) -> None:
    with pytest.raises(Canceled):
        processes.run_tasks(
            _tell_and_hang, [str(tmp_path / "began")], name="p", is_canceled=lambda: True
        )

    assert not (tmp_path / "began").exists()


def test_a_task_that_waits_for_a_process_can_be_canceled(
    processes: TaskProcesses, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        _in_thread(processes, "busy", tmp_path / name)
        _pid_in(tmp_path / name)
    ended = _in_thread(processes, "waiting", tmp_path / "never")

    processes.cancel("waiting")

    assert isinstance(ended(), Canceled)
    assert not (tmp_path / "never").exists()


_HOLDS_A_TASK = """
import sys
from holdfast.runtime.task_processes import TaskProcesses
from tests.runtime.test_task_processes import _tell_and_hang
TaskProcesses(1).run_tasks(
    _tell_and_hang, [sys.argv[1]], name="p", is_canceled=lambda: False
)
"""


def test_a_task_does_not_outlive_us(tmp_path: Path) -> None:
    told = tmp_path / "told"
    running = launch(
        [sys.executable, "-c", _HOLDS_A_TASK, str(told)],
        log=tmp_path / "log",
        environment={"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    running.wait_for_file(told, timeout_ms=TIMEOUT_MS)
    pid = int(told.read_text())

    os.kill(running.pid, signal.SIGKILL)

    assert wait_for(lambda: not is_alive(pid))


@pytest.mark.parametrize(
    ("master", "expected"),
    [("local", 1), ("local[3]", 3), ("local[*]", os.cpu_count()), ("local[2,4]", 2)],
)
def test_a_local_master_has_as_many_as_it_has_cores(master: str, expected: int) -> None:
    found = TaskProcesses.of(master)

    assert found is not None
    assert found.processes_max == expected


@pytest.mark.parametrize(
    "master", ["spark://host:7077", "yarn", "k8s://host", "local-cluster[1,1,1]"]
)
def test_another_master_has_executors_of_its_own(master: str) -> None:
    assert TaskProcesses.of(master) is None


def _in_thread(
    processes: TaskProcesses, name: str, where: Path
) -> Callable[[], BaseException | None]:
    """Run a task that hangs; the answer waits for its end."""
    found: list[BaseException] = []

    def work() -> None:
        try:
            processes.run_tasks(_tell_and_hang, [str(where)], name=name, is_canceled=_never)
        except Exception as error:  # noqa: BLE001 - the test looks at whatever came
            found.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()

    def ended() -> BaseException | None:
        thread.join(TIMEOUT_MS / 1000)
        return found[0] if found else None

    return ended


def _pid_in(where: Path) -> int:
    assert wait_for(where.exists)
    return int(where.read_text())
