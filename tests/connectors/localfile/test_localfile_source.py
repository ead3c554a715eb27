"""The file source: what it lists, how it cuts, where it stands, and what it says when files are not as they were."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.connectors.base import Budget, Position, is_done
from holdfast.connectors.localfile import SOURCE
from holdfast.connectors.localfile.source import FileSource
from holdfast.connectors.localfile.storage import FileNotThere
from holdfast.model.errors import ConfigError, PositionGone, Terminal, Transient
from holdfast.model.jobs import JobMode
from tests.connectors.localfile.localfile_builders import (
    MB,
    WIDE,
    EagerClock,
    a_sink,
    a_source,
    numbered,
    options_of,
    problems_of,
    read_all,
    schema_block,
    write,
)

SCHEMA = schema_block(numbered(1).schema)
ONE_FILE = Budget(rows_max=1, bytes_max=1, duration_ms=1000, tasks_max=1)


def _put(folder: Path, name: str, *ids: int) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{i},name {i}\n" for i in ids))
    return path


def _ids(source: FileSource, position: Position | None = None) -> list[int]:
    return [row["id"] for row in read_all(source, position=position).rows]


def _csv(folder: Path, **own: Any) -> FileSource:
    return a_source(folder, "csv", **{"schema": SCHEMA, **own})


# ------------------------------------------------------------------------------------- listing and columns


def test_files_are_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name, number in (
        ("b.csv", 2),
        ("a.csv", 1),
        ("deep/c.csv", 3),
        (".x.csv", 8),
        ("_y.csv", 9),
    ):
        _put(tmp_path, name, number)

    assert _ids(_csv(tmp_path)) == [1, 2, 3]
    assert _ids(_csv(tmp_path, recursive_file_scan=False)) == [1, 2]
    assert _ids(_csv(tmp_path / "deep" / "c.csv")) == [3]


def test_the_newest_file_may_come_first(tmp_path: Path) -> None:
    for at, name in enumerate(("b", "c", "a")):
        os.utime(_put(tmp_path, f"{name}.csv", at), ns=(0, at * 10**9))

    source = _csv(tmp_path, sort_files_by_modification_time=True)
    assert _ids(source) == [2, 1, 0]
    first = source.plan(source.start(), ONE_FILE)
    assert first is not None
    assert _ids(_csv(tmp_path, sort_files_by_modification_time=True), first.end) == [1, 0]


@pytest.mark.parametrize(
    ("own", "wanted"),
    [
        ({"file_filter_pattern": "a.*"}, [1, 3]),
        ({"file_filter_pattern": ".*/deep/.*[.]csv"}, [3, 4]),
        ({"filename_extension": "txt"}, [5]),
        ({"filename_extension": ".csv"}, [1, 2, 3, 4]),
        ({"file_filter_modified_start": "1970-01-01 00:01:00"}, [2, 3, 4, 5]),
        ({"file_filter_modified_end": "1970-01-01 00:01:00"}, [1]),
    ],
)
def test_filters_choose_files(tmp_path: Path, own: dict[str, Any], wanted: list[int]) -> None:
    os.utime(_put(tmp_path, "a.csv", 1), (30, 30))
    os.utime(_put(tmp_path, "b.csv", 2), (60, 60))
    _put(tmp_path, "deep/a.csv", 3)
    _put(tmp_path, "deep/b.csv", 4)
    _put(tmp_path, "x.txt", 5)

    assert _ids(_csv(tmp_path, **own)) == wanted


def test_folders_of_the_path_become_columns(tmp_path: Path) -> None:
    _put(tmp_path, "day=1/kind=a%2Fb/x.csv", 1)
    _put(tmp_path, "day=2/kind=__HIVE_DEFAULT_PARTITION__/x.csv", 2)

    assert read_all(_csv(tmp_path)).rows == [
        {"id": 1, "name": "name 1", "day": "1", "kind": "a/b"},
        {"id": 2, "name": "name 2", "day": "2", "kind": None},
    ]
    assert "day" not in read_all(_csv(tmp_path, parse_partition_from_path=False)).rows[0]


@pytest.mark.parametrize("kind", ["csv", "text", "json", "parquet", "orc", "xml", "excel"])
def test_only_wanted_columns_are_delivered_in_their_order(tmp_path: Path, kind: str) -> None:
    rows = numbered(3).append_column("x", pa.array([7, 8, 9]))
    write(a_sink(tmp_path, kind), rows)
    own: dict[str, Any] = {"read_columns": ["x", "id"]}
    if kind not in ("parquet", "orc"):
        own["schema"] = schema_block(rows.schema)
    if kind == "xml":
        own["xml_row_tag"] = "RECORD"
    if kind == "excel":
        own["skip_header_row_number"] = 1

    source = a_source(tmp_path, kind, **own)

    assert [list(row.items()) for row in read_all(source).rows] == [
        [("x", 7), ("id", 0)],
        [("x", 8), ("id", 1)],
        [("x", 9), ("id", 2)],
    ]
    assert source.tables()[0].column_names == ["x", "id"]


def test_a_wanted_column_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'x' .* the files have id, name"):
        _csv(tmp_path, read_columns=["x"]).tables()


def test_a_parquet_file_that_lacks_a_column_gives_nulls(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1], "x": [5]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"id": pa.array([2], pa.int32())}), tmp_path / "b.parquet")

    assert read_all(a_source(tmp_path, "parquet")).rows == [{"id": 1, "x": 5}, {"id": 2, "x": None}]


def test_a_parquet_column_of_another_type_is_told(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"id": ["x"]}), tmp_path / "b.parquet")

    with pytest.raises(Terminal, match=r"b\.parquet.*column 'id' is string in the file and int64"):
        read_all(a_source(tmp_path, "parquet"))


def test_rows_at_the_start_may_be_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("comment\nid,name\n1,a\n2,b\n")

    assert _ids(_csv(tmp_path, skip_header_row_number=2)) == [1, 2]
    assert _ids(_csv(tmp_path, skip_header_row_number=1, csv_use_header_line=True)) == [1, 2]


def test_several_tables_are_read_side_by_side(tmp_path: Path) -> None:
    _put(tmp_path, "one/a.csv", 1, 2)
    _put(tmp_path, "two/a.csv", 3)
    tables = [
        {
            "path": f"{tmp_path}/one",
            "schema": {"table": "shop.one", "fields": {"id": "int", "n": "string"}},
        },
        {"path": f"{tmp_path}/two", "schema": {"fields": {"id": "int", "n": "string"}}},
    ]
    options = options_of(SOURCE, file_format_type="csv", tables_configs=tables)
    from tests.connectors.localfile.localfile_builders import context

    source = SOURCE.create(options, context())

    assert [table.path for table in source.tables()] == ["shop.one", "two"]
    assert len(read_all(source).rows) == 3


def test_a_folder_without_files_is_done_at_once(tmp_path: Path) -> None:
    assert _ids(_csv(tmp_path)) == []


def test_files_without_rows_are_read_as_none(tmp_path: Path) -> None:
    for kind, data in (("csv", b""), ("text", b""), ("json", b"\n")):
        (tmp_path / kind).mkdir()
        (tmp_path / kind / "a").write_bytes(data)
        assert _ids(a_source(tmp_path / kind, kind, schema=SCHEMA)) == []


def test_a_missing_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotThere, match=r"Cannot list .*/none: No such file"):
        _csv(tmp_path / "none").start()


def test_columns_that_nobody_can_tell_are_asked_for(tmp_path: Path) -> None:
    with pytest.raises(Terminal, match=r"Cannot tell the columns .* Give a 'schema'"):
        a_source(tmp_path, "parquet").tables()


# ---------------------------------------------------------------------------------------------- pieces


@pytest.mark.parametrize("kind", ["csv", "text", "json"])
@given(rows=st.integers(0, 40), size=st.integers(1, 300))
@settings(max_examples=40, deadline=None)
def test_a_text_file_in_pieces_gives_each_row_once(
    tmp_path_factory: pytest.TempPathFactory, kind: str, rows: int, size: int
) -> None:
    folder = tmp_path_factory.mktemp("pieces")
    write(a_sink(folder, kind), numbered(max(rows, 1)))

    source = a_source(folder, kind, schema=SCHEMA, enable_file_split=True, file_split_size=size)

    assert _ids(source) == list(range(max(rows, 1)))


def test_a_header_is_known_to_every_piece(tmp_path: Path) -> None:
    write(a_sink(tmp_path, "csv", enable_header_write=True), numbered(50))
    own: dict[str, Any] = {"csv_use_header_line": True, "enable_file_split": True}

    assert _ids(_csv(tmp_path, file_split_size=60, **own)) == list(range(50))


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_row_groups_and_stripes_are_read_alone(tmp_path: Path, kind: str) -> None:
    rows = pa.Table.from_batches([numbered(200_000)])
    if kind == "parquet":
        pq.write_table(rows, tmp_path / "a", row_group_size=10_000)
    else:
        orc.write_table(rows, tmp_path / "a", stripe_size=64 * 1024)

    reading = read_all(a_source(tmp_path, kind, file_split_size=100_000), ONE_FILE)

    assert [row["id"] for row in reading.rows] == list(range(200_000))
    assert reading.tasks > 3
    assert len(str(reading.positions[2])) < 400


def test_small_files_share_a_task_and_large_ones_do_not(tmp_path: Path) -> None:
    for index in range(100):
        _put(tmp_path, f"{index}.csv", index)
    small = _csv(tmp_path).plan(_csv(tmp_path).start(), WIDE)
    (tmp_path / "big1").write_bytes(b"1,a\n" * 2 * MB)
    (tmp_path / "big2").write_bytes(b"1,a\n" * 2 * MB)
    large = _csv(tmp_path).plan(_csv(tmp_path).start(), WIDE)

    assert small is not None
    assert large is not None
    assert len(small.tasks) == 1
    assert len(large.tasks) == 2


def test_batches_stay_bounded_also_from_compressed_files(tmp_path: Path) -> None:
    write(a_sink(tmp_path, "csv", compress_codec="gzip"), numbered(300_000))

    reading = read_all(_csv(tmp_path))

    assert max(batch.num_rows for batch in reading.batches) <= 65_536
    assert sum(batch.num_rows for batch in reading.batches) == 300_000


# ------------------------------------------------------------------------------------------ positions, once


def _after_two_of_five(folder: Path) -> Position:
    for index in range(5):
        _put(folder, f"{index}.csv", index)
    source = _csv(folder)
    plan = source.plan(source.start(), Budget(2, 10**9, 1000, 4))
    assert plan is not None
    assert plan.end is not None
    return plan.end


def test_files_that_appear_after_the_start_are_left_out(tmp_path: Path) -> None:
    position = _after_two_of_five(tmp_path)
    os.utime(_put(tmp_path, "3a.csv", 99), (1, 1))
    os.chmod(tmp_path / "4.csv", 0o600)

    assert _csv(tmp_path).probe(position).readable
    assert _ids(_csv(tmp_path), position) == [2, 3, 4]


@pytest.mark.parametrize("harm", ["removed", "changed", "replaced"])
def test_a_file_that_is_not_as_it_was_is_told(tmp_path: Path, harm: str) -> None:
    position = _after_two_of_five(tmp_path)
    path = tmp_path / "3.csv"
    if harm == "removed":
        path.unlink()
    elif harm == "changed":
        path.write_text("3,other\n")
    else:
        path.rename(tmp_path / "8.csv")

    probe = _csv(tmp_path).probe(position)

    assert not probe.readable
    assert "gone or changed" in probe.said
    with pytest.raises(PositionGone, match="of the 3 files"):
        _ids(_csv(tmp_path), position)


def test_files_that_were_read_may_go(tmp_path: Path) -> None:
    position = _after_two_of_five(tmp_path)
    (tmp_path / "0.csv").unlink()

    assert _ids(_csv(tmp_path), position) == [2, 3, 4]


def test_a_file_that_is_changed_between_plan_and_read_is_told(tmp_path: Path) -> None:
    path = _put(tmp_path, "a.csv", 1)
    source = _csv(tmp_path)
    plan = source.plan(source.start(), WIDE)
    assert plan is not None
    path.write_text("17,changed\n")

    with pytest.raises(PositionGone, match=r"a\.csv .*is gone, or is not the file"):
        list(source.read(plan.tasks[0], WIDE))


def test_positions_are_told_in_words(tmp_path: Path) -> None:
    position = _after_two_of_five(tmp_path)

    said = _csv(tmp_path).describe(position)

    assert "3 files (27 bytes) left, begun up to 1.csv" in said
    assert _csv(tmp_path).fraction(position) == pytest.approx(0.4)
    assert _csv(tmp_path).describe({"done": True}) == "all files are read"


# ------------------------------------------------------------------------------------------- continuous


class Watcher:
    """A continuous job over a folder: looks, reads, and may be killed between."""

    def __init__(self, folder: Path, **own: Any) -> None:
        self.folder = folder
        self.own = own
        self.restart()
        self.position = self.source.start()

    def restart(self) -> None:
        self.source = a_source(
            self.folder,
            "csv",
            schema=SCHEMA,
            mode=JobMode.STREAMING,
            clock=EagerClock(),
            discovery_mode="continuous",
            **self.own,
        )

    def look(self, budget: Budget = WIDE) -> list[int]:
        """Until nothing is new."""
        found: list[int] = []
        while (plan := self.source.plan(self.position, budget)) is not None:
            assert plan.end is not None
            for task in plan.tasks:
                for batch in self.source.read(task, budget):
                    found += batch.batch["id"].to_pylist()
            self.position = plan.end
        return found


def test_files_are_read_as_they_arrive_and_never_twice(tmp_path: Path) -> None:
    _put(tmp_path, "b.csv", 1)
    watcher = Watcher(tmp_path)

    assert watcher.look() == [1]
    _put(tmp_path, "a.csv", 2)
    assert watcher.look() == [2]
    assert watcher.look() == []
    watcher.restart()
    assert watcher.look() == []


@pytest.mark.parametrize("restarts", [False, True])
def test_a_late_file_with_an_old_name_and_time_is_found(tmp_path: Path, restarts: bool) -> None:
    folder, elsewhere = tmp_path / "in", tmp_path / "elsewhere"
    _put(folder, "m.csv", 1)
    os.utime(_put(elsewhere, "a.csv", 2), (1, 1))
    _put(elsewhere, "deep/x.csv", 3)
    watcher = Watcher(folder)
    assert watcher.look() == [1]

    shutil.move(elsewhere / "a.csv", folder / "a.csv")
    shutil.move(elsewhere / "deep", folder / "deep")
    if restarts:
        watcher.restart()

    assert sorted(watcher.look()) == [2, 3]
    watcher.restart()
    assert watcher.look() == []


@pytest.mark.parametrize("restarts", [False, True])
def test_a_file_that_is_only_touched_is_not_read_again(tmp_path: Path, restarts: bool) -> None:
    path = _put(tmp_path, "a.csv", 1)
    _put(tmp_path, "b.csv", 2)
    watcher = Watcher(tmp_path)
    assert watcher.look() == [1, 2]

    os.chmod(path, 0o600)
    os.link(path, tmp_path / ".link")
    if restarts:
        watcher.restart()
    _put(tmp_path, "c.csv", 3)

    assert watcher.look() == [3]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_changed_file_is_read_again_whole(tmp_path: Path, restarts: bool) -> None:
    path = _put(tmp_path, "a.csv", 1)
    watcher = Watcher(tmp_path)
    assert watcher.look() == [1]

    path.write_text("1,x\n2,y\n")
    if restarts:
        watcher.restart()

    assert watcher.look() == [1, 2]


def test_files_that_were_read_may_go_while_others_come(tmp_path: Path) -> None:
    watcher = Watcher(tmp_path)
    for index in range(6):
        _put(tmp_path, f"{index}.csv", index)
        if index > 1:
            (tmp_path / f"{index - 2}.csv").unlink()
        if index % 2:
            watcher.restart()
            assert watcher.look() == [index]
        else:
            assert watcher.look() == [index]


def _touch_later(path: Path, *, than: Path) -> None:
    """Until the file system's clock, which is coarse, shows it."""
    while path.stat().st_ctime_ns <= than.stat().st_ctime_ns:
        os.chmod(path, 0o600)


def test_in_doubt_a_touched_file_is_read_again_and_none_is_lost(tmp_path: Path) -> None:
    for index in range(3):
        _put(tmp_path, f"{index}.csv", index)
    watcher = Watcher(tmp_path)
    assert watcher.look() == [0, 1, 2]

    (tmp_path / "0.csv").unlink()
    _touch_later(tmp_path / "1.csv", than=tmp_path / "2.csv")
    _put(tmp_path, "new.csv", 9)
    watcher.restart()

    assert watcher.look() == [1, 9]


def test_latest_skips_what_is_there(tmp_path: Path) -> None:
    _put(tmp_path, "a.csv", 1)
    watcher = Watcher(tmp_path, start_mode="latest")
    _put(tmp_path, "b.csv", 2)

    assert watcher.look() == [2]


def test_a_scan_of_many_files_is_read_in_epochs_with_a_small_position(tmp_path: Path) -> None:
    watcher = Watcher(tmp_path)
    for index in range(50):
        _put(tmp_path, f"{index}.csv", index)

    found = []
    while (plan := watcher.source.plan(watcher.position, Budget(7, 10**9, 1000, 2))) is not None:
        assert plan.end is not None
        found += [
            r
            for t in plan.tasks
            for b in watcher.source.read(t, WIDE)
            for r in b.batch["id"].to_pylist()
        ]
        watcher.position = plan.end
        watcher.restart()
        assert len(str(watcher.position)) < 300

    assert sorted(found) == list(range(50))


def test_a_file_in_pieces_goes_on_after_a_restart(tmp_path: Path) -> None:
    write(a_sink(tmp_path, "csv"), numbered(30))
    watcher = Watcher(tmp_path, enable_file_split=True, file_split_size=40)
    found: list[int] = []
    while (plan := watcher.source.plan(watcher.position, ONE_FILE)) is not None:
        assert plan.end is not None
        found += [
            r
            for t in plan.tasks
            for b in watcher.source.read(t, WIDE)
            for r in b.batch["id"].to_pylist()
        ]
        watcher.position = plan.end
        watcher.restart()

    assert found == list(range(30))


def test_a_file_that_goes_between_plan_and_read_may_be_tried_again(tmp_path: Path) -> None:
    path = _put(tmp_path, "a.csv", 1)
    watcher = Watcher(tmp_path)
    plan = watcher.source.plan(watcher.position, WIDE)
    assert plan is not None
    path.unlink()

    with pytest.raises(Transient, match="changed or removed meanwhile"):
        list(watcher.source.read(plan.tasks[0], WIDE))


def test_a_young_file_is_left_alone_for_a_while(tmp_path: Path) -> None:
    _put(tmp_path, "a.csv", 1)
    own: dict[str, Any] = {"discovery_mode": "continuous", "schema": SCHEMA}
    source = a_source(tmp_path, "csv", mode=JobMode.STREAMING, **own)

    assert source.plan(source.start(), WIDE) is None


# ------------------------------------------------------------------------------------------------ check


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ({"sync_mode": "update"}, "'sync_mode' is 'update', which is not supported; only 'full'"),
        ({"post_sync_action": "delete"}, "'post_sync_action'"),
        ({"markdown_rag_metadata_enabled": True}, "markdown_rag_metadata_enabled"),
        ({"file_format_type": "pdf"}, "'pdf' is not one of text, csv"),
        ({"discovery_mode": "continuous"}, "job.mode = STREAMING"),
        ({"file_format_type": "xml"}, "xml_row_tag"),
        ({"file_format_type": "excel"}, "needs a 'schema'"),
        ({"compress_codec": "lzo"}, "'lzo'"),
        ({"file_format_type": "parquet", "archive_compress_codec": "zip"}, "archives of parquet"),
        ({"file_filter_pattern": "("}, "not a regular expression"),
        ({"file_filter_modified_start": "today"}, "expected yyyy-MM-dd"),
        ({"scan_interval": "soon"}, "expected a duration"),
        (
            {"tables_configs": [{"path": "/x"}, {"file_format_type": "xml", "path": "/y"}]},
            "tables_configs[1]: xml",
        ),
        ({"quote_char": "''"}, "one ASCII character"),
        ({"paht": "/x"}, "Did you mean 'path'?"),
    ],
)
def test_check_says_what_cannot_work(own: dict[str, Any], said: str) -> None:
    given_ = {"path": "/data/in", "file_format_type": "csv", **own}

    assert any(said in problem for problem in problems_of(SOURCE, **given_))


def test_check_asks_for_what_is_needed() -> None:
    assert len(problems_of(SOURCE)) == 2
    assert problems_of(SOURCE, path="/x", file_format_type="csv", delimiter="\\001") == []
    assert is_done({"done": True})
