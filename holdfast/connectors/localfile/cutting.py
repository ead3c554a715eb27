"""Cuts files into pieces and pieces into the tasks of one epoch, within its budget."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, field

import pyarrow as pa

from holdfast.connectors.base import Budget, ReadTask
from holdfast.connectors.localfile.formats.opening import SPLITTABLE_ENCODINGS, codec_of, opened
from holdfast.connectors.localfile.formats.registry import EXTENTS
from holdfast.connectors.localfile.listing import file_path
from holdfast.connectors.localfile.options import LINES, TableOptions
from holdfast.connectors.localfile.storage import FileFact, Storage
from holdfast.connectors.localfile.table import FileTable
from holdfast.model.errors import HoldfastError
from holdfast.model.json import Json

TASK_BYTES_MAX = 128 * 1024 * 1024
TASK_BYTES_MIN = 4 * 1024 * 1024
"""Less than this is not worth a task, nor a file in the sink, of its own."""
FILES_PER_PLAN_MAX = 10_000
SAMPLE_BYTES = 64 * 1024
_BYTES_PER_ROW = 32
_COMPRESSED = 5


@dataclass(frozen=True, slots=True)
class Cut:
    """A piece of one file."""

    fact: FileFact
    start: int
    until: int | None
    size: int
    rows: int
    """An estimate."""

    def to_json(self) -> Json:
        return [self.fact.name, self.fact.size, self.fact.modified_ns, self.start, self.until]


def cut_file(
    storage: Storage, table: FileTable, fact: FileFact, start: int, *, rows_per_byte: float
) -> list[Cut]:
    """The pieces of a file from `start` on; one where it may not be split."""
    options = table.options
    if not _may_split(options, fact):
        return [Cut(fact, start, None, fact.size, math.ceil(fact.size * rows_per_byte))]
    if options.file_format_type in EXTENTS:
        return _by_extents(storage, options, fact, start)
    size = options.file_split_size
    cuts = []
    for at in range(start, max(fact.size, start + 1), size):
        until = min(at + size, fact.size)
        last = until == fact.size
        rows = math.ceil((until - at) * rows_per_byte)
        cuts.append(Cut(fact, at, None if last else until, until - at, rows))
    return cuts


def _by_extents(storage: Storage, options: TableOptions, fact: FileFact, start: int) -> list[Cut]:
    """Row groups or stripes, as many together as make up a split."""
    path = file_path(options, fact.name, storage)
    with storage.open(path) as stream:
        extents = EXTENTS[options.file_format_type or ""](stream)
    cuts: list[Cut] = []
    at, size, rows = start, 0, 0
    for index in range(start, len(extents)):
        size, rows = size + extents[index][0], rows + extents[index][1]
        if size >= options.file_split_size or index == len(extents) - 1:
            cuts.append(Cut(fact, at, index + 1, size, rows))
            at, size, rows = index + 1, 0, 0
    return cuts or [Cut(fact, start, None, fact.size, 0)]


def _may_split(options: TableOptions, fact: FileFact) -> bool:
    kind = options.file_format_type
    if fact.size <= options.file_split_size or options.archive_compress_codec != "none":
        return False
    if kind in EXTENTS:
        return options.enable_file_split is not False
    plain = codec_of(fact.name, options) is None and options.encoding in SPLITTABLE_ENCODINGS
    return bool(options.enable_file_split) and kind in LINES and plain


def measure_density(storage: Storage, options: TableOptions, fact: FileFact) -> float:
    """Rows for each byte of a file, from its footer or its first bytes: what rows are estimated by."""
    kind = options.file_format_type or ""
    if not fact.size:
        return 0.0
    if kind == "binary":
        return 1.0 / (fact.size if options.binary_complete_file_mode else options.binary_chunk_size)
    with contextlib.suppress(HoldfastError, pa.ArrowException, OSError, EOFError):
        path = file_path(options, fact.name, storage)
        if kind in EXTENTS:
            with storage.open(path) as stream:
                return sum(rows for _, rows in EXTENTS[kind](stream)) / fact.size
        with opened(storage, path, options) as streams:
            for _, stream in streams:
                return _density_in(stream.read(SAMPLE_BYTES), options, fact)
    return 1 / _BYTES_PER_ROW


def _density_in(sample: bytes, options: TableOptions, fact: FileFact) -> float:
    """Compressed files are taken to hold five times their size."""
    packed = codec_of(fact.name, options) is not None or options.archive_compress_codec != "none"
    marks = {"xml": f"<{options.xml_row_tag}".encode()}
    mark = marks.get(options.file_format_type or "", options.row_delimiter.encode())
    rows = sample.count(mark) + (0 if sample.endswith(mark) else 1)
    if options.file_format_type == "excel":
        rows = max(1, len(sample) // _BYTES_PER_ROW)
    return rows / max(1, len(sample)) * (_COMPRESSED if packed else 1)


@dataclass
class Filling:
    """Takes cuts for one epoch until the budget is used up. At least one is always taken."""

    budget: Budget
    parallelism: int
    taken: dict[str, list[Cut]] = field(default_factory=dict)
    bytes_taken: int = 0
    rows_taken: int = 0
    count: int = 0

    def take(self, table: str, cut: Cut) -> bool:
        """False when it is too much."""
        new_table = table not in self.taken
        if self.count and (
            self.bytes_taken + cut.size > self._bytes_max
            or self.rows_taken + cut.rows > self.budget.rows_max
            or self.count >= FILES_PER_PLAN_MAX
            or (new_table and len(self.taken) >= self.budget.tasks_max)
        ):
            return False
        self.taken.setdefault(table, []).append(cut)
        self.bytes_taken += cut.size
        self.rows_taken += cut.rows
        self.count += 1
        return True

    @property
    def _bytes_max(self) -> int:
        return min(self.budget.bytes_max, max(1, self.budget.tasks_max) * TASK_BYTES_MAX)

    def tasks(self) -> tuple[ReadTask, ...]:
        """Pieces of about one size, each of one table, in order."""
        spare = max(0, self.budget.tasks_max - len(self.taken))
        found: list[ReadTask] = []
        for table, cuts in self.taken.items():
            size = sum(cut.size for cut in cuts)
            wanted = min(_tasks_for(size, self.parallelism), len(cuts), 1 + spare)
            spare -= wanted - 1
            found += [_task(table, group) for group in _groups(cuts, size, wanted)]
        return tuple(found)


def _tasks_for(size: int, parallelism: int) -> int:
    if size <= TASK_BYTES_MIN:
        return 1
    return max(min(parallelism, -(-size // TASK_BYTES_MIN)), -(-size // TASK_BYTES_MAX))


def _groups(cuts: list[Cut], size: int, count: int) -> list[list[Cut]]:
    groups: list[list[Cut]] = [[]]
    done = 0
    for cut in cuts:
        if groups[-1] and len(groups) < count and done >= size * len(groups) / count:
            groups.append([])
        groups[-1].append(cut)
        done += cut.size
    return groups


def _task(table: str, cuts: list[Cut]) -> ReadTask:
    return ReadTask({"pieces": [cut.to_json() for cut in cuts]}, table)
