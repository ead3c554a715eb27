"""Savepoints: checkpoints of all pipelines of a job, copied out of their chains, kept until deleted by name.

    savepoint/<job-id>/<timestamp>/<pipeline-id>/manifest.json
    savepoint/<job-id>/<timestamp>/savepoint.json               (last; it exists if and only if the savepoint does)

A savepoint holds no path and needs nothing outside itself, so it may be moved and restored from elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from holdfast.checkpoint.document import DocumentBroken, read_document, write_document
from holdfast.model.checkpoints import Checkpoint, checkpoint_from_json
from holdfast.outside.files import AlreadyThere, Files, NotThere

FOLDER = "savepoint"
INDEX = "savepoint.json"
MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class Savepoint:
    """What one savepoint holds."""

    path: str
    """Below the root of the files it was read from."""
    job_id: str
    at_ms: int
    checkpoints: Mapping[int, Checkpoint]


def write_savepoint(files: Files, checkpoints: Sequence[Checkpoint], at_ms: int) -> Savepoint:
    """Copy the given checkpoints, one for each pipeline of one job; the index comes last."""
    job_id = checkpoints[0].job_id
    while True:
        path = f"{FOLDER}/{job_id}/{at_ms}"
        try:
            _write_parts(files, path, checkpoints)
            files.create_exclusive(f"{path}/{INDEX}", _index_document(job_id, at_ms, checkpoints))
        except AlreadyThere:
            at_ms += 1
            continue
        return Savepoint(path, job_id, at_ms, {c.pipeline_id: c for c in checkpoints})


def write_savepoint_once(files: Files, checkpoints: Sequence[Checkpoint], at_ms: int) -> Savepoint:
    """As `write_savepoint`, for pipelines that stand still: doing it again gives the same savepoint. One that somebody
    took beside the running job in the same millisecond is another, and may hold less.
    """
    job_id = checkpoints[0].job_id
    parts = {c.pipeline_id: write_document(c.to_json()) for c in checkpoints}
    while True:
        path = f"{FOLDER}/{job_id}/{at_ms}"
        index = _index_document(job_id, at_ms, checkpoints)
        whole = [(f"{path}/{id_}/{MANIFEST}", data) for id_, data in parts.items()]
        if all(_is_there(files, *part) for part in [*whole, (f"{path}/{INDEX}", index)]):
            return Savepoint(path, job_id, at_ms, {c.pipeline_id: c for c in checkpoints})
        at_ms += 1


def _is_there(files: Files, path: str, data: bytes) -> bool:
    """Whether these bytes are there now, written by us or before."""
    try:
        files.create_exclusive(path, data)
    except AlreadyThere:
        return files.read(path) == data
    return True


def _index_document(job_id: str, at_ms: int, checkpoints: Sequence[Checkpoint]) -> bytes:
    return write_document(
        {
            "jobId": job_id,
            "at_ms": at_ms,
            "pipelines": {str(c.pipeline_id): c.number for c in checkpoints},
        }
    )


def read_savepoint(files: Files, path: str) -> Savepoint:
    """Raises DocumentBroken when the savepoint is not complete."""
    path = path.rstrip("/")
    try:
        index = read_document(files.read(f"{path}/{INDEX}"), f"savepoint {path}")
    except NotThere as missing:
        raise DocumentBroken(
            f"Cannot read savepoint {path}: there is no {INDEX} in it. `holdfast checkpoints` lists"
            " the savepoints there are."
        ) from missing
    pipelines, at_ms = index.get("pipelines"), index.get("at_ms")
    if not isinstance(pipelines, dict) or not isinstance(at_ms, int):
        raise DocumentBroken(f"Cannot read savepoint {path}: {INDEX} is not one of a savepoint.")
    checkpoints = {int(id_): _read_part(files, path, id_) for id_ in pipelines}
    return Savepoint(path, str(index["jobId"]), at_ms, checkpoints)


def list_savepoints(files: Files, job_id: str) -> list[str]:
    """Paths of a job's complete savepoints, newest first."""
    folder = f"{FOLDER}/{job_id}"
    stamps = [i.name for i in files.list_folder(folder) if i.is_folder and i.name.isdigit()]
    paths = [f"{folder}/{stamp}" for stamp in sorted(stamps, key=int, reverse=True)]
    return [p for p in paths if any(i.name == INDEX for i in files.list_folder(p))]


def _write_parts(files: Files, path: str, checkpoints: Sequence[Checkpoint]) -> None:
    for checkpoint in checkpoints:
        target = f"{path}/{checkpoint.pipeline_id}/{MANIFEST}"
        files.create_exclusive(target, write_document(checkpoint.to_json()))


def _read_part(files: Files, path: str, pipeline_id: str) -> Checkpoint:
    name = f"pipeline {pipeline_id} of savepoint {path}"
    try:
        body = read_document(files.read(f"{path}/{pipeline_id}/{MANIFEST}"), name)
        return checkpoint_from_json(body)
    except NotThere as missing:
        raise DocumentBroken(f"Cannot read {name}: its manifest is missing.") from missing
    except (KeyError, TypeError, ValueError, AttributeError) as wrong:
        raise DocumentBroken(f"Cannot read {name}: it lacks {wrong}.") from wrong
