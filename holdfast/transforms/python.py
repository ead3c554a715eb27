"""Python: a function of the user's own, over Arrow batches or over rows, run in Spark's Python workers.

The source defines one of

    def transform(batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch     # columns at once: fast
    def transform_row(row: dict) -> dict | list[dict] | None              # None drops the row
    def process(row: dict, context: dict) -> dict | list | value          # SeaTunnel's form, with `columns`

and may define `open(context)`, called once in each task before the first row. The row kind is the column `__kind`
where the source delivers changes: `transform_row` and `process` keep it by themselves, `transform` keeps it by
keeping the count and order of rows, or by returning the column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from holdfast.model.errors import ConfigError
from holdfast.model.json import Json, JsonObject
from holdfast.model.schema import KIND_COLUMN, Table, parse_type
from holdfast.spec.options import option
from holdfast.transforms.base import TableFrame
from holdfast.transforms.table_rules import (
    RULES_DOC,
    Rule,
    RuleOptions,
    TableOptions,
    table_wise_kind,
)
from holdfast.transforms.user_code import (
    FORMS,
    UserCode,
    load_code,
    run_batches,
    syntax_problems,
)


def parse_fields(found: Json) -> dict[str, str]:
    """`{ fields { name = type } }`, or the fields alone."""
    block = found.get("fields", found) if isinstance(found, dict) else found
    if not isinstance(block, dict) or not block:
        raise ValueError("expected { fields { name = type } }")
    types = {str(name): str(type_) for name, type_ in block.items()}
    for type_ in types.values():
        parse_type(type_)
    return types


@dataclass(frozen=True)
class NewColumn:
    """One entry of `columns`."""

    dest_field: str = option("The field that process returns.")
    dest_type: str = option("Its type.", default="string")


@dataclass(frozen=True)
class Code:
    """What one rule says."""

    source_code: str | None = option("The Python source.", default=None)
    absolute_path: str | None = option(
        "The file that holds it; read where the job is started.",
        default=None,
        aliases=("source_code_path",),
    )
    module: str | None = option("A module that can be imported on every worker.", default=None)
    schema: dict[str, str] | None = option(
        "The columns of the result, { fields { name = type } }. Without it `transform` is run on an"
        " empty batch to learn them, and `transform_row` keeps the columns that come in.",
        default=None,
        parse=parse_fields,
        type_name="schema",
    )
    columns: list[NewColumn] = option("For `process`: the fields it adds.", default=[])
    script_config: JsonObject = option('For `process`: context["config"].', default={})
    row_error_handle_way: Literal["FAIL", "SKIP"] = option(
        "For `transform_row` and `process`: what an exception does to the job or the row.",
        default="FAIL",
    )
    python_executable: str | None = option(
        "Of no effect: the code runs in the Python that runs the job.", default=None
    )


@dataclass(frozen=True)
class CodeOfTable(Code, RuleOptions):
    """An entry of `table_transform`."""


@dataclass(frozen=True)
class Options(Code, TableOptions):
    """The block."""

    table_transform: list[CodeOfTable] = option(RULES_DOC, default=[])


def make_rule(options: Any) -> Rule:
    return make_code_rule(options, "Python")


def make_code_rule(options: Any, transform: str) -> Rule:
    """The rule that runs `options`' code; `transform` is how errors name it."""
    learnt: dict[pa.Schema, UserCode] = {}

    def run(found: TableFrame) -> TableFrame:
        came = found.table.arrow_schema
        if came not in learnt:
            learnt[came] = _learn(options, found.table, transform)
        return replace(found, frame=_mapped(found, learnt[came]))

    return run


def _mapped(found: TableFrame, code: UserCode) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    came, kinds = found.table.arrow_schema, KIND_COLUMN in found.frame.columns
    made = code.made.append(pa.field(KIND_COLUMN, pa.int8())) if kinds else code.made

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return run_batches(code, came, made, batches)

    return found.frame.mapInArrow(run, from_arrow_schema(made, prefer_timestamp_ntz=True))


def _learn(options: Any, table: Table, transform: str) -> UserCode:
    """Load the code once here, so that what is wrong with it is told before anything runs."""
    text = Path(options.absolute_path).read_text() if options.absolute_path else options.source_code
    added = [(one.dest_field, parse_type(one.dest_type)) for one in options.columns]
    code = UserCode(
        source=text,
        module=options.module,
        added=tuple(added),
        config=options.script_config,
        skip=options.row_error_handle_way == "SKIP",
        made=table.arrow_schema,
        where=f"transform {transform} on table '{table.path}'",
    )
    functions = load_code(code)
    form = next((name for name in FORMS if name in functions), None)
    if form is None:
        raise ConfigError(f"Cannot use the code of {code.where}: it defines none of {_forms()}.")
    return replace(code, made=_made(options, code, functions, form))


def _made(
    options: Any, code: UserCode, functions: Mapping[str, Callable[..., Any]], form: str
) -> pa.Schema:
    if form == "process":
        if not code.added:
            raise ConfigError(
                f"Cannot use process(row, context) in {code.where}: it says nothing of the fields"
                f" it adds. List them in the option 'columns'."
            )
        kept = [f for f in code.made if f.name not in dict(code.added)]
        return pa.schema([*kept, *(pa.field(name, type_) for name, type_ in code.added)])
    if options.schema:
        return pa.schema([(name, parse_type(text)) for name, text in options.schema.items()])
    if form == "transform_row":
        return code.made
    return _made_of_nothing(code, functions["transform"])


def _made_of_nothing(code: UserCode, transform: Callable[..., Any]) -> pa.Schema:
    empty = pa.RecordBatch.from_pylist([], code.made)
    try:
        made = transform(empty)
    except Exception as wrong:  # the user's code may raise anything
        raise ConfigError(
            f"Cannot learn the columns that {code.where} makes: transform(batch) fails on an empty"
            f" batch with {type(wrong).__name__}: {wrong}."
            f" Correct it, or give the columns by the option 'schema'."
        ) from wrong
    if not isinstance(made, pa.RecordBatch):
        raise ConfigError(
            f"Cannot use transform(batch) in {code.where}: it returns a {type(made).__name__}"
            f" and not a pyarrow.RecordBatch. Return a RecordBatch."
        )
    return pa.schema([f for f in made.schema if f.name != KIND_COLUMN])


def find_problems(options: Any) -> Sequence[str]:
    given = [n for n in ("source_code", "absolute_path", "module") if getattr(options, n)]
    if len(given) != 1:
        return ["give one of source_code, absolute_path and module"]
    return find_code_problems(options)


def find_code_problems(options: Any) -> list[str]:
    """What can be said of the code without running it."""
    if options.module:
        try:
            known = find_spec(options.module) is not None
        except (ImportError, ValueError):
            known = False
        return [] if known else [f"there is no module '{options.module}' to import"]
    text = options.source_code
    if options.absolute_path:
        try:
            text = Path(options.absolute_path).read_text()
        except OSError as wrong:
            return [f"cannot read '{options.absolute_path}': {wrong.strerror}"]
    return syntax_problems(text)


def _forms() -> str:
    return "transform(batch), transform_row(row) and process(row, context)"


TRANSFORM = table_wise_kind(
    "Python",
    Options,
    make_rule,
    find_problems,
    "Runs a Python function over Arrow batches or rows.",
)
