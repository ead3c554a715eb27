"""`holdfast run`: run a job in this process, from where it stands, and show how far it gets."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any, TextIO

from holdfast.cli.display import Display, open_display
from holdfast.cli.job_file import (
    add_job_arguments,
    add_restore_arguments,
    read_job_file,
    read_request,
)
from holdfast.model.ends import JobEnd, JobResult
from holdfast.model.errors import ExitCode, HoldfastError
from holdfast.node import Node
from holdfast.runtime.stop import StopLevel, StopSignal

_EXIT = {
    JobEnd.FINISHED: ExitCode.FINISHED,
    JobEnd.STOPPED: ExitCode.STOPPED,
    JobEnd.CANCELED: ExitCode.CANCELED,
    JobEnd.FAILED: ExitCode.FAILED,
}


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "run",
        help="run a job here; run again, it goes on from its newest checkpoint",
        description="Runs a job in this process. Run again, it goes on from its newest checkpoint."
        " Ctrl-C once stops after the current epoch, twice at once.",
    )
    add_job_arguments(parser)
    add_restore_arguments(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, out: TextIO) -> int:
    node = Node(args.data)
    job = read_job_file(args, node.catalog)
    request = read_request(args, job.spec)
    stop = StopSignal()
    display = open_display(job, node.clock)
    with display, _stopping_on_signals(stop, display):
        result = node.run(job.job_id, job.spec, request, watch=display, stop=stop)
        display.ended(result)
    if result.error is not None:
        return _tell_failure(result, debug=args.debug)
    return int(_EXIT[result.end])


def _tell_failure(result: JobResult, *, debug: bool) -> int:
    error = result.error
    assert error is not None
    if debug:
        traceback.print_exception(error, file=sys.stderr)
    if isinstance(error, HoldfastError):
        sys.stderr.write(f"{error}\n")
        return int(error.exit_code)
    said = f"Cannot go on with pipeline {result.failed_pipeline}: {type(error).__name__}: {error}."
    sys.stderr.write(f"{said} This is a defect; --debug shows where it lies.\n")
    return int(ExitCode.FAILED)


@contextmanager
def _stopping_on_signals(stop: StopSignal, display: Display) -> Iterator[None]:
    """The first signal lets the epoch end, the second does not.

    A handler interrupts whatever runs, perhaps under a lock of its own: it only leaves a word for a thread that obeys.
    """
    asked: SimpleQueue[bool] = SimpleQueue()

    def obey() -> None:
        for said, level in _STOPS:
            if not asked.get():
                return
            display.say(said)
            stop.ask(level)

    def ask(number: int, frame: object) -> None:
        asked.put(True)

    obeying = threading.Thread(target=obey, name="signals", daemon=True)
    obeying.start()
    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        asked.put(False)
        obeying.join()


_STOPS = (
    ("Stopping after the current epoch. Once more: at once.", StopLevel.AFTER_EPOCH),
    ("Stopping at once.", StopLevel.NOW),
)
