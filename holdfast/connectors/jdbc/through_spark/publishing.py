"""Staged rows become visible: moved in one transaction with a row of the ledger, in SQL that every database knows.

The row of the ledger, and not the absence of a table, is the proof that something was published. It is there from the
beginning, and whoever publishes takes its lock first: publishers of one sink wait for each other.
"""

from __future__ import annotations

from holdfast.connectors.base import Claim, Token, token_epoch
from holdfast.connectors.jdbc.merging import INSERTS
from holdfast.connectors.jdbc.staging import (
    KIND,
    LEDGER,
    SEQUENCE,
    Owner,
    Stage,
    StageLost,
    digest_of,
    stages_of,
)
from holdfast.connectors.jdbc.through_spark.database import Connection, Named, Place

_COLUMNS = (
    "job_id VARCHAR(128) NOT NULL, pipeline_id INTEGER NOT NULL, location VARCHAR(200) NOT NULL,"
    " lineage VARCHAR(64) NOT NULL, epoch DECIMAL(19,0) NOT NULL, token VARCHAR(64),"
    " PRIMARY KEY (job_id, pipeline_id, location, lineage)"
)


def ensure_ledger(connection: Connection, target: Named) -> None:
    """Beside the target."""

    def is_there() -> bool:
        return connection.find_table(target.beside(LEDGER).path) is not None

    name = _ledger_sql(connection, target)
    connection.execute_unless(is_there, f"CREATE TABLE {name} ({_COLUMNS})")


def publish(connection: Connection, place: Place, owner: Owner, token: Token) -> None:
    """Make a token's rows visible, or find in the ledger that they are."""
    stages = stages_of(token)
    if not stages:
        return
    first = connection.find_table(min(stage.target for stage in stages))
    if first is None:
        raise StageLost(
            f"Cannot publish to '{stages[0].target}' at {place}: the table is gone. Restore it from a"
            " backup, or restore the job from an older checkpoint."
        )
    ensure_ledger(connection, first)
    ledger = _ledger_sql(connection, first)
    _ensure_row(connection, ledger, owner)
    with connection.transaction():
        own = _own_row(owner)
        connection.execute(f"UPDATE {ledger} SET epoch = epoch WHERE {own}")
        ((epoch, digest),) = connection.fetch(f"SELECT epoch, token FROM {ledger} WHERE {own}")
        if digest != digest_of(token) and _are_there(
            connection, place, owner, token, published=int(str(epoch))
        ):
            for stage in stages:
                _move(connection, stage)
            told = f"epoch = {token_epoch(token)}, token = '{digest_of(token)}'"
            connection.execute(f"UPDATE {ledger} SET {told} WHERE {own}")
    for stage in stages:
        _drop(connection, _stage_table(connection, stage))


def discard(connection: Connection, owner: Owner, claim: Claim) -> None:
    """Drop what older attempts staged and the claim does not keep."""
    kept = {stage.name for stage in stages_of(claim.keep)}
    for found in connection.list_tables():
        name = found.name.lower()
        if not name.startswith(owner.prefix):
            continue
        attempt = int(name[len(owner.prefix) :].split("_", 1)[0])
        if attempt < claim.attempt and found.name not in kept:
            _drop(connection, found)


def _ensure_row(connection: Connection, ledger: str, owner: Owner) -> None:
    def is_there() -> bool:
        return bool(connection.fetch(f"SELECT epoch FROM {ledger} WHERE {_own_row(owner)}"))

    own = f"{_text(owner.job_id)}, {owner.pipeline_id}, {_text(owner.location)}, {_text(owner.lineage)}"
    connection.execute_unless(
        is_there,
        f"INSERT INTO {ledger} (job_id, pipeline_id, location, lineage, epoch, token)"
        f" VALUES ({own}, 0, NULL)",
    )


def _are_there(
    connection: Connection, place: Place, owner: Owner, token: Token, *, published: int
) -> bool:
    """Whether the staged rows wait. Where they do not, a later epoch's row in the ledger proves that they went."""
    stages = stages_of(token)
    lost = [stage.name for stage in stages if _stage_table(connection, stage) is None]
    if not lost:
        return True
    if len(lost) == len(stages) and published >= token_epoch(token):
        return False
    raise StageLost(
        f"Cannot publish epoch {token_epoch(token)} of {owner.location} (job {owner.job_id}) at {place}:"
        f" {len(lost)} of {len(stages)} staging tables are gone (as {lost[0]}) and the ledger {LEDGER}"
        " does not say that they were published. Restore them from a backup, or restore the job from an"
        " older checkpoint."
    )


def _move(connection: Connection, stage: Stage) -> None:
    """Of each key only the last change was staged: what is there of it goes, and what it is now comes."""
    source, target = _stage_table(connection, stage), connection.find_table(stage.target)
    assert source is not None
    assert target is not None
    staged, table = connection.sql_name(source), connection.sql_name(target)
    wanted = {column.name: column.sql_type for column in connection.columns(target)}
    staged_as = {column.name: column.sql_type for column in connection.columns(source)}
    names = [name for name in staged_as if name not in (KIND, SEQUENCE)]
    columns = ", ".join(map(connection.quote, names))
    values = ", ".join(_value(connection.quote(name), wanted[name]) for name in names)
    if stage.keys:
        same = " AND ".join(
            f"{_key(f's.{connection.quote(key)}', staged_as[key], wanted[key])}"
            f" = {table}.{connection.quote(key)}"
            for key in stage.keys
        )
        connection.execute(
            f"DELETE FROM {table} WHERE EXISTS (SELECT 1 FROM {staged} s WHERE {same})"
        )
    kinds = ", ".join(map(str, INSERTS))
    connection.execute(
        f"INSERT INTO {table} ({columns}) SELECT {values} FROM {staged}"
        f" WHERE {connection.quote(KIND)} IN ({kinds})"
    )


def _value(name: str, wanted: str) -> str:
    """A staged value as the target takes it. No cast of texts: it would cut off what is too long, in silence."""
    is_time = wanted.upper().startswith("TIME") and not wanted.upper().startswith("TIMESTAMP")
    return f"CAST(CAST({name} AS VARCHAR(32)) AS {wanted})" if is_time else name


def _key(name: str, staged_as: str, wanted: str) -> str:
    return name if staged_as == wanted else f"CAST({name} AS {wanted})"


def _drop(connection: Connection, table: Named | None) -> None:
    """Gone is gone, whoever did it."""
    if table is None:
        return

    def is_gone() -> bool:
        return connection.find_table(table.path) is None

    connection.execute_unless(is_gone, f"DROP TABLE {connection.sql_name(table)}")


def _stage_table(connection: Connection, stage: Stage) -> Named | None:
    before, dot, _ = stage.target.rpartition(".")
    return connection.find_table(f"{before}{dot}{stage.name}")


def _ledger_sql(connection: Connection, target: Named) -> str:
    found = connection.find_table(target.beside(LEDGER).path)
    return connection.sql_name(found or target.beside(LEDGER))


def _own_row(owner: Owner) -> str:
    return (
        f"job_id = {_text(owner.job_id)} AND pipeline_id = {owner.pipeline_id}"
        f" AND location = {_text(owner.location)} AND lineage = {_text(owner.lineage)}"
    )


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
