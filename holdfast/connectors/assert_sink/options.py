"""What an Assert can be told: rules on rows, fields and tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from holdfast.model.jobs import JobMode
from holdfast.model.json import Json
from holdfast.spec.options import option
from holdfast.spec.schema_block import parse_schema

FieldRuleType = Literal["NOT_NULL", "NULL", "MIN", "MAX", "MIN_LENGTH", "MAX_LENGTH"]
WITH_VALUE = ("MIN", "MAX", "MIN_LENGTH", "MAX_LENGTH")


def parse_field_type(found: Json) -> pa.DataType:
    """A type's name, or an object of fields for a row."""
    return parse_schema({"fields": {"field": found}}).columns[0].type


def _as_given(found: Json) -> Json:
    return found


@dataclass(frozen=True)
class RowRule:
    """A limit to the number of rows of a table, over the whole job."""

    rule_type: Literal["MAX_ROW", "MIN_ROW"] = option("`MAX_ROW` or `MIN_ROW`.")
    rule_value: int = option("The number of rows.", minimum=0)


@dataclass(frozen=True)
class ValueRule:
    """What each value of a field must be. With both parts, both must hold."""

    rule_type: FieldRuleType | None = option(
        "`NOT_NULL`, `NULL` (must be null), `MIN`, `MAX`, `MIN_LENGTH`, `MAX_LENGTH`.", default=None
    )
    rule_value: Any = option(
        "The limit of MIN, MAX, MIN_LENGTH and MAX_LENGTH: a number, or a date or time as text.",
        default=None,
        parse=_as_given,
        type_name="number | string",
    )
    equals_to: Any = option(
        "The one value it must have: written as in the `rows` of FakeSource, for every type.",
        default=None,
        parse=_as_given,
        type_name="any",
    )


@dataclass(frozen=True)
class FieldRule:
    """Rules on one field."""

    field_name: str = option("The field.")
    field_type: pa.DataType | None = option(
        "The type it must have.", default=None, parse=parse_field_type, type_name="type"
    )
    field_value: list[ValueRule] = option("Rules on its values; all must hold.", default=[])


@dataclass(frozen=True)
class PrimaryKeyRule:
    """The primary key that a table must have."""

    primary_key_name: str | None = option("Accepted; keys have no names here.", default=None)
    primary_key_columns: list[str] = option("Its columns, in order.")


@dataclass(frozen=True)
class ConstraintColumn:
    """A column of a constraint."""

    constraint_key_column_name: str = option("The column.")
    constraint_key_sort_type: Literal["ASC", "DESC"] = option(
        "Accepted; keys have no order here.", default="ASC"
    )


@dataclass(frozen=True)
class ConstraintRule:
    """A constraint that a table must have."""

    constraint_key_name: str | None = option("Accepted; keys have no names here.", default=None)
    constraint_key_type: Literal["UNIQUE_KEY"] = option(
        "Tables carry no other than unique keys here.", default="UNIQUE_KEY"
    )
    constraint_key_columns: list[ConstraintColumn] = option("Its columns, in order.")


@dataclass(frozen=True)
class ColumnRule:
    """A column that a table must have. What is not given is not looked at."""

    name: str = option("The column.")
    type: pa.DataType | None = option(
        "Its type.", default=None, parse=parse_field_type, type_name="type"
    )
    column_length: int | None = option("Its length.", default=None)
    nullable: bool | None = option("Whether it may be null.", default=None)
    default_value: str | None = option("Its default.", default=None)
    comment: str | None = option("Its comment.", default=None)


@dataclass(frozen=True)
class TableIdentifierRule:
    """Which table it must be."""

    catalog_name: str | None = option("Accepted; catalogs have no names here.", default=None)
    table: str = option("Its path.")


@dataclass(frozen=True)
class CatalogTableRule:
    """What a table must be."""

    table_identifier_rule: TableIdentifierRule | None = option("Its path.", default=None)
    primary_key_rule: PrimaryKeyRule | None = option("Its primary key.", default=None)
    constraint_key_rule: list[ConstraintRule] = option("Its unique keys.", default=[])
    column_rule: list[ColumnRule] = option("Its columns: these, all, in this order.", default=[])


@dataclass(frozen=True)
class TableRules:
    """The rules on a table."""

    row_rules: list[RowRule] = option(
        "Limits to the number of rows, judged when the job has finished.", default=[]
    )
    field_rules: list[FieldRule] = option("Rules on fields.", default=[])
    catalog_table_rule: CatalogTableRule | None = option("What the table must be.", default=None)


@dataclass(frozen=True)
class NamedTableRules(TableRules):
    """The rules on one table of several."""

    table_path: str = option("The table.")


@dataclass(frozen=True)
class Rules(TableRules):
    """All rules. Those outside `tables_configs` hold for each table."""

    table_names: list[str] = option("Tables that must be there.", default=[], name="table-names")
    tables_configs: list[NamedTableRules] = option("Rules by table.", default=[])


@dataclass(frozen=True)
class Options:
    """The options of an Assert."""

    rules: Rules = option("The rules.")


def check_options(options: Options, mode: JobMode) -> Sequence[str]:
    """Problems that no single option shows."""
    rules = options.rules
    if rules == Rules():
        return ["'rules' holds no rule"]
    all_rules: list[TableRules] = [rules, *rules.tables_configs]
    return [
        f"field '{field.field_name}': {said}"
        for table in all_rules
        for field in table.field_rules
        for value in field.field_value
        for said in _check_value(value)
    ]


def _check_value(rule: ValueRule) -> list[str]:
    if rule.rule_type is None and rule.equals_to is None:
        return ["a value rule has neither 'rule_type' nor 'equals_to'"]
    if rule.rule_type in WITH_VALUE and rule.rule_value is None:
        return [f"{rule.rule_type} has no 'rule_value'"]
    if rule.rule_type in ("MIN_LENGTH", "MAX_LENGTH") and not _is_whole(rule.rule_value):
        return [f"{rule.rule_type} expects a whole number, found {rule.rule_value!r}"]
    return []


def _is_whole(found: object) -> bool:
    return str(found).strip().removesuffix(".0").isdecimal()
