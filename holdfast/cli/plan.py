"""`holdfast plan job.conf`: draws the graph, pipeline by pipeline, with what each sink guarantees."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, TextIO

from holdfast.cli.checked_file import add_checked_file, open_checked_file
from holdfast.cli.describe import Described, describe_file, to_json
from holdfast.model.errors import ExitCode
from holdfast.model.jobs import Pipeline, Role, Vertex
from holdfast.runtime.catalog import Catalog

if TYPE_CHECKING:
    from rich.tree import Tree

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

LINE_MAX = 1000


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "plan",
        help="draw a job's graph and pipelines",
        description="Draws a job's pipelines with locations, parallelism and guarantees. Runs nothing.",
    )
    add_checked_file(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, out: TextIO, catalog: Catalog | None = None) -> int:
    known = catalog or Catalog()
    described = describe_file(open_checked_file(args, known), known)
    spec = described.file.spec()
    if args.json:
        print(json.dumps(to_json(described), indent=2, ensure_ascii=False), file=out)
        return ExitCode.FINISHED
    from rich.console import Console

    # A file or a pipe has no width: nothing is to be broken or cut there.
    width = None if out.isatty() else LINE_MAX
    console = Console(file=out, width=width, highlight=False, emoji=False)
    env = spec.env
    console.print(f"[bold]{_plain(env.job_name)}[/bold] {env.mode.value}")
    for pipeline in spec.pipelines:
        console.print(_draw(pipeline, described))
    for note in described.file.note_lines():
        console.print(_plain(note))
    return ExitCode.FINISHED


def _draw(pipeline: Pipeline, described: Described) -> Tree:
    """A tree from the sources down. What several feed hangs below the last of them; the others point at it."""
    from rich.tree import Tree

    tree = Tree(f"pipeline {pipeline.id}")
    readers: dict[str, list[Vertex]] = {vertex.location: [] for vertex in pipeline.vertices}
    for vertex in pipeline.vertices:
        for read in vertex.inputs:
            readers[read].append(vertex)
    order = {vertex.location: at for at, vertex in enumerate(pipeline.vertices)}

    def hang(branch: Tree, vertex: Vertex) -> None:
        inner = branch.add(_label(vertex, described))
        for reader in readers[vertex.location]:
            home = max(reader.inputs, key=order.__getitem__)
            if home == vertex.location:
                hang(inner, reader)
            else:
                inner.add(f"[dim]-> {reader.location} (below {home})[/dim]")

    for source in pipeline.of(Role.SOURCE):
        hang(tree, source)
    return tree


def _label(vertex: Vertex, described: Described) -> str:
    text = f"[bold]{vertex.location}[/bold] {_plain(vertex.kind)} x{vertex.parallelism}"
    if vertex.role is not Role.SINK:
        named = vertex.output != vertex.location
        return text + (f" as {_plain(vertex.output)}" if named else "")
    return f"{text}: [cyan]{_plain(described.promises[vertex.location].said)}[/cyan]"


def _plain(text: str) -> str:
    """Brackets of users' names are no markup."""
    from rich.markup import escape

    return escape(text)
