"""`holdfast options [name]`: what a job file may name, and what each of them can be told."""

from __future__ import annotations

import argparse
import json
import textwrap
from typing import TYPE_CHECKING, TextIO

from holdfast.cli.options_page import (
    ENV,
    ENV_DOC,
    Section,
    default_text,
    doc_text,
    markdown_page,
    sections_of,
    to_json,
)
from holdfast.model.errors import ConfigError, ExitCode
from holdfast.model.jobs import Role
from holdfast.model.json import Json, JsonObject
from holdfast.runtime.catalog import Catalog
from holdfast.spec.options import nearest

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "options",
        help="list connectors and transforms, or the options of one",
        description="Without a name: all connectors and transforms. With one (or 'env'): its options.",
    )
    parser.add_argument("name", nargs="?", help="a connector, a transform, or 'env'")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--markdown", action="store_true", help="print the page of the docs")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, out: TextIO, catalog: Catalog | None = None) -> int:
    known = catalog or Catalog()
    text = _list_all(known, args) if args.name is None else _show_one(args.name, known, args)
    print(text, file=out)
    return ExitCode.FINISHED


def _show_one(name: str, catalog: Catalog, args: argparse.Namespace) -> str:
    try:
        sections = sections_of(name, catalog)
    except ImportError as missing:
        raise ConfigError(
            f"Cannot show the options of {name}: the Python package '{missing.name}' is not"
            " installed here. Install it, and ask again."
        ) from None
    if not sections:
        names = sorted({n for role in Role for n in catalog.names(role)} | {ENV})
        raise ConfigError(
            f"Cannot show the options of {name!r}: there is no such connector or transform."
            f"{nearest(name, names)} `holdfast options` lists them."
        )
    if args.markdown:
        return markdown_page(name, catalog).rstrip("\n")
    if args.json:
        found: list[Json] = [to_json(section) for section in sections]
        return json.dumps(found, indent=2, ensure_ascii=False)
    return "\n\n".join(_text(section) for section in sections)


def _text(section: Section) -> str:
    head = section.role if section.role == section.name else f"{section.role} {section.name}"
    lines = [head, textwrap.indent(section.doc, "  "), ""]
    rows = [(o.name, o.type_name, default_text(o), doc_text(o)) for o in section.options]
    rows = [("option", "type", "default", ""), *rows]
    widths = [min(max(len(row[at]) for row in rows), 34) for at in range(3)]
    for name, type_, default, doc in rows:
        left = f"  {name:<{widths[0]}}  {type_:<{widths[1]}}  {default:<{widths[2]}}  "
        lines.append((left + doc).rstrip())
    return "\n".join(lines)


def _list_all(catalog: Catalog, args: argparse.Namespace) -> str:
    found: dict[Role, list[tuple[str, str]]] = {
        role: [(name, _summary(role, name, catalog)) for name in catalog.names(role)]
        for role in Role
    }
    if args.json:
        listed: JsonObject = {
            role.value: [{"name": name, "doc": doc} for name, doc in names]
            for role, names in found.items()
        }
        return json.dumps(listed, indent=2, ensure_ascii=False)
    lines: list[str] = []
    for role, names in found.items():
        lines += [f"{role.value}s"]
        lines += [f"  {name:<18} {doc}".rstrip() for name, doc in names]
    return "\n".join([*lines, ENV, f"  {'':<18} {ENV_DOC}"])


def _summary(role: Role, name: str, catalog: Catalog) -> str:
    try:
        sections = sections_of(name, catalog)
    except ImportError as missing:
        return f"(needs the Python package '{missing.name}')"
    doc = next((s.doc for s in sections if s.role == role.value), "")
    return " ".join(doc.split("\n\n")[0].split()).split(". ")[0].rstrip(".:")
