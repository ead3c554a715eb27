"""Runs the Python that a user wrote into a job file: loaded once per task, batch in, batch out."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import pyarrow as pa

from holdfast.model.carried import carrying_errors
from holdfast.model.errors import ConfigError, Terminal
from holdfast.model.json import JsonObject
from holdfast.model.schema import KIND_COLUMN
from holdfast.transforms.tables import batch_for_spark

FORMS = ("transform", "transform_row", "process")
Row = dict[str, Any]
RunRow = Callable[[Row], list[Row]]


@dataclass(frozen=True, slots=True)
class UserCode:
    """The code and what is known of it; travels to the workers."""

    source: str | None
    module: str | None
    added: tuple[tuple[str, pa.DataType], ...]
    config: JsonObject
    skip: bool
    made: pa.Schema
    """The columns of the result, without the kind."""
    where: str


def syntax_problems(text: str) -> list[str]:
    try:
        tree = ast.parse(text)
    except SyntaxError as wrong:
        return [f"the Python source is wrong in its line {wrong.lineno}: {wrong.msg}"]
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    imported = any(isinstance(node, ast.ImportFrom | ast.Assign) for node in tree.body)
    if defined.isdisjoint(FORMS) and not imported:
        return [
            "the Python source defines none of transform(batch), transform_row(row) and"
            " process(row, context)"
        ]
    return []


def load_code(code: UserCode) -> Mapping[str, Callable[..., Any]]:
    """The names the code defines."""
    try:
        if code.module is not None:
            return vars(import_module(code.module))
        names: dict[str, Any] = {"__name__": "holdfast_user_code"}
        exec(compile(code.source or "", "source_code", "exec"), names)
    except Exception as wrong:  # the user's code may raise anything
        raise ConfigError(
            f"Cannot load the code of {code.where}: {type(wrong).__name__}: {wrong}. Correct it."
        ) from wrong
    return names


def run_batches(
    code: UserCode, came: pa.Schema, made: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The whole of one task. `came` is the table's own schema, `made` the result's with its kind."""
    with carrying_errors():
        yield from _run_batches(code, came, made, batches)


def _run_batches(
    code: UserCode, came: pa.Schema, made: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    functions = load_code(code)
    context: dict[str, Any] = {
        "input_fields": [{"name": f.name, "type": str(f.type)} for f in came],
        "output_fields": [{"name": f.name, "type": str(f.type)} for f in made],
        "config": code.config,
    }
    if "open" in functions:
        functions["open"](context)
    for batch in batches:
        if not batch.num_rows:
            continue
        rows = _in_types_of(batch, came)
        if "transform" in functions:
            done = _run_batch(code, functions["transform"], rows)
        else:
            done = _run_rows(code, _row_function(code, functions, context), rows, made)
        yield batch_for_spark(_shaped(code, done, made))


def _in_types_of(batch: pa.RecordBatch, came: pa.Schema) -> pa.RecordBatch:
    """Spark writes times in nanoseconds: the user's code sees the table's own types."""
    if KIND_COLUMN in batch.schema.names:
        came = came.append(pa.field(KIND_COLUMN, pa.int8()))
    return batch.cast(came)


def _run_batch(
    code: UserCode, transform: Callable[..., Any], batch: pa.RecordBatch
) -> pa.RecordBatch:
    try:
        done = transform(batch)
    except Exception as wrong:  # the user's code may raise anything
        raise _failed(code, "transform(batch)", wrong) from wrong
    if KIND_COLUMN not in batch.schema.names or KIND_COLUMN in done.schema.names:
        return done
    if done.num_rows != batch.num_rows:
        raise Terminal(
            f"Cannot run transform(batch) of {code.where}: it made {done.num_rows} rows of"
            f" {batch.num_rows} and left out the column {KIND_COLUMN}, so their kinds are lost."
            f" Keep {KIND_COLUMN} in the batch that it returns."
        )
    return done.append_column(batch.schema.field(KIND_COLUMN), batch.column(KIND_COLUMN))


def _row_function(
    code: UserCode, functions: Mapping[str, Callable[..., Any]], context: dict[str, Any]
) -> RunRow:
    if "transform_row" in functions:
        transform_row = functions["transform_row"]

        def run_row(row: Row) -> list[Row]:
            done = transform_row(row)
            return [] if done is None else done if isinstance(done, list) else [done]

        return run_row
    process = functions["process"]
    names = [name for name, _ in code.added]

    def run_process(row: Row) -> list[Row]:
        return [{**row, **_by_name(process(dict(row), context), names)}]

    return run_process


def _by_name(done: Any, names: list[str]) -> Row:
    if isinstance(done, dict):
        return {name: done[name] for name in names}
    if isinstance(done, list | tuple):
        return dict(zip(names, done, strict=True))
    return dict(zip(names, [done], strict=True))


def _run_rows(
    code: UserCode, run_row: RunRow, batch: pa.RecordBatch, made: pa.Schema
) -> pa.RecordBatch:
    kinds = KIND_COLUMN in batch.schema.names
    done: list[Row] = []
    for row in batch.to_pylist():
        kind = row.pop(KIND_COLUMN) if kinds else None
        try:
            results = run_row(row)
        except Exception as wrong:  # the user's code may raise anything
            if code.skip:
                continue
            raise _failed(code, "the function", wrong) from wrong
        done += [{KIND_COLUMN: kind, **result} for result in results] if kinds else results
    try:
        return pa.RecordBatch.from_pylist(done, made)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as wrong:
        raise _failed(code, "the function", wrong) from wrong


def _shaped(code: UserCode, done: pa.RecordBatch, made: pa.Schema) -> pa.RecordBatch:
    try:
        return done.select(made.names).cast(made)
    except (KeyError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as wrong:
        raise Terminal(
            f"Cannot use what {code.where} made: {wrong}. Expected are the columns"
            f" {', '.join(f'{f.name} {f.type}' for f in made)}."
            f" Return these, or change the option 'schema'."
        ) from wrong


def _failed(code: UserCode, what: str, wrong: Exception) -> Terminal:
    line = _line_of(wrong)
    at = f" in line {line} of its source" if line else ""
    return Terminal(
        f"Cannot run {what} of {code.where}: {type(wrong).__name__}: {wrong}{at}."
        f" Correct the code, or set row_error_handle_way to SKIP."
    )


def _line_of(wrong: BaseException) -> int | None:
    """The last line of the user's own source in the traceback."""
    line, trace = None, wrong.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "source_code":
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
