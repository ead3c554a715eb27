"""What a restore finds in a chain, and the claim that follows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.checkpoint.chain import Chain
from holdfast.checkpoint.savepoint import write_savepoint
from holdfast.decide.restore import parse_restore
from holdfast.model.checkpoints import Checkpoint, CheckpointKind, SinkState
from holdfast.model.jobs import Role
from holdfast.model.json import JsonObject
from holdfast.model.schema import Table
from holdfast.runtime.catalog import Catalog
from holdfast.runtime.open_pipeline import OpenPipeline, build_pipeline
from holdfast.runtime.restore import RestoreStopped, Start, find_start
from holdfast.spec.fingerprint import pipeline_fingerprint
from holdfast.testing import model_sink, model_table
from holdfast.testing.builders import a_spec, an_env
from holdfast.testing.crashes import MemoryFiles, VirtualClock
from holdfast.testing.model_log import log_table
from holdfast.testing.model_sink import SinkOptions
from holdfast.testing.model_table import TableOptions

TOKEN: JsonObject = {"lineage": "l", "attempt": 1, "epoch": 3, "parts": []}


class Place:
    """A pipeline, its storage, and restores of it."""

    def __init__(self, folder: Path, *, rewindable: bool = True, splits: int = 9) -> None:
        clock = VirtualClock()
        self.files = MemoryFiles(clock)
        self.chain = Chain(self.files, "orders", 1)
        options = SinkOptions(folder=str(folder), rewindable=rewindable)
        spec = a_spec(
            {"source-0": (model_table.SOURCE, TableOptions(splits=splits))},
            {"sink-0": (model_sink.SINK, options)},
        ).pipelines[0]
        own = {
            (Role.SOURCE, model_table.SOURCE.name): model_table.SOURCE,
            (Role.SINK, model_sink.SINK.name): model_sink.SINK,
        }
        self.pipeline: OpenPipeline = build_pipeline(
            "orders", an_env(), spec, Catalog(own=own), clock
        )
        self.fingerprint = pipeline_fingerprint(spec)

    def link(self, number: int, **changes: Any) -> Checkpoint:
        values: dict[str, Any] = {
            "job_id": "orders",
            "pipeline_id": 1,
            "number": number,
            "attempt": 1,
            "generation": 1,
            "kind": CheckpointKind.EPOCH,
            "at_ms": 0,
            "sources": {"source-0": {"next": number}},
            "sinks": {"sink-0": SinkState(True, None)},
            "fingerprint": self.fingerprint,
            "lineage": "l",
        }
        return Checkpoint(**{**values, **changes})

    def fill(self, *links: Checkpoint) -> None:
        for link in links:
            self.chain.extend(link)

    def claim(self, number: int, attempt: int, **changes: Any) -> Checkpoint:
        return self.link(number, attempt=attempt, kind=CheckpointKind.CLAIM, **changes)

    def restore(self, text: str = "auto", on_missing: str = "fail") -> Start:
        request = parse_restore(text, on_missing)
        return find_start(self.pipeline, self.chain, self.files, request, delivered)


def delivered() -> dict[str, list[Table]]:
    return {"source-0": [log_table("t")], "sink-0": [log_table("t")]}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_job_never_seen_starts_fresh_at_number_and_attempt_one(place: Place) -> None:
    claim = place.restore().claim

    assert (claim.number, claim.attempt, claim.generation) == (1, 1, 1)
    assert claim.kind is CheckpointKind.CLAIM
    assert claim.lineage


def test_the_claim_on_a_tip_repeats_its_positions_and_tokens(place: Place) -> None:
    place.fill(place.link(1), place.link(2, sinks={"sink-0": SinkState(True, TOKEN)}))

    claim = place.restore().claim

    assert (claim.number, claim.attempt, claim.lineage) == (3, 2, "l")
    assert claim.sources == {"source-0": {"next": 2}}
    assert claim.sinks["sink-0"].token == TOKEN
    assert (claim.abandons_after, claim.rewind_due) == (None, None)


def test_two_claims_never_have_the_same_bytes(place: Place) -> None:
    assert place.restore().claim.claim_id != place.restore().claim.claim_id


def test_looking_writes_nothing(place: Place) -> None:
    place.fill(place.link(1))

    place.restore()

    assert place.chain.list_numbers() == [1]


def test_going_back_abandons_and_rewinds_what_lies_behind(place: Place) -> None:
    place.fill(*[place.link(number) for number in (1, 2, 3, 4)])

    claim = place.restore("checkpoint:2").claim

    assert (claim.number, claim.abandons_after, claim.rewind_due) == (5, 2, 2)
    assert claim.sources == {"source-0": {"next": 2}}


def test_a_rewind_that_may_not_have_been_done_is_due_again(place: Place) -> None:
    back = place.claim(4, 2, abandons_after=1, rewind_due=1, sources={"source-0": {"next": 1}})
    place.fill(place.link(1), place.link(2), place.link(3), back)

    assert place.restore().claim.rewind_due == 1

    place.fill(replace(place.restore("none").claim, number=5))
    assert place.restore("checkpoint:4").claim.rewind_due == 1


def test_a_number_that_was_begun_and_never_committed_is_not_taken_for_another(
    place: Place,
) -> None:
    place.fill(place.link(1))
    place.files.write("orders/1/2/restore.json", b"")

    with pytest.raises(RestoreStopped, match="refused"):
        place.restore("checkpoint:2")


def test_an_abandoned_checkpoint_is_refused_where_sinks_took_rows_back(place: Place) -> None:
    place.fill(
        place.link(1), place.link(2), place.claim(3, 2, abandons_after=1), place.link(4, attempt=2)
    )

    with pytest.raises(RestoreStopped, match="took back what it had published"):
        place.restore("checkpoint:2")


def test_an_abandoned_checkpoint_may_be_named_where_no_sink_takes_rows_back(
    tmp_path: Path,
) -> None:
    place = Place(tmp_path, rewindable=False)
    place.fill(place.link(1), place.link(2), place.claim(3, 2, abandons_after=1))

    assert place.restore("checkpoint:2").claim.sources == {"source-0": {"next": 2}}


def test_a_claim_that_came_too_late_is_no_place_to_go_on_from(place: Place) -> None:
    place.fill(place.link(1), place.claim(2, 2), place.link(3), place.link(4))

    with pytest.raises(RestoreStopped, match="wrote it too late"):
        place.restore("checkpoint:2")


def test_an_attempt_is_above_those_that_cannot_be_read(place: Place) -> None:
    place.fill(place.link(1), place.link(2, attempt=2), place.link(3, attempt=3))
    for number in (2, 3):
        place.files.write(f"orders/1/{number}/manifest.json", b"{")

    assert place.restore(on_missing="previous").claim.attempt == 4


def test_another_jobs_savepoint_gives_positions_and_no_tokens(place: Place) -> None:
    other = place.link(9, job_id="other", sinks={"sink-0": SinkState(True, TOKEN)})
    path = write_savepoint(place.files, [other], 1).path

    claim = place.restore(f"path:{path}").claim

    assert (claim.number, claim.sources) == (1, {"source-0": {"next": 9}})
    assert claim.sinks["sink-0"] == SinkState(True, None)


def test_a_savepoint_after_the_chain_was_wiped_goes_on_behind_its_number(place: Place) -> None:
    path = write_savepoint(place.files, [place.link(9, attempt=4)], 1).path

    claim = place.restore(f"path:{path}").claim

    assert (claim.number, claim.attempt) == (10, 5)
    assert claim.lineage not in ("", "l"), "epochs after the savepoint may have been published"


def test_a_savepoint_of_before_the_wipe_rewinds_nothing_of_after(place: Place) -> None:
    path = write_savepoint(place.files, [place.link(2, lineage="before")], 1).path
    place.fill(*[place.link(number) for number in (1, 2, 3)])

    claim = place.restore(f"path:{path}").claim

    assert (claim.number, claim.generation) == (4, 2)
    assert (claim.abandons_after, claim.rewind_due) == (None, None)
