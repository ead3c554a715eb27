"""Console: prints rows on the terminal that the job was started from."""

from holdfast.connectors.base import Connector
from holdfast.connectors.console.options import Options
from holdfast.connectors.console.sink import ConsoleSink

SINK = Connector(
    name="Console",
    role="sink",
    options=Options,
    create=ConsoleSink,
    doc="""Prints each row as a line on standard output:

    subtaskIndex=0 rowIndex=1: tableId=fake kind=INSERT: CpiOd, 8520946

Nulls are shown as `null`, arrays and rows as `[a, b]`, maps as `{k=v}`, bytes in hex. Rows of one subtask come in
order; those that executors print come back to the process that the job was started from.

Guarantee: **at-least-once**. Rows are printed while they are staged, so that they are seen at once and no epoch is
held in memory; what was printed cannot be taken back, so after a crash the rows since the last checkpoint are
printed again. `rowIndex` counts from 1 in each attempt.""",
)
