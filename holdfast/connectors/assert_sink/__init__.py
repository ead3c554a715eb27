"""Assert: fails the job when data or tables are not as rules say. For tests and for guarding what others deliver."""

from holdfast.connectors.assert_sink.options import Options, check_options
from holdfast.connectors.assert_sink.sink import AssertSink
from holdfast.connectors.base import Connector

SINK = Connector(
    name="Assert",
    role="sink",
    options=Options,
    create=AssertSink,
    check=check_options,
    doc="""Takes rows, judges them by rules and keeps none. A rule that is broken fails the job at once, without
retries; the message names table, field and rule, how many rows broke it and one of the values.

Tables (types, columns, keys, presence) are judged before the first row, values as they come, a batch at a time, and
row counts when the job has finished, over all rows that were committed: rows that were read again after a crash
count once. A job in STREAMING has no end, so only what MAX_ROW shows within one epoch is seen there.

`NULL` means that the value must be null. Null keeps MIN, MAX and MAX_LENGTH, and has length 0 for MIN_LENGTH.
`equals_to` is written as in the `rows` of FakeSource. Rules outside `tables_configs` hold for each table.

Names of keys and catalogs and the order of constraint columns are accepted and not looked at; no constraints but
unique keys are known here. Where a transform stands before the sink, tables keep names and types, and lose lengths,
defaults and comments of columns.""",
)
