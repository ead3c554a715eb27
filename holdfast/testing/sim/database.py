"""The real store's statements on a real SQLite, at a tenth of the cost: thousands of schedules want their own database.

Every statement is the store's own and is compiled by SQLAlchemy, once for all schedules; transactions are SQLite's.
Left out are the pool, events and result objects, which are most of the time of a statement that touches ten rows.
What is read twice with no write between is answered from memory.
"""

from __future__ import annotations

import sqlite3
from collections import Counter, namedtuple
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from sqlalchemy import ClauseElement, create_engine
from sqlalchemy.dialects.sqlite import dialect as sqlite_dialect
from sqlalchemy.pool import StaticPool

from holdfast.decide.world import Cleanup
from holdfast.model.attempts import Attempt
from holdfast.model.jobs import Job, Outcome
from holdfast.model.lease import Lease
from holdfast.store.reads import Reads, Stored
from holdfast.store.schema import metadata

T = TypeVar("T")
_DIALECT = sqlite_dialect(paramstyle="qmark")


@dataclass(frozen=True)
class _Prepared:
    compiled: Any
    text: str
    names: Sequence[str]
    of_table: str | None
    """The table it writes; None for a query."""
    row: Callable[..., Any] | None
    readers: Sequence[Callable[[Any], Any] | None]

    def spell(self, values: Mapping[str, Any], bound: Any) -> tuple[str, Sequence[Any]]:
        """A list of values is written out: another text for another length."""
        found = self.compiled.construct_params(values, extracted_parameters=bound)
        if self.compiled.post_compile_params:
            state = self.compiled._process_parameters_for_postcompile(found)
            return state.statement, state.positional_parameters
        return self.text, [found[name] for name in self.names]


class Result:
    """What the store asks of a result."""

    def __init__(self, rows: list[Any], rowcount: int) -> None:
        self._rows = rows
        self.rowcount = rowcount

    def __iter__(self) -> Iterator[Any]:
        return iter(self._rows)

    def first(self) -> Any:
        return self._rows[0] if self._rows else None

    def one(self) -> Any:
        assert len(self._rows) == 1, f"{len(self._rows)} rows where one was due"
        return self._rows[0]

    def scalar(self) -> Any:
        return self._rows[0][0] if self._rows else None

    def scalar_one(self) -> Any:
        return self.one()[0]


class Database:
    """One schedule's store. Stands for an engine and for its connections, which never run at once here."""

    dialect = _DIALECT

    def __init__(self) -> None:
        self._raw = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._raw.deserialize(_empty())
        self.written: Counter[str] = Counter()
        """How often each table was written."""
        self.kept: dict[Hashable, tuple[tuple[int, ...], Any]] = {}
        """What was read, with the counts of then."""

    @contextmanager
    def connect(self) -> Iterator[Database]:
        yield self

    def close(self) -> None:
        self._raw.close()

    def exec_driver_sql(self, text: str) -> None:
        self._raw.execute(text)

    def execute(self, statement: ClauseElement, values: Any = None) -> Result:
        """`values` may be many at once."""
        if isinstance(values, list):
            counts = [self.execute(statement, each).rowcount for each in values]
            return Result([], sum(counts))
        prepared, bound = _prepare(statement, values)
        text, spelled = prepared.spell(values or {}, bound)
        cursor = self._raw.execute(text, spelled)
        if prepared.of_table is not None:
            self.written[prepared.of_table] += 1
            return Result([], cursor.rowcount)
        make, readers = prepared.row, prepared.readers
        assert make is not None
        return Result([make(*map(_read, readers, row)) for row in cursor], -1)


def _read(reader: Callable[[Any], Any] | None, value: Any) -> Any:
    return value if reader is None else reader(value)


_prepared: dict[Hashable, _Prepared] = {}
_kept_alive: list[ClauseElement] = []
_constants: WeakKeyDictionary[ClauseElement, tuple[_Prepared, Any]] = WeakKeyDictionary()
"""Statements that live on are asked again as they are."""


def _prepare(statement: ClauseElement, values: Mapping[str, Any] | None) -> tuple[_Prepared, Any]:
    """Compiled once for all schedules, and the values that are written inside this statement."""
    columns = None if values is None else tuple(values)
    known = _constants.get(statement)
    if known is not None and columns is None:
        return known
    whole = (id(statement), columns)
    if columns is not None and whole in _prepared:
        return _prepared[whole], None
    key = statement._generate_cache_key()
    if columns is not None or key is None:
        # One that takes its values from outside is built once by the store, and kept.
        compiled = _compile(statement._compiler(_DIALECT, column_keys=columns), statement)
        if columns is not None:
            _prepared[whole] = compiled
            _kept_alive.append(statement)
        return compiled, None
    found = _prepared.get(key.key)
    if found is None:
        found = _compile(statement._compiler(_DIALECT, cache_key=key), statement)
        _prepared[key.key] = found
    _constants[statement] = (found, key.bindparams)
    return found, key.bindparams


def _compile(compiled: Any, statement: Any) -> _Prepared:
    text, names = str(compiled), compiled.positiontup or ()
    if not statement.is_select:
        return _Prepared(compiled, text, names, statement.table.name, None, ())
    columns = list(statement.selected_columns)
    fields = [getattr(column, "name", None) or f"c{index}" for index, column in enumerate(columns)]
    readers = [column.type.result_processor(_DIALECT, None) for column in columns]
    row = namedtuple("row", fields, rename=True)  # type: ignore[misc]
    return _Prepared(compiled, text, names, None, row, readers)


_template: list[bytes] = []


def _empty() -> bytes:
    """The tables as the store makes them, without rows."""
    if not _template:
        engine = create_engine("sqlite://", poolclass=StaticPool)
        metadata.create_all(engine)
        with engine.connect() as connection:
            _template.append(connection.connection.driver_connection.serialize())  # type: ignore[union-attr]
    return _template[0]


class KeptReads(Reads):
    """Asks the database again only for what was written since. `before` is called at each question."""

    def __init__(self, database: Database, before: Callable[[], None] = lambda: None) -> None:
        super().__init__(database)  # type: ignore[arg-type]
        self._database = database
        self._before = before

    def lease(self) -> Lease | None:
        return self._read("lease", ("leader",), super().lease)

    def observe(self, *, expired_before_ms: int, known: Stored | None = None) -> Stored:
        """To a second: whose history is past its time may go a moment later."""
        second = expired_before_ms // 1000
        tables = ("jobs", "attempts", "cleanups")
        kept = self._read(
            ("observe", second if self.expires else 0),
            tables,
            lambda: super(KeptReads, self).observe(expired_before_ms=second * 1000, known=known),
        )
        return replace(kept, lease=self.lease())

    def observe_worker(self, worker_id: str) -> Stored:
        """Each worker asks this with each heartbeat, and mostly nothing has changed since."""
        kept = self._read(
            ("observe worker", worker_id),
            ("jobs", "attempts"),
            lambda: super(KeptReads, self).observe_worker(worker_id),
        )
        return replace(kept, lease=self.lease())

    expires = False
    """Whether anything of this schedule gets so old that its history goes."""

    def jobs(
        self, *, outcome: Outcome | None, live: bool, skip: int = 0, most: int = 1_000_000
    ) -> list[Job]:
        def read() -> list[Job]:
            return super(KeptReads, self).jobs(outcome=outcome, live=live, skip=skip, most=most)

        return list(self._read(("jobs", outcome, live, skip, most), ("jobs",), read))

    def all_jobs(self) -> list[Job]:
        """All generations of all jobs."""
        live = self.jobs(outcome=None, live=True)
        return [*live, *self.jobs(outcome=None, live=False)]

    def job(self, job_id: str) -> Job | None:
        return self._read(("job", job_id), ("jobs",), lambda: super(KeptReads, self).job(job_id))

    def attempts(self, job_id: str, generation: int) -> list[Attempt]:
        def read() -> list[Attempt]:
            return super(KeptReads, self).attempts(job_id, generation)

        return list(self._read(("attempts", job_id, generation), ("attempts",), read))

    def cleanups(self) -> list[Cleanup]:
        return list(self._read("cleanups", ("cleanups",), super().cleanups))

    def _read(self, key: Hashable, tables: Sequence[str], read: Callable[[], T]) -> T:
        self._before()
        versions = tuple(self._database.written[table] for table in tables)
        kept = self._database.kept.get(key)
        if kept is None or kept[0] != versions:
            kept = self._database.kept[key] = (versions, read())
        found: T = kept[1]
        return found
