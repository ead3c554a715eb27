"""The worlds that are swept: small jobs over the model systems, made anew for each run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

from holdfast.model.jobs import JobMode
from holdfast.model.json import Json
from holdfast.model.schema import RowKind
from holdfast.testing import model_log, model_sink, model_table
from holdfast.testing.builders import Declared
from holdfast.testing.model_log import LogOptions, LogRow, ModelLog
from holdfast.testing.model_sink import SinkOptions
from holdfast.testing.model_table import TableOptions, split_ids, split_text
from holdfast.testing.walking import chance
from holdfast.testing.world import World

TABLE = TableOptions(table="t", splits=7, rows_per_split=2)


@dataclass
class Swept:
    """A world, and what its sinks must hold in the end."""

    world: World
    log: ModelLog | None
    has_table: bool

    def expected(self) -> Mapping[str, Sequence[Json]]:
        rows: dict[str, list[Json]] = {}
        if self.has_table:
            ids = [id_ for split in range(TABLE.splits) for id_ in split_ids(TABLE, split)]
            rows["t"] = [["t", 0, id_, split_text(id_)] for id_ in ids]
        for row in self.log.rows() if self.log else []:
            rows.setdefault(row.table, []).append([row.table, row.kind.value, row.id, row.text])
        return rows

    def grow(self) -> None:
        """A stream's source does not wait for the job to come back."""
        if self.log is not None and self.is_stream:
            write_log(self.log, 2, seed=len(self.log.rows()))

    @property
    def is_stream(self) -> bool:
        return self.world.spec.env.mode is JobMode.STREAMING


def write_log(log: ModelLog, transactions: int, *, seed: int) -> None:
    for index in range(transactions):
        size = 1 + chance(seed, index) % 4
        log.append(
            [
                LogRow(
                    "ab"[chance(seed, index, row, "table") % 2],
                    RowKind(chance(seed, index, row, "kind") % 4),
                    seed * 1_000 + index * 10 + row,
                    f"{seed}/{index}/{row}",
                )
                for row in range(size)
            ]
        )


def make_world(
    folder: Path,
    *,
    table: bool = False,
    log: bool = False,
    stream: bool = False,
    hanging: bool = False,
    sinks: int = 1,
    keeps_log: bool = False,
) -> Swept:
    """In a folder of its own below `folder`."""
    own = Path(mkdtemp(dir=folder))
    sources: dict[str, Declared] = {}
    written = None
    if table:
        sources["source-0-modeltable"] = (model_table.SOURCE, TABLE)
    if log:
        written = ModelLog(own / "log")
        write_log(written, 8, seed=1)
        options = LogOptions(
            path=str(written.path), bounded=not stream, long_poll=hanging, ack_purges=not keeps_log
        )
        sources["source-1-modellog"] = (model_log.SOURCE, options)
    declared: dict[str, Declared] = {
        f"sink-{index}-modelsink": (model_sink.SINK, SinkOptions(folder=str(own / "sinks")))
        for index in range(sinks)
    }
    mode = JobMode.STREAMING if stream else JobMode.BATCH
    return Swept(World(sources, declared, mode=mode), written, table)


Make = Callable[[Path], Swept]

WORLDS: dict[str, Make] = {
    "splits into one sink": lambda f: make_world(f, table=True),
    "bounded log into two sinks": lambda f: make_world(f, log=True, sinks=2),
    "stream of a log": lambda f: make_world(f, log=True, stream=True),
    "stream of a hanging log into two": lambda f: make_world(
        f, log=True, stream=True, hanging=True, sinks=2
    ),
    "splits and a log into one sink": lambda f: make_world(f, table=True, log=True),
}
