"""Which `${…}` are filled, which stay for a connector, and which are missing."""

from __future__ import annotations

import pytest

from tests.spec.a_catalog import parse, said_of, spec_of

JOB = """
    source { FakeSource { row.num = %s } }
    sink { LocalFile { path = %s } }
"""


def path_of(written: str, **variables: str) -> str:
    spec = spec_of(JOB % ("1", written), **variables)
    path: str = spec.pipelines[0].vertices[-1].options.path
    return path


@pytest.mark.parametrize(
    ("written", "filled"),
    [
        ("${folder}", "/data"),
        ('"${folder}"', "/data"),
        ('"${folder}/in"', "/data/in"),
        ("${folder}/in", "/data/in"),
        ('"${other:/tmp}"', "/tmp"),
        ("${other:/tmp}", "/tmp"),
        ('${other:"/tmp"}', "/tmp"),
        ('"${folder:/tmp}"', "/data"),
        ('"${other:}x"', "x"),
        ('"${?other}x"', "x"),
        ('"""${folder}"""', "/data"),
    ],
)
def test_a_variable_is_filled_inside_and_outside_quotes(written: str, filled: str) -> None:
    assert path_of(written, folder="/data") == filled


def test_a_variable_may_be_a_number() -> None:
    spec = spec_of(JOB % ("${rows}", "/x"), rows="12")

    assert spec.pipelines[0].vertices[0].options.row_num == 12


@pytest.mark.parametrize(
    "placeholder",
    [
        *("${table_name}", "${database_name}_x", "${schema_full_name:public}", "${primary_key}"),
        *("${transactionId}", "${now}", "${uuid}", "${k0}=${v0}", "${field_names}"),
    ],
)
def test_what_a_sink_fills_by_itself_stays_as_written(placeholder: str) -> None:
    assert path_of(f'"{placeholder}"') == placeholder


def test_a_placeholder_of_a_sink_is_never_a_variable() -> None:
    assert path_of('"${table_name}"', table_name="x") == "${table_name}"


def test_a_variable_without_a_value_is_told_with_its_flag() -> None:
    assert said_of(JOB % ("${rows}", "/x")) == [
        "line 2: variable 'rows' has no value. Give it one with -i rows=…,"
        " or a default in the file: ${rows:…}"
    ]


def test_a_placeholder_that_is_misspelt_is_told_with_the_nearest() -> None:
    (problem,) = said_of(JOB % ("1", '"/x/${table_nme}"'))

    assert problem.endswith("Did you mean 'table_name'? The sink fills that itself")


def test_the_flag_is_named_whatever_the_variables_name() -> None:
    (problem,) = said_of(JOB % ("1", '"${password}"'))

    assert "-i password=…" in problem


def test_a_missing_variable_is_told_once_and_not_by_the_checks_as_well() -> None:
    text = """source { FakeSource {} }
        transform { Filter { include_fields = ["${a}"], exclude_fields = [b] } }
        sink { Console {} }"""

    assert [problem.split(".")[0] for problem in said_of(text)] == [
        "line 2: variable 'a' has no value"
    ]


def test_a_variable_that_is_used_nowhere_is_a_note() -> None:
    parsed = parse(JOB % ("${rows}", "/x"), rows="1", row="2")

    assert parsed.spec is not None
    assert [str(note) for note in parsed.notes] == [
        "variable 'row' (-i) is used nowhere in the file"
    ]


def test_variables_fill_env_as_well() -> None:
    spec = spec_of('env { job.name = "${n}" }' + JOB % ("1", "/x"), n="orders")

    assert spec.env.job_name == "orders"


@pytest.mark.parametrize("given", ["[a, b,c d]", "['a','b','c d']", '["a", "b", "c d"]'])
def test_a_variable_that_stands_alone_may_be_a_list(given: str) -> None:
    job = "source { FakeSource {} } transform { Filter { include_fields = ${names} } } sink { Console {} }"

    spec = spec_of(job, names=given)

    assert spec.pipelines[0].vertices[1].options.include_fields == ["a", "b", "c d"]


def test_within_a_text_brackets_are_letters() -> None:
    assert path_of('"/data/${folder}"', folder="[a,b]") == "/data/[a,b]"
