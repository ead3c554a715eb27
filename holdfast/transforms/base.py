"""The contract of transforms: tables of DataFrames in, tables of DataFrames out. Lazy; nothing is computed here.

The row kind travels as the hidden column `KIND_COLUMN` (int, 0 to 3) where the source delivers more than inserts:
a transform keeps it, whatever it does with the others. A transform has no state between epochs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from holdfast.model.jobs import JobMode
from holdfast.model.schema import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class TableFrame:
    """One table's rows on their way. `output` is the `plugin_output` name they came under."""

    table: Table
    frame: DataFrame
    output: str


class Transform(Protocol):
    """Built from its options; `apply` is called once per epoch, and once on empty frames to learn the schemas."""

    def apply(self, inputs: Sequence[TableFrame]) -> list[TableFrame]: ...


@dataclass(frozen=True, slots=True)
class TransformKind:
    """What the core knows of a transform. The last thing in its module, named `TRANSFORM`."""

    name: str
    options: type[Any]
    create: Callable[[Any], Transform]
    doc: str
    check: Callable[[Any, JobMode], Sequence[str]] = field(default=lambda options, mode: ())
    """Problems that no single option shows. Runs without Spark."""
