"""Checkpoints are stored as JSON and say what they mean."""

import json

import pytest

from holdfast.model.checkpoints import CheckpointKind, SinkState, checkpoint_from_json
from tests.checkpoint.links import a_checkpoint

DONE = {"source-0": {"at": 9, "done": True}}
CLOSED = {"sink-0": SinkState(True, None)}


def test_a_checkpoint_comes_back_from_json_as_it_was() -> None:
    whole = a_checkpoint(
        5,
        kind=CheckpointKind.CLAIM,
        lineage="l",
        claim_id="c",
        tables={"source-0": [{"path": "t", "columns": []}]},
        restored_from="savepoint x",
        abandons_after=3,
        rewind_due=3,
    )

    assert checkpoint_from_json(json.loads(json.dumps(whole.to_json()))) == whole


@pytest.mark.parametrize("name", ["jobId", "checkpointId", "sources", "sinks", "kind"])
def test_json_that_lacks_a_fact_is_refused(name: str) -> None:
    found = a_checkpoint().to_json()
    del found[name]

    with pytest.raises(KeyError):
        checkpoint_from_json(found)


def test_numbers_have_no_gaps() -> None:
    assert a_checkpoint(5).parent == 4
    assert a_checkpoint(5).follow().number == 6


def test_what_only_concerns_a_claim_does_not_go_on() -> None:
    claim = a_checkpoint(5, restored_from="x", abandons_after=2, rewind_due=2)

    follower = claim.follow()

    assert (follower.restored_from, follower.abandons_after, follower.rewind_due) == (None,) * 3


def test_it_is_completed_when_all_sources_are_done() -> None:
    assert a_checkpoint(sources=DONE).completed
    assert not a_checkpoint(sources={**DONE, "source-1": {"at": 1}}).completed
    assert not a_checkpoint(sources={}).completed


def test_it_is_settled_only_when_nothing_is_left_to_do() -> None:
    claim = CheckpointKind.CLAIM

    assert a_checkpoint(sources=DONE, sinks=CLOSED).settled
    assert not a_checkpoint(sources=DONE).settled, "a token may still have to be published"
    assert not a_checkpoint(sources=DONE, sinks={"sink-0": SinkState()}).settled
    assert not a_checkpoint(sources=DONE, sinks=CLOSED, kind=claim).settled
    assert not a_checkpoint(sources=DONE, sinks=CLOSED, rewind_due=3).settled
    assert not a_checkpoint(sinks=CLOSED).settled
