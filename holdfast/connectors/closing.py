"""A wait that `close` ends from another thread, in objects that travel to executors."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from holdfast.model.errors import Canceled, HoldfastError

T = TypeVar("T")


class CloseSignal:
    """Set by `close`. A copy in another process begins unset: nobody closed it there."""

    def __init__(self) -> None:
        self._set = threading.Event()

    def __reduce__(self) -> tuple[type[CloseSignal], tuple[()]]:
        return (CloseSignal, ())

    @property
    def event(self) -> threading.Event:
        return self._set

    def is_set(self) -> bool:
        return self._set.is_set()

    def set(self) -> None:
        self._set.set()


@dataclass
class Pending(Generic[T]):
    """A blocking call in a thread of its own, so that nobody waits for it longer than he wants to.

    The thread is a daemon and the call has timeouts of its own: a call that was given up ends by them.
    """

    answered: threading.Event = field(default_factory=threading.Event)
    answer: T | None = None
    failed: HoldfastError | None = None

    def take(self) -> T:
        """The answer, or what the call raised."""
        if self.failed is not None:
            raise self.failed
        assert self.answer is not None
        return self.answer


def start_call(call: Callable[[], T]) -> Pending[T]:
    """Begin a blocking call."""
    pending: Pending[T] = Pending()

    def run() -> None:
        try:
            pending.answer = call()
        except HoldfastError as error:
            pending.failed = error
        except BaseException as error:  # noqa: BLE001 - a fault of ours must reach the caller, not a thread's end
            failed = HoldfastError(f"Cannot end a call: {type(error).__name__}: {error}.")
            failed.__cause__ = error
            pending.failed = failed
        finally:
            pending.answered.set()

    threading.Thread(target=run, daemon=True).start()
    return pending


def closed_error(what: str) -> Canceled:
    return Canceled(f"Cannot go on with {what}: it was closed. Nothing needs to be done.")
