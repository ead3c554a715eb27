"""A chain grows by one exclusive create at a time and tells what is broken."""

from pathlib import Path

import pytest

from holdfast.checkpoint.chain import Chain, ChainMoved, list_jobs, list_pipelines
from holdfast.checkpoint.document import DocumentBroken
from holdfast.model.errors import OutcomeUnknown
from holdfast.outside.files import LocalFiles, NotThere
from holdfast.testing.crashes import CrashingFiles, Fault, MemoryFiles, VirtualClock
from tests.checkpoint.links import a_checkpoint


@pytest.fixture
def files(tmp_path: Path) -> LocalFiles:
    return LocalFiles(tmp_path)


@pytest.fixture
def chain(files: LocalFiles) -> Chain:
    return Chain(files, "orders", 1)


def test_an_empty_chain_has_no_tip(chain: Chain) -> None:
    assert chain.head() == 0
    assert chain.tip() is None


def test_the_tip_is_what_was_written_last(chain: Chain) -> None:
    for number in range(1, 12):
        chain.extend(a_checkpoint(number))

    assert chain.list_numbers() == list(range(1, 12))
    assert chain.tip() == a_checkpoint(11)


def test_who_comes_second_is_told_and_changes_nothing(chain: Chain) -> None:
    chain.extend(a_checkpoint(1, attempt=1))

    with pytest.raises(ChainMoved, match="another attempt has written it"):
        chain.extend(a_checkpoint(1, attempt=2))

    assert chain.read(1).attempt == 1


def test_a_number_that_was_begun_and_never_committed_is_not_the_head(
    chain: Chain, tmp_path: Path
) -> None:
    chain.extend(a_checkpoint(1))
    (tmp_path / "orders/1/2").mkdir()

    assert chain.head() == 1
    with pytest.raises(NotThere):
        chain.read(2)


def test_a_broken_manifest_is_named_with_its_pipeline(chain: Chain, tmp_path: Path) -> None:
    chain.extend(a_checkpoint(1))
    (tmp_path / "orders/1/1/manifest.json").write_bytes(b"{")

    with pytest.raises(DocumentBroken, match="checkpoint 1 of pipeline orders/1"):
        chain.tip()


def test_a_manifest_in_the_wrong_folder_is_broken(chain: Chain, tmp_path: Path) -> None:
    chain.extend(a_checkpoint(1))
    (tmp_path / "orders/1/1").rename(tmp_path / "orders/1/7")

    with pytest.raises(DocumentBroken, match="holds checkpoint 1 of pipeline orders/1"):
        chain.read(7)


def test_a_manifest_that_lacks_something_is_broken(chain: Chain, files: LocalFiles) -> None:
    chain.write_beside(1, "manifest.json", {"jobId": "orders"})

    with pytest.raises(DocumentBroken, match="it lacks"):
        chain.read(1)


def test_removing_forgets_one_number_and_no_other(chain: Chain) -> None:
    for number in (1, 2, 3):
        chain.extend(a_checkpoint(number))

    chain.remove(2)
    chain.remove(2)

    assert chain.list_numbers() == [1, 3]


def crashing(fault: Fault) -> tuple[Chain, Chain]:
    clock = VirtualClock()
    memory = MemoryFiles(clock)
    return (
        Chain(CrashingFiles(memory, clock, fault, at=1), "orders", 1),
        Chain(memory, "orders", 1),
    )


def test_a_lost_answer_of_a_create_that_was_done_is_found_out() -> None:
    ours, plain = crashing(Fault.LOST_AFTER)

    ours.extend(a_checkpoint(1))

    assert plain.head() == 1


def test_a_lost_answer_of_a_create_that_was_not_done_stays_unknown() -> None:
    ours, plain = crashing(Fault.LOST_BEFORE)

    with pytest.raises(OutcomeUnknown):
        ours.extend(a_checkpoint(1))

    assert plain.head() == 0


def test_a_lost_answer_behind_anothers_checkpoint_is_a_lost_race() -> None:
    ours, plain = crashing(Fault.LOST_BEFORE)
    plain.extend(a_checkpoint(1, claim_id="theirs"))

    with pytest.raises(ChainMoved):
        ours.extend(a_checkpoint(1, claim_id="ours"))


def test_jobs_and_pipelines_are_told_from_savepoints(chain: Chain, files: LocalFiles) -> None:
    chain.extend(a_checkpoint(1))
    files.write("savepoint/orders/1/savepoint.json", b"")

    assert list_jobs(files) == ["orders"]
    assert list_pipelines(files, "orders") == [1]
