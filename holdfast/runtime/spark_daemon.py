"""Spark's parent of Python workers, with all loaded that our tasks import: workers are its forks and begin at once.

Spark has each worker forget what it knows of folders and archives, and collect garbage, with every task. So that this
costs next to nothing, the archives that Spark adds for machines without PySpark are dropped here, where it is
installed, and what is loaded here is kept out of collections, which would also copy it into every fork.
"""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from zipfile import is_zipfile
from zipimport import zipimporter

from pyspark import daemon

_IMPORTED_BY_TASKS = (
    "pyarrow.compute",
    "pandas",
    "pyspark.worker",
    "holdfast.runtime.frames",
    "holdfast.connectors.jdbc",
    "holdfast.connectors.localfile",
    "psycopg",
)
"""pandas is none of ours: pyarrow looks for it when it is handed numbers of numpy."""


def prepare() -> None:
    """Before the first fork."""
    for name in _IMPORTED_BY_TASKS:
        import_module(name)
    _drop_archives()
    gc.collect()
    gc.freeze()


def _drop_archives() -> None:
    """Those that nothing was loaded from."""
    loaded = [getattr(module, "__file__", None) or "" for module in sys.modules.values()]

    def is_idle(path: str) -> bool:
        return is_zipfile(path) and not any(file.startswith(path) for file in loaded)

    sys.path[:] = [path for path in sys.path if not is_idle(path)]
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimporter) and is_idle(importer.archive):
            del sys.path_importer_cache[path]


if __name__ == "__main__":
    prepare()
    daemon.manager()  # type: ignore[no-untyped-call]
