"""Judges tables when they are known, values as they come, and row counts when the job has finished."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa

from holdfast.connectors.assert_sink.options import (
    CatalogTableRule,
    ColumnRule,
    FieldRule,
    Options,
    RowRule,
    TableRules,
)
from holdfast.connectors.base import Context, Guarantee, SinkBase, StageScope, TableBatch
from holdfast.model.errors import SinkRejected
from holdfast.model.json import JsonObject
from holdfast.model.schema import Column, Table, format_type


class RuleBroken(SinkRejected):
    """Data or a table are not as a rule says."""

    code = "assert-failed"

    def __init__(self, *, table: str, location: str, said: str) -> None:
        super().__init__(
            f"Cannot accept table '{table}' at {location}: {said}."
            " Correct what the job delivers, or the rule."
        )
        self.table = table


class AssertSink(SinkBase):
    """Takes rows and keeps none."""

    guarantee = Guarantee.EXACTLY_ONCE
    condition = "nothing is kept; rows are counted once, when their checkpoint exists"
    overlaps = True

    def __init__(self, options: Options, context: Context) -> None:
        self._rules = options.rules
        self._location = context.location
        self._judged: set[str] = set()

    def prepare(self, tables: Sequence[Table]) -> None:
        """All that can be said of the tables alone."""
        self._judge_presence({table.path for table in tables})
        for table in tables:
            self._judge_table(table)

    def stage(self, scope: StageScope, batches: Iterator[TableBatch]) -> JsonObject | None:
        counts: dict[str, int] = {}
        for found in batches:
            if found.table not in self._judged:
                self._judge_table(scope.tables[found.table])
            counts[found.table] = counts.get(found.table, 0) + found.batch.num_rows
            self._judge_batch(found, counts[found.table])
        return {"rows": sum(counts.values())} if counts else None

    def finish(self, totals: Mapping[str, int]) -> None:
        """Row counts, over all rows of the job that were committed."""
        self._judge_presence(set(totals))
        for path, rows in totals.items():
            for rule in self._row_rules(path):
                if rule.rule_type == "MIN_ROW" and rows < rule.rule_value:
                    self._reject(path, f"MIN_ROW is {rule.rule_value}, and {rows} rows came")
                if rule.rule_type == "MAX_ROW" and rows > rule.rule_value:
                    self._reject(path, f"MAX_ROW is {rule.rule_value}, and {rows} rows came")

    def _rules_of(self, path: str) -> list[TableRules]:
        named = [rules for rules in self._rules.tables_configs if rules.table_path == path]
        return [self._rules, *named]

    def _row_rules(self, path: str) -> Iterable[RowRule]:
        return (rule for rules in self._rules_of(path) for rule in rules.row_rules)

    def _field_rules(self, path: str) -> Iterable[FieldRule]:
        return (rule for rules in self._rules_of(path) for rule in rules.field_rules)

    def _reject(self, table: str, said: str) -> None:
        raise RuleBroken(table=table, location=self._location, said=said)

    def _judge_presence(self, paths: set[str]) -> None:
        wanted = [*self._rules.table_names, *(t.table_path for t in self._rules.tables_configs)]
        for path in wanted:
            if path not in paths:
                there = ", ".join(sorted(paths)) or "none"
                self._reject(path, f"it does not reach this sink (there: {there})")

    def _judge_table(self, table: Table) -> None:
        columns = {column.name: column for column in table.columns}
        for rule in self._field_rules(table.path):
            column = columns.get(rule.field_name)
            if column is None:
                there = ", ".join(columns)
                self._reject(table.path, f"there is no field '{rule.field_name}' (there: {there})")
            elif rule.field_type is not None:
                self._judge_type(table, column, rule.field_type)
        for rules in self._rules_of(table.path):
            if rules.catalog_table_rule is not None:
                self._judge_catalog(table, rules.catalog_table_rule)
        self._judged.add(table.path)

    def _judge_type(self, table: Table, column: Column, wanted: pa.DataType) -> None:
        found, expected = format_type(column.type), format_type(wanted)
        if found != expected:
            self._reject(table.path, f"field '{column.name}' is {found}, expected {expected}")

    def _judge_catalog(self, table: Table, rule: CatalogTableRule) -> None:
        if rule.table_identifier_rule and rule.table_identifier_rule.table != table.path:
            self._reject(table.path, f"expected table '{rule.table_identifier_rule.table}'")
        key = rule.primary_key_rule
        if key is not None and tuple(key.primary_key_columns) != table.primary_key:
            there, wanted = _names(table.primary_key), _names(key.primary_key_columns)
            self._reject(table.path, f"its primary key is {there}, expected {wanted}")
        for constraint in rule.constraint_key_rule:
            names = tuple(c.constraint_key_column_name for c in constraint.constraint_key_columns)
            if names not in table.unique_keys:
                self._reject(table.path, f"it has no unique key {_names(names)}")
        if rule.column_rule:
            self._judge_columns(table, rule.column_rule)

    def _judge_columns(self, table: Table, rules: Sequence[ColumnRule]) -> None:
        wanted = [rule.name for rule in rules]
        if wanted != table.column_names:
            there = _names(table.column_names)
            self._reject(table.path, f"its columns are {there}, expected {_names(wanted)}")
        for column, rule in zip(table.columns, rules, strict=True):
            for name, expected, found in _compared(column, rule):
                if expected is not None and expected != found:
                    said = f"{name} of column '{column.name}' is {found}, expected {expected}"
                    self._reject(table.path, said)

    def _judge_batch(self, found: TableBatch, rows: int) -> None:
        from holdfast.connectors.assert_sink.judge import RuleMisfit, judge_values

        for row_rule in self._row_rules(found.table):
            if row_rule.rule_type == "MAX_ROW" and rows > row_rule.rule_value:
                self._reject(found.table, f"MAX_ROW is {row_rule.rule_value}, and more came")
        for field in self._field_rules(found.table):
            column = found.batch.column(field.field_name)
            for rule in field.field_value:
                try:
                    violation = judge_values(column, rule)
                except RuleMisfit as error:
                    self._reject(found.table, f"a rule does not fit '{field.field_name}': {error}")
                    return
                if violation is not None:
                    self._reject(
                        found.table,
                        f"field '{field.field_name}' breaks {violation.rule} in {violation.count}"
                        f" of {violation.of_rows} rows looked at, first with {violation.found}",
                    )


def _compared(column: Column, rule: ColumnRule) -> list[tuple[str, object, object]]:
    """What a rule may say of a column: name, expected, found."""
    default = None if column.default is None else str(column.default)
    wanted_type = None if rule.type is None else format_type(rule.type)
    return [
        ("the type", wanted_type, format_type(column.type)),
        ("the length", rule.column_length, column.length),
        ("nullable", rule.nullable, column.nullable),
        ("the default", rule.default_value, default),
        ("the comment", rule.comment, column.comment),
    ]


def _names(names: Sequence[str]) -> str:
    return f"({', '.join(names)})"
