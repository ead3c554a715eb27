"""The options of a connector or transform as data, as text and as the Markdown page of the docs."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from holdfast.connectors.base import Connector
from holdfast.model.jobs import Role
from holdfast.model.json import Json, JsonObject
from holdfast.runtime.catalog import Catalog
from holdfast.spec.env import EnvOptions
from holdfast.spec.options import COMMON, DeclaredOption, all_options, number_text

ENV = "env"
ENV_DOC = "What holds for the whole job. Settings that begin with `spark.` are passed on to Spark."


@dataclass(frozen=True, slots=True)
class Section:
    """One role of a name: `Jdbc` has a source and a sink."""

    role: str
    name: str
    doc: str
    options: list[DeclaredOption]


def sections_of(name: str, catalog: Catalog) -> list[Section]:
    """Empty where nothing has that name. ImportError where its package is not installed."""
    if name.lower() == ENV:
        return [Section(ENV, ENV, ENV_DOC, all_options(EnvOptions))]
    found = []
    for role in Role:
        if catalog.find(role, name) is not None:
            kind = _declaration(role, name, catalog)
            options = all_options(kind.options)
            found.append(Section(role.value, kind.name, inspect.cleandoc(kind.doc), options))
    return found


def _declaration(role: Role, name: str, catalog: Catalog) -> Any:
    if role is Role.TRANSFORM:
        return catalog.transform(name)
    connector: Connector = catalog.source(name) if role is Role.SOURCE else catalog.sink(name)
    return connector


def to_json(section: Section) -> JsonObject:
    return {
        "name": section.name,
        "role": section.role,
        "doc": section.doc,
        "options": [_option_json(o) for o in section.options],
    }


def _option_json(option: DeclaredOption) -> JsonObject:
    facts = option.facts
    found: JsonObject = {
        "name": option.name,
        "type": option.type_name,
        "required": option.required,
        "default": _plain_default(option),
        "secret": facts.secret,
        "doc": facts.doc,
    }
    if facts.aliases:
        found["aliases"] = list(facts.aliases)
    for name, limit in (("minimum", facts.minimum), ("maximum", facts.maximum)):
        if limit is not None:
            found[name] = limit
    return found


def default_text(option: DeclaredOption) -> str:
    """The default as a job file would say it; `required` where there is none."""
    if option.required:
        return "required"
    if option.default is None or option.default in ([], {}):
        return ""
    value = _plain_default(option)
    return value if isinstance(value, str) and value.isprintable() else json.dumps(value)


def doc_text(option: DeclaredOption) -> str:
    """The option's doc with its other names and its limits."""
    facts = option.facts
    limits = [
        f"at {word} {number_text(limit)}"
        for word, limit in (("least", facts.minimum), ("most", facts.maximum))
        if limit is not None
    ]
    parts = [facts.doc.rstrip()]
    if limits:
        parts.append(f"{', '.join(limits).capitalize()}.")
    if facts.aliases:
        parts.append(f"Also: {', '.join(facts.aliases)}.")
    if facts.secret:
        parts.append("Secret.")
    return " ".join(parts)


def markdown_page(name: str, catalog: Catalog) -> str:
    """The page of one name. Made from the declarations alone: regenerated, never edited."""
    sections = sections_of(name, catalog)
    shown = sections[0].name
    lines = [f"# {shown}", "", "<!-- Made by `python -m holdfast.cli.docs`; do not edit. -->"]
    for section in sections:
        lines += ["", f"## {section.role.capitalize()}", "", section.doc, ""]
        lines += list(_table(section))
    if sections[0].role != ENV:
        lines += ["", f"Every block also takes {', '.join(f'`{c}`' for c in _common(sections))}."]
    return "\n".join(lines) + "\n"


def _table(section: Section) -> Iterator[str]:
    if not section.options:
        yield "It has no options of its own."
        return
    yield "| option | type | default | what it does |"
    yield "|---|---|---|---|"
    for option in section.options:
        default = default_text(option)
        shown = default if default in ("", "required") else f"`{default}`"
        cells = (f"`{option.name}`", option.type_name, shown, doc_text(option))
        yield (
            "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
        )


def _common(sections: list[Section]) -> list[str]:
    roles = {section.role for section in sections}
    names = [name for name in COMMON if name in ("plugin_input", "plugin_output", "parallelism")]
    if roles == {"source"}:
        names.remove("plugin_input")
    if roles == {"sink"}:
        names.remove("plugin_output")
    return names


def _plain_default(option: DeclaredOption) -> Json:
    value = option.default
    if value is None or isinstance(value, bool | int | float | str):
        return value
    try:
        found: Json = json.loads(json.dumps(value))
    except (TypeError, ValueError):
        return str(value)
    return found
