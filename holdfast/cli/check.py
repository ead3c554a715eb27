"""`holdfast check job.conf`: every problem of a job file in one pass, without Spark and without connecting."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, TextIO

from holdfast.cli.checked_file import CheckedFile, add_checked_file, open_checked_file
from holdfast.cli.describe import Described, describe_file, to_json
from holdfast.model.errors import ExitCode
from holdfast.model.jobs import Pipeline, Role
from holdfast.runtime.catalog import Catalog

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "check",
        help="find every problem of a job file",
        description="Reads a job file and prints every problem with its line, or 'ok' with what each"
        " sink guarantees. Connects to nothing. Exit code 3 if there is a problem.",
    )
    add_checked_file(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, out: TextIO, catalog: Catalog | None = None) -> int:
    known = catalog or Catalog()
    described = describe_file(open_checked_file(args, known), known)
    file = described.file
    if args.json:
        print(json.dumps(to_json(described), indent=2, ensure_ascii=False), file=out)
    else:
        lines = _problems(file) if file.parsed.spec is None else _fine(described)
        print("\n".join([*lines, *file.note_lines()]), file=out)
    return ExitCode.CONFIG_ERROR if file.parsed.spec is None else ExitCode.FINISHED


def _problems(file: CheckedFile) -> list[str]:
    return [*file.problem_lines(), f"{file.path}: {file.count()}"]


def _fine(described: Described) -> list[str]:
    spec = described.file.spec()
    count = len(spec.pipelines)
    plural = "" if count == 1 else "s"
    head = f"{described.file.path}: ok, {spec.env.mode.value}, {count} pipeline{plural}"
    return [head, *(line for p in spec.pipelines for line in _pipeline(p, described))]


def _pipeline(pipeline: Pipeline, described: Described) -> list[str]:
    steps = [", ".join(v.location for v in pipeline.of(role)) for role in Role]
    lines = [f"  pipeline {pipeline.id}: {' -> '.join(step for step in steps if step)}"]
    for sink in pipeline.of(Role.SINK):
        lines.append(f"    {sink.location}: {described.promises[sink.location].said}")
    return lines
