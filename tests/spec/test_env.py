"""What the `env` block may say."""

from __future__ import annotations

import pytest

from holdfast.model.jobs import Env, JobMode
from holdfast.model.json import Json
from holdfast.spec.env import parse_duration
from tests.spec.a_catalog import parse, said_of, spec_of

REST = "\nsource { FakeSource {} }\nsink { Console {} }"


def env_of(inside: str) -> Env:
    return spec_of(f"env {{\n{inside}\n}}{REST}").env


def test_every_key_is_read() -> None:
    env = env_of("""
        job.name = orders, job.mode = streaming, job.id = "orders-1", parallelism = 3
        jars = "a.jar; b.jar"
        checkpoint.interval = 10s, checkpoint.timeout = 60000
        checkpoint.retain-after-job-cancelled = true
        batch.interval = 500
        job.retry.times = 5, job.retry.interval.seconds = 2
        read_limit.rows_per_second = 100, read_limit.bytes_per_second = 1000
        restore = "checkpoint:12", on-missing = latest, on-incompatible = previous
        spark.executor.memory = 1g, spark.sql.shuffle.partitions = 4, spark.x = true
    """)

    assert (env.job_name, env.mode, env.job_id) == ("orders", JobMode.STREAMING, "orders-1")
    assert (env.parallelism, env.jars) == (3, ("a.jar", "b.jar"))
    assert (env.checkpoint_interval_ms, env.checkpoint_timeout_ms) == (10_000, 60_000)
    assert (env.retain_after_cancel, env.batch_interval_ms) == (True, 500)
    assert (env.retry_times, env.retry_interval_ms) == (5, 2000)
    assert (env.rows_per_second_max, env.bytes_per_second_max) == (100.0, 1000.0)
    assert (env.restore, env.on_missing, env.on_incompatible) == (
        "checkpoint:12",
        "latest",
        "previous",
    )
    assert env.spark == {
        "spark.executor.memory": "1g",
        "spark.sql.shuffle.partitions": "4",
        "spark.x": "true",
    }


def test_what_is_not_said_has_the_documented_value() -> None:
    env = spec_of(REST, name="/jobs/orders.conf").env

    assert (env.job_name, env.mode, env.job_id) == ("orders", JobMode.BATCH, None)
    assert (env.parallelism, env.checkpoint_interval_ms) == (1, None)
    assert (env.checkpoint_timeout_ms, env.retry_times, env.retry_interval_ms) == (30_000, 3, 3000)
    assert (env.restore, env.on_missing, env.on_incompatible) == (None, "fail", "fail")


def test_an_unknown_key_is_a_problem_with_the_nearest_name() -> None:
    assert said_of("env { checkpoint.intervall = 5 }" + REST) == [
        "line 1: env: there is no option 'checkpoint.intervall'. Did you mean 'checkpoint.interval'?"
    ]


def test_what_has_no_effect_here_is_a_note_and_kept() -> None:
    parsed = parse(
        'env { flink.a.b = 1, tag_filter { zone = "x" }, sink.flush.interval = 5 }' + REST
    )

    assert parsed.spec is not None
    assert dict(parsed.spec.env.extra) == {
        "sink.flush.interval": 5,
        "tag_filter": {"zone": "x"},
        "flink": {"a": {"b": 1}},
    }
    assert [str(note) for note in parsed.notes] == [
        f"line 1: env: '{path}' is accepted and has no effect here"
        for path in ("flink.a.b", "sink.flush.interval")
    ]


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("job.mode = BACH", "'BACH' is not one of BATCH, STREAMING. Did you mean 'BATCH'?"),
        ("parallelism = 0", "option 'parallelism' is 0; 1 is the least"),
        ("parallelism = many", "expected a whole number, found 'many'"),
        ("checkpoint.interval = 10 years", "such as 10s, 5m or 1h, found '10 years'"),
        ("restore = newest", "expected auto, latest, savepoint"),
        ("on-missing = ignore", "is not one of fail, previous, fresh, latest"),
        ('job.id = "a/b"', "expected letters, digits"),
        ('job.id = "../x"', "expected letters, digits"),
        ("job.retry.times = -1", "0 is the least"),
    ],
)
def test_a_wrong_value_is_told_with_what_was_expected(written: str, said: str) -> None:
    (problem,) = said_of(f"env {{\n{written}\n}}" + REST)

    assert problem.startswith("line 2: env: option")
    assert said in problem


def test_the_names_of_older_releases_count_where_they_mean_something() -> None:
    parsed = parse(
        """env { execution.parallelism = 3, execution.checkpoint.interval = 5000
        execution.state.backend = rocksdb }"""
        + REST
    )

    assert parsed.spec is not None
    assert (parsed.spec.env.parallelism, parsed.spec.env.checkpoint_interval_ms) == (3, 5000)
    assert [str(note) for note in parsed.notes] == [
        "line 2: env: 'execution.state.backend' is accepted and has no effect here"
    ]


def test_env_must_be_a_block() -> None:
    assert said_of("env = 3" + REST) == ["line 1: env: expected a block 'env { … }'"]


@pytest.mark.parametrize(
    ("written", "expected_ms"),
    [
        *((10000, 10000), ("10000", 10000), ("10s", 10000), ("10 S", 10000), ("1.5 m", 90000)),
        *(("2 hours", 7_200_000), ("1d", 86_400_000), ("250ms", 250), (0, 0)),
    ],
)
def test_a_duration_is_a_number_of_milliseconds_or_has_a_unit(
    written: Json, expected_ms: int
) -> None:
    assert parse_duration(written) == expected_ms


@pytest.mark.parametrize("written", ["", "s", "-1s", True, None, "10 x", [], "1e9"])
def test_what_is_no_duration_is_refused(written: Json) -> None:
    with pytest.raises(ValueError, match="expected milliseconds"):
        parse_duration(written)
