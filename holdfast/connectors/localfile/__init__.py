"""LocalFile: files of this machine, read and written."""

from holdfast.connectors.base import Connector
from holdfast.connectors.localfile.options import (
    SinkOptions,
    SourceOptions,
    check_sink,
    check_source,
)
from holdfast.connectors.localfile.sink import create_sink, guarantee_of
from holdfast.connectors.localfile.source import create_source

SOURCE = Connector(
    name="LocalFile",
    role="source",
    options=SourceOptions,
    create=create_source,
    check=check_source,
    doc="""Reads text, csv, json lines, parquet, orc, xml, excel (.xlsx) and binary files, whole or in pieces.

With `discovery_mode = once` the files that are there at the start are read, in the order of their names (or newest
first). Files that appear later are left out, whatever their names and times; a file that is gone or changed before
it was read ends the job with a message that names it. The position is a few numbers, however many files there are.

With `discovery_mode = continuous` (STREAMING) files are read as they arrive, each version (name, size, time of
modification) **once**: also files with old names or times, and folders that are moved in. A file that is changed is
read again as a whole, so put files in place by a rename. A file is taken up when it was left alone for two seconds,
or for `scan_interval` where that is shorter. Only when the job was down while files that had been read were removed
and others of them touched (permissions, a hard link), the touched ones are read again. The file system must keep the
time of an inode's change (all local ones do).

Names that begin with `.` or `_` are left out. Columns from the path (`name=value` folders) are text.""",
)

SINK = Connector(
    name="LocalFile",
    role="sink",
    options=SinkOptions,
    create=create_sink,
    check=check_sink,
    guarantee=guarantee_of,
    doc="""Writes text, csv, json lines, parquet, orc, xml, excel and binary files, **exactly once**.

Rows are staged in files that nobody sees (in `.holdfast` in the target, or in `tmp_path`), and made visible by a
rename once the checkpoint that names them exists. Every name carries the job, the epoch and the attempt, also with
`file_name_expression`; so a job that goes back to an older checkpoint takes back the files of later epochs, by
looking through the target. Files that somebody has renamed or moved away are not found then.

Files are a log of rows: rows of every kind (+I -U +U -D) are written alike, as they come. canal_json, debezium_json
and maxwell_json carry the kind; `RowKindExtractor` makes a column of it.

Values are written so that they are read back as they were: timestamps with their microseconds, bytes as base64 and
nested values as JSON in text formats, null and the empty text apart in csv, json and xml. text has no quotes: a value
that holds a delimiter is refused; without `null_format` a null text is read back as an empty one.""",
)
