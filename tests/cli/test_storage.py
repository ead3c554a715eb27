"""`holdfast storage`: nothing is kept that cannot be found, and nothing goes that lives."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from holdfast.checkpoint.chain import Chain, list_jobs
from holdfast.checkpoint.savepoint import list_savepoints, write_savepoint
from holdfast.cli.main import main
from holdfast.node import Node
from holdfast.outside.clock import RealClock
from holdfast.outside.files import LocalFiles
from holdfast.store.store import open_store
from holdfast.testing.builders import a_submitted_job
from tests.checkpoint.links import a_checkpoint

DAY_MS = 86_400_000


def _keep(data: Path, job_id: str, *, days: int, numbers: int = 3) -> None:
    """A chain whose newest checkpoint is so old."""
    at_ms = RealClock().now_ms() - days * DAY_MS
    chain = Chain(LocalFiles(data / "checkpoints"), job_id, 1)
    for number in range(1, numbers + 1):
        chain.extend(a_checkpoint(number, job_id=job_id, at_ms=at_ms - numbers + number))


def _run(data: Path, *arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = main(["storage", *arguments, "--data", str(data)])
    said = capsys.readouterr()
    return code, said.out, said.err


def _jobs(data: Path) -> list[str]:
    return list_jobs(LocalFiles(data / "checkpoints"))


def test_all_that_is_kept_is_listed_with_owner_size_age_and_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """F137: also of jobs that were canceled and forgotten long ago."""
    for number in range(20):
        _keep(tmp_path, f"job-{number:02}", days=number)
    files = LocalFiles(tmp_path / "checkpoints")
    tip = Chain(files, "job-03", 1).tip()
    assert tip is not None
    write_savepoint(files, [tip], 77)

    code, out, _ = _run(tmp_path, "ls", capsys=capsys)
    lines = out.splitlines()
    assert code == 0
    assert len(lines) == 22
    assert lines[6].startswith("job-05  1/3  3 files, ")
    assert lines[6].endswith("  5 d")
    assert lines[4].startswith("savepoint/job-03/77  savepoint  2 files, ")
    assert lines[-1].startswith(f"21 in {tmp_path / 'checkpoints'}, ")

    _, out, _ = _run(tmp_path, "ls", "--json", capsys=capsys)
    assert {holding["job_id"] for holding in json.loads(out)} == set(_jobs(tmp_path))


def test_what_has_not_run_for_so_long_goes_and_savepoints_stay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """F137: looked at first, and then done."""
    for number in range(20):
        _keep(tmp_path, f"job-{number:02}", days=number)
    files = LocalFiles(tmp_path / "checkpoints")
    tip = Chain(files, "job-19", 1).tip()
    assert tip is not None
    write_savepoint(files, [tip], 77)
    for path in (tmp_path / "checkpoints" / "savepoint").rglob("*.json"):
        os.utime(path, (1, 1))

    _, would, _ = _run(tmp_path, "gc", "--older-than", "10d", "--dry-run", capsys=capsys)
    assert len(_jobs(tmp_path)) == 20
    _, out, _ = _run(tmp_path, "gc", "--older-than", "10d", capsys=capsys)

    assert len(would.splitlines()) == len(out.splitlines()) == 10
    assert _jobs(tmp_path) == [f"job-{number:02}" for number in range(10)]
    assert list_savepoints(files, "job-19") == ["savepoint/job-19/77"]


def test_what_runs_or_shall_run_is_never_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """F137, F128: by a process of this machine, or by a cluster that may only wait for room."""
    for job_id in ("here", "there", "over"):
        _keep(tmp_path, job_id, days=40)
    store = open_store(f"sqlite:///{tmp_path / 'state' / 'holdfast.db'}", now_ms=0)
    store.commits.take_lease(seen_term=0, holder="a", url="", expires_at_ms=1)
    store.commits.submit_job(1, a_submitted_job("there"), is_restore=True)
    store.close()

    with Node(tmp_path).locked("here"):
        for job_id in ("here", "there"):
            code, _, err = _run(tmp_path, "rm", job_id, capsys=capsys)
            assert code == 1
            assert f"Cannot remove {job_id}: job {job_id} runs, or shall run" in err
        _run(tmp_path, "gc", "--older-than", "1d", capsys=capsys)

    assert _jobs(tmp_path) == ["here", "there"]


def test_a_name_takes_itself_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """F134: not what begins alike, and not a savepoint of the same job."""
    for job_id in ("123", "1234", "12"):
        _keep(tmp_path, job_id, days=1)
    files = LocalFiles(tmp_path / "checkpoints")
    tip = Chain(files, "123", 1).tip()
    assert tip is not None
    for at_ms in (7, 77):
        write_savepoint(files, [tip], at_ms)

    _run(tmp_path, "rm", "123", "savepoint/123/7", capsys=capsys)

    assert _jobs(tmp_path) == ["12", "1234"]
    assert list_savepoints(files, "123") == ["savepoint/123/77"]


def test_a_name_of_nothing_is_told_and_removes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _keep(tmp_path, "123", days=1)

    code, _, err = _run(tmp_path, "rm", "123", "../123", capsys=capsys)

    assert code == 3
    assert "Cannot remove ../123: nothing of that name is kept" in err
    assert _jobs(tmp_path) == ["123"]


def test_what_is_broken_is_listed_and_an_unfinished_savepoint_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """F130."""
    _keep(tmp_path, "it", days=1)
    folder = tmp_path / "checkpoints"
    (folder / "it" / "1" / "3" / "manifest.json").write_text("{")
    (folder / "savepoint" / "it" / "5" / "1").mkdir(parents=True)

    _, out, _ = _run(tmp_path, "ls", capsys=capsys)

    assert out.splitlines()[0].startswith("it  1 broken  3 files")
    assert "savepoint/it/5  savepoint that was never completed" in out
