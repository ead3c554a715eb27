"""The tables, each with its invariant. Facts only: no status is stored, so none can be stuck."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    false,
)

metadata = MetaData()

# One row. `term` only grows, and every change of another table names it.
leader = Table(
    "leader",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("term", BigInteger, nullable=False),
    Column("holder", Text, nullable=False),
    Column("url", Text, nullable=False),
    Column("expires_at_ms", BigInteger, nullable=False),
)

# One row for each generation of a job, from submission to expiry. What was submitted never changes; an outcome is
# written once; a goal only gets stronger.
jobs = Table(
    "jobs",
    metadata,
    Column("job_id", Text, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("submission", Text, nullable=False),
    Column("submitted", Text, nullable=False),
    Column("submitted_at_ms", BigInteger, nullable=False),
    Column("goal", Text, nullable=False),
    Column("goal_at_ms", BigInteger, nullable=False),
    Column("outcome", Text),
    Column("ended_at_ms", BigInteger),
    Column("reason", Text, nullable=False),
    Column("savepoint", Text),
    PrimaryKeyConstraint("job_id", "generation"),
)
Index("jobs_by_outcome", jobs.c.outcome, jobs.c.ended_at_ms)
Index("jobs_by_end", jobs.c.ended_at_ms)
_live = jobs.c.outcome.is_(None)
Index("jobs_live", jobs.c.submitted_at_ms, sqlite_where=_live, postgresql_where=_live)

# Planned before it is launched; started and ended once each. Numbers of a pipeline are never reused.
attempts = Table(
    "attempts",
    metadata,
    Column("job_id", Text, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("pipeline_id", Integer, nullable=False),
    Column("number", Integer, nullable=False),
    Column("worker_id", Text, nullable=False),
    Column("planned_at_ms", BigInteger, nullable=False),
    Column("alone", Boolean, nullable=False),
    Column("started_at_ms", BigInteger),
    Column("ended_at_ms", BigInteger),
    Column("ended_how", Text),
    Column("reason", Text, nullable=False),
    Column("advanced", Boolean, nullable=False, server_default=false()),
    PrimaryKeyConstraint("job_id", "generation", "pipeline_id", "number"),
)
_open = attempts.c.ended_how.is_(None)
Index("attempts_open", attempts.c.worker_id, sqlite_where=_open, postgresql_where=_open)

# Inserted with the outcome, in one transaction; deleted when all it names is gone. While it is there, the job is a
# tombstone.
cleanups = Table(
    "cleanups",
    metadata,
    Column("job_id", Text, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("due_at_ms", BigInteger, nullable=False),
    Column("tries", Integer, nullable=False),
    Column("last_error", Text, nullable=False),
    PrimaryKeyConstraint("job_id", "generation"),
)

# The newest of each, overwritten in place: does not grow with what was processed.
metrics = Table(
    "metrics",
    metadata,
    Column("job_id", Text, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("pipeline_id", Integer, nullable=False),
    Column("observed", Text, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    PrimaryKeyConstraint("job_id", "generation", "pipeline_id"),
)

# Who was heard, for stand-bys that answer reads. Nothing is decided from it.
workers = Table(
    "workers",
    metadata,
    Column("worker_id", Text, primary_key=True),
    Column("heartbeat", Text, nullable=False),
    Column("heard_at_ms", BigInteger, nullable=False),
)

# Lines of history for people. Nothing is decided from one; the oldest of a job go when there are too many.
events = Table(
    "events",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("job_id", Text, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("said", Text, nullable=False),
)
Index("events_by_job", events.c.job_id, events.c.generation, events.c.id)

# Which migrations have run.
versions = Table(
    "versions",
    metadata,
    Column("version", Integer, primary_key=True),
    Column("at_ms", BigInteger, nullable=False),
)
