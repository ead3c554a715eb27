"""Errors that cross from an executor to the driver keep their class and message, and lose their stack."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.model.errors import (
    HoldfastError,
    OutcomeUnknown,
    PositionGone,
    SinkRejected,
    Terminal,
    Transient,
)

_MARK = "HOLDFAST-ERROR:"
_OF_SPARK = re.compile(r"\[([A-Z][A-Z0-9_.]+)\]\s*(.{1,2000}?)\s*SQLSTATE: (\w{5})", re.DOTALL)
_OF_DRIVER = re.compile(
    r"\b(?:[a-z]\w*\.)+(\w*SQL\w*Exception|BatchUpdateException): ([^\n]{1,1000})"
)
_REFUSALS = (
    "SQLDataException",
    "SQLFeatureNotSupportedException",
    "SQLIntegrityConstraintViolationException",
    "SQLInvalidAuthorizationSpecException",
    "SQLSyntaxErrorException",
)
_KINDS: dict[str, type[HoldfastError]] = {
    kind.__name__: kind
    for kind in (PositionGone, SinkRejected, Terminal, Transient, OutcomeUnknown)
}


class ExecutorFailed(Transient):
    """Something failed on an executor that nobody there gave a message for."""

    code = "executor-failed"


class RowNotComputed(Terminal):
    """A transform met a value that its expressions cannot take: the same row will fail again."""

    code = "row-not-computed"


class DatabaseRefused(Terminal):
    """A database that Spark reads or writes by JDBC refused a statement or a value."""

    code = "database-refused"


class CarriedError(RuntimeError):
    """On its way: its text holds the error as JSON."""


@contextmanager
def carrying_errors() -> Iterator[None]:
    """Around code that runs on an executor."""
    try:
        yield
    except HoldfastError as error:
        kind = next((k for k, cls in _KINDS.items() if isinstance(error, cls)), "Transient")
        told = {"kind": kind, "code": error.code, "said": str(error)}
        raise CarriedError(f"{_MARK}{json.dumps(told)}{_MARK}") from error


def restore_error(error: BaseException) -> HoldfastError:
    """What an exception that Spark raised in the driver, or a process of ours told, stands for."""
    if isinstance(error, HoldfastError):
        return error
    text = str(error)
    found = re.search(f"{_MARK}(.*?){_MARK}", text, re.DOTALL)
    if not found:
        return (
            _of_row(text)
            or _of_database(text)
            or ExecutorFailed(f"Cannot run a task: {_last_line(text)}")
        )
    told = json.loads(found.group(1))
    restored = _KINDS[told["kind"]](told["said"])
    restored.code = told["code"]
    return restored


def _of_row(text: str) -> RowNotComputed | None:
    """Where Spark says that a value is to blame: SQLSTATE 22 is a data exception, P0001 what a query raised itself."""
    found = _OF_SPARK.search(text)
    if found is None:
        return None
    condition, said, state = found.groups()
    said = " ".join(said.split())
    if state == "P0001":
        return RowNotComputed(said)
    if not state.startswith("22"):
        return None
    return RowNotComputed(f"Cannot compute a row ({condition}): {said}")


def _of_database(text: str) -> HoldfastError | None:
    """Where a JDBC driver failed inside Spark. Java's own classes say whether the same would come again."""
    found = _OF_DRIVER.search(text)
    if found is None:
        return None
    name, said = found.groups()
    kind = DatabaseRefused if name in _REFUSALS else ExecutorFailed
    return kind(f"Cannot run a Spark job: the database says: {said.strip().rstrip('.')}.")


def _last_line(text: str) -> str:
    """The line of a Python or JVM trace that says most."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    python = [line for line in lines if re.match(r"[\w.]+(Error|Exception)\b", line)]
    chosen = python[-1] if python else (lines[0] if lines else "no reason was given")
    return chosen[:500]
