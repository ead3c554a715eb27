"""`holdfast plan`: the drawing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.cli import plan
from holdfast.model.errors import ConfigError
from tests.cli.a_job import TWO_SINKS, call, write


def test_a_job_is_drawn_as_a_tree_with_parallelism_and_guarantees(tmp_path: Path) -> None:
    code, printed = call(plan, write(tmp_path, TWO_SINKS))

    assert code == 0
    assert [line.rstrip() for line in printed.splitlines()] == [
        "orders BATCH",
        "pipeline 1",
        "└── source-0-ledger Ledger x2 as in",
        "    ├── sink-0-ledger Ledger x4: exactly-once (while the book is closed)",
        "    └── sink-1-ledger Ledger x2: exactly-once (while the book is closed)",
    ]


def test_what_several_feed_is_drawn_once_and_pointed_at(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """
        source { Ledger { book = a, plugin_output = "[red]" } Ledger { book = b, plugin_output = b }
                 Ledger { book = c, plugin_output = c } }
        sink { Ledger { book = x, plugin_input = ["[red]", b] } Ledger { book = y, plugin_input = c } }
        """,
    )

    _, printed = call(plan, path)

    assert [line.rstrip() for line in printed.splitlines()][1:] == [
        "pipeline 1",
        "├── source-0-ledger Ledger x1 as [red]",
        "│   └── -> sink-0-ledger (below source-1-ledger)",
        "└── source-1-ledger Ledger x1 as b",
        "    └── sink-0-ledger Ledger x1: exactly-once (while the book is closed)",
        "pipeline 2",
        "└── source-2-ledger Ledger x1 as c",
        "    └── sink-1-ledger Ledger x1: exactly-once (while the book is closed)",
    ]


def test_a_job_with_problems_is_an_error_that_holds_them_all(tmp_path: Path) -> None:
    path = write(tmp_path, "source { Ledger {} }\nsink { Ledger {} }")

    with pytest.raises(ConfigError) as caught:
        call(plan, path)

    assert str(caught.value).splitlines() == [
        f"Cannot read {path}: it has 2 problems.",
        f"{path}:1: source Ledger: option 'book' is required (string) and missing",
        f"{path}:2: sink Ledger: option 'book' is required (string) and missing",
    ]


def test_json_is_that_of_check(tmp_path: Path) -> None:
    found = json.loads(call(plan, write(tmp_path, TWO_SINKS), "--json")[1])

    assert found["job"] == {"id": None, "name": "orders", "mode": "BATCH"}
