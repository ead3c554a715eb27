"""What Spark says of a query that it cannot plan, as one message: which name, which are there, what to do."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast.model.errors import ConfigError
from holdfast.spec.options import nearest

if TYPE_CHECKING:
    from pyspark.errors import PySparkException


@contextmanager
def telling(what: str, columns: Sequence[str] = ()) -> Iterator[None]:
    """Around calls that analyse a plan. `what` is what cannot be done; `columns` are those that there are."""
    from pyspark.errors import AnalysisException, ParseException

    # Spark logs every such error with its whole stack; the user gets one message instead.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
    try:
        yield
    except (AnalysisException, ParseException) as wrong:
        raise ConfigError(f"Cannot {what}: {explain(wrong, columns)}") from wrong


def explain(wrong: PySparkException, columns: Sequence[str] = ()) -> str:
    """Found, against expected; what to do next."""
    condition = wrong.getCondition() or ""
    facts = wrong.getMessageParameters() or {}
    if condition.startswith(("UNRESOLVED_COLUMN", "UNRESOLVED_USING_COLUMN")):
        name = _plain(facts.get("objectName") or facts.get("colName") or "?")
        known = list(columns) or [
            _plain(one) for one in facts.get("proposal", "").split(",") if one
        ]
        hint = nearest(name.rpartition(".")[2], known) or " Correct the name."
        return f"there is no column '{name}' (there is {', '.join(known)}).{hint}"
    if condition == "FIELD_NOT_FOUND":
        fields = [_plain(one) for one in facts.get("fields", "").split(",")]
        name = _plain(facts.get("fieldName", "?"))
        hint = nearest(name, fields) or " Correct the name."
        return f"there is no field '{name}' (there is {', '.join(fields)}).{hint}"
    if condition == "UNRESOLVED_ROUTINE":
        name = _plain(facts.get("routineName", "?"))
        return f"there is no function '{name}'. Use one of Spark SQL or of SeaTunnel's list."
    if condition == "TABLE_OR_VIEW_NOT_FOUND":
        return f"there is no table '{_plain(facts.get('relationName', '?'))}'. Correct the name."
    return f"{said_by_spark(wrong)} Correct the query."


def said_by_spark(wrong: BaseException) -> str:
    """Spark's own words without class, state, plan and stack; one line."""
    text = str(wrong)
    text = re.split(r"\n\s*(?:== SQL|'?\w+ \[|[+:]-)|SQLSTATE:|;\s*\n", text, maxsplit=1)[0]
    text = re.sub(r"^\[[A-Z0-9_.]+\]\s*", "", text)
    text = " ".join(text.split()).rstrip(" ;.")
    return f"{text}."


def _plain(name: str) -> str:
    return name.replace("`", "").replace('"', "").strip()
