"""What an ended generation leaves in checkpoint storage, and which of it goes after the cleanup delay."""

from __future__ import annotations

from holdfast.checkpoint.chain import Chain
from holdfast.checkpoint.document import DocumentBroken
from holdfast.model.checkpoints import CheckpointKind
from holdfast.model.jobs import Job, Outcome
from holdfast.outside.files import Files, NotThere


def clean_up_storage(job: Job, files: Files) -> None:
    """A finished job keeps its tip, which says that it is finished, and its claims. Any other outcome keeps
    everything: the job may be gone on with from any of its restore points. What a newer submission has claimed is
    never touched.
    """
    if job.outcome is not Outcome.FINISHED:
        return
    for pipeline_id in job.submitted.pipeline_ids:
        chain = Chain(files, job.id, pipeline_id)
        head = chain.head()
        if head == 0 or not _belongs_to(chain, head, job):
            continue
        for number in chain.list_numbers():
            if number < head and not _is_claim(chain, number):
                chain.remove(number)


def _belongs_to(chain: Chain, number: int, job: Job) -> bool:
    try:
        return chain.read(number).submission == job.submitted.submission
    except (DocumentBroken, NotThere):
        return False


def _is_claim(chain: Chain, number: int) -> bool:
    """What cannot be read counts as one: it is left for people to see."""
    try:
        return chain.read(number).kind is CheckpointKind.CLAIM
    except (DocumentBroken, NotThere):
        return True
