"""Each bug that was planted in a model system is caught by the rule that is there for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.connectors.base import Guarantee
from holdfast.testing import source_contract
from holdfast.testing.sink_contract import SINK_RULES
from holdfast.testing.source_contract import SOURCE_RULES
from tests.conformance.models import log_case, sink_case, split_case
from tests.conformance.planted import BROKEN_HANGING_LOGS, BROKEN_LOGS, BROKEN_SINKS, BROKEN_TABLES

RULES: dict[str, Any] = {
    **{rule.name: rule for rule in SOURCE_RULES},
    **{rule.name: rule for rule in SINK_RULES},
}


def _ids(planted: list[tuple[Any, str]]) -> list[str]:
    return [broken.__name__ for broken, _ in planted]


def _is_caught(rule: str, case: object) -> bool:
    """Caught means: by an assertion, or by the error that the bug itself makes."""
    try:
        RULES[rule].check(case)
    except Exception:  # noqa: BLE001 - a planted bug may fail in any way; it must not pass
        return True
    return False


@pytest.mark.parametrize(("broken", "rule"), BROKEN_LOGS, ids=_ids(BROKEN_LOGS))
def test_a_broken_log_is_caught(broken: Callable[..., Any], rule: str, tmp_path: Path) -> None:
    assert not _is_caught(rule, log_case(tmp_path)), "the whole one must pass"

    (tmp_path / "log").unlink()
    (tmp_path / "log.purged").unlink(missing_ok=True)
    assert _is_caught(rule, log_case(tmp_path, broken))


@pytest.mark.parametrize(("broken", "rule"), BROKEN_HANGING_LOGS, ids=_ids(BROKEN_HANGING_LOGS))
def test_a_broken_hanging_log_is_caught(
    broken: Callable[..., Any], rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_contract, "OVERDUE_MS", 1_000.0)
    case = log_case(tmp_path, broken, bounded=False, long_poll=True)

    assert _is_caught(rule, case)


@pytest.mark.parametrize(("broken", "rule"), BROKEN_TABLES, ids=_ids(BROKEN_TABLES))
def test_a_broken_table_is_caught(broken: Callable[..., Any], rule: str) -> None:
    assert _is_caught(rule, split_case(broken, splits=40))


@pytest.mark.parametrize(("broken", "rule"), BROKEN_SINKS, ids=_ids(BROKEN_SINKS))
def test_a_broken_sink_is_caught(broken: Callable[..., Any], rule: str, tmp_path: Path) -> None:
    case = replace(sink_case(tmp_path, broken), declared=(Guarantee.EXACTLY_ONCE, ""))

    assert _is_caught(rule, case)
