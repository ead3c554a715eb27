"""Savepoints are whole or absent, hold all pipelines, and need nothing outside themselves."""

import shutil
from pathlib import Path

import pytest

from holdfast.checkpoint.document import DocumentBroken
from holdfast.checkpoint.savepoint import list_savepoints, read_savepoint, write_savepoint
from holdfast.outside.files import LocalFiles
from tests.checkpoint.links import a_checkpoint

TIPS = [a_checkpoint(4), a_checkpoint(7, pipeline_id=2)]


@pytest.fixture
def files(tmp_path: Path) -> LocalFiles:
    return LocalFiles(tmp_path / "checkpoints")


def test_a_savepoint_holds_the_tip_of_every_pipeline(files: LocalFiles) -> None:
    written = write_savepoint(files, TIPS, 1_000)

    assert read_savepoint(files, written.path) == written
    assert dict(written.checkpoints) == {1: TIPS[0], 2: TIPS[1]}


def test_two_savepoints_of_one_millisecond_are_two(files: LocalFiles) -> None:
    first = write_savepoint(files, TIPS, 1_000)
    second = write_savepoint(files, TIPS, 1_000)

    assert list_savepoints(files, "orders") == [second.path, first.path]


def test_a_savepoint_without_its_index_does_not_exist(files: LocalFiles, tmp_path: Path) -> None:
    written = write_savepoint(files, TIPS, 1_000)
    (tmp_path / "checkpoints" / written.path / "savepoint.json").unlink()

    assert list_savepoints(files, "orders") == []
    with pytest.raises(DocumentBroken, match=r"there is no savepoint\.json in it"):
        read_savepoint(files, written.path)


def test_a_missing_part_is_named(files: LocalFiles, tmp_path: Path) -> None:
    written = write_savepoint(files, TIPS, 1_000)
    shutil.rmtree(tmp_path / "checkpoints" / written.path / "2")

    with pytest.raises(DocumentBroken, match="pipeline 2 of savepoint"):
        read_savepoint(files, written.path)


def test_a_savepoint_is_read_from_wherever_it_was_copied(files: LocalFiles, tmp_path: Path) -> None:
    written = write_savepoint(files, TIPS, 1_000)
    shutil.copytree(tmp_path / "checkpoints" / written.path, tmp_path / "elsewhere")
    shutil.rmtree(tmp_path / "checkpoints")

    found = read_savepoint(files, f"{tmp_path}/elsewhere/")

    assert found.checkpoints == written.checkpoints
