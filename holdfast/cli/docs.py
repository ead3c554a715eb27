"""`python -m holdfast.cli.docs [folder]`: writes the pages of connectors, transforms and `env` anew."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from holdfast.cli.errors_page import errors_page
from holdfast.cli.options_page import ENV, markdown_page
from holdfast.model.jobs import Role
from holdfast.runtime.catalog import Catalog


def pages(catalog: Catalog) -> Iterator[tuple[str, str]]:
    """Each page's path inside the docs, and its text."""
    connectors = sorted({*catalog.names(Role.SOURCE), *catalog.names(Role.SINK)})
    for name in connectors:
        yield f"connectors/{name.lower()}.md", markdown_page(name, catalog)
    for name in catalog.names(Role.TRANSFORM):
        yield f"transforms/{name.lower()}.md", markdown_page(name, catalog)
    yield f"{ENV}.md", markdown_page(ENV, catalog)
    yield "errors.md", errors_page()


def write_pages(folder: Path, catalog: Catalog) -> list[Path]:
    written = []
    for path, text in pages(catalog):
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        written.append(target)
    return written


def stale_pages(folder: Path, catalog: Catalog) -> list[str]:
    """The pages that are not there or say something else than the declarations do."""

    def read(path: str) -> str | None:
        target = folder / path
        return target.read_text(encoding="utf-8") if target.is_file() else None

    return [path for path, text in pages(catalog) if read(path) != text]


if __name__ == "__main__":
    write_pages(Path(sys.argv[1] if len(sys.argv) > 1 else "docs"), Catalog())
