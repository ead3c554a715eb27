"""One process of `task_processes`: runs the tasks that come on its stdin, one after the other, and answers each.

Nothing else writes on the pipe of the answers: what a task prints goes to the log. When the other side dies, a task
that is under way is not ended in peace: whoever goes on with the job must not meet it.
"""

from __future__ import annotations

import os
import pickle
import threading
import traceback
from queue import SimpleQueue

from holdfast.outside.processes import read_message, write_message
from holdfast.runtime.carried import CarriedError, carrying_errors


def main() -> None:
    with os.fdopen(os.dup(0), "rb") as asked, os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)
        waiting: SimpleQueue[bytes] = SimpleQueue()

        def receive() -> None:
            while (message := read_message(asked)) is not None:
                waiting.put(message)
            os._exit(0)

        threading.Thread(target=receive, daemon=True).start()
        while True:
            write_message(answers, _answer(waiting.get()))


def _answer(message: bytes) -> bytes:
    """Whether it was done, and the result or what was raised, as text."""
    try:
        with carrying_errors():
            run, task, try_id = pickle.loads(message)
            return pickle.dumps((True, run(task, try_id)))
    except CarriedError as error:
        return pickle.dumps((False, str(error)))
    except Exception:  # noqa: BLE001 - the outermost line of a task: the driver tells what came
        return pickle.dumps((False, traceback.format_exc()))


if __name__ == "__main__":
    main()
