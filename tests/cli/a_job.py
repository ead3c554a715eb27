"""Connectors and a command line for the tests of commands: nothing is connected to, nothing is run."""

from __future__ import annotations

import argparse
import io
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from holdfast.connectors.base import Connector, Context, Guarantee, SinkBase, SourceBase
from holdfast.model.errors import ConfigError
from holdfast.model.jobs import Role
from holdfast.runtime.catalog import Catalog
from holdfast.spec.options import option


@dataclass(frozen=True)
class LedgerOptions:
    book: str = option("Which book.", identity=True)
    pages: int = option("How many pages.", default=2147483647, minimum=1, aliases=("sheets",))
    key: str | None = option("Opens it.", default=None, secret=True)
    mode: str = option("How | why.", default="a|b")


class Ledger(SourceBase):
    def __init__(self, options: LedgerOptions) -> None:
        self.replayable = options.book != "news"


class LedgerSink(SinkBase):
    guarantee = Guarantee.EXACTLY_ONCE
    condition = "while the book is closed"


def _create_sink(options: LedgerOptions, context: Context) -> Any:
    if options.book == "lost":
        raise ConfigError(
            "Cannot open book 'lost': its driver is not installed. Install ledger-driver."
        )
    return LedgerSink()


CATALOG = Catalog(
    {
        (Role.SOURCE, "Ledger"): Connector(
            "Ledger",
            "source",
            LedgerOptions,
            lambda o, c: Ledger(o),
            "Reads a book.\n\nMore of it.",
        ),
        (Role.SINK, "Ledger"): Connector(
            "Ledger", "sink", LedgerOptions, _create_sink, "Writes a book. Well."
        ),
    }
)


def call(command: ModuleType, *arguments: str) -> tuple[int, str]:
    """The exit code and what was printed."""
    parser = argparse.ArgumentParser()
    command.add_parser(parser.add_subparsers())
    args = parser.parse_args([command.__name__.rsplit(".", 1)[-1], *arguments])
    out = io.StringIO()
    code = command.run(args, out, CATALOG)
    return int(code), out.getvalue()


def write(folder: Path, text: str, name: str = "orders.conf") -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


TWO_SINKS = """
env { parallelism = 2 }
source { Ledger { book = b, plugin_output = in } }
sink {
  Ledger { plugin_input = in, book = x, parallelism = 4 }
  Ledger { plugin_input = in, book = y }
}
"""
