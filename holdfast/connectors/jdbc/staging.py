"""Exactly-once by staging: rows wait in tables of their own until the checkpoint that names them exists.

A task's rows are committed to a table `hf_<sink>_<attempt>_<epoch>_<task>_<try>_<id>` beside the target. Publishing
moves them in one transaction with a row of the ledger (`holdfast_epochs`), which says for each sink what it published
last. Publishers of one sink wait for each other by a lock. The row in the ledger, and not the absence of a table,
is the proof that something was published.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from holdfast.connectors.base import Claim, StageScope, Token, token_epoch, token_parts
from holdfast.connectors.jdbc.dialects.base import Described, Dialect, Endpoint, Merge, transaction
from holdfast.connectors.jdbc.merging import INSERTS
from holdfast.model.errors import Terminal
from holdfast.model.json import JsonObject

LEDGER = "holdfast_epochs"
KIND, SEQUENCE = "hf_kind", "hf_seq"


class StageLost(Terminal):
    """A committed checkpoint names staged rows that are not there."""

    code = "stage-lost"


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose staged rows and whose row of the ledger."""

    job_id: str
    pipeline_id: int
    location: str
    lineage: str
    """Attempts and epochs of two lineages say nothing about each other."""

    @property
    def prefix(self) -> str:
        return f"hf_{self._digest().hex()[:12]}_"

    @property
    def lock_number(self) -> int:
        return int.from_bytes(self._digest()[:8], "big") >> 1

    def _digest(self) -> bytes:
        text = "\0".join((self.job_id, str(self.pipeline_id), self.location, self.lineage))
        return hashlib.sha256(text.encode()).digest()


@dataclass(frozen=True, slots=True)
class Stage:
    """One staging table of a token."""

    target: str
    name: str
    keys: tuple[str, ...]
    """The key to merge by; empty where the rows only insert."""

    def to_json(self) -> JsonObject:
        return {"target": self.target, "name": self.name, "keys": list(self.keys)}


def stage_name(scope: StageScope, number: int, unique: str) -> str:
    """Names say who staged it: `discard` reads the attempt from there."""
    owner = Owner(scope.job_id, scope.pipeline_id, scope.location, scope.lineage)
    place = f"{scope.attempt}_{scope.epoch}_{scope.task}_{scope.try_id}"
    return f"{owner.prefix}{place[:36]}_{number}{unique[:8]}"


def stages_of(token: Token | None) -> list[Stage]:
    """The staging tables that a token names, in the order of their tasks."""
    if token is None:
        return []
    found = []
    for part in token_parts(token):
        stages = part["stages"]
        assert isinstance(stages, list)
        for stage in stages:
            assert isinstance(stage, dict)
            keys = stage["keys"]
            assert isinstance(keys, list)
            found.append(Stage(str(stage["target"]), str(stage["name"]), tuple(map(str, keys))))
    return found


def publish_stages(
    dialect: Dialect, connection: Any, endpoint: Endpoint, owner: Owner, token: Token
) -> None:
    """Make a token's rows visible, or find in the ledger that they are."""
    stages = stages_of(token)
    if not stages:
        return
    ledger = dialect.beside(min(stage.target for stage in stages), LEDGER)
    ensure_ledger(dialect, connection, ledger)
    with transaction(dialect, connection):
        dialect.lock(connection, owner.lock_number)
        if not _is_published(dialect, connection, ledger, owner, token):
            _move(dialect, connection, endpoint, stages)
            _record(dialect, connection, ledger, owner, token)
        if dialect.transactional_ddl:
            _drop(dialect, connection, stages)
    if not dialect.transactional_ddl:
        _drop(dialect, connection, stages)


def discard_stages(dialect: Dialect, connection: Any, owner: Owner, claim: Claim) -> None:
    """Drop what older attempts staged and the claim does not keep."""
    kept = {stage.name for stage in stages_of(claim.keep)}
    for found in dialect.find_stages(connection, owner.prefix):
        attempt = int(found.name[len(owner.prefix) :].split("_", 1)[0])
        if attempt < claim.attempt and found.name not in kept:
            dialect.execute(connection, f"DROP TABLE IF EXISTS {found.sql_name}")


def ensure_ledger(dialect: Dialect, connection: Any, ledger: str) -> None:
    """Two that create it at once would meet in the catalog: the lock keeps them apart."""
    number = int.from_bytes(hashlib.sha256(ledger.encode()).digest()[:8], "big") >> 1
    with transaction(dialect, connection):
        dialect.lock(connection, number)
        dialect.execute(
            connection, f"CREATE TABLE IF NOT EXISTS {ledger} ({dialect.ledger_columns()})"
        )


def _is_published(
    dialect: Dialect, connection: Any, ledger: str, owner: Owner, token: Token
) -> bool:
    """Told by the ledger; a token that it does not name and whose tables are gone was published before its last."""
    rows = dialect.fetch(
        connection,
        f"SELECT epoch, token FROM {ledger} WHERE {_own_row(dialect, owner)}",
    )
    if rows and rows[0][1] == digest_of(token):
        return True
    there = [s for s in stages_of(token) if _describe(dialect, connection, s) is not None]
    if there:
        return False
    if rows and int(rows[0][0]) >= token_epoch(token):
        return True
    raise StageLost(
        f"Cannot publish epoch {token_epoch(token)} of {owner.location} (job {owner.job_id}): its staging"
        f" table {stages_of(token)[0].name} is gone and the ledger {ledger} does not say that it was"
        " published. Restore the table from a backup, or restore the job from an older checkpoint."
    )


def digest_of(token: Token) -> str:
    names = "\n".join(sorted(stage.name for stage in stages_of(token)))
    return hashlib.sha256(names.encode()).hexdigest()[:32]


def _own_row(dialect: Dialect, owner: Owner) -> str:
    return (
        f"job_id = {dialect.literal(owner.job_id)} AND pipeline_id = {owner.pipeline_id}"
        f" AND location = {dialect.literal(owner.location)}"
        f" AND lineage = {dialect.literal(owner.lineage)}"
    )


def _record(dialect: Dialect, connection: Any, ledger: str, owner: Owner, token: Token) -> None:
    epoch, digest = token_epoch(token), dialect.literal(digest_of(token))
    touched = dialect.execute(
        connection,
        f"UPDATE {ledger} SET epoch = {epoch}, token = {digest} WHERE {_own_row(dialect, owner)}",
    )
    if not touched:
        dialect.execute(
            connection,
            f"INSERT INTO {ledger} (job_id, pipeline_id, location, lineage, epoch, token) VALUES"
            f" ({dialect.literal(owner.job_id)}, {owner.pipeline_id},"
            f" {dialect.literal(owner.location)}, {dialect.literal(owner.lineage)}, {epoch}, {digest})",
        )


def _move(dialect: Dialect, connection: Any, endpoint: Endpoint, stages: Sequence[Stage]) -> None:
    """Neighbours that go to one target in one way are moved by one statement."""
    for (target, keys), group in groupby(stages, lambda stage: (stage.target, stage.keys)):
        found = list(group)
        described = [(stage, _describe(dialect, connection, stage)) for stage in found]
        lost = [stage.name for stage, table in described if table is None]
        if lost:
            raise StageLost(
                f"Cannot publish to '{target}' at {endpoint}: {len(lost)} of {len(found)} staging tables are"
                f" gone (as {lost[0]}). Restore them from a backup, or restore an older checkpoint."
            )
        first = described[0][1]
        assert first is not None
        names = [n for n in first.table.column_names if n not in (KIND, SEQUENCE)]
        if keys:
            _merge(dialect, connection, found, names)
        else:
            _insert(dialect, connection, found, names)


def _insert(
    dialect: Dialect, connection: Any, stages: Sequence[Stage], names: Sequence[str]
) -> None:
    columns = ", ".join(map(dialect.quote, names))
    for stage in stages:
        dialect.execute(
            connection,
            f"INSERT INTO {dialect.sql_name(stage.target)} ({columns})"
            f" SELECT {columns} FROM {_sql_name(dialect, stage)}",
        )


def _merge(
    dialect: Dialect, connection: Any, stages: Sequence[Stage], names: Sequence[str]
) -> None:
    """The last change of each key, over all tasks of the epoch."""
    target, keys = stages[0].target, stages[0].keys
    described = dialect.describe(connection, target)
    indexes = set(described.unique_keys) if described else set()
    unique, alone = frozenset(keys) in indexes, indexes <= {frozenset(keys)}
    columns = ", ".join(map(dialect.quote, names))
    quoted_keys = ", ".join(map(dialect.quote, keys))
    union = " UNION ALL ".join(f"SELECT * FROM {_sql_name(dialect, stage)}" for stage in stages)
    inserts = ", ".join(map(str, INSERTS))
    for wanted, statements in (
        (f"NOT IN ({inserts})", dialect.delete),
        (f"IN ({inserts})", dialect.upsert),
    ):
        rows = (
            f"(SELECT {columns} FROM (SELECT u.*, row_number() OVER (PARTITION BY {quoted_keys}"
            f" ORDER BY {SEQUENCE} DESC) AS hf_n FROM ({union}) u) d"
            f" WHERE hf_n = 1 AND {KIND} {wanted})"
        )
        merge = Merge(
            dialect.sql_name(target),
            rows,
            tuple(map(dialect.quote, names)),
            tuple(map(dialect.quote, keys)),
            unique,
            alone,
        )
        for statement in statements(merge):
            dialect.execute(connection, statement)


def _describe(dialect: Dialect, connection: Any, stage: Stage) -> Described | None:
    before, dot, _ = stage.target.rpartition(".")
    return dialect.describe(connection, f"{before}{dot}{stage.name}")


def _drop(dialect: Dialect, connection: Any, stages: Sequence[Stage]) -> None:
    for stage in stages:
        dialect.execute(connection, f"DROP TABLE IF EXISTS {_sql_name(dialect, stage)}")


def _sql_name(dialect: Dialect, stage: Stage) -> str:
    return dialect.beside(stage.target, stage.name)


__all__ = [
    "LEDGER",
    "Owner",
    "Stage",
    "StageLost",
    "digest_of",
    "discard_stages",
    "ensure_ledger",
    "publish_stages",
    "stage_name",
    "stages_of",
]
