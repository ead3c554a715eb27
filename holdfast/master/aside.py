"""What a leader does in checkpoint storage, beside its loop: storage may be slow or hang, and meanwhile the lease is to
be renewed and workers are to be answered. The term goes with every write here as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.decide.actions import Action, CleanUp, WriteSavepoint
from holdfast.master.act import Acting, act, give_up_savepoint, is_overdue
from holdfast.model.errors import HoldfastError
from holdfast.outside.threads import Threads
from holdfast.store.connection import Deposed

ASIDE_MAX = 4
"""At a time; the rest is left to a later tick, which decides it again."""
Storing = CleanUp | WriteSavepoint


class Aside:
    """`begin` is called by the loop's thread alone."""

    def __init__(self, threads: Threads, when_done: Callable[[], None]) -> None:
        self._threads = threads
        self._when_done = when_done
        self._under_way: set[tuple[int, Storing]] = set()
        self._failed: dict[Action, str] = {}

    def begin(self, action: Storing, given: Acting) -> None:
        """What is under way is not begun again; what has failed is. A stop does not wait for storage that hangs."""
        key = (given.term, action)
        if key in self._under_way or len(self._under_way) >= ASIDE_MAX:
            if isinstance(action, WriteSavepoint) and is_overdue(action, given):
                give_up_savepoint(action, given)
            return
        self._under_way.add(key)

        def run() -> None:
            try:
                self._try(action, given)
            finally:
                self._under_way.discard(key)

        try:
            self._threads.start(f"{type(action).__name__} {action.job_id}", run)
        except RuntimeError as error:
            self._under_way.discard(key)
            self._failed[action] = f"Cannot start a thread for {action}: {error}."

    def _try(self, action: Storing, given: Acting) -> None:
        try:
            act(action, given)
        except Deposed:
            return
        except HoldfastError as error:
            self._failed[action] = str(error)
        except Exception as error:  # noqa: BLE001 - the thread's outermost line: told, and tried again
            self._failed[action] = f"{type(error).__name__}: {error}"
        else:
            self._failed.pop(action, None)
            self._when_done()

    def failed(self, still_due: Sequence[Action]) -> dict[Action, str]:
        """What could not be done when it was tried last, and is due still."""
        for action in [action for action in list(self._failed) if action not in still_due]:
            self._failed.pop(action, None)
        return dict(self._failed)
