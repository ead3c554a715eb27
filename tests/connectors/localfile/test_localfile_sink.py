"""The file sink: staged files become visible once, are discarded, taken back; where files go; what may fail."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from holdfast.connectors.base import TableBatch, Token, token_parts
from holdfast.connectors.localfile import SINK
from holdfast.connectors.localfile.sink import FileSink
from holdfast.connectors.localfile.staging import StagedRowsGone
from holdfast.connectors.localfile.storage import (
    DiskFull,
    FileInTheWay,
    FileNotAllowed,
    FileNotThere,
)
from holdfast.model.errors import ConfigError, SinkRejected, Transient
from tests.connectors.localfile.localfile_builders import (
    a_sink,
    a_source,
    a_table,
    claim,
    hidden_files,
    numbered,
    problems_of,
    read_all,
    schema_block,
    scope,
    shown_files,
    stage,
    write,
)

SCHEMA = schema_block(numbered(1).schema)


def _ids(folder: Path) -> list[int]:
    found = read_all(a_source(folder, "csv", schema=SCHEMA, parse_partition_from_path=False))
    return sorted(row["id"] for row in found.rows)


# ------------------------------------------------------------------------------- staging and publishing


def test_a_half_published_token_is_completed(tmp_path: Path) -> None:
    sink = a_sink(tmp_path, "csv", batch_size=1)
    token = stage(sink, numbered(4), tasks=2)
    staged = sorted(p for p in hidden_files(tmp_path) if p.name != "manifest.json")
    folder = staged[0].parent
    first = sink._staging._files_in(str(folder))
    assert first is not None
    os.rename(folder / first[0].name, first[0].target)

    sink.publish(token)

    assert _ids(tmp_path) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert hidden_files(tmp_path) == []


def test_a_token_is_published_once_by_two_at_once(tmp_path: Path) -> None:
    for epoch in range(1, 15):
        token = stage(a_sink(tmp_path, "csv", batch_size=2), numbered(6), epoch=epoch)
        _publish_by_two(tmp_path, token, {"batch_size": 2})

        assert len(_ids(tmp_path)) == 6 * epoch


def _publish_by_two(folder: Path, token: Token, own: dict[str, Any]) -> None:
    together = threading.Barrier(2)
    failed: list[BaseException] = []

    def publish() -> None:
        sink = a_sink(folder, "csv", **own)
        together.wait()
        try:
            sink.publish(token)
        except BaseException as error:  # noqa: BLE001 - shown by the test's own thread
            failed.append(error)

    threads = [threading.Thread(target=publish) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed


@pytest.fixture
def other_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a file system of its own, of 2 MB."""
    folder = tmp_path / "other"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("mounting needs root")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_staging_folder_on_another_disk_is_published_whole(
    tmp_path: Path, other_disk: Path
) -> None:
    target, own = tmp_path / "out", {"tmp_path": str(other_disk)}
    token = stage(a_sink(target, "csv", **own), numbered(5), tasks=3)

    _publish_by_two(target, token, own)
    a_sink(target, "csv", **own).publish(token)

    assert _ids(target) == sorted(list(range(5)) * 3)
    assert [p for p in other_disk.rglob("*") if p.is_file()] == []
    assert [p.name for p in hidden_files(target)] == ["lock"]


def test_staged_files_that_are_gone_are_told_and_never_taken_for_published(tmp_path: Path) -> None:
    sink = a_sink(tmp_path, "csv")
    write(sink, numbered(1), epoch=2)
    token = stage(sink, numbered(3), epoch=3)
    for path in hidden_files(tmp_path):
        path.unlink()

    with pytest.raises(StagedRowsGone, match=r"epoch 3.*Restore from an older checkpoint"):
        sink.publish(token)


def test_what_a_reader_moved_away_does_not_come_again(tmp_path: Path) -> None:
    sink = a_sink(tmp_path, "csv")
    token = stage(sink, numbered(3))
    sink.publish(token)
    for path in shown_files(tmp_path):
        path.unlink()

    sink.publish(token)

    assert shown_files(tmp_path) == []


def test_a_job_run_anew_with_its_old_id_replaces_nothing(tmp_path: Path) -> None:
    write(a_sink(tmp_path, "csv"), numbered(3), epoch=2)
    write(a_sink(tmp_path, "csv"), numbered(3, 10), epoch=2)

    assert _ids(tmp_path) == [0, 1, 2, 10, 11, 12]


def test_a_failed_try_leaves_nothing(tmp_path: Path) -> None:
    sink = a_sink(tmp_path, "parquet")

    def failing() -> Iterator[TableBatch]:
        yield TableBatch("shop.orders", numbered(10))
        raise ValueError("the source failed")

    with pytest.raises(ValueError, match="the source failed"):
        sink.stage(scope(a_table(numbered(1).schema)), failing())

    assert hidden_files(tmp_path) == []


def test_a_token_stays_small_whatever_it_publishes(tmp_path: Path) -> None:
    token = stage(a_sink(tmp_path, "csv", batch_size=1), numbered(500))

    assert len(str(token)) < 150


@pytest.mark.parametrize(
    "expression", [None, "orders", "${transactionId}", "a_${now}_${uuid}", "_x"]
)
def test_rewind_finds_its_files_under_any_name(tmp_path: Path, expression: str | None) -> None:
    own: dict[str, Any] = {}
    if expression is not None:
        own = {"custom_filename": True, "file_name_expression": expression}
    sink = a_sink(tmp_path, "csv", have_partition=True, partition_by=["name"], **own)
    for epoch in (2, 3, 4):
        write(sink, numbered(2, epoch * 10), epoch=epoch)
    other = a_sink(tmp_path, "csv", job_id="orders2")
    write(other, numbered(1, 99), epoch=9)

    a_sink(tmp_path, "csv", **own).rewind(claim(attempt=2), 3)
    a_sink(tmp_path, "csv", **own).rewind(claim(attempt=2), 3)

    names = [path.name for path in sorted(tmp_path.rglob("*.csv"))]
    assert len(names) == 5
    assert len([name for name in names if "_4_1_" in name]) == 0


def test_rewind_leaves_what_a_newer_attempt_published(tmp_path: Path) -> None:
    sink = a_sink(tmp_path, "csv")
    write(sink, numbered(2), epoch=2)
    sink.publish(stage(sink, numbered(2, 10), epoch=6, attempt=3))

    sink.rewind(claim(attempt=2), 1)

    assert _ids(tmp_path) == [10, 11]


class KilledSink(RuleBasedStateMachine):
    """Any order of staging, crashing, claiming, publishing and going back shows exactly what was committed."""

    def __init__(self) -> None:
        super().__init__()
        import tempfile

        self.folder = Path(tempfile.mkdtemp())
        self.attempt = 1
        self.epoch = 1
        self.tip: Token | None = None
        self.committed: dict[int, list[int]] = {}
        self.published = True
        self.late: list[Token] = []

    def _sink(self) -> FileSink:
        return a_sink(self.folder, "csv", batch_size=2)

    @precondition(lambda self: self.published)
    @rule(rows=st.integers(1, 5), commit=st.booleans())
    def stage_an_epoch(self, rows: int, commit: bool) -> None:
        epoch = self.epoch + 1
        batch = numbered(rows, epoch * 100)
        token = stage(self._sink(), batch, epoch=epoch, attempt=self.attempt)
        if commit:
            self.epoch, self.tip, self.published = epoch, token, False
            self.committed[epoch] = batch["id"].to_pylist()

    @precondition(lambda self: self.tip is not None)
    @rule()
    def publish(self) -> None:
        assert self.tip is not None
        self._sink().publish(self.tip)
        self.published = True
        self.late.append(self.tip)

    @precondition(lambda self: self.tip is not None and not self.published)
    @rule(count=st.integers(0, 3))
    def publish_a_part(self, count: int) -> None:
        assert self.tip is not None
        staging = self._sink()._staging
        under = Path(staging.root) / "0" / str(self.tip["attempt"]) / str(self.tip["epoch"])
        for part in token_parts(self.tip):
            folder = under / str(part["folder"])
            for file in (staging._files_in(str(folder)) or [])[:count]:
                Path(file.target).parent.mkdir(parents=True, exist_ok=True)
                staging.storage.move(f"{folder}/{file.name}", file.target, "")

    @rule()
    def claim_anew(self) -> None:
        self.attempt += 1
        self.epoch += 1
        self._sink().discard(claim(self.attempt, self.tip))
        if self.tip is not None:
            self._sink().publish(self.tip)
        self.published = True

    @precondition(lambda self: bool(self.committed))
    @rule(back=st.integers(1, 3))
    def go_back(self, back: int) -> None:
        target = sorted(self.committed)[-back:][0] - 1
        self.attempt += 1
        self.epoch += 1
        sink = self._sink()
        kept = self.tip if self.tip and int(str(self.tip["epoch"])) <= target else None
        sink.discard(claim(self.attempt, kept))
        sink.rewind(claim(self.attempt, kept), target)
        self.committed = {n: rows for n, rows in self.committed.items() if n <= target}
        self.late = [token for token in self.late if int(str(token["epoch"])) <= target]
        self.tip, self.published = kept, True

    @precondition(lambda self: bool(self.late))
    @rule(which=st.integers(0, 10))
    def publish_much_later(self, which: int) -> None:
        self._sink().publish(self.late[which % len(self.late)])

    @invariant()
    def shows_what_is_committed_and_nothing_else(self) -> None:
        found = _ids(self.folder) if shown_files(self.folder) else []
        wanted = sorted(i for rows in self.committed.values() for i in rows)
        if self.published:
            assert found == wanted
        else:
            assert set(found) <= set(wanted)


KilledSink.TestCase.settings = settings(max_examples=25, stateful_step_count=12, deadline=None)
test_a_sink_killed_anywhere_shows_what_is_committed = KilledSink.TestCase


# ---------------------------------------------------------------------------------------- where files go


def test_a_file_ends_at_its_most_rows(tmp_path: Path) -> None:
    write(a_sink(tmp_path, "csv", batch_size=4), [numbered(7), numbered(3, 7)])

    assert [len(p.read_text().splitlines()) for p in shown_files(tmp_path)] == [4, 4, 2]
    assert [p.name.rsplit("_", 1)[1] for p in shown_files(tmp_path)] == ["0.csv", "1.csv", "2.csv"]


def test_single_file_mode_knows_no_limit(tmp_path: Path) -> None:
    write(a_sink(tmp_path, "csv", batch_size=4, single_file_mode=True), numbered(9))

    (path,) = shown_files(tmp_path)
    assert path.name.startswith("T_orders_")
    assert len(path.read_text().splitlines()) == 9


def test_partitions_are_folders_and_come_back_as_columns(tmp_path: Path) -> None:
    values = ["a/b", None, "", "x y", "é=%", "..", "a/b"]
    rows = pa.record_batch({"id": range(7), "day": pa.array([2, 1, 2, 1, 2, 1, 2]), "tag": values})
    sink = a_sink(tmp_path, "parquet", have_partition=True, partition_by=["day", "tag"])
    write(sink, rows)

    found = read_all(a_source(tmp_path, "parquet"))

    expected = [{**row, "day": str(row["day"])} for row in rows.to_pylist()]
    assert sorted(found.rows, key=lambda row: int(row["id"])) == expected
    assert (tmp_path / "day=2" / "tag=a%2Fb").is_dir()


def test_more_partitions_than_open_files_are_written(tmp_path: Path) -> None:
    ids = list(range(200)) * 2
    rows = pa.record_batch({"id": ids, "part": [i % 200 for i in ids]})
    own: dict[str, Any] = {"have_partition": True, "partition_by": ["part"]}
    write(a_sink(tmp_path, "csv", **own), [rows.slice(0, 200), rows.slice(200)])

    schema = {"fields": {"id": "bigint"}}
    found = read_all(a_source(tmp_path, "csv", schema=schema))

    assert sorted(int(row["id"]) for row in found.rows) == sorted(ids)
    assert all(str(row["id"]) == row["part"] for row in found.rows)


def test_a_partition_expression_words_the_folders(tmp_path: Path) -> None:
    sink = a_sink(
        tmp_path,
        "csv",
        have_partition=True,
        partition_by=["name"],
        partition_dir_expression="by-${k0}/${v0}",
        is_partition_field_write_in_file=True,
    )
    write(sink, numbered(1))

    (path,) = shown_files(tmp_path)
    assert path.parent == tmp_path / "by-name" / "name 0"
    assert path.read_text() == "0,name 0\n"


def test_sink_columns_choose_and_order(tmp_path: Path) -> None:
    write(a_sink(tmp_path, "csv", sink_columns=["name", "id"]), numbered(1))

    assert shown_files(tmp_path)[0].read_text() == "name 0,0\n"
    with pytest.raises(ConfigError, match="names 'x', and the table has id, name"):
        write(a_sink(tmp_path, "csv", sink_columns=["x"]), numbered(1))


def test_each_table_goes_into_the_folder_that_its_name_fills(tmp_path: Path) -> None:
    sink = a_sink(f"{tmp_path}/${{database_name}}/${{table_name}}", "csv")
    tables = [a_table(numbered(1).schema, f"shop.{name}") for name in ("a", "b")]

    part = sink.stage(scope(tables), iter(TableBatch(t.path, numbered(2)) for t in tables))
    sink.publish({"attempt": 1, "epoch": 2, "parts": [part]})

    assert {str(p.parent.relative_to(tmp_path)) for p in shown_files(tmp_path)} == {
        "shop/a",
        "shop/b",
    }


def test_the_compression_and_the_ending_show_in_the_name(tmp_path: Path) -> None:
    write(a_sink(tmp_path / "1", "csv", compress_codec="gzip"), numbered(1))
    write(a_sink(tmp_path / "2", "csv", filename_extension="dat"), numbered(1))

    assert shown_files(tmp_path / "1")[0].name.endswith(".csv.gz")
    assert shown_files(tmp_path / "2")[0].name.endswith("_0.dat")


def test_save_modes_are_applied_before_the_first_row(tmp_path: Path) -> None:
    table = a_table(numbered(1).schema)
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "old.csv").write_text("1,a\n")

    with pytest.raises(SinkRejected, match=r"old\.csv.*ERROR_WHEN_DATA_EXISTS"):
        a_sink(tmp_path, "csv", data_save_mode="ERROR_WHEN_DATA_EXISTS").prepare([table])
    missing: dict[str, Any] = {"schema_save_mode": "ERROR_WHEN_SCHEMA_NOT_EXIST"}
    with pytest.raises(FileNotThere, match="ERROR_WHEN_SCHEMA_NOT_EXIST"):
        a_sink(tmp_path / "none", "csv", **missing).prepare([table])
    a_sink(tmp_path, "csv").prepare([table])
    assert (tmp_path / "deep" / "old.csv").exists()
    a_sink(tmp_path, "csv", data_save_mode="DROP_DATA").prepare([table])
    assert not (tmp_path / "deep").exists()


def test_a_job_without_rows_leaves_an_empty_file_when_asked(tmp_path: Path) -> None:
    table = a_table(numbered(1).schema)
    own: dict[str, Any] = {"create_empty_file_when_no_data": True, "enable_header_write": True}
    sink = a_sink(tmp_path, "csv", **own)
    sink.prepare([table])

    sink.finish({table.path: 0})
    sink.finish({table.path: 0})

    (path,) = shown_files(tmp_path)
    assert path.read_text() == "id,name\n"
    assert hidden_files(tmp_path) == []


# ------------------------------------------------------------------------------------------ what may fail


@pytest.mark.parametrize("kind", ["csv", "parquet", "orc", "json", "xml", "excel"])
def test_a_full_disk_is_told_and_gives_its_room_back(
    tmp_path: Path, kind: str, other_disk: Path
) -> None:
    rows = pa.record_batch({"s": [os.urandom(2000).hex() for _ in range(1500)]})
    sink = a_sink(tmp_path / "out", kind, tmp_path=str(other_disk), compress_codec="none")

    with pytest.raises(DiskFull, match=r"Cannot write .*No space left on device.*it goes on"):
        stage(sink, [rows, rows])

    assert [p for p in other_disk.rglob("*") if p.is_file()] == []


def test_a_limit_on_file_size_is_told() -> None:
    code = """
import resource, tempfile, pathlib, signal
from tests.connectors.localfile.localfile_builders import *
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    stage(a_sink(pathlib.Path(tempfile.mkdtemp()), "csv"), numbered(100_000))
except Exception as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.startswith("DiskFull Cannot write ")
    assert resource.RLIMIT_FSIZE is not None


def test_a_full_disk_may_be_tried_again() -> None:
    assert issubclass(DiskFull, Transient)


def test_a_folder_that_is_read_only_is_told(tmp_path: Path, other_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(other_disk)], check=True)

    with pytest.raises(FileNotAllowed, match=r"Read-only file system.*permission"):
        a_sink(other_disk / "deep", "csv").prepare([a_table(numbered(1).schema)])


def test_a_target_that_is_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(FileInTheWay, match=r"Cannot make folder .*Move away the file"):
        write(a_sink(tmp_path / "file" / "deep", "csv"), numbered(1))


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ({"path": "${table_name}"}, "fixed folder"),
        ({"compress_codec": "lzo"}, "'lzo'; for csv it is one of none, gzip"),
        ({"compress_codec": "snappy"}, "'snappy'"),
        ({"compress_codec": "brotli", "file_format_type": "orc"}, "for orc it is one of"),
        ({"have_partition": True}, "names no column"),
        ({"is_enable_transaction": False}, "always published whole"),
        ({"field_delimiter": "||"}, "one character"),
        ({"row_delimiter": "x"}, "csv rows end"),
        ({"parquet_avro_write_fixed_as_int96": ["a"]}, "not supported"),
        ({"encoding": "utf-16"}, "utf-16-le"),
        ({"encoding": "klingon"}, "not the name of a character encoding"),
        ({"date_format": "YYYY"}, "'YYYY' in 'YYYY' is not one of"),
        ({"file_format_type": "avro"}, "is not one of csv, text"),
        ({"file_format_type": "binary", "sink_columns": ["a"]}, "as they are"),
    ],
)
def test_check_says_what_cannot_work(own: dict[str, Any], said: str) -> None:
    given = {"path": "/data/out", "file_format_type": "csv", **own}

    assert any(said in problem for problem in problems_of(SINK, **given))


def test_check_is_content_with_the_defaults() -> None:
    assert problems_of(SINK, path="/data/${table_name}") == []
