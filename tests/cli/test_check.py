"""`holdfast check`: what it prints, what it returns, and what it must not load."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.cli import check
from holdfast.model.errors import ConfigError
from tests.cli.a_job import TWO_SINKS, call, write


def test_a_good_job_is_ok_with_its_pipelines_and_guarantees(tmp_path: Path) -> None:
    path = write(tmp_path, TWO_SINKS)

    code, printed = call(check, path)

    assert code == 0
    assert printed.splitlines() == [
        f"{path}: ok, BATCH, 1 pipeline",
        "  pipeline 1: source-0-ledger -> sink-0-ledger, sink-1-ledger",
        "    sink-0-ledger: exactly-once (while the book is closed)",
        "    sink-1-ledger: exactly-once (while the book is closed)",
    ]


def test_every_problem_is_printed_with_file_and_line_and_the_code_is_3(tmp_path: Path) -> None:
    path = write(tmp_path, "source { Ledgr { book = b }\n }\nsink { Ledger { boook = ${b} } }")

    code, printed = call(check, path)

    assert code == 3
    assert printed.splitlines() == [
        f"{path}:1: there is no source 'Ledgr'. Did you mean 'Ledger'? There are: "
        + printed.splitlines()[0].split("There are: ")[1],
        f"{path}:3: variable 'b' has no value. Give it one with -i b=…, or a default in the file: ${{b:…}}",
        f"{path}:3: sink Ledger: option 'book' is required (string) and missing",
        f"{path}:3: sink Ledger: there is no option 'boook'. Did you mean 'book'?",
        f"{path}: 4 problems",
    ]


def test_a_connector_that_cannot_be_built_is_a_problem(tmp_path: Path) -> None:
    path = write(tmp_path, "source { Ledger { book = b } }\nsink { Ledger { book = lost } }")

    code, printed = call(check, path)

    assert code == 3
    assert (
        f"{path}:2: sink Ledger: Cannot open book 'lost': its driver is not installed." in printed
    )


def test_a_source_that_cannot_read_again_lessens_what_its_sinks_promise(tmp_path: Path) -> None:
    path = write(tmp_path, TWO_SINKS.replace("book = b", "book = news"))

    assert "a source cannot read again" in call(check, path)[1]


def test_notes_are_printed_and_are_no_problem(tmp_path: Path) -> None:
    path = write(tmp_path, TWO_SINKS)

    code, printed = call(check, path, "-i", "unused=1")

    assert code == 0
    assert f"{path}: note: variable 'unused' (-i) is used nowhere in the file" in printed


def test_variables_are_filled(tmp_path: Path) -> None:
    path = write(tmp_path, TWO_SINKS.replace("book = b", 'book = "${which}"'))

    assert call(check, path, "-i", "which=a=b")[0] == 0


def test_json_says_all_of_it(tmp_path: Path) -> None:
    good, bad = write(tmp_path, TWO_SINKS), write(tmp_path, "source {", "bad.conf")

    found = json.loads(call(check, good, "--json")[1])
    wrong = json.loads(call(check, bad, "--json")[1])

    assert found["ok"] is True
    assert [v["location"] for v in found["pipelines"][0]["vertices"]] == [
        "source-0-ledger",
        "sink-0-ledger",
        "sink-1-ledger",
    ]
    assert found["pipelines"][0]["vertices"][1]["guarantee"] == "exactly-once"
    assert wrong["ok"] is False
    assert wrong["problems"][0]["line"] == 1


@pytest.mark.parametrize("what", ["missing.conf", "a-folder", "latin.conf"])
def test_a_file_that_cannot_be_read_is_a_clear_error(tmp_path: Path, what: str) -> None:
    (tmp_path / "a-folder").mkdir()
    (tmp_path / "latin.conf").write_bytes("a = ä".encode("latin-1"))

    with pytest.raises(ConfigError, match="Cannot read .*" + what):
        call(check, str(tmp_path / what))


def test_a_variable_without_a_value_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected NAME=VALUE"):
        call(check, write(tmp_path, TWO_SINKS), "-i", "novalue")


def test_no_secret_is_printed(tmp_path: Path) -> None:
    path = write(
        tmp_path, TWO_SINKS.replace("book = x", "book = x, key = hunter2, pages = hunter2")
    )

    code, printed = call(check, path)

    assert code == 3
    assert "expected a whole number, found '******'" in printed
    assert "hunter2" not in printed + call(check, path, "--json")[1]


LOADED = """
import sys
import holdfast.cli.check, holdfast.cli.plan, holdfast.cli.options
from holdfast.model.jobs import Role
from holdfast.runtime.catalog import Catalog
catalog = Catalog()
for role in Role:
    for name in catalog.names(role):
        assert catalog.find(role, name) is not None, name
heavy = ("pyspark", "pandas", "py4j", "psycopg", "pymysql", "openpyxl", "lxml", "sqlglot", "rich")
print(sorted(set(heavy) & set(sys.modules)))
"""


def test_looking_at_every_connector_loads_neither_spark_nor_a_driver() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED], capture_output=True, text=True, timeout=240, check=False
    )

    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_problems_of_included_files_are_told_with_their_own_lines(tmp_path: Path) -> None:
    write(tmp_path, "job.mode = BATCH\nparallelism = two", "common.conf")
    sink = "\nsink { Ledger { plugin_input = no, book = x } }"
    path = write(tmp_path, 'env { include "common" }\nsource { Ledger { book = b } }' + sink)

    code, printed = call(check, path)

    assert code == 3
    assert f"{tmp_path}/common.conf:2: env: option 'parallelism'" in printed
    assert f"{path}:3: note: sink Ledger: nothing is named 'no'" in printed
