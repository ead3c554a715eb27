"""A file whose writes never fail inside a library: the error is kept and raised when the library has returned.

Native writers turn a full disk into an error without its number, and orc's ends the process over one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO


class KeptErrors:
    """A binary file for writing. After the first error, what is written goes nowhere."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._failed: OSError | None = None
        self._size = 0
        self.name = file.name

    @contextmanager
    def raising(self) -> Iterator[None]:
        """Around calls of a library that writes here: an error of this file is the one that is seen."""
        try:
            yield
        finally:
            if self._failed is not None:
                raise self._failed

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        self._size += size
        self._keep(lambda: self._file.write(data))
        return size

    def writelines(self, lines: Iterable[bytes]) -> None:
        self._keep(lambda: self._file.writelines(lines))

    def flush(self) -> None:
        self._keep(self._file.flush)

    def close(self) -> None:
        """Closed also where the last bytes find no room."""
        self._keep(self._file.close)

    @property
    def closed(self) -> bool:
        return self._file.closed

    def tell(self) -> int:
        return self._size

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def _keep(self, act: Any) -> None:
        if self._failed is not None and act != self._file.close:
            return
        try:
            act()
        except OSError as error:
            self._failed = self._failed or error
