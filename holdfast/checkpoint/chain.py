"""A pipeline's chain of checkpoints: extended by one exclusive create at a time, read by anyone.

    <job-id>/<pipeline-id>/<checkpoint-id>/manifest.json

Whoever creates number n+1 owns the pipeline until somebody else creates a later one. An attempt that was passed
by always finds its next number taken: it is the number of the claim that passed it, and claims are never removed
while the chain lives (`decide/retention.py`).
"""

from __future__ import annotations

from holdfast.checkpoint.document import DocumentBroken, read_document, write_document
from holdfast.model.checkpoints import Checkpoint, checkpoint_from_json
from holdfast.model.errors import OutcomeUnknown, Terminal
from holdfast.model.json import JsonObject
from holdfast.outside.files import AlreadyThere, Files, NotThere, StorageFailed

MANIFEST = "manifest.json"


class ChainMoved(Terminal):
    """Somebody else made the checkpoint that this attempt was about to make."""

    code = "chain-moved"

    def __init__(self, checkpoint: Checkpoint) -> None:
        super().__init__(
            f"Cannot write checkpoint {checkpoint.number} of pipeline {checkpoint.job_id}/"
            f"{checkpoint.pipeline_id} in attempt {checkpoint.attempt}: another attempt has written it."
            " This attempt has stopped; nothing needs to be done."
        )
        self.number = checkpoint.number


class ChainMissing(StorageFailed):
    """A pipeline has committed checkpoints, and the storage of the process that needs them has none."""

    code = "chain-missing"

    def __init__(self, job_id: str, pipeline_id: int) -> None:
        super().__init__(
            f"Cannot go on with pipeline {job_id}/{pipeline_id}: it has committed checkpoints, and none is in the"
            " checkpoint storage of this process. All masters and workers need one shared folder: mount it, or"
            " start this one with the right --data. Nothing was read or written."
        )


class Chain:
    """The checkpoints of one pipeline."""

    def __init__(self, files: Files, job_id: str, pipeline_id: int) -> None:
        self._files = files
        self._folder = f"{job_id}/{pipeline_id}"
        self.job_id = job_id
        self.pipeline_id = pipeline_id

    def list_numbers(self) -> list[int]:
        """All numbers that were ever begun and not removed, ascending. The last may have no manifest."""
        found = self._files.list_folder(self._folder)
        return sorted(int(item.name) for item in found if item.is_folder and item.name.isdigit())

    def head(self) -> int:
        """The newest number that has a manifest; 0 for an empty chain."""
        for number in reversed(self.list_numbers()):
            if any(i.name == MANIFEST for i in self._files.list_folder(self._path(number))):
                return number
        return 0

    def read(self, number: int) -> Checkpoint:
        """Raises DocumentBroken when it is not whole, NotThere when there is none."""
        name = f"checkpoint {number} of pipeline {self.job_id}/{self.pipeline_id}"
        body = read_document(self._files.read(f"{self._path(number)}/{MANIFEST}"), name)
        try:
            found = checkpoint_from_json(body)
        except (KeyError, TypeError, ValueError, AttributeError) as wrong:
            raise DocumentBroken(f"Cannot read {name}: it lacks {wrong}.") from wrong
        if (found.job_id, found.pipeline_id, found.number) != (
            self.job_id,
            self.pipeline_id,
            number,
        ):
            raise DocumentBroken(
                f"Cannot read {name}: its folder holds checkpoint {found.number} of pipeline"
                f" {found.job_id}/{found.pipeline_id}. Move it back where it was."
            )
        return found

    def tip(self) -> Checkpoint | None:
        """The newest checkpoint, or None for an empty chain. Raises DocumentBroken.

        The chain may go on, and what was its head be tidied away, between finding and reading it.
        """
        missed = 0
        while number := self.head():
            try:
                return self.read(number)
            except NotThere:
                if number == missed:
                    raise
                missed = number
        return None

    def extend(self, checkpoint: Checkpoint) -> None:
        """The commit point. Raises ChainMoved when somebody was first."""
        assert (checkpoint.job_id, checkpoint.pipeline_id) == (self.job_id, self.pipeline_id)
        data = write_document(checkpoint.to_json())
        path = f"{self._path(checkpoint.number)}/{MANIFEST}"
        try:
            self._files.create_exclusive(path, data)
        except AlreadyThere as late:
            raise ChainMoved(checkpoint) from late
        except OutcomeUnknown as lost:
            self._look_again(path, data, checkpoint, lost)

    def write_beside(self, number: int, name: str, body: JsonObject) -> None:
        """A document for people in a checkpoint's folder. Nothing is ever decided from it."""
        self._files.write(f"{self._path(number)}/{name}", write_document(body))

    def remove(self, number: int) -> None:
        """Forget one checkpoint. Which ones may go is `decide_retention`'s to say."""
        self._files.remove(self._path(number))

    def _look_again(
        self, path: str, data: bytes, checkpoint: Checkpoint, lost: OutcomeUnknown
    ) -> None:
        """The create's answer was lost: what is there now tells how it went."""
        try:
            found = self._files.read(path)
        except NotThere:
            raise lost from None
        if found != data:
            raise ChainMoved(checkpoint) from lost

    def _path(self, number: int) -> str:
        return f"{self._folder}/{number}"


def list_jobs(files: Files) -> list[str]:
    """All job ids that have a chain."""
    return [i.name for i in files.list_folder("") if i.is_folder and i.name != "savepoint"]


def list_pipelines(files: Files, job_id: str) -> list[int]:
    """The pipelines of a job that have a chain."""
    found = files.list_folder(job_id)
    return sorted(int(item.name) for item in found if item.is_folder and item.name.isdigit())
