"""The executors of a local master for tasks without transforms: Python processes of our own, which need no JVM.

A task is sent to an idle process and answered by it; one that hangs or is canceled is killed with its process, and the
next task has a new one. A process reads the end of its stdin when we die, however we die, and ends too.
"""

from __future__ import annotations

import os
import pickle
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import TypeVar

from holdfast.model.errors import Canceled, HoldfastError, Transient
from holdfast.outside.processes import Peer, PeerDied, launch_peer
from holdfast.runtime.carried import restore_error

W = TypeVar("W")
R = TypeVar("R")
_LOCAL = re.compile(r"local(?:\[(\*|\d+)(?:,\d+)?\])?")


class ProcessDied(Transient):
    """The process that ran a task ended before the task did."""

    code = "task-process-died"


@dataclass(eq=False)
class _Call:
    """The tasks of one epoch of one pipeline."""

    name: str
    busy: set[Peer] = field(default_factory=set)
    ended: bool = False
    """Nothing more of it is to run: it was canceled, or one of its tasks failed."""
    failure: HoldfastError | None = None
    """Of the first task that failed: the others were ended for it."""


class TaskProcesses:
    """Started at first need, shared by all pipelines. All methods may be called from any thread."""

    def __init__(self, processes_max: int) -> None:
        self.processes_max = processes_max
        self._changed = threading.Condition()
        self._idle: list[Peer] = []
        self._calls: set[_Call] = set()
        self._count = 0
        """Of processes that live, idle or not."""
        self._stopped = False
        self._numbers = count(1)

    @classmethod
    def of(cls, master: str) -> TaskProcesses | None:
        """As many as a local master runs tasks at once; None for a master that is not local."""
        found = _LOCAL.fullmatch(master)
        if found is None:
            return None
        cores = (os.cpu_count() or 1) if found[1] == "*" else int(found[1] or 1)
        return cls(cores)

    def run_tasks(
        self,
        run: Callable[[W, str], R],
        tasks: Sequence[W],
        *,
        name: str,
        is_canceled: Callable[[], bool],
    ) -> list[R]:
        """Run each task in some process; the second argument names the try. The first failure ends the others."""
        call = _Call(name)
        with self._changed:
            self._calls.add(call)
        # From here on `cancel` sees it; what was canceled before is seen here.
        try:
            if is_canceled():
                raise _canceled(name)
            with ThreadPoolExecutor(min(len(tasks), self.processes_max)) as lanes:
                return list(lanes.map(lambda task: self._run_one(call, run, task), tasks))
        except HoldfastError as error:
            raise call.failure or error from error
        finally:
            with self._changed:
                self._calls.discard(call)

    def cancel(self, name: str) -> None:
        """End what runs under this name."""
        with self._changed:
            for call in [call for call in self._calls if call.name == name]:
                self._end(call)

    def stop(self) -> None:
        """End all processes, for good. Doing it twice is the same as once."""
        with self._changed:
            self._stopped = True
            for call in self._calls:
                self._end(call)
            while self._idle:
                self._idle.pop().bury()
                self._count -= 1

    def _run_one(self, call: _Call, run: Callable[[W, str], R], task: W) -> R:
        sent = pickle.dumps((run, task, f"p{next(self._numbers)}"))
        try:
            with self._process(call) as peer:
                is_done, answer = pickle.loads(peer.ask(sent))
        except PeerDied as died:
            raise self._fail(
                call,
                ProcessDied(
                    f"Cannot go on with a task of {call.name}: its process died ({died}). If it was killed for"
                    " the memory it used, run fewer tasks at once (--spark spark.master=local[1])."
                ),
            ) from died
        if not is_done:
            raise self._fail(call, restore_error(RuntimeError(answer)))
        found: R = answer
        return found

    @contextmanager
    def _process(self, call: _Call) -> Iterator[Peer]:
        """An idle process, or a new one while there are few, or the next that somebody gives back."""
        with self._changed:
            while not (call.ended or self._stopped or self._has_room()):
                self._changed.wait()
            if call.ended or self._stopped:
                raise _canceled(call.name)
            peer = self._idle.pop() if self._idle else self._launch()
            call.busy.add(peer)
        try:
            yield peer
        finally:
            with self._changed:
                call.busy.discard(peer)
                if peer.is_usable and not self._stopped:
                    self._idle.append(peer)
                else:
                    peer.bury()
                    self._count -= 1
                self._changed.notify_all()

    def _has_room(self) -> bool:
        return bool(self._idle) or self._count < self.processes_max

    def _launch(self) -> Peer:
        peer = launch_peer("holdfast.runtime.task_process")
        self._count += 1
        return peer

    def _fail(self, call: _Call, error: HoldfastError) -> HoldfastError:
        """The call ends with its first failure; one that was canceled has not failed."""
        with self._changed:
            if call.ended:
                return _canceled(call.name)
            call.failure = error
            self._end(call)
        return error

    def _end(self, call: _Call) -> None:
        call.ended = True
        for peer in call.busy:
            peer.kill()
        self._changed.notify_all()


def _canceled(name: str) -> Canceled:
    return Canceled(f"Cannot go on with {name}: it was canceled.")
