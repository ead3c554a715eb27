"""Connections of one connector: reused while they work, and ended by `close` from another thread.

A connection that was used without an error is kept for the next piece of work in this process, since opening one
takes longer than a small epoch. It is asked whether it lives before it is used again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from holdfast.connectors.jdbc.dialects.base import Dialect, Endpoint, told

IDLE_MAX = 4


class Connections:
    """Of one connector in one process. Travels to executors empty."""

    def __init__(self, dialect: Dialect, endpoint: Endpoint) -> None:
        self.dialect = dialect
        self.endpoint = endpoint
        self._lock = threading.Lock()
        self._used: list[Any] = []
        self._idle: list[Any] = []

    def __reduce__(self) -> tuple[Any, ...]:
        return (Connections, (self.dialect, self.endpoint))

    def __del__(self) -> None:
        for connection in self._idle:
            connection.close()

    @contextmanager
    def open(self, action: str) -> Iterator[Any]:
        """A connection for one piece of work; driver errors inside become `Cannot <action>: …`."""
        connection = self._take()
        done = False
        try:
            with told(self.dialect, action, self.endpoint):
                yield connection
            done = True
        finally:
            with self._lock:
                self._used.remove(connection)
                kept = done and len(self._idle) < IDLE_MAX
                if kept:
                    self._idle.append(connection)
            if not kept:
                connection.close()

    def close(self) -> None:
        """End whatever is under way: the threads that wait there get an error. What is idle is closed."""
        with self._lock:
            used, idle = list(self._used), self._idle
            self._idle = []
        for connection in used:
            self.dialect.interrupt(connection)
        for connection in idle:
            connection.close()

    def _take(self) -> Any:
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                with told(self.dialect, "connect", self.endpoint):
                    connection = self.dialect.connect(self.endpoint)
            elif not self._lives(connection):
                connection.close()
                continue
            with self._lock:
                self._used.append(connection)
            return connection

    def _lives(self, connection: Any) -> bool:
        try:
            self.dialect.fetch(connection, "SELECT 1")
        except Exception as error:
            if self.dialect.explain(error) is None:
                raise
            return False
        return True
