"""How a run of a job in one process ended."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class JobEnd(Enum):
    FINISHED = "FINISHED"
    STOPPED = "STOPPED"
    CANCELED = "CANCELED"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class JobResult:
    """The end of a run, with the failure that ended it."""

    end: JobEnd
    failed_pipeline: int | None = None
    error: BaseException | None = None
