"""How a checkpoint or savepoint is written down: one JSON file that carries its own checksum and format.

All state is inside, because it is small by design: so one exclusive create makes a checkpoint complete or
absent, and a checkpoint costs one write whatever the number of tables.
"""

from __future__ import annotations

import hashlib
import json

from holdfast.model.checkpoints import FORMAT
from holdfast.model.errors import Terminal
from holdfast.model.json import JsonObject


class DocumentBroken(Terminal):
    """A stored file is not what was written, or was written by a newer release."""

    code = "checkpoint-broken"


def write_document(body: JsonObject) -> bytes:
    text = json.dumps(body, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    head = {"format": FORMAT, "sha256": _checksum(text)}
    return f'{json.dumps(head)[:-1]}, "body": {text}}}\n'.encode(errors="surrogatepass")


def read_document(data: bytes, name: str) -> JsonObject:
    """The body, or DocumentBroken that says how it differs from what must have been written."""
    try:
        found = json.loads(data)
        format_, wanted, body = found["format"], found["sha256"], found["body"]
    except (ValueError, KeyError, TypeError) as wrong:
        raise DocumentBroken(
            f"Cannot read {name}: its {len(data)} bytes are no whole document."
        ) from wrong
    if not isinstance(format_, int) or not isinstance(body, dict):
        raise DocumentBroken(f"Cannot read {name}: its {len(data)} bytes are no whole document.")
    if format_ > FORMAT:
        raise DocumentBroken(
            f"Cannot read {name}: it has format {format_} and this release reads up to {FORMAT}."
            " Run the release that wrote it, or a newer one."
        )
    text = json.dumps(body, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    if _checksum(text) != wanted:
        raise DocumentBroken(f"Cannot read {name}: its checksum does not fit what is in it.")
    return body


def _checksum(text: str) -> str:
    # Names of files that are no UTF-8 come as lone surrogates, and are kept as they are.
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
