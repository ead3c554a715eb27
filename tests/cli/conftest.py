"""A folder of its own for each test."""

from pathlib import Path

import pytest

from tests.cli.processes import Shell


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)
