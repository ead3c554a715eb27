"""What the API is given: the master of its process, and the worker beside it if there is one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from holdfast.master.master import Master
from holdfast.model.jobs import ScheduleStrategy
from holdfast.spec.catalog import Catalog


class Tagged(Protocol):
    """A worker whose tags can be set."""

    def update_tags(self, tags: Mapping[str, str]) -> None: ...


@dataclass(frozen=True)
class Serving:
    master: Master
    catalog: Catalog
    strategy: ScheduleStrategy
    forward: Callable[[str, str, bytes, str], tuple[int, bytes]]
    """Hand a request to another master: its url, path and query, body, content type."""
    worker: Tagged | None = None
    context_path: str = ""
