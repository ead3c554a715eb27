"""Cases over the model systems, shared by the tests that pass and by those that must fail."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from holdfast.connectors.base import Context, Position, Sink
from holdfast.model.schema import RowKind
from holdfast.outside.clock import RealClock
from holdfast.testing.model_log import LogOptions, LogRow, LogSource, ModelLog
from holdfast.testing.model_sink import ModelSink, SinkOptions, SinkStore
from holdfast.testing.model_table import SplitSource, TableOptions, split_ids, split_text
from holdfast.testing.sink_contract import SinkCase
from holdfast.testing.source_contract import SourceCase
from holdfast.testing.walking import chance, row_text

TRANSACTION_ROWS_MAX = 5


def fill_log(log: ModelLog, transactions: int, *, seed: int = 1, first_id: int = 0) -> None:
    """Transactions of 1 to 5 rows of all kinds, over two tables."""
    for index in range(transactions):
        size = 1 + chance(seed, index, "size") % TRANSACTION_ROWS_MAX
        log.append(
            [
                LogRow(
                    table="ab"[chance(seed, index, row, "table") % 2],
                    kind=RowKind(chance(seed, index, row, "kind") % 4),
                    id=first_id + index * 10 + row,
                    text=f"{seed}/{index}/{row}",
                )
                for row in range(size)
            ]
        )


def log_rows(log: ModelLog, before: int = 0) -> list[str]:
    rows = log.rows()[before:]
    return [row_text(row.table, row.kind.value, [row.id, row.text]) for row in rows]


def log_case(
    folder: Path,
    make: Callable[[LogOptions], LogSource] | None = None,
    *,
    bounded: bool = True,
    long_poll: bool = False,
    purges: bool = True,
) -> SourceCase:
    log = ModelLog(folder / "log")
    fill_log(log, 25)
    options = LogOptions(path=str(log.path), bounded=bounded, long_poll=long_poll, ack_purges=False)
    build = make or (lambda given: LogSource(given, RealClock()))

    def add() -> list[str]:
        before = len(log.rows())
        fill_log(log, 5, seed=2, first_id=10_000)
        return log_rows(log, before)

    def purge(position: Position) -> None:
        log.purge(int(str(position["at"])))

    return SourceCase(
        make=lambda: build(options),
        rows=log_rows(log),
        unit_rows_max=TRANSACTION_ROWS_MAX,
        purge=purge if purges else None,
        add=None if bounded else add,
        poll_ms=20.0,
    )


def split_case(
    make: Callable[[TableOptions], SplitSource] = SplitSource, *, splits: int = 17
) -> SourceCase:
    options = TableOptions(splits=splits, rows_per_split=3)
    rows = [
        row_text("t", 0, [id_, split_text(id_)])
        for split in range(splits)
        for id_ in split_ids(options, split)
    ]
    return SourceCase(make=lambda: make(options), rows=rows, unit_rows_max=3, position_bytes_max=40)


SinkMaker = Callable[[SinkOptions, Context], Sink]


def sink_case(folder: Path, make: SinkMaker = ModelSink) -> SinkCase:
    options = SinkOptions(folder=str(folder / "sink"))
    store = SinkStore(folder / "sink", "orders", "sink-0-it")

    def visible() -> list[int]:
        """Of all jobs and sinks in the folder."""
        found: list[int] = []
        for place in (folder / "sink" / "visible").glob("*/*"):
            rows = SinkStore(folder / "sink", place.parent.name, place.name).visible_rows()
            found += [int(str(row[2])) for row in rows]
        return found

    def leftovers() -> list[str]:
        return [part.name for part in store.list_parts("staged")]

    def build(context: Context) -> Sink:
        return make(options, context)

    return SinkCase(make=build, visible=visible, leftovers=leftovers)
