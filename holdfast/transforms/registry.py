"""Finds transforms by name. Modules are loaded at first use."""

from importlib import import_module

from holdfast.transforms.base import TransformKind

TRANSFORMS = {
    "Sql": "holdfast.transforms.sql",
    "Filter": "holdfast.transforms.filter",
    "FieldMapper": "holdfast.transforms.field_mapper",
    "FilterRowKind": "holdfast.transforms.filter_row_kind",
    "RowKindExtractor": "holdfast.transforms.row_kind_extractor",
    "Replace": "holdfast.transforms.replace",
    "Split": "holdfast.transforms.split",
    "Copy": "holdfast.transforms.copy",
    "JsonPath": "holdfast.transforms.json_path",
    "FieldRename": "holdfast.transforms.field_rename",
    "TableRename": "holdfast.transforms.table_rename",
    "TableFilter": "holdfast.transforms.table_filter",
    "TableMerge": "holdfast.transforms.table_merge",
    "Metadata": "holdfast.transforms.metadata",
    "DynamicCompile": "holdfast.transforms.dynamic_compile",
    "Python": "holdfast.transforms.python",
}


def list_transforms() -> list[str]:
    return sorted(TRANSFORMS)


def find_transform(name: str) -> TransformKind | None:
    """The declaration of a transform, or None where there is none of that name (case does not count)."""
    for known, module in TRANSFORMS.items():
        if known.lower() == name.lower():
            found = import_module(module).TRANSFORM
            assert isinstance(found, TransformKind)
            return found
    return None
