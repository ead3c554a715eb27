"""The Jdbc source and sink keep the contracts that all sources and sinks keep, on each of our databases."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.connectors.jdbc import SINK, SOURCE
from holdfast.connectors.jdbc.sink import promise_of
from holdfast.testing.builders import a_context, options_of
from holdfast.testing.sink_contract import SINK_RULES, SinkCase
from holdfast.testing.source_contract import SOURCE_RULES, SourceCase
from holdfast.testing.walking import row_text


@pytest.mark.parametrize("rule", SOURCE_RULES, ids=str)
@pytest.mark.parametrize("shape", ["keyed", "without key", "several tables"])
def test_the_source_keeps_the_contract_of_sources(rule: Any, shape: str, system: Any) -> None:
    if shape == "without key":
        system.execute("CREATE TABLE t (id bigint, text text)")
    else:
        system.execute("CREATE TABLE t (id bigint primary key, text text)")
    keyed = [(i * i - 30, f"row {i}") for i in range(25)]
    system.execute(*[f"INSERT INTO t VALUES {row!r}" for row in keyed])
    full = f"{system.prefix}t"
    expected = [row_text(full, 0, row) for row in keyed]
    block: dict[str, Any] = {**system.block, "table_path": "t"}
    if shape == "several tables":
        coded = [("x" * i, i) for i in range(5)]
        system.execute(
            "CREATE TABLE u (code varchar(20) unique, n integer)",
            *[f"INSERT INTO u VALUES {row!r}" for row in coded],
            "INSERT INTO u VALUES (NULL, 8)",
            "CREATE TABLE empty_one (id bigint primary key)",
        )
        tables = [{"table_path": name} for name in ("u", "empty_one", "t")]
        block = {**system.block, "table_list": tables}
        expected += [row_text(full.removesuffix("t") + "u", 0, row) for row in [*coded, (None, 8)]]

    def make() -> Any:
        return SOURCE.create(options_of(SOURCE, block), a_context("source-0-jdbc"))

    unit = 25 if shape == "without key" else 1
    case = SourceCase(make, rows=expected, ordered=False, unit_rows_max=unit)
    if rule.applies(case) is None:
        rule.check(case)


MODES: dict[str, dict[str, Any]] = {
    "exactly once": {"is_exactly_once": True, "enable_upsert": False},
    "exactly once by key": {"is_exactly_once": True},
    "append": {"enable_upsert": False},
    "upsert": {"primary_keys": ["id"]},
}


@pytest.mark.parametrize("rule", SINK_RULES, ids=str)
@pytest.mark.parametrize("mode", MODES)
def test_the_sink_keeps_the_contract_of_sinks(rule: Any, mode: str, system: Any) -> None:
    block = {**system.block, "generate_sink_sql": True, "table": "t", **MODES[mode]}
    options = options_of(SINK, block)
    case = SinkCase(
        make=lambda context: SINK.create(options, context),
        visible=lambda: [row[0] for row in system.rows("SELECT id FROM t")],
        leftovers=system.tables,
        declared=promise_of(options),
    )
    if rule.applies(case) is None:
        rule.check(case)
