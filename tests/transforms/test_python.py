"""Python in a job file: its three forms, how its columns are learnt, and what is said when it fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from holdfast.model.carried import restore_error
from holdfast.model.errors import ConfigError, Terminal
from tests.transforms.applying import Given, problems_of, run_one

pytestmark = pytest.mark.spark

ROWS = [{"id": 1, "name": " Joy "}, {"id": 2, "name": "Kin"}]
BATCH = """
import pyarrow as pa
import pyarrow.compute as pc

def transform(batch):
    at = batch.schema.get_field_index("name")
    trimmed = pc.utf8_trim_whitespace(batch.column(at))
    return batch.set_column(at, "name", trimmed).append_column("n", pc.utf8_length(trimmed))
"""


def given(**changed: Any) -> Given:
    return Given(
        **{"path": "t", "columns": {"id": "int", "name": "string"}, "rows": ROWS, **changed}
    )


def changes() -> Given:
    kinds = ("+U", "-D")
    rows = [{**row, "__kind": kind} for row, kind in zip(ROWS, kinds, strict=True)]
    return given(rows=rows, kinds=True)


def python(spark: SparkSession, code: str, one: Given, **options: Any) -> Any:
    return run_one(spark, "Python", {"source_code": code, **options}, one)


def test_transform_learns_its_columns_on_an_empty_batch(spark: SparkSession) -> None:
    made = python(spark, BATCH, changes())

    assert made.rows[0] == {"id": 1, "name": "Joy", "n": 3, "__kind": "+U"}
    assert made.table.column_names == ["id", "name", "n"]


def test_transform_that_loses_kinds_with_rows_is_told(spark: SparkSession) -> None:
    code = "def transform(batch):\n    return batch.select(['id']).slice(1)"

    with pytest.raises(Terminal, match="left out the column __kind, so their kinds are lost"):
        _restored(lambda: python(spark, code, changes()))


def test_transform_row_changes_drops_and_multiplies_rows(spark: SparkSession) -> None:
    code = """
def transform_row(row):
    if row["id"] == 2:
        return None
    return [row, {**row, "id": 10}]
"""

    made = python(spark, code, changes())

    assert [(row["id"], row["__kind"]) for row in made.rows] == [(1, "+U"), (10, "+U")]


def test_transform_row_makes_the_columns_of_its_schema(spark: SparkSession) -> None:
    code = "def transform_row(row):\n    return {'key': row['id'], 'long': len(row['name']) > 3}"
    schema = {"schema": {"fields": {"key": "bigint", "long": "boolean"}}}

    made = python(spark, code, given(), **schema)

    assert made.rows == [{"key": 1, "long": True}, {"key": 2, "long": False}]


@pytest.mark.parametrize(
    "returned",
    [
        '{"norm": context["config"]["prefix"] + row["name"].strip(), "next": row["id"] + 1}',
        '[context["config"]["prefix"] + row["name"].strip(), row["id"] + 1]',
    ],
)
def test_process_adds_its_columns(spark: SparkSession, returned: str) -> None:
    code = f"def process(row, context):\n    return {returned}"
    options = {
        "script_config": {"prefix": "user:"},
        "columns": [{"dest_field": "norm"}, {"dest_field": "next", "dest_type": "int"}],
    }

    made = python(spark, code, changes(), **options)

    assert made.rows[0] == {"id": 1, "name": " Joy ", "norm": "user:Joy", "next": 2, "__kind": "+U"}


def test_open_is_called_before_the_first_row(spark: SparkSession) -> None:
    code = """
def open(context):
    global names
    names = [field["name"] for field in context["input_fields"]]

def process(row, context):
    return ",".join(names)
"""

    made = python(spark, code, given(), columns=[{"dest_field": "seen"}])

    assert made.rows[0]["seen"] == "id,name"


def test_code_may_stand_in_a_file_or_a_module(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "code.py"
    source.write_text(BATCH)

    by_file = run_one(spark, "Python", {"absolute_path": str(source)}, given())
    by_compile = run_one(
        spark,
        "DynamicCompile",
        {"compile_pattern": "ABSOLUTE_PATH", "absolute_path": str(source)},
        given(),
    )

    assert by_file.rows == by_compile.rows
    assert by_file.rows[1]["n"] == 3


def test_an_exception_fails_the_job_with_its_line(spark: SparkSession) -> None:
    code = "def transform_row(row):\n    row['id'] = 1 // (row['id'] - 2)\n    return row"

    with pytest.raises(Terminal, match=r"ZeroDivisionError: .* in line 2 of its source"):
        _restored(lambda: python(spark, code, given()))


def test_an_exception_may_skip_the_row(spark: SparkSession) -> None:
    code = "def transform_row(row):\n    row['id'] = 1 // (row['id'] - 2)\n    return row"

    made = python(spark, code, given(), row_error_handle_way="SKIP")

    assert [row["id"] for row in made.rows] == [-1]


def test_a_result_of_other_columns_is_told(spark: SparkSession) -> None:
    code = "def transform(batch):\n    return batch.select(['id'])"
    schema = {"schema": {"fields": {"other": "int"}}}

    with pytest.raises(Terminal, match="Expected are the columns other int32"):
        _restored(lambda: python(spark, code, given(), **schema))


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("def transform(batch):\n    return batch.column(7)", "fails on an empty batch"),
        ("def transform(batch):\n    return 7", "returns a int and not a pyarrow.RecordBatch"),
        ("import no_such_module\ndef transform(b):\n    return b", "No module named 'no_such"),
        ("def process(row, context):\n    return 1", "List them in the option 'columns'"),
    ],
)
def test_what_is_wrong_is_told_when_columns_are_learnt(
    spark: SparkSession, code: str, said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        python(spark, code, given())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "give one of source_code, absolute_path and module"),
        ({"source_code": "def transform(:"}, "wrong in its line 1"),
        ({"source_code": "def other(): pass"}, "defines none of transform(batch)"),
        ({"absolute_path": "/no/such/file.py"}, "cannot read '/no/such/file.py'"),
        ({"module": "no_such_module"}, "no module 'no_such_module'"),
        ({"source_code": "x = 1", "schema": {"fields": {"a": "whole"}}}, "'whole' is not a type"),
    ],
)
def test_options_are_checked_without_running_the_code(options: Any, said: str) -> None:
    assert any(said in problem for problem in problems_of("Python", options))


@pytest.mark.parametrize("language", ["JAVA", "groovy"])
def test_java_and_groovy_are_refused_with_the_python_form(language: str) -> None:
    (problem,) = problems_of("DynamicCompile", {"compile_language": language, "source_code": "x"})

    assert f"compile_language {language.upper()} cannot be run" in problem
    assert "def transform_row(row):" in problem


def _restored(run: Any) -> Any:
    """As the runtime reports what Spark raised."""
    try:
        return run()
    except Exception as wrong:  # Spark's errors have no common root
        raise restore_error(wrong) from wrong
