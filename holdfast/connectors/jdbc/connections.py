"""Connections that are open now: so that `close`, from another thread, can end what blocks in them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from holdfast.connectors.jdbc.dialects.base import Dialect, Endpoint, told


class Connections:
    """Of one connector in one process. Travels to executors empty."""

    def __init__(self, dialect: Dialect, endpoint: Endpoint) -> None:
        self.dialect = dialect
        self.endpoint = endpoint
        self._lock = threading.Lock()
        self._open: list[Any] = []

    def __reduce__(self) -> tuple[Any, ...]:
        return (Connections, (self.dialect, self.endpoint))

    @contextmanager
    def open(self, action: str) -> Iterator[Any]:
        """A connection for one piece of work; driver errors inside become `Cannot <action>: …`."""
        with told(self.dialect, "connect", self.endpoint):
            connection = self.dialect.connect(self.endpoint)
        with self._lock:
            self._open.append(connection)
        try:
            with told(self.dialect, action, self.endpoint):
                yield connection
        finally:
            with self._lock:
                self._open.remove(connection)
            connection.close()

    def interrupt_all(self) -> None:
        """End whatever is under way. The threads that wait there get an error."""
        with self._lock:
            found = list(self._open)
        for connection in found:
            self.dialect.interrupt(connection)
