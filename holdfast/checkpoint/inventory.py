"""What checkpoint storage holds, by owner: chains and savepoints, how large, how old, where. Decides nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.checkpoint.chain import Chain, list_jobs, list_pipelines
from holdfast.checkpoint.document import DocumentBroken
from holdfast.checkpoint.savepoint import FOLDER, INDEX
from holdfast.outside.files import Files, NotThere


@dataclass(frozen=True, slots=True)
class Holding:
    """All chains of a job, or one savepoint."""

    job_id: str
    path: str
    """Below the root of the storage; what names it for removal."""
    is_savepoint: bool
    files: int
    bytes: int
    at_ms: int
    """Of its newest checkpoint; where none can be read, of its newest file."""
    said: str
    """Where it stands."""


def take_stock(files: Files) -> Iterator[Holding]:
    """In order of job ids, savepoints behind the chains of their job."""
    saved = {i.name for i in files.list_folder(FOLDER) if i.is_folder}
    chains = set(list_jobs(files))
    for job_id in sorted(chains | saved):
        if job_id in chains:
            yield _look_at_chains(files, job_id)
        for stamp in files.list_folder(f"{FOLDER}/{job_id}"):
            if stamp.is_folder:
                yield _look_at_savepoint(files, job_id, f"{FOLDER}/{job_id}/{stamp.name}")


def _look_at_chains(files: Files, job_id: str) -> Holding:
    count, size, newest_ms = _measure(files, job_id)
    said, ages = [], []
    for pipeline_id in list_pipelines(files, job_id):
        try:
            tip = Chain(files, job_id, pipeline_id).tip()
        except (DocumentBroken, NotThere):
            said.append(f"{pipeline_id} broken")
            continue
        if tip is None:
            said.append(f"{pipeline_id} empty")
            continue
        ages.append(tip.at_ms)
        said.append(f"{pipeline_id}/{tip.number}{' completed' if tip.completed else ''}")
    return Holding(
        job_id, job_id, False, count, size, max(ages, default=newest_ms), ", ".join(said)
    )


def _look_at_savepoint(files: Files, job_id: str, path: str) -> Holding:
    count, size, newest_ms = _measure(files, path)
    whole = any(item.name == INDEX for item in files.list_folder(path))
    said = "savepoint" if whole else "savepoint that was never completed"
    return Holding(job_id, path, True, count, size, newest_ms, said)


def _measure(files: Files, path: str) -> tuple[int, int, int]:
    count, size, newest_ms = 0, 0, 0
    for item in files.list_folder(path):
        below = f"{path}/{item.name}"
        own = (1, item.size, item.modified_at_ms)
        found = _measure(files, below) if item.is_folder else own
        count, size, newest_ms = count + found[0], size + found[1], max(newest_ms, found[2])
    return count, size, newest_ms
