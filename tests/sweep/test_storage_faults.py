"""Whatever checkpoint storage does: it fails, it is slow, or nobody can tell what it did."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.testing.crashes import Fault
from tests.sweep.sweeping import assert_ended, bring_to_rest
from tests.sweep.worlds import WORLDS

NAMES = ["splits into one sink", "bounded log into two sinks", "stream of a log"]


@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.value)
@pytest.mark.parametrize("name", NAMES)
def test_a_fault_of_any_operation_loses_and_repeats_nothing(
    name: str, fault: Fault, tmp_path: Path
) -> None:
    counted = WORLDS[name](tmp_path)
    files = counted.world.files()
    assert_ended(counted, counted.world.run(files=files))

    for at, operation in enumerate(files.names, start=1):
        swept = WORLDS[name](tmp_path)
        swept.world.run(files=swept.world.files(fault=fault, at=at))

        bring_to_rest(swept, f"{name}, {fault.value}: {operation}")
