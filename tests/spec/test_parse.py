"""What a job file becomes, and what is said of a wrong one."""

from __future__ import annotations

import json

import pytest

from holdfast.model.jobs import JobMode, Role
from holdfast.spec.shade import encode_value
from tests.spec.a_catalog import parse, said_of, spec_of

GOOD = """
    env { job.mode = BATCH, parallelism = 2 }
    source { FakeSource { row.num = 3, plugin_output = a } }
    transform { Sql { plugin_input = a, plugin_output = b, query = "select * from a" } }
    sink { Console { plugin_input = b, parallelism = 4 } }
"""


def test_a_job_file_becomes_pipelines_with_stable_locations() -> None:
    (pipeline,) = spec_of(GOOD).pipelines

    assert pipeline.id == 1
    assert [(v.location, v.inputs, v.output, v.parallelism) for v in pipeline.vertices] == [
        ("source-0-fakesource", (), "a", 2),
        ("transform-0-sql", ("source-0-fakesource",), "b", 2),
        ("sink-0-console", ("transform-0-sql",), "sink-0-console", 4),
    ]
    assert [(v.role, v.kind, v.line) for v in pipeline.vertices] == [
        (Role.SOURCE, "FakeSource", 3),
        (Role.TRANSFORM, "Sql", 4),
        (Role.SINK, "Console", 5),
    ]


def test_the_json_form_says_the_same() -> None:
    text = json.dumps(
        {
            "env": {"job.mode": "BATCH", "parallelism": 2},
            "source": [{"plugin_name": "FakeSource", "row.num": 3, "plugin_output": "a"}],
            "transform": [
                {
                    "plugin_name": "sql",
                    "plugin_input": ["a"],
                    "plugin_output": "b",
                    "query": "select * from a",
                }
            ],
            "sink": [{"plugin_name": "Console", "plugin_input": "b", "parallelism": "4"}],
        }
    )

    found = [v.fingerprint for v in spec_of(text, name="x.json").pipelines[0].vertices]

    assert found == [v.fingerprint for v in spec_of(GOOD).pipelines[0].vertices]


def test_all_problems_are_told_in_one_pass_in_file_order() -> None:
    text = """env { job.mode = BATCH, paralelism = 2 }
source {
  FakeSourc { row.num = 3, plugin_output = a }
  FakeSource { row.num = many
    rownum = 1, parallelism = 0 }
}
transform { Filter { plugin_input = x } }
sink { Jdbc { plugin_input = a, password = hunter2 }
  NeedsDriver { plugin_input = a } }
sinks {}
"""

    assert said_of(text) == [
        "line 1: env: there is no option 'paralelism'. Did you mean 'parallelism'?",
        "line 3: there is no source 'FakeSourc'. Did you mean 'FakeSource'? There are: FakeSource, Jdbc",
        "line 4: source FakeSource: option 'row.num': expected a whole number, found 'many'",
        "line 5: source FakeSource: there is no option 'rownum'. Did you mean 'row.num'?",
        "line 5: source FakeSource: option 'parallelism': expected a whole number from 1, found 0",
        "line 7: transform Filter: give one of include_fields and exclude_fields",
        "line 7: transform Filter: there is no output 'x' to take."
        " The outputs of this file are: 'a'",
        "line 8: sink Jdbc: option 'url' is required (string) and missing",
        "line 9: sink NeedsDriver: needs the Python package 'driver_x', which is not installed"
        " here. Install it, and check again.",
        "line 10: there is no block 'sinks'; a job has env, source, transform and sink."
        " Did you mean 'sink'?",
    ]


def test_a_check_knows_the_jobs_mode() -> None:
    text = 'env { job.mode = %s }\nsource { Jdbc { url = "x" } }\nsink { Console {} }'

    assert said_of(text % "BATCH") == []
    assert said_of(text % "STREAMING") == ["line 2: source Jdbc: reads in BATCH mode only"]


def test_a_definition_that_is_referred_to_is_no_unknown_block() -> None:
    spec = spec_of('base { url = "jdbc:x" }\nsource { Jdbc = ${base} }\nsink { Console {} }')

    assert spec.pipelines[0].vertices[0].options.url == "jdbc:x"


def test_a_text_that_cannot_be_read_is_one_problem() -> None:
    assert said_of("source { FakeSource {\n") == [
        "line 2: expected '}' to close what line 1 opened, found the end of the file"
    ]


@pytest.mark.parametrize("text", ["", "   # nothing", "{}", "env {}", "source {}\nsink {}"])
def test_a_file_without_blocks_lacks_a_source_and_a_sink(text: str) -> None:
    assert said_of(text) == [
        "there is no source: a job needs one at least",
        "there is no sink: a job needs one at least",
    ]


@pytest.mark.parametrize("inside", ["3", '"Console"', "{ a = { b = 1 } }", "[3]", "[{ x = 1 }]"])
def test_blocks_of_another_shape_are_problems_and_nothing_worse(inside: str) -> None:
    assert said_of(f"source {{ FakeSource {{}} }}\nsink = {inside}")


def test_a_repeated_key_is_a_note_with_both_lines() -> None:
    parsed = parse("source { FakeSource {\nrow.num = 1\nrow.num = 2\n} }\nsink { Console {} }")

    assert parsed.spec is not None
    assert [str(note) for note in parsed.notes] == [
        "line 3: 'row.num' is given in line 2 as well; this line counts"
    ]


def test_a_number_for_a_text_option_is_taken_as_it_was_written() -> None:
    spec = spec_of("source { Jdbc { url = x, password = 1.10, table = 1e5 } }\nsink { Console {} }")

    options = spec.pipelines[0].vertices[0].options
    assert (options.password, options.table) == ("1.10", "1e5")


def test_shaded_values_are_decoded() -> None:
    spec = spec_of(f"""
        env {{ shade.identifier = base64 }}
        source {{ Jdbc {{ url = x, user = plain, password = "{encode_value("hunter2")}" }} }}
        sink {{ Console {{}} }}
    """)

    options = spec.pipelines[0].vertices[0].options
    assert (options.user, options.password) == ("plain", "hunter2")


def test_a_shaded_value_that_is_not_base64_is_told_without_showing_it() -> None:
    (problem,) = said_of("""env { shade.identifier = base64 }
        source { Jdbc { url = x, password = "hunter2!" } }
        sink { Console {} }""")

    assert problem.startswith("line 2: source Jdbc: the value of 'password' is not base64")
    assert "hunter2" not in problem


def test_an_unknown_shade_is_a_problem() -> None:
    text = "env { shade.identifier = base46 }\nsource { FakeSource {} }\nsink { Console {} }"

    assert "Did you mean 'base64'?" in said_of(text)[0]


def test_no_problem_holds_a_secret() -> None:
    text = """source { Jdbc { url = "jdbc:x://u:hunter2@h/d?password=hunter2", password = hunter2 } }
        sink { Console { log.print.data = "hunter2" } }"""

    found = parse(text)

    assert "hunter2" in found.secrets
    assert found.problems
    assert "hunter2" not in str(found.problems) + repr(found)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.conf", "source { Jdbc {\n password hunter2\n url = x } }"),
        ("x.conf", "source { Jdbc {\n url\n password = hunter2 } }"),
        ("x.sql", "CREATE TABLE a WITH ('type'='source', 'password' 'hunter2');"),
    ],
)
def test_a_text_that_cannot_be_read_is_told_without_its_secrets(name: str, text: str) -> None:
    (problem,) = said_of(text, name=name)

    assert "expected '='" in problem
    assert "hunter2" not in problem


def test_a_sinks_placeholder_is_no_problem() -> None:
    spec = spec_of('source { FakeSource {} }\nsink { LocalFile { path = "/x/${table_name}" } }')

    assert spec.pipelines[0].vertices[1].options.path == "/x/${table_name}"
    assert spec.env.mode is JobMode.BATCH
