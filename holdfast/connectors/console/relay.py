"""Brings blocks of text from executors to the process that has the terminal, and waits until they are printed.

The driver listens on the loopback interface; who connects has to know a key that travels with the sink.
"""

from __future__ import annotations

import secrets
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Client, Connection, Listener

from holdfast.model.errors import HoldfastError, Terminal, Transient

_ROWS_BYTES = 8


@dataclass(frozen=True, slots=True)
class Address:
    """Where the relay listens, and the key to it."""

    port: int
    key: bytes


class RelayGone(Transient):
    """The process that has the terminal does not answer."""

    code = "console-gone"

    def __init__(self) -> None:
        super().__init__(
            "Cannot print rows: the process that has the terminal does not answer."
            " Start the job again if that was not meant to be."
        )


class OutputGone(Terminal):
    """Standard output takes no more: who read it has gone, or it is a file on a full disk."""

    code = "output-gone"

    @classmethod
    def told(cls, said: str) -> OutputGone:
        return cls(
            f"Cannot print rows on standard output: {said}. Have it read to the end, or send it to a file with room;"
            " run again, the job goes on."
        )


class Counter:
    """Rows printed by each task so far."""

    def __init__(self) -> None:
        self._rows: dict[int, int] = {}
        self._lock = threading.Lock()

    def of(self, task: int) -> int:
        return self._rows.get(task, 0)

    def add(self, task: int, rows: int) -> None:
        with self._lock:
            self._rows[task] = self._rows.get(task, 0) + rows


class Relay:
    """The driver's end: a thread that accepts, and one for each task that prints."""

    def __init__(self, counter: Counter, write: Callable[[str], None]) -> None:
        self._counter = counter
        self._write = write
        key = secrets.token_bytes(32)
        self._listener = Listener(("127.0.0.1", 0), authkey=key)
        port = self._listener.address[1]
        assert isinstance(port, int)
        self.address = Address(port, key)
        self._closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Closing alone does not end an accept that waits: it has to be given something."""
        self._closed = True
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.address.port)):
            pass
        self._listener.close()

    def _accept(self) -> None:
        from multiprocessing import AuthenticationError

        while not self._closed:
            try:
                connection = self._listener.accept()
            except (AuthenticationError, OSError, EOFError):
                continue
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: Connection) -> None:
        """One task: its number, then blocks; each is answered once it is printed."""
        with connection:
            try:
                task = _number(connection.recv_bytes())
                connection.send_bytes(_bytes(self._counter.of(task)))
                while True:
                    block = connection.recv_bytes()
                    connection.send_bytes(self._print(task, block))
            except (EOFError, OSError):
                return

    def _print(self, task: int, block: bytes) -> bytes:
        """Nothing, or why the block was not printed."""
        try:
            self._write(block[_ROWS_BYTES:].decode())
        except HoldfastError as error:
            return str(error).encode()
        self._counter.add(task, _number(block[:_ROWS_BYTES]))
        return b""


class RelayClient:
    """An executor's end, for one task."""

    def __init__(self, address: Address, task: int) -> None:
        try:
            self._connection = Client(("127.0.0.1", address.port), authkey=address.key)
            self._connection.send_bytes(_bytes(task))
            self.rows_before = _number(self._connection.recv_bytes())
        except (OSError, EOFError) as error:
            raise RelayGone from error

    def write(self, block: str, rows: int) -> None:
        """Returns when the block has been printed."""
        try:
            self._connection.send_bytes(_bytes(rows) + block.encode())
            refused = self._connection.recv_bytes()
        except (OSError, EOFError) as error:
            raise RelayGone from error
        if refused:
            raise OutputGone(refused.decode())
        self.rows_before += rows

    def close(self) -> None:
        self._connection.close()


def _bytes(number: int) -> bytes:
    return number.to_bytes(_ROWS_BYTES, "big")


def _number(found: bytes) -> int:
    return int.from_bytes(found, "big")
