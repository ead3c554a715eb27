"""Jobs whose rows are known beforehand: numbered rows of csv files, into an exactly-once PostgreSQL table and files.

A bounded job reads what is there; an unbounded one goes on looking, and files are dropped into its folders while it
runs. Two sources of one job deliver rows that differ.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from holdfast.testing.kill_rounds import compare_rows, read_files
from holdfast.testing.servers import Database

SOURCE_APART = 10_000_000
"""Between the first keys of two sources."""


@dataclass
class FileJob:
    """One job with its files, its table and its target folder."""

    folder: Path
    database: Database
    id: str
    sources: int = 1
    unbounded: bool = False
    env: str = "checkpoint.interval = 500"
    source_options: str = ""
    through_spark: bool = False
    """Each source's rows go through SQL: otherwise small epochs never need Spark."""
    _dropped: dict[int, int] = field(default_factory=dict)
    """How many rows each source has been given."""

    def __post_init__(self) -> None:
        for index in range(self.sources):
            self.source_folder(index).mkdir(parents=True)

    def source_folder(self, index: int) -> Path:
        return self.folder / self.id / f"source-{index}"

    @property
    def target(self) -> Path:
        return self.folder / self.id / "target"

    @property
    def table(self) -> str:
        return f"rows_of_{self.id}".replace("-", "_")

    def drop(self, rows: int, *, source: int = 0) -> None:
        """One more file with the next rows. It appears whole: it is written beside the folder, then moved in."""
        first = self._dropped.get(source, 0)
        ids = [source * SOURCE_APART + number for number in range(first, first + rows)]
        found = pa.table({"id": pa.array(ids, pa.int64()), "text": [f"row {id_}" for id_ in ids]})
        name = f"{first:09}.csv"
        aside = self.source_folder(source).with_suffix(".new")
        options = pyarrow.csv.WriteOptions(include_header=False)
        pyarrow.csv.write_csv(found, aside, options)
        os.rename(aside, self.source_folder(source) / name)
        self._dropped[source] = first + rows

    def wanted(self) -> list[tuple[int, str]]:
        return [
            (id_, f"row {id_}")
            for source, rows in sorted(self._dropped.items())
            for id_ in range(source * SOURCE_APART, source * SOURCE_APART + rows)
        ]

    def count(self) -> int:
        """Rows that a reader of the table sees; 0 while there is no table."""
        found = self.database.rows(f"SELECT to_regclass('public.{self.table}') IS NOT NULL")
        if found != [(True,)]:
            return 0
        counted = self.database.rows(f"SELECT count(*) FROM {self.table}")[0][0]
        assert isinstance(counted, int)
        return counted

    def is_complete(self) -> bool:
        return self.count() >= sum(self._dropped.values())

    def judge(self) -> int:
        """Row by row, both sinks. Raises AssertionError; else how many rows there are."""
        wanted = self.wanted()
        query = f"SELECT id, text FROM {self.table} ORDER BY id"
        compare_rows(f"{self.id}, table", self.database.rows(query), wanted)
        compare_rows(f"{self.id}, files", read_files(self.target), wanted)
        return len(wanted)

    def text(self) -> str:
        mode = "STREAMING" if self.unbounded else "BATCH"
        name = "out" if self.through_spark else "in"
        inputs = ", ".join(f'"{name}{index}"' for index in range(self.sources))
        sources = "\n".join(self._source(index) for index in range(self.sources))
        return f"""\
env {{
 job.id = "{self.id}"
 job.name = "{self.id}"
 job.mode = "{mode}"
 {self.env}
}}
source {{
{sources}
}}
transform {{
{self._transforms()}
}}
sink {{
 LocalFile {{ plugin_input = [{inputs}], path = "{self.target}", file_format_type = "csv" }}
 Jdbc {{
  plugin_input = [{inputs}]
  url = "{self.database.url()}"
  user = "{self.database.user}"
  password = "{self.database.password}"
  generate_sink_sql = true
  table = "{self.table}"
  is_exactly_once = true
  enable_upsert = false
 }}
}}
"""

    def _transforms(self) -> str:
        return "\n".join(
            f'Sql {{ plugin_input = "in{index}", plugin_output = "out{index}", query = "select * from in{index}" }}'
            for index in range(self.sources)
            if self.through_spark
        )

    def _source(self, index: int) -> str:
        discovery = ""
        if self.unbounded:
            discovery = 'discovery_mode = "continuous"\n  scan_interval = "200MS"'
        return f"""\
 LocalFile {{
  plugin_output = "in{index}"
  path = "{self.source_folder(index)}"
  file_format_type = "csv"
  schema {{ table = "t", columns = [{{ name = id, type = bigint }}, {{ name = text, type = string }}] }}
  {discovery}
  {self.source_options}
 }}"""
