"""The schema of a fake table: the common schema block, and which of its columns are vectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.model.json import Json
from holdfast.model.schema import Table
from holdfast.spec.schema_block import parse_schema

VECTORS = (
    "float_vector",
    "float16_vector",
    "bfloat16_vector",
    "binary_vector",
    "sparse_float_vector",
)


@dataclass(frozen=True, slots=True)
class Vector:
    """A column that was declared as a vector: its Arrow type alone would not say so."""

    kind: str
    dimension: int | None


@dataclass(frozen=True, slots=True)
class FakeSchema:
    """A table and its vectors by column."""

    table: Table
    vectors: Mapping[str, Vector] = field(default_factory=dict)

    def __str__(self) -> str:
        return ", ".join(self.table.column_names)


def parse_fake_schema(found: Json) -> FakeSchema:
    return FakeSchema(parse_schema(found), _find_vectors(found))


def _find_vectors(found: Json) -> dict[str, Vector]:
    if not isinstance(found, dict):
        return {}
    declared: dict[str, Vector] = {}
    fields, columns = found.get("fields"), found.get("columns")
    if isinstance(fields, dict):
        for name, type_ in fields.items():
            if str(type_).lower() in VECTORS:
                declared[name] = Vector(str(type_).lower(), None)
    for column in columns if isinstance(columns, list) else []:
        if isinstance(column, dict) and str(column.get("type")).lower() in VECTORS:
            scale = column.get("columnScale")
            dimension = scale if isinstance(scale, int) else None
            declared[str(column["name"])] = Vector(str(column["type"]).lower(), dimension)
    return declared
