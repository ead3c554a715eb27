"""A state store, opened: `reads` for everyone, `commits` for the leader."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Engine

from holdfast.model.errors import ConfigError
from holdfast.store.commits import Commits
from holdfast.store.connection import CrashPoint, memory_engine, open_engine
from holdfast.store.migrations import migrate
from holdfast.store.reads import Reads
from holdfast.store.schema import metadata
from holdfast.store.sizes import StoreSizes, compact, measure, tidy


class StoreMissing(ConfigError):
    """There is no state store where one was looked for."""

    code = "store-missing"


def no_crash(point: str) -> None:
    return None


@dataclass(frozen=True)
class Store:
    engine: Engine
    reads: Reads
    commits: Commits

    def tidy(self) -> None:
        """Give back a little of what is free."""
        tidy(self.engine)

    def close(self) -> None:
        self.engine.dispose()


def open_store(url: str, *, now_ms: int, crash_point: CrashPoint = no_crash) -> Store:
    """`sqlite:///path` or `postgresql://user:password@host/database`. Migrates what an earlier release left."""
    engine = open_engine(url)
    migrate(engine, now_ms=now_ms)
    return Store(engine, Reads(engine), Commits(engine, crash_point))


def measure_store(url: str, *, now_ms: int) -> StoreSizes:
    """Of a store that is there, without a master."""
    store = open_store(_there(url), now_ms=now_ms)
    try:
        return measure(store.engine)
    finally:
        store.close()


def compact_store(url: str, *, now_ms: int) -> tuple[StoreSizes, StoreSizes]:
    """Sizes before and after."""
    store = open_store(_there(url), now_ms=now_ms)
    try:
        before = measure(store.engine)
        compact(store.engine)
        return before, measure(store.engine)
    finally:
        store.close()


def _there(url: str) -> str:
    """To look at a store must not make one."""
    path = Path(url.removeprefix("sqlite:///"))
    if url.startswith("sqlite:///") and not path.is_file():
        raise StoreMissing(
            f"Cannot read the state store {path}: there is no such file. Name it with --state, or its folder with"
            " --data."
        )
    return url


def open_memory_store() -> Store:
    """A store that ends with its process, for a process that is its whole cluster."""
    engine = memory_engine()
    metadata.create_all(engine, checkfirst=False)
    return Store(engine, Reads(engine), Commits(engine, no_crash))
