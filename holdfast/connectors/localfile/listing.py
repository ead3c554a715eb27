"""Which files belong to a table, in which order, and what a set of files comes to in a few bytes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from urllib.parse import unquote

from holdfast.connectors.localfile.options import TableOptions, plain_path
from holdfast.connectors.localfile.storage import FileFact, Storage
from holdfast.model.json import Json

Key = list[Json]
"""A file's place in the order of reading; lists of one kind compare among each other."""
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
_MODULUS = 2**64


def list_table(storage: Storage, options: TableOptions) -> list[FileFact]:
    """The table's files, unordered."""
    root = plain_path(options.path or "")
    accepts = _filter_of(root, options)
    found = storage.list_files(root, recursive=options.recursive_file_scan)
    return [fact for fact in found if accepts(fact)]


def file_path(options: TableOptions, name: str, storage: Storage) -> str:
    """The path of a listed file: the table's path is a folder, or is itself the file."""
    root = plain_path(options.path or "")
    return f"{root}/{name}" if storage.is_folder(root) else root


def name_key(fact: FileFact) -> Key:
    return [fact.name]


def newest_first_key(fact: FileFact) -> Key:
    return [-fact.modified_ns, fact.name]


def arrival_key(fact: FileFact) -> Key:
    return [fact.arrived_ns, fact.name]


def digest_of(facts: Iterable[FileFact]) -> int:
    """Of a set of file versions: sets are joined by adding, taken apart by subtracting, modulo 2**64."""
    return sum(map(_hash, facts)) % _MODULUS


def add_digests(one: int, other: int) -> int:
    return (one + other) % _MODULUS


def partitions_in(path: str) -> dict[str, str | None]:
    """The `name=value` folders of a file's path."""
    found: dict[str, str | None] = {}
    for folder in path.split("/")[:-1]:
        name, sign, value = folder.partition("=")
        if sign and name:
            found[unquote(name)] = None if value == HIVE_NULL else unquote(value)
    return found


def _hash(fact: FileFact) -> int:
    text = f"{fact.name}\0{fact.size}\0{fact.modified_ns}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())


def _filter_of(root: str, options: TableOptions) -> Callable[[FileFact], bool]:
    pattern = re.compile(options.file_filter_pattern) if options.file_filter_pattern else None
    by_path = pattern is not None and "/" in pattern.pattern
    ending = options.filename_extension
    ending = f".{ending.lstrip('.')}" if ending else ""
    since = _moment_ns(options.file_filter_modified_start)
    before = _moment_ns(options.file_filter_modified_end)

    def accepts(fact: FileFact) -> bool:
        text = f"{root}/{fact.name}" if by_path else fact.name.rsplit("/", 1)[-1]
        return (
            (pattern is None or pattern.fullmatch(text) is not None)
            and fact.name.endswith(ending)
            and (since is None or fact.modified_ns >= since)
            and (before is None or fact.modified_ns < before)
        )

    return accepts


def _moment_ns(text: str | None) -> int | None:
    if text is None:
        return None
    moment = datetime.strptime(text, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    return int(moment.timestamp()) * 10**9
