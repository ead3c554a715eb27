"""Spark's parent of Python workers, with all loaded that our tasks import: workers are its forks and begin at once."""

from __future__ import annotations

from importlib import import_module

from pyspark import daemon

_IMPORTED_BY_TASKS = ("pyarrow.compute", "holdfast.runtime.task")

if __name__ == "__main__":
    for name in _IMPORTED_BY_TASKS:
        import_module(name)
    daemon.manager()  # type: ignore[no-untyped-call]
