"""Columns of a frame on its way: named safely, put or picked, with the row kind always last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from holdfast.model.errors import ConfigError
from holdfast.model.schema import KIND_COLUMN, RowKind, Table
from holdfast.spec.options import nearest

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def column(name: str) -> Column:
    """A column by its whole name, whatever signs are in it."""
    from pyspark.sql import functions as F

    return F.col(quoted(name))


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def carries_kinds(frame: DataFrame) -> bool:
    return KIND_COLUMN in frame.columns


def pick(frame: DataFrame, columns: Mapping[str, Column]) -> DataFrame:
    """A frame of these columns, and the row kind where there is one."""
    chosen = [made.alias(name) for name, made in columns.items()]
    if carries_kinds(frame):
        chosen.append(column(KIND_COLUMN))
    return frame.select(*chosen)


def put(frame: DataFrame, table: Table, columns: Mapping[str, Column]) -> DataFrame:
    """The table's columns with some replaced, and new ones behind them."""
    known = {name: column(name) for name in table.column_names}
    return pick(frame, {**known, **columns})


def kind_text(frame: DataFrame, full: bool = False) -> Column:
    """The row kind in words: `+I` or `INSERT`."""
    from pyspark.sql import functions as F

    texts = {kind: kind.name if full else kind.short for kind in RowKind}
    if not carries_kinds(frame):
        return F.lit(texts[RowKind.INSERT])
    said = F.when(column(KIND_COLUMN) == RowKind.INSERT.value, texts[RowKind.INSERT])
    for kind in (RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER, RowKind.DELETE):
        said = said.when(column(KIND_COLUMN) == kind.value, texts[kind])
    return said


def expect_columns(table: Table, names: Iterable[str], transform: str) -> None:
    """Refuse names that the table has not."""
    for name in names:
        if name not in table.column_names:
            known = ", ".join(table.column_names)
            raise ConfigError(
                f"Cannot apply transform {transform} to table '{table.path}':"
                f" it has no column '{name}' (it has {known})."
                f"{nearest(name, table.column_names) or ' Correct the name.'}"
            )


def expect_new_column(table: Table, name: str, transform: str) -> None:
    """Refuse a name that the table has already."""
    if name in table.column_names:
        raise ConfigError(
            f"Cannot apply transform {transform} to table '{table.path}':"
            f" it has a column '{name}' already. Choose another name."
        )
