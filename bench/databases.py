"""PostgreSQL to PostgreSQL and to parquet, against what the machine can do without us."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from bench.figures import Figure, Ground, rate, run_job, run_measured, timed_shell

TABLE = """
CREATE TABLE big AS
SELECT i::bigint AS id,
       (i * 7919 % 1000003)::int AS customer,
       (i % 32000)::smallint AS shop,
       ((i * 31 % 10000000)::numeric / 100)::numeric(12, 2) AS amount,
       ((i * 17 % 1000000007)::numeric / 10000)::numeric(20, 4) AS rate,
       (i * 0.37)::double precision AS weight,
       i % 3 = 0 AS paid,
       'customer number ' || (i % 100000) AS name,
       md5(i::text) AS reference,
       timestamp '2020-01-01' + (i % 100000000) * interval '1 second' AS ordered_at,
       timestamptz '2020-01-01 00:00+00' + (i % 50000000) * interval '1 second' AS paid_at,
       date '2020-01-01' + (i % 2000)::int AS due
FROM generate_series(1::bigint, {rows}) AS i
"""


def make_table(ground: Ground) -> None:
    """The source: 12 mixed columns, exact numerics among them."""
    if "big" in ground.made:
        return
    ground.postgres.execute(
        TABLE.format(rows=ground.rows), "ALTER TABLE big ADD PRIMARY KEY (id)", "VACUUM ANALYZE big"
    )
    ground.made.add("big")


def postgres_to_postgres(ground: Ground) -> Iterator[Figure]:
    """No transform stands between."""
    make_table(ground)
    floor = copy_pipe(ground)
    yield Figure("COPY TO | COPY FROM, text, one pipe", rate(ground.rows, floor))
    fresh_target(ground)
    job = ground.write_job("pg2pg", job_text(ground))
    run_job(ground, job)
    fresh_target(ground)
    ran = run_job(ground, job)
    expect_all(ground)
    again = copy_pipe(ground)
    floor = min(floor, again)
    yield Figure("the pipe again", rate(ground.rows, again))
    for name, seconds in (("whole process", ran.seconds), ("the job", ran.job_seconds)):
        ratio = floor / seconds
        yield Figure(f"Jdbc -> Jdbc, {name}", rate(ground.rows, seconds), ratio, "pipe")
    yield Figure("Jdbc -> Jdbc, all processes' memory", f"{ran.peak_bytes / 1e6:,.0f} MB")
    fresh_target(ground)
    exact = run_job(ground, ground.write_job("pg2pgx", job_text(ground, exactly_once=True)))
    expect_all(ground)
    yield Figure(
        "Jdbc -> Jdbc exactly-once, whole process",
        rate(ground.rows, exact.seconds),
        floor / exact.seconds,
        "pipe",
    )


def postgres_through_sql(ground: Ground) -> Iterator[Figure]:
    """A Spark SQL transform stands between."""
    make_table(ground)
    floor = copy_pipe(ground)
    query = (
        "select id, customer, shop, amount, rate, weight * 2 as weight, paid, upper(name) as name,"
    )
    query += " reference, ordered_at, paid_at, due from big where id % 100 <> 1"
    transform = f'transform {{ Sql {{ query = "{query}" }} }}'
    job = ground.write_job("pg2sql", job_text(ground, transform=transform))
    fresh_target(ground)
    ran = run_job(ground, job)
    for name, seconds in (("whole process", ran.seconds), ("the job", ran.job_seconds)):
        ratio = floor / seconds
        yield Figure(f"Jdbc -> Sql -> Jdbc, {name}", rate(ground.rows, seconds), ratio, "pipe")
    yield Figure("Jdbc -> Sql -> Jdbc, all processes' memory", f"{ran.peak_bytes / 1e6:,.0f} MB")


def postgres_to_parquet(ground: Ground) -> Iterator[Figure]:
    """Against Spark's own JDBC reader with the same parallelism."""
    make_table(ground)
    out = ground.folder / "parquet"
    sink = f'sink {{ LocalFile {{ path = "{out}", file_format_type = parquet, tmp_path = "{ground.folder}/tmp" }} }}'
    job = ground.write_job("pg2parquet", head(ground) + source(ground) + sink)
    ran = run_job(ground, job)
    yield Figure("Jdbc -> parquet, whole process", rate(ground.rows, ran.seconds))
    yield Figure("Jdbc -> parquet, the job", rate(ground.rows, ran.job_seconds))
    yield Figure("Jdbc -> parquet, all processes' memory", f"{ran.peak_bytes / 1e6:,.0f} MB")
    database = ground.postgres
    spark = run_measured(
        [
            *(sys.executable, "-m", "bench.spark_jdbc", database.url(), database.user),
            *(database.password, str(ground.rows), str(ground.folder / "spark-parquet")),
        ]
    )
    seconds = float(spark.stdout.rsplit("seconds=", 1)[1])
    yield Figure("spark.read.jdbc -> parquet, after start-up", rate(ground.rows, seconds))
    ratio = seconds / ran.job_seconds
    yield Figure("Jdbc -> parquet, the job", "", ratio, "spark.read.jdbc")


def copy_pipe(ground: Ground) -> float:
    fresh_target(ground)
    psql = f"psql -q '{ground.postgres.dsn()}'"
    return timed_shell(f"{psql} -c 'COPY big TO STDOUT' | {psql} -c 'COPY target FROM STDIN'")


def fresh_target(ground: Ground) -> None:
    ground.postgres.execute(
        "DROP TABLE IF EXISTS target", "CREATE TABLE target (LIKE big)", "CHECKPOINT"
    )


def expect_all(ground: Ground) -> None:
    counted = "SELECT count(*), sum(amount), sum(id) FROM"
    database = ground.postgres
    assert database.rows(f"{counted} target") == database.rows(f"{counted} big")


def job_text(
    ground: Ground, *, transform: str = "", exactly_once: bool = False, interval_ms: int = 10_000
) -> str:
    return head(ground, interval_ms) + source(ground) + transform + sink(ground, exactly_once)


def head(ground: Ground, interval_ms: int = 10_000) -> str:
    return (
        'env { job.mode = BATCH, parallelism = 2, "checkpoint.interval" = ' + f"{interval_ms} }}\n"
    )


def source(ground: Ground) -> str:
    database = ground.postgres
    return f"""source {{ Jdbc {{
        url = "{database.url()}", driver = "org.postgresql.Driver"
        user = "{database.user}", password = "{database.password}"
        table_path = "{database.database}.public.big"
    }} }}
    """


def sink(ground: Ground, exactly_once: bool = False) -> str:
    database = ground.postgres
    return f"""sink {{ Jdbc {{
        url = "{database.url()}", driver = "org.postgresql.Driver"
        user = "{database.user}", password = "{database.password}"
        generate_sink_sql = true, database = "{database.database}", table = "public.target"
        is_exactly_once = {str(exactly_once).lower()}
    }} }}
    """
