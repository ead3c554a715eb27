"""What a job file becomes, and what is said of a wrong one."""

from tests.spec.a_catalog import parse


def test_a_job_file_becomes_pipelines_with_stable_locations() -> None:
    parsed = parse("""
        env { job.mode = BATCH, parallelism = 2 }
        source { FakeSource { row.num = 3, plugin_output = a } }
        transform { Sql { plugin_input = a, plugin_output = b, query = "select * from a" } }
        sink { Console { plugin_input = b, parallelism = 4 } }
    """)

    assert parsed.problems == []
    assert parsed.spec is not None
    (pipeline,) = parsed.spec.pipelines
    assert [(v.location, v.inputs, v.parallelism) for v in pipeline.vertices] == [
        ("source-0-fakesource", (), 2),
        ("transform-0-sql", ("source-0-fakesource",), 2),
        ("sink-0-console", ("transform-0-sql",), 4),
    ]
