"""The model systems keep the whole contract: so the contract can be kept, and the sweeps stand on firm ground."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.testing.model_sink import SinkStore
from holdfast.testing.rules import Rule
from holdfast.testing.sink_contract import SINK_RULES, SinkCase
from holdfast.testing.source_contract import SOURCE_RULES, SourceCase
from tests.conformance.models import log_case, sink_case, split_case

each_source_rule = pytest.mark.parametrize("rule", SOURCE_RULES, ids=str)


def _check(rule: Rule[SourceCase], case: SourceCase) -> None:
    reason = rule.applies(case)
    if reason is not None:
        pytest.skip(reason)
    rule.check(case)


@each_source_rule
def test_the_bounded_log_keeps(rule: Rule[SourceCase], tmp_path: Path) -> None:
    _check(rule, log_case(tmp_path))


@each_source_rule
def test_the_endless_log_keeps(rule: Rule[SourceCase], tmp_path: Path) -> None:
    _check(rule, log_case(tmp_path, bounded=False))


@each_source_rule
def test_the_hanging_log_keeps(rule: Rule[SourceCase], tmp_path: Path) -> None:
    _check(rule, log_case(tmp_path, bounded=False, long_poll=True))


@each_source_rule
def test_the_table_of_splits_keeps(rule: Rule[SourceCase]) -> None:
    _check(rule, split_case())


def test_an_empty_table_keeps_all_rules() -> None:
    for rule in SOURCE_RULES:
        if rule.applies(split_case(splits=0)) is None:
            rule.check(split_case(splits=0))


@pytest.mark.parametrize("rule", SINK_RULES, ids=str)
def test_the_model_sink_keeps(rule: Rule[SinkCase], tmp_path: Path) -> None:
    rule.check(sink_case(tmp_path))

    assert SinkStore(tmp_path / "sink", "orders", "sink-0-it").violations() == []
