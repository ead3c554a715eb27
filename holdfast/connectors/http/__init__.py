"""Http: asks a server for rows, and posts rows to a server."""

from holdfast.connectors.base import Connector
from holdfast.connectors.http.options import SinkOptions, SourceOptions, check_sink, check_source
from holdfast.connectors.http.sink import HttpSink
from holdfast.connectors.http.source import HttpSource

SOURCE = Connector(
    name="Http",
    role="source",
    options=SourceOptions,
    create=HttpSource,
    check=check_source,
    doc="""Asks a server and turns its answers into rows: one request, or page by page (`pageing`). In BATCH it ends
behind the last page; in STREAMING it asks again `poll_interval_millis` after the end of each reading.

The position is the next page or cursor (and in STREAMING the instant of the next reading), so a job that was
stopped or killed goes on with the page behind the last one that is in a checkpoint.

**Not replayable**: a page that was read and did not reach a checkpoint is asked for again, and the server may answer
otherwise by then; rows that move from page to page between two requests are seen twice or never, as with any paging.

An answer is held in memory, up to 256 MB; an epoch ends behind the answer that fills its budget. A request that takes
longer than an epoch's budget is not cut off: the epoch ends without it, and a later one takes the answer.

A page's number goes into each key named `page_field` of params, headers and a JSON body, with
`use_placeholder_replacement` in place of each `${page_field}`; if neither stands anywhere, into params.

Answers other than 2xx fail the job: 408, 425, 429 and 5xx after `retry` repetitions (and then the pipeline is tried
again), others at once.""",
)
SINK = Connector(
    name="Http",
    role="sink",
    options=SinkOptions,
    create=HttpSink,
    check=check_sink,
    doc="""Posts each row as a JSON object, or arrays of rows with `array_mode`. Bytes are sent in base64, dates and
times in ISO form, decimals as exact numbers, NaN and infinity as null.

Guarantee: **at-least-once**. Rows are sent while they are staged; after a failure those since the last checkpoint are
sent again, and so is a request whose answer did not come. A server that recognises rows by their key makes that
harmless.

A request that is answered by anything but 2xx fails the job: 408, 425, 429 and 5xx after `retry` repetitions (and
then the pipeline is tried again), others at once. Rows that delete or take back (`-D`, `-U`) are refused.""",
)
