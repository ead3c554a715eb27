"""`holdfast options`, and the pages of the docs that are made of the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.cli import options
from holdfast.cli.docs import stale_pages, write_pages
from holdfast.model.errors import ConfigError
from holdfast.runtime.catalog import Catalog
from tests.cli.a_job import CATALOG, call


def test_without_a_name_all_are_listed_with_a_sentence() -> None:
    code, printed = call(options)

    lines = printed.splitlines()
    assert code == 0
    assert {"sources", "transforms", "sinks", "env"} <= set(lines)
    assert [" ".join(line.split()) for line in lines if "Ledger" in line] == [
        "Ledger Reads a book",
        "Ledger Writes a book",
    ]


def test_a_name_shows_each_role_with_types_defaults_and_docs() -> None:
    _, printed = call(options, "ledger")

    assert printed.splitlines()[:9] == [
        "source Ledger",
        "  Reads a book.",
        "",
        "  More of it.",
        "",
        "  option  type    default",
        "  book    string  required    Which book.",
        "  pages   int     2147483647  How many pages. At least 1. Also: sheets.",
        "  key     string              Opens it. Secret.",
    ]
    assert "sink Ledger" in printed


def test_json_has_every_fact() -> None:
    source, sink = json.loads(call(options, "Ledger", "--json")[1])

    assert (source["role"], sink["role"], source["name"]) == ("source", "sink", "Ledger")
    assert source["options"][1] == {
        "name": "pages",
        "type": "int",
        "required": False,
        "default": 2147483647,
        "secret": False,
        "doc": "How many pages.",
        "aliases": ["sheets"],
        "minimum": 1,
    }


def test_markdown_is_the_page_of_the_docs() -> None:
    _, printed = call(options, "Ledger", "--markdown")

    assert printed.startswith("# Ledger\n")
    assert "## Source\n\nReads a book.\n\nMore of it.\n" in printed
    assert "| `book` | string | required | Which book. |" in printed
    assert "| `mode` | string | `a\\|b` | How \\| why. |" in printed


def test_env_is_a_page_as_well() -> None:
    assert "job.retry.times" in call(options, "env")[1]


def test_an_unknown_name_is_an_error_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'Ledger'"):
        call(options, "Ledgre")


def test_pages_are_written_for_all_and_stale_ones_are_named(tmp_path: Path) -> None:
    written = write_pages(tmp_path, CATALOG)

    assert tmp_path / "connectors" / "ledger.md" in written
    assert tmp_path / "env.md" in written
    assert stale_pages(tmp_path, CATALOG) == []
    (tmp_path / "env.md").write_text("old")
    (tmp_path / "connectors" / "ledger.md").unlink()
    assert stale_pages(tmp_path, CATALOG) == ["connectors/ledger.md", "env.md"]


def test_every_connector_and_transform_there_is_has_a_page(tmp_path: Path) -> None:
    for path in write_pages(tmp_path, Catalog()):
        text = path.read_text()
        assert text.startswith("# ")
        assert "\n| " in text or "no options of its own" in text
