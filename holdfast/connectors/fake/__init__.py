"""FakeSource: makes rows by a schema, for trying out jobs, for tests and for measuring."""

from holdfast.connectors.base import Connector, Context
from holdfast.connectors.fake.options import Options, check_options


def _create(options: Options, context: Context) -> object:
    from holdfast.connectors.fake.source import FakeSource

    return FakeSource(options, context)


SOURCE = Connector(
    name="FakeSource",
    role="source",
    options=Options,
    create=_create,
    check=check_options,
    doc="""Makes rows by a schema: random values in ranges or from templates, or the rows that the job file lists.

Every value is a function of `seed`, the source's place in the job, table, column and row number. So any range can
be made again: the source is **replayable**, a job that is killed goes on with the very rows it would have made, and
the same file gives the same rows at every run. Another `seed` gives others. The position is the next split and row
of each table, however many splits there are.

`row.num` rows are made for each degree of parallelism, cut into `split.num` splits. With `split.read-interval`, one
split of each degree comes due in each interval. In BATCH the source ends behind the last split; in STREAMING the
splits come again, with new values, for ever (listed `rows` come again as they are).

Dates lie in 2000 to 2029 unless templates say otherwise, times are whole seconds, strings and bytes are letters.
Vectors are arrays of `float`, bytes (`binary_vector`) or maps from index to `float` (`sparse_float_vector`).""",
)
