"""Reads files: lists them, cuts them into tasks within the budget, and reads each task as Arrow batches.

`once`: the listing at the start is what is read. Its digest is part of the position, so that files that appear
later are left out and a file that is gone or changed is told, never skipped. `continuous`: see `arrivals.py`.
Memory: one block of text (4 MB) or one batch of 65,536 rows, for orc one stripe; for excel and archives of it a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from holdfast.connectors.base import (
    Budget,
    Context,
    Position,
    Probe,
    ReadPlan,
    ReadTask,
    SourceBase,
    TableBatch,
    is_done,
)
from holdfast.connectors.localfile.arrivals import Arrivals, place_behind
from holdfast.connectors.localfile.cutting import Filling, cut_file, measure_density
from holdfast.connectors.localfile.formats.contract import ROWS_PER_BATCH_MAX, Piece
from holdfast.connectors.localfile.formats.opening import opened
from holdfast.connectors.localfile.formats.registry import READERS
from holdfast.connectors.localfile.listing import (
    file_path,
    list_table,
    name_key,
    newest_first_key,
    partitions_in,
)
from holdfast.connectors.localfile.options import SourceOptions, TableOptions, plain_path
from holdfast.connectors.localfile.place import (
    InFlight,
    Place,
    advanced,
    place_before,
    place_from_json,
    same_listing,
)
from holdfast.connectors.localfile.storage import (
    FileBroken,
    FileFact,
    FileNotThere,
    FileStorageFailed,
    LocalStorage,
    Storage,
)
from holdfast.connectors.localfile.table import FileTable, resolve_table
from holdfast.model.errors import ConfigError, HoldfastError, PositionGone
from holdfast.model.jobs import JobMode
from holdfast.model.json import JsonObject
from holdfast.model.schema import Table

SETTLED_MS = 2_000
"""A file is taken up when it has been left alone for this long, or for a scan interval where that is shorter."""
SETTLED_MS_MIN = 20
"""Above the grain of file systems' clocks."""


class FileSource(SourceBase):
    """Files of one storage. Travels to executors without what it remembers of listings."""

    def __init__(self, options: SourceOptions, context: Context, storage: Storage) -> None:
        self._options = options
        self._context = context
        self._storage = storage
        self._tables: dict[str, FileTable] | None = None
        self._densities: dict[str, float] = {}
        self._forget()
        self.continuous = (
            options.discovery_mode == "continuous" and context.mode is JobMode.STREAMING
        )
        self.bounded = not self.continuous

    def _forget(self) -> None:
        self._listed: dict[str, list[FileFact]] = {}
        """`once`: what is left to read of each table, in order, as of `_expected`."""
        self._arrivals: dict[str, Arrivals] = {}
        self._looked_at_ms: float | None = None
        self._expected: Position | None = None
        """The position that the remembered listings belong to."""

    def __getstate__(self) -> dict[str, Any]:
        forgotten: dict[str, Any] = {
            "_listed": {},
            "_arrivals": {},
            "_expected": None,
            "_looked_at_ms": None,
        }
        return {**self.__dict__, **forgotten}

    # ------------------------------------------------------------------------------------- tables

    def tables(self) -> Sequence[Table]:
        return [found.table for found in self._resolved().values()]

    def _resolved(self) -> dict[str, FileTable]:
        if self._tables is None:
            found: dict[str, FileTable] = {}
            several = self._options.tables()
            for options in several:
                facts = self._in_order(options)
                default = self._default_path(options, len(several))
                table = resolve_table(self._storage, options, facts, default)
                if table.table.path in found:
                    raise ConfigError(
                        f"Cannot tell two tables apart: both are named '{table.table.path}'."
                        " Name them by 'schema.table'."
                    )
                found[table.table.path] = table
            self._tables = found
        return self._tables

    def _default_path(self, options: TableOptions, count: int) -> str:
        if count == 1 and self._context.name_in_plan:
            return self._context.name_in_plan
        last = plain_path(options.path or "").rsplit("/", 1)[-1]
        return last.partition(".")[0] or "files"

    def _in_order(self, options: TableOptions) -> list[FileFact]:
        key = newest_first_key if options.sort_files_by_modification_time else name_key
        return sorted(list_table(self._storage, options), key=key)

    # ----------------------------------------------------------------------------------- position

    def start(self) -> Position:
        places = {}
        for path, table in self._resolved().items():
            facts = self._in_order(table.options)
            if not self.continuous:
                places[path] = place_before(facts)
            elif self._options.start_mode == "latest":
                places[path] = place_behind(facts)
            else:
                places[path] = Place()
        return _position(places)

    def latest(self) -> Position:
        if not self.continuous:
            return {"done": True}
        return _position(
            {
                path: place_behind(self._in_order(table.options))
                for path, table in self._resolved().items()
            }
        )

    def plan(self, position: Position, budget: Budget) -> ReadPlan | None:
        if is_done(position):
            return ReadPlan((), position)
        if position != self._expected:
            self._forget()
        places = _places(position, self._resolved())
        filling = Filling(budget, self._context.parallelism)
        if self.continuous:
            end = self._plan_arrivals(places, filling)
            if not filling.count:
                self._expected = position
                return None
        else:
            end = {path: self._plan_listed(path, places[path], filling) for path in places}
        reached = _position(end)
        self._expected = reached
        if not self.continuous and all(_is_read(place) for place in end.values()):
            reached = {"done": True}
        return ReadPlan(filling.tasks(), reached, rows_estimate=filling.rows_taken)

    def _plan_listed(self, path: str, place: Place, filling: Filling) -> Place:
        if _is_read(place):
            return place
        table = self._resolved()[path]
        if path not in self._listed:
            self._listed[path] = self._verified(table, place)
        left = self._listed[path]
        key = newest_first_key if table.options.sort_files_by_modification_time else name_key
        if place.in_flight is not None:
            place = self._go_on(path, place, filling)
            if place.in_flight is not None:
                return place
        while left:
            fact = left[0]
            begun, rest = self._take(path, fact, 0, filling)
            if not begun:
                break
            left.pop(0)
            place = advanced(place, key(fact), fact, rest)
            if rest is not None:
                break
        return place

    def _plan_arrivals(self, places: dict[str, Place], filling: Filling) -> dict[str, Place]:
        end = self._look(places)
        for path, place in end.items():
            if place.in_flight is not None:
                place = self._go_on(path, place, filling)
            arrivals = self._arrivals[path]
            while arrivals.waiting and place.in_flight is None:
                fact = arrivals.waiting[0]
                begun, rest = self._take(path, fact, 0, filling)
                if not begun:
                    break
                place = arrivals.begin(place, fact, rest)
            end[path] = place
        return end

    def _look(self, places: dict[str, Place]) -> dict[str, Place]:
        """List again, when it is time and nothing waits."""
        clock = self._context.clock
        if any(place.in_flight for place in places.values()) and self._arrivals:
            return dict(places)
        if any(arrivals.waiting for arrivals in self._arrivals.values()):
            return dict(places)
        now = clock.elapsed_ms()
        interval = self._options.scan_interval
        if self._looked_at_ms is not None and now - self._looked_at_ms < interval:
            return dict(places)
        self._looked_at_ms = now
        settled_ms = clock.now_ms() - max(SETTLED_MS_MIN, min(SETTLED_MS, interval))
        found = {}
        for path, table in self._resolved().items():
            facts = list_table(self._storage, table.options)
            arrivals = self._arrivals.setdefault(path, Arrivals())
            found[path] = arrivals.look(places[path], facts, settled_ns=settled_ms * 1_000_000)
        return found

    def _go_on(self, path: str, place: Place, filling: Filling) -> Place:
        """With the file of which a part is read."""
        flying = place.in_flight
        assert flying is not None
        options = self._resolved()[path].options
        found = self._storage.stat(file_path(options, flying.name, self._storage))
        fact = None if found is None else replace(found, name=flying.name)
        if fact is None or not flying.is_version(fact):
            if self.continuous:
                return replace(place, in_flight=None)
            raise _gone(flying.name, options)
        begun, rest = self._take(path, fact, flying.next, filling)
        return replace(place, in_flight=rest) if begun else place

    def _take(
        self, path: str, fact: FileFact, start: int, filling: Filling
    ) -> tuple[bool, InFlight | None]:
        """Whether any piece of the file was taken, and what is left of it."""
        table = self._resolved()[path]
        if path not in self._densities:
            self._densities[path] = measure_density(self._storage, table.options, fact)
        density = self._densities[path]
        cuts = cut_file(self._storage, table, fact, start, rows_per_byte=density)
        for index, cut in enumerate(cuts):
            if not filling.take(path, cut):
                if not index:
                    return False, None
                return True, InFlight(fact.name, fact.size, fact.modified_ns, cut.start)
        return True, None

    def _verified(self, table: FileTable, place: Place) -> list[FileFact]:
        """What is left of the listing at the start. Raises PositionGone where that cannot be told."""
        options = table.options
        key = newest_first_key if options.sort_files_by_modification_time else name_key
        facts = self._in_order(options)
        behind = [fact for fact in facts if place.after is None or _later(key(fact), place.after)]
        found = same_listing(place, behind)
        if found is None:
            raise PositionGone(
                f"Cannot read {options.path} from where the job stands: of the {place.count} files"
                f" that are left of its listing, some are gone or changed ({len(behind)} files lie"
                " there now). Put them back as they were, or restore with on-missing = fresh."
            )
        return found

    def probe(self, position: Position) -> Probe:
        if is_done(position):
            return Probe(True, "all files are read")
        said = []
        try:
            for path, place in _places(position, self._resolved()).items():
                table = self._resolved()[path]
                if self.continuous:
                    Arrivals().look(
                        place, list_table(self._storage, table.options), settled_ns=2**63
                    )
                else:
                    self._verified(table, place)
                    self._probe_in_flight(table, place)
                said.append(_describe(path, place, bounded=self.bounded))
        except HoldfastError as error:
            return Probe(False, str(error))
        return Probe(True, "; ".join(said))

    def _probe_in_flight(self, table: FileTable, place: Place) -> None:
        flying = place.in_flight
        if flying is not None:
            path = file_path(table.options, flying.name, self._storage)
            fact = self._storage.stat(path)
            if fact is None or not flying.is_version(replace(fact, name=flying.name)):
                raise _gone(flying.name, table.options)

    def describe(self, position: Position) -> str:
        if is_done(position):
            return "all files are read"
        tables = position["tables"]
        assert isinstance(tables, dict)
        shown = [
            _describe(path, place_from_json(found), bounded=self.bounded)
            for path, found in tables.items()
        ]
        return "; ".join(shown)

    def fraction(self, position: Position) -> float | None:
        if is_done(position):
            return 1.0
        tables = position.get("tables")
        if self.continuous or not isinstance(tables, dict):
            return None
        places = [place_from_json(found) for found in tables.values()]
        total = sum(place.bytes_total for place in places)
        return 1 - sum(place.bytes_left for place in places) / total if total else None

    # --------------------------------------------------------------------------------------- read

    def read(self, task: ReadTask, budget: Budget) -> Iterator[TableBatch]:
        assert task.table is not None
        table = self._resolved()[task.table]
        pieces = task.payload["pieces"]
        assert isinstance(pieces, list)
        for piece in pieces:
            assert isinstance(piece, list)
            name, size, modified_ns, start, until = piece
            expected = InFlight(str(name), int(str(size)), int(str(modified_ns)), 0)
            part = Piece(str(name), int(str(start)), None if until is None else int(str(until)))
            for batch in self._read_piece(table, expected, part):
                yield TableBatch(task.table, batch)

    def _read_piece(
        self, table: FileTable, expected: InFlight, piece: Piece
    ) -> Iterator[pa.RecordBatch]:
        """Looks before and after whether the file is still what was planned."""
        options = table.options
        path = file_path(options, piece.name, self._storage)
        self._check_version(path, expected, options)
        partitions = partitions_in(path)
        read = READERS[options.file_format_type or ""]
        try:
            with opened(self._storage, path, options) as streams:
                for _, stream in streams:
                    for found in read(stream, piece, table.spec):
                        yield from _completed(found, table, partitions)
        except FileNotThere as error:
            raise self._changed(expected, options) from error
        except (pa.ArrowException, ValueError, EOFError) as error:
            self._check_version(path, expected, options)
            said = str(error).splitlines()[0].rstrip(".")
            said += f" (counted from byte {piece.start})" if piece.start else ""
            raise FileBroken(
                f"Cannot read {path} as {options.file_format_type}: {said}."
                " Correct the file or the schema, or leave it out by file_filter_pattern."
            ) from error
        self._check_version(path, expected, options)

    def _check_version(self, path: str, expected: InFlight, options: TableOptions) -> None:
        fact = self._storage.stat(path)
        if fact is None or not expected.is_version(replace(fact, name=expected.name)):
            raise self._changed(expected, options)

    def _changed(self, expected: InFlight, options: TableOptions) -> HoldfastError:
        if not self.continuous:
            return _gone(expected.name, options)
        return FileStorageFailed(
            f"Cannot read {expected.name} in {options.path}: it was changed or removed meanwhile."
            " The job goes on with what is there when it runs again."
        )


def _gone(name: str, options: TableOptions) -> PositionGone:
    return PositionGone(
        f"Cannot read {name} in {options.path}: it is gone, or is not the file any more that the"
        " job listed. Put it back as it was, or restore with on-missing = fresh."
    )


def _completed(
    found: pa.RecordBatch | pa.Table, table: FileTable, partitions: dict[str, str | None]
) -> Iterator[pa.RecordBatch]:
    """With the columns from the path, in batches that are not too long."""
    schema = table.table.arrow_schema
    columns = list(found.columns)
    for name in table.partitions:
        columns.append(pa.repeat(pa.scalar(partitions.get(name), pa.string()), found.num_rows))
    whole = pa.Table.from_arrays(columns, schema=schema) if columns else pa.table({})
    yield from whole.to_batches(max_chunksize=ROWS_PER_BATCH_MAX)


def _position(places: dict[str, Place]) -> Position:
    found: JsonObject = {path: place.to_json() for path, place in places.items()}
    return {"tables": found}


def _places(position: Position, tables: dict[str, FileTable]) -> dict[str, Place]:
    kept = position["tables"]
    assert isinstance(kept, dict)
    for path in tables:
        if path not in kept:
            raise PositionGone(
                f"Cannot go on reading table '{path}': the position does not know it, only"
                f" {', '.join(kept)}. Restore with on-missing = fresh."
            )
    return {path: place_from_json(kept[path]) for path in tables}


def _is_read(place: Place) -> bool:
    return place.count == 0 and place.in_flight is None


def _describe(path: str, place: Place, *, bounded: bool) -> str:
    if bounded and _is_read(place):
        return f"{path}: all files read"
    behind = f", begun up to {place.after[-1]}" if place.after else ""
    inside = f", in {place.in_flight.name} at {place.in_flight.next}" if place.in_flight else ""
    if bounded:
        return f"{path}: {place.count} files ({place.bytes_left} bytes) left{behind}{inside}"
    return f"{path}: {place.count} files read{behind}{inside}"


def _later(key: Any, than: Any) -> bool:
    return tuple(key) > tuple(than)


def create_source(options: SourceOptions, context: Context) -> FileSource:
    """Files of this machine."""
    return FileSource(options, context, LocalStorage())
