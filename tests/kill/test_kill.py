"""A killed process loses nothing: real processes, real files, a real PostgreSQL. Few rounds here; the long form is
`python -m holdfast.testing.kill_rounds --rounds 200`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.testing.kill_rounds import run_rounds
from holdfast.testing.servers import Database

ROUNDS = int(os.environ.get("HOLDFAST_KILLS", "6"))


@pytest.mark.servers
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_a_job_that_is_killed_again_and_again_leaves_each_row_once(
    postgres_database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told: list[str] = []

    tally = run_rounds(tmp_path, postgres_database, rounds=ROUNDS, seed=7, say=told.append)

    assert tally.kills >= ROUNDS, told
