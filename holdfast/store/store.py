"""A state store, opened: `reads` for everyone, `commits` for the leader."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Engine

from holdfast.store.commits import Commits
from holdfast.store.connection import CrashPoint, open_engine
from holdfast.store.migrations import migrate
from holdfast.store.reads import Reads


def no_crash(point: str) -> None:
    return None


@dataclass(frozen=True)
class Store:
    engine: Engine
    reads: Reads
    commits: Commits

    def close(self) -> None:
        self.engine.dispose()


def open_store(url: str, *, now_ms: int, crash_point: CrashPoint = no_crash) -> Store:
    """`sqlite:///path` or `postgresql://user:password@host/database`. Migrates what an earlier release left."""
    engine = open_engine(url)
    migrate(engine, now_ms=now_ms)
    return Store(engine, Reads(engine), Commits(engine, crash_point))
