"""What a FakeSource can be told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from holdfast.connectors.fake.schema import FakeSchema, parse_fake_schema
from holdfast.connectors.json_columns import batch_of
from holdfast.model.jobs import JobMode
from holdfast.model.json import Json, JsonObject
from holdfast.model.schema import RowKind
from holdfast.spec.options import declared_options, option

FLOAT_MAX = 3.4028234663852886e38
DOUBLE_MAX = 1.7976931348623157e308
Mode = Literal["range", "template"]
NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double")
_TEMPLATE = "Values of which one is taken for each row; given, they are used instead of a range."
_MODE = "`range`, or `template`, for which the template option must be given."


def _parse_rows(found: Json) -> list[JsonObject]:
    """`[{kind = INSERT, fields = [...]}, ...]`, checked as far as that is possible without the schema."""
    if not isinstance(found, list):
        raise ValueError("expected a list of {kind, fields}")
    rows: list[JsonObject] = []
    for at, row in enumerate(found):
        if not isinstance(row, dict) or not isinstance(row.get("fields"), list | dict):
            raise ValueError(f"row {at + 1}: expected {{kind, fields}} with fields as a list")
        unknown = sorted(set(row) - {"kind", "fields"})
        if unknown:
            raise ValueError(f"row {at + 1}: there is no '{unknown[0]}' (kind, fields)")
        RowKind.parse(str(row.get("kind") or "INSERT"))
        rows.append(row)
    return rows


@dataclass(frozen=True)
class TableOptions:
    """What can be told of one table."""

    schema: FakeSchema | None = option(
        "The table: `fields {name = type}` or `columns = [...]`, and `table`, its path.",
        default=None,
        parse=parse_fake_schema,
        type_name="schema",
    )
    rows: list[JsonObject] | None = option(
        "The rows themselves, `{kind, fields}` each, in place of made ones: `kind` is INSERT (default),"
        " UPDATE_BEFORE, UPDATE_AFTER or DELETE. They come once, whatever `split.num` and the parallelism.",
        default=None,
        identity=True,
        parse=_parse_rows,
        type_name="list of {kind, fields}",
    )
    row_num: int = option(
        "Rows to make for each degree of parallelism (in streaming: for each round).",
        default=5,
        name="row.num",
        identity=True,
        minimum=0,
    )
    split_num: int = option(
        "Into how many splits the rows of each degree of parallelism are cut.",
        default=1,
        name="split.num",
        identity=True,
        minimum=1,
    )
    split_read_interval: int | None = option(
        "Milliseconds between two splits. Not given: no wait in batch, 1000 in streaming.",
        default=None,
        name="split.read-interval",
        minimum=0,
    )
    map_size: int = option("Entries of a map.", default=5, name="map.size", minimum=0)
    array_size: int = option("Items of an array.", default=5, name="array.size", minimum=0)
    bytes_length: int = option("Bytes of a `bytes`.", default=5, name="bytes.length", minimum=0)
    string_length: int = option(
        "Letters of a string, where its column gives no length of its own.",
        default=5,
        name="string.length",
        minimum=0,
    )
    string_fake_mode: Mode = option(_MODE, default="range", name="string.fake.mode")
    string_template: list[str] = option(_TEMPLATE, default=[], name="string.template")
    tinyint_fake_mode: Mode = option(_MODE, default="range", name="tinyint.fake.mode")
    tinyint_min: int = option(
        "The least.", default=0, name="tinyint.min", minimum=-(2**7), maximum=2**7 - 1
    )
    tinyint_max: int = option(
        "The most.", default=127, name="tinyint.max", minimum=-(2**7), maximum=2**7 - 1
    )
    tinyint_template: list[int] = option(_TEMPLATE, default=[], name="tinyint.template")
    smallint_fake_mode: Mode = option(_MODE, default="range", name="smallint.fake.mode")
    smallint_min: int = option(
        "The least.", default=0, name="smallint.min", minimum=-(2**15), maximum=2**15 - 1
    )
    smallint_max: int = option(
        "The most.", default=32767, name="smallint.max", minimum=-(2**15), maximum=2**15 - 1
    )
    smallint_template: list[int] = option(_TEMPLATE, default=[], name="smallint.template")
    int_fake_mode: Mode = option(_MODE, default="range", name="int.fake.mode")
    int_min: int = option(
        "The least.", default=0, name="int.min", minimum=-(2**31), maximum=2**31 - 1
    )
    int_max: int = option(
        "The most.", default=2**31 - 1, name="int.max", minimum=-(2**31), maximum=2**31 - 1
    )
    int_template: list[int] = option(_TEMPLATE, default=[], name="int.template")
    bigint_fake_mode: Mode = option(_MODE, default="range", name="bigint.fake.mode")
    bigint_min: int = option(
        "The least.", default=0, name="bigint.min", minimum=-(2**63), maximum=2**63 - 1
    )
    bigint_max: int = option(
        "The most.", default=2**63 - 1, name="bigint.max", minimum=-(2**63), maximum=2**63 - 1
    )
    bigint_template: list[int] = option(_TEMPLATE, default=[], name="bigint.template")
    float_fake_mode: Mode = option(_MODE, default="range", name="float.fake.mode")
    float_min: float = option(
        "The least.", default=0.0, name="float.min", minimum=-FLOAT_MAX, maximum=FLOAT_MAX
    )
    float_max: float = option(
        "The most.", default=FLOAT_MAX, name="float.max", minimum=-FLOAT_MAX, maximum=FLOAT_MAX
    )
    float_template: list[float] = option(_TEMPLATE, default=[], name="float.template")
    double_fake_mode: Mode = option(_MODE, default="range", name="double.fake.mode")
    double_min: float = option("The least.", default=0.0, name="double.min")
    double_max: float = option("The most.", default=DOUBLE_MAX, name="double.max")
    double_template: list[float] = option(_TEMPLATE, default=[], name="double.template")
    date_year_template: list[int] = option(
        "Years to take from; none: 2000 to 2029.", default=[], name="date.year.template"
    )
    date_month_template: list[int] = option(
        "Months to take from; none: all.", default=[], name="date.month.template"
    )
    date_day_template: list[int] = option(
        "Days to take from; none: all. A day that a month lacks becomes its last.",
        default=[],
        name="date.day.template",
    )
    time_hour_template: list[int] = option(
        "Hours to take from; none: all.", default=[], name="time.hour.template"
    )
    time_minute_template: list[int] = option(
        "Minutes to take from; none: all.", default=[], name="time.minute.template"
    )
    time_second_template: list[int] = option(
        "Seconds to take from; none: all.", default=[], name="time.second.template"
    )
    vector_dimension: int = option(
        "Numbers of a vector, where its column gives no scale of its own.",
        default=4,
        name="vector.dimension",
        minimum=1,
    )
    binary_vector_dimension: int = option(
        "Bits of a binary vector, a multiple of 8.",
        default=8,
        name="binary.vector.dimension",
        minimum=8,
    )
    vector_float_min: float = option(
        "The least in a vector.",
        default=0.0,
        name="vector.float.min",
        minimum=-FLOAT_MAX,
        maximum=FLOAT_MAX,
    )
    vector_float_max: float = option(
        "The most in a vector.",
        default=FLOAT_MAX,
        name="vector.float.max",
        minimum=-FLOAT_MAX,
        maximum=FLOAT_MAX,
    )
    seed: int = option(
        "Another number gives other rows; the same number gives the same rows, always.",
        default=0,
        identity=True,
    )


@dataclass(frozen=True)
class Options(TableOptions):
    """One table by itself, or several in `tables_configs`."""

    tables_configs: list[TableOptions] = option(
        "Several tables: each a block of its own with all options of this page.", default=[]
    )

    def each_table(self) -> list[TableOptions]:
        return list(self.tables_configs) or [self]


def check_options(options: Options, mode: JobMode) -> Sequence[str]:
    """Problems that no single option shows."""
    if options.tables_configs and options.schema is not None:
        return ["give either 'schema' or 'tables_configs', not both"]
    if options.tables_configs:
        own = [
            declared.name
            for declared in declared_options(TableOptions)
            if getattr(options, declared.attribute) != declared.default
        ]
        if own:
            return [f"'{own[0]}' stands beside 'tables_configs'; put it into each table's block"]
    found: list[str] = []
    for at, table in enumerate(options.each_table()):
        place = f"table {at + 1} of 'tables_configs': " if options.tables_configs else ""
        found += [place + said for said in _check_table(table)]
    return found + _check_paths(options)


def _check_paths(options: Options) -> list[str]:
    tables = [t.schema.table.path for t in options.tables_configs if t.schema is not None]
    twice = sorted({path for path in tables if tables.count(path) > 1})
    return [f"'tables_configs' has two tables named '{path}'; give each a path" for path in twice]


def _check_table(table: TableOptions) -> list[str]:
    if table.schema is None:
        return ["option 'schema' (or 'tables_configs') is required and missing"]
    found = [
        f"'{name}.min' is above '{name}.max'"
        for name in (*NUMBERS, "vector_float")
        if getattr(table, f"{name}_min") > getattr(table, f"{name}_max")
    ]
    for name in ("string", *NUMBERS):
        asked = getattr(table, f"{name}_fake_mode") == "template"
        if asked and not getattr(table, f"{name}_template"):
            found.append(f"'{name}.fake.mode' is template and '{name}.template' is missing")
    return found + _check_templates(table) + _check_rows(table)


_LIMITS = {
    "tinyint": (-(2**7), 2**7 - 1),
    "smallint": (-(2**15), 2**15 - 1),
    "int": (-(2**31), 2**31 - 1),
    "bigint": (-(2**63), 2**63 - 1),
    "date_year": (1, 9999),
    "date_month": (1, 12),
    "date_day": (1, 31),
    "time_hour": (0, 23),
    "time_minute": (0, 59),
    "time_second": (0, 59),
}


def _check_templates(table: TableOptions) -> list[str]:
    found = []
    for name, (least, most) in _LIMITS.items():
        wrong = [v for v in getattr(table, f"{name}_template") if not least <= v <= most]
        if wrong:
            shown = name.replace("_", ".")
            found.append(f"'{shown}.template' has {wrong[0]}; it goes from {least} to {most}")
    if table.binary_vector_dimension % 8:
        found.append("'binary.vector.dimension' is no multiple of 8")
    return found


def _check_rows(table: TableOptions) -> list[str]:
    if table.rows is None or table.schema is None:
        return []
    schema = table.schema.table.arrow_schema
    for at, row in enumerate(table.rows):
        given = row["fields"]
        if isinstance(given, list) and len(given) != len(schema):
            return [f"'rows': row {at + 1} has {len(given)} fields, the schema {len(schema)}"]
        try:
            batch_of([given], schema)
        except ValueError as error:
            return [f"'rows': row {at + 1}: {error}"]
    return []
