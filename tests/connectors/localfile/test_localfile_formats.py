"""What is written is read back: every format, every type, every compression."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.connectors.localfile.formats import columnar
from holdfast.connectors.localfile.formats.base64_columns import decode_base64, encode_base64
from holdfast.connectors.localfile.formats.byte_lines import LineBytes
from holdfast.connectors.localfile.formats.contract import Piece
from holdfast.connectors.localfile.storage import FileBroken
from holdfast.model.errors import SinkRejected
from holdfast.model.schema import KIND_COLUMN
from tests.connectors.localfile.localfile_builders import (
    a_sink,
    a_source,
    every_type,
    moment,
    numbered,
    read_all,
    schema_block,
    shown_files,
    write,
)

CODECS = {
    "csv": ("none", "gzip", "zstd", "lz4", "bz2", "brotli"),
    "text": ("none", "gzip", "zstd", "lz4", "bz2", "brotli"),
    "json": ("none", "gzip", "zstd", "lz4", "bz2", "brotli"),
    "xml": ("none", "gzip"),
    "parquet": ("none", "snappy", "gzip", "zstd", "lz4", "brotli"),
    "orc": ("none", "snappy", "zlib", "zstd", "lz4"),
    "excel": ("none",),
}
READ_WITH: dict[str, dict[str, Any]] = {
    "text": {"null_format": "\\N"},
    "xml": {"xml_row_tag": "RECORD"},
    "excel": {"skip_header_row_number": 1},
}


@pytest.mark.parametrize(
    ("kind", "codec"), [(kind, codec) for kind, codecs in CODECS.items() for codec in codecs]
)
def test_every_type_survives_every_format_and_compression(
    tmp_path: Path, kind: str, codec: str
) -> None:
    rows = every_type()
    own = {"null_format": "\\N"} if kind == "text" else {}
    write(a_sink(tmp_path, kind, compress_codec=codec, **own), rows)

    found = read_all(
        a_source(tmp_path, kind, schema=schema_block(rows.schema), **READ_WITH.get(kind, {}))
    )

    expected = rows
    if kind == "excel":
        emptied = pc.if_else(pc.equal(rows["a_string"], ""), None, rows["a_string"])
        expected = rows.set_column(0, "a_string", emptied)
    for name in rows.schema.names:
        got = pa.chunked_array([batch[name] for batch in found.batches])
        assert got.equals(pa.chunked_array([expected[name]])), (name, got, expected[name])


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_formats_that_carry_their_columns_need_no_schema(tmp_path: Path, kind: str) -> None:
    rows = every_type().drop_columns(["a_time"] if kind == "orc" else [])
    write(a_sink(tmp_path, kind), rows)

    source = a_source(tmp_path, kind)

    assert source.tables()[0].arrow_schema == rows.schema
    assert read_all(source).table().equals(pa.Table.from_batches([rows]))


def test_csv_with_a_header_and_no_schema_gives_columns_of_text(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b'id,"full, name"\n1,Ann\n2,\n3,""\n')

    found = read_all(a_source(tmp_path, "csv", csv_use_header_line=True))

    assert found.rows == [
        {"id": "1", "full, name": "Ann"},
        {"id": "2", "full, name": None},
        {"id": "3", "full, name": ""},
    ]


def test_columns_of_a_header_are_found_by_name_and_a_missing_one_is_null(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"b,a\n1,2\n")
    schema = {"fields": {"a": "int", "b": "int", "c": "string"}}

    found = read_all(a_source(tmp_path, "csv", csv_use_header_line=True, schema=schema))

    assert found.rows == [{"a": 2, "b": 1, "c": None}]


def test_text_without_a_schema_is_one_column_with_the_line(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfone, 1\r\ntwo")

    assert read_all(a_source(tmp_path, "text")).rows == [{"content": "one, 1"}, {"content": "two"}]


def test_json_without_a_schema_takes_the_types_it_finds(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(
        '{"i":1,"f":1.5,"s":"2020-01-01","l":[1]}\n{"i":null,"f":2,"x":9}\n'
    )

    found = read_all(a_source(tmp_path, "json"))

    assert found.rows == [
        {"i": 1, "f": 1.5, "s": "2020-01-01", "l": [1], "x": None},
        {"i": None, "f": 2.0, "s": None, "l": None, "x": 9},
    ]


def test_json_that_arrow_does_not_read_is_still_read_exactly(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(
        '{"s":17,"d":"12345678901234567890.1234","s2":1}\n{"s":true,"d":0.5,"s":"last"}\n'
    )
    schema = {"fields": {"s": "string", "d": "decimal(30,4)"}}

    found = read_all(a_source(tmp_path, "json", schema=schema))

    assert [(row["s"], str(row["d"])) for row in found.rows] == [
        ("17", "12345678901234567890.1234"),
        ("last", "0.5000"),
    ]


@pytest.mark.parametrize("delimiter", ["||", "\\001", "\t"])
@pytest.mark.parametrize("row_delimiter", ["\n", "\r\n", "<>\n"])
def test_text_takes_any_delimiters(tmp_path: Path, delimiter: str, row_delimiter: str) -> None:
    rows = numbered(5)
    own: dict[str, Any] = {"field_delimiter": delimiter, "row_delimiter": row_delimiter}
    write(a_sink(tmp_path, "text", **own), rows)

    found = read_all(a_source(tmp_path, "text", schema=schema_block(rows.schema), **own))

    assert found.rows == rows.to_pylist()


def test_a_text_row_with_too_few_values_ends_in_nulls(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"1|a|x\n2\n3|c|y|more\n")
    schema = {"fields": {"id": "int", "name": "string", "tag": "string"}}

    found = read_all(a_source(tmp_path, "text", schema=schema, field_delimiter="|"))

    assert [tuple(row.values()) for row in found.rows] == [
        (1, "a", "x"),
        (2, None, None),
        (3, "c", "y"),
    ]


def test_text_refuses_a_value_that_holds_a_delimiter(tmp_path: Path) -> None:
    rows = pa.record_batch({"s": ["one|two"]})

    with pytest.raises(SinkRejected, match=r"column 's' as text.*Use csv"):
        write(a_sink(tmp_path, "text", field_delimiter="|"), rows)


def test_csv_keeps_null_and_the_empty_text_apart(tmp_path: Path) -> None:
    rows = pa.record_batch({"id": [1, 2, 3], "s": pa.array(["", None, 'a,"b"\nc'])})
    write(a_sink(tmp_path, "csv", enable_header_write=True), rows)

    assert shown_files(tmp_path)[0].read_bytes() == b'id,s\n1,""\n2,\n3,"a,""b""\nc"\n'
    schema = schema_block(rows.schema)
    assert read_all(a_source(tmp_path, "csv", schema=schema, csv_use_header_line=True)).rows == (
        rows.to_pylist()
    )


def test_csv_of_one_column_keeps_its_nulls(tmp_path: Path) -> None:
    rows = pa.record_batch({"s": pa.array(["a", None, "", None])})
    write(a_sink(tmp_path, "csv"), rows)

    assert (
        read_all(a_source(tmp_path, "csv", schema=schema_block(rows.schema))).rows
        == rows.to_pylist()
    )


def test_a_null_format_is_null_and_its_quoted_twin_is_text(tmp_path: Path) -> None:
    rows = pa.record_batch({"i": pa.array([1, None]), "s": pa.array(["NULL", None])})
    write(a_sink(tmp_path, "csv", null_format="NULL"), rows)

    schema = schema_block(rows.schema)
    found = read_all(a_source(tmp_path, "csv", schema=schema, null_format="NULL"))

    assert found.rows == rows.to_pylist()


@pytest.mark.parametrize("kind", ["text", "csv", "json", "xml"])
@pytest.mark.parametrize("encoding", ["gbk", "utf-16-le", "latin-1"])
def test_other_encodings_are_written_and_read(tmp_path: Path, kind: str, encoding: str) -> None:
    rows = pa.record_batch(
        {"id": [1, 2], "s": ["naive", "a b" if encoding == "latin-1" else "中文"]}
    )
    write(a_sink(tmp_path, kind, encoding=encoding), rows)

    own = {**READ_WITH.get(kind, {}), "encoding": encoding, "schema": schema_block(rows.schema)}
    assert read_all(a_source(tmp_path, kind, **own)).rows == rows.to_pylist()


def test_moments_are_written_and_read_by_a_pattern(tmp_path: Path) -> None:
    rows = pa.record_batch(
        {
            "t": pa.array([moment(2024, 2, 29, 1, 2, 3, 45000), None], pa.timestamp("us")),
            "x": [1, 2],
        }
    )
    own: dict[str, Any] = {
        "datetime_format": "dd.MM.yyyy HH:mm:ss.SSS",
        "date_format": "yyyy/MM/dd",
    }
    write(a_sink(tmp_path, "csv", **own), rows)

    assert shown_files(tmp_path)[0].read_text() == "29.02.2024 01:02:03.045,1\n,2\n"
    found = read_all(a_source(tmp_path, "csv", schema=schema_block(rows.schema), **own))
    assert found.rows == rows.to_pylist()


@pytest.mark.parametrize("attributes", [False, True])
def test_xml_keeps_signs_line_ends_and_nulls(tmp_path: Path, attributes: bool) -> None:
    rows = pa.record_batch({"s": pa.array(['<a href="x">&\'\r\n\t', "", None, "]]>"])})
    write(a_sink(tmp_path, "xml", xml_use_attr_format=attributes, xml_row_tag="r"), rows)

    own: dict[str, Any] = {"xml_row_tag": "r", "xml_use_attr_format": attributes}
    found = read_all(a_source(tmp_path, "xml", schema=schema_block(rows.schema), **own))

    assert found.rows == rows.to_pylist()


def test_xml_refuses_what_it_cannot_hold(tmp_path: Path) -> None:
    with pytest.raises(SinkRejected, match="control character"):
        write(a_sink(tmp_path, "xml"), pa.record_batch({"s": ["\x01"]}))
    with pytest.raises(SinkRejected, match="no name of a tag"):
        write(a_sink(tmp_path, "xml"), pa.record_batch({"a b": [1]}))


def test_a_long_excel_sheet_goes_on_in_the_next(tmp_path: Path) -> None:
    rows = numbered(25)
    write(a_sink(tmp_path, "excel", sheet_max_rows=11, sheet_name="Orders"), rows)

    schema = schema_block(rows.schema)
    found = read_all(a_source(tmp_path, "excel", schema=schema, skip_header_row_number=1))

    assert found.rows == rows.to_pylist()


def test_timestamps_that_orc_would_turn_into_others_are_refused(tmp_path: Path) -> None:
    rows = pa.record_batch({"t": pa.array([moment(1, 1, 1)], pa.timestamp("us"))})

    with pytest.raises(SinkRejected, match="1678 to 2261"):
        write(a_sink(tmp_path, "orc"), rows)


def test_parquet_writes_int96_when_asked(tmp_path: Path) -> None:
    rows = pa.record_batch({"t": pa.array([moment(2024, 1, 1)], pa.timestamp("us"))})
    write(a_sink(tmp_path, "parquet", parquet_avro_write_timestamp_as_int96=True), rows)

    file = pq.ParquetFile(shown_files(tmp_path)[0])

    assert file.schema.column(0).physical_type == "INT96"
    assert read_all(a_source(tmp_path, "parquet")).rows == rows.to_pylist()


def test_small_batches_become_one_row_group(tmp_path: Path) -> None:
    write(a_sink(tmp_path, "parquet"), [numbered(10, at) for at in range(0, 100, 10)])

    assert pq.ParquetFile(shown_files(tmp_path)[0]).metadata.num_row_groups == 1


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("canal_json", ['"type":"INSERT"', '"type":"DELETE"']),
        ("maxwell_json", ['"type":"insert"', '"type":"delete"']),
        ("debezium_json", ['"op":"c"', '"op":"d"']),
    ],
)
def test_envelopes_carry_the_kind_of_each_row(tmp_path: Path, kind: str, words: list[str]) -> None:
    kinds = pa.array([0, 1, 2, 3], pa.int8())
    rows = numbered(4).append_column(KIND_COLUMN, kinds)
    write(a_sink(tmp_path, kind), rows)

    lines = shown_files(tmp_path)[0].read_text().splitlines()

    added, removed = words
    assert [added in line for line in lines] == [True, False, True, False]
    assert [removed in line for line in lines] == [False, True, False, True]
    assert '{"id":3,"name":"name 3"}' in lines[3]


def test_plain_files_are_a_log_of_rows_of_every_kind(tmp_path: Path) -> None:
    rows = numbered(4).append_column(KIND_COLUMN, pa.array([0, 1, 2, 3], pa.int8()))
    write(a_sink(tmp_path, "csv"), rows)

    assert shown_files(tmp_path)[0].read_text().count("\n") == 4


@pytest.mark.parametrize("complete", [False, True])
def test_binary_files_are_copied_as_they_are(tmp_path: Path, complete: bool) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    (source / "deep").mkdir(parents=True)
    contents = {"a.bin": bytes(range(256)) * 40, "deep/b.bin": b"", "deep/c": b"x" * 2048}
    for name, data in contents.items():
        (source / name).write_bytes(data)

    found = read_all(a_source(source, "binary", binary_complete_file_mode=complete))
    write(a_sink(target, "binary"), found.batches)

    assert {str(p.relative_to(target)): p.read_bytes() for p in shown_files(target)} == contents


def test_binary_refuses_a_path_that_leads_out_of_the_target(tmp_path: Path) -> None:
    rows = pa.record_batch(
        {"data": [b"x"], "relativePath": ["../evil"], "partIndex": pa.array([0], pa.int64())}
    )

    with pytest.raises(SinkRejected, match="out of the target"):
        write(a_sink(tmp_path, "binary"), rows)


def _archive(kind: str, files: dict[str, bytes]) -> bytes:
    held = io.BytesIO()
    if kind == "gz":
        return gzip.compress(next(iter(files.values())))
    if kind == "zip":
        with zipfile.ZipFile(held, "w") as archive:
            for name, data in files.items():
                archive.writestr(name, data)
        return held.getvalue()
    with tarfile.open(fileobj=held, mode="w:gz" if kind == "tar_gz" else "w") as tar:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return held.getvalue()


@pytest.mark.parametrize("archive", ["zip", "tar", "tar_gz", "gz"])
@pytest.mark.parametrize("kind", ["csv", "text", "json", "xml", "excel"])
def test_archives_of_files_are_read(tmp_path: Path, kind: str, archive: str) -> None:
    rows = numbered(3)
    write(a_sink(tmp_path / "plain", kind), rows)
    data = shown_files(tmp_path / "plain")[0].read_bytes()
    (tmp_path / "packed").mkdir()
    (tmp_path / "packed" / "x").write_bytes(_archive(archive, {"a/one": data, "two": data}))

    own = {**READ_WITH.get(kind, {}), "schema": schema_block(rows.schema)}
    found = read_all(a_source(tmp_path / "packed", kind, archive_compress_codec=archive, **own))

    assert found.rows == rows.to_pylist() * (1 if archive == "gz" else 2)


BROKEN = {
    "parquet": b"PAR1 no",
    "orc": b"ORC no",
    "json": b'{"id":',
    "csv": b"1,2,3\n",
    "text": b"x\x01y\n",
    "xml": b"<RECORDS><RECORD>",
    "excel": b"PK no",
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_file_is_named_in_one_message(tmp_path: Path, kind: str) -> None:
    (tmp_path / "broken").write_bytes(BROKEN[kind])
    schema = {"fields": {"id": "int", "name": "string"}}

    with pytest.raises(FileBroken, match=r"Cannot read .*/broken.*file_filter_pattern"):
        read_all(a_source(tmp_path, kind, schema=schema, **READ_WITH.get(kind, {})))


def test_a_cut_gzip_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"1,a\n" * 10_000)[:-20])

    with pytest.raises(FileBroken, match=r"a\.csv\.gz"):
        read_all(a_source(tmp_path, "csv", schema={"fields": {"id": "int", "s": "string"}}))


def test_a_gzip_of_several_members_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"1,a\n") + gzip.compress(b"2,b\n"))

    found = read_all(a_source(tmp_path, "csv", schema={"fields": {"id": "int", "s": "string"}}))

    assert [row["id"] for row in found.rows] == [1, 2]


@given(st.lists(st.none() | st.binary(max_size=20), max_size=40), st.integers(0, 5))
def test_base64_of_a_column_is_what_it_is_of_each_value(
    values: list[bytes | None], cut: int
) -> None:
    import base64

    column = pa.array(values, pa.binary()).slice(cut)

    text = encode_base64(column)

    own = values[cut:]
    assert text.to_pylist() == [None if v is None else base64.b64encode(v).decode() for v in own]
    assert decode_base64(text).equals(column)


@given(
    st.lists(st.text("ab\r", max_size=6), max_size=12),
    st.sampled_from(["\n", "<>", "\r\n"]),
    st.lists(st.integers(1, 60), max_size=4),
    st.booleans(),
    st.integers(1, 9),
)
@settings(max_examples=300)
def test_pieces_of_a_text_file_meet_at_line_borders(
    lines: list[str], end: str, cuts: list[int], ended: bool, step: int
) -> None:
    data = end.join(lines).encode() + (end.encode() if ended and lines else b"")
    borders = sorted({0, *(cut for cut in cuts if cut < len(data))})
    untils: list[int | None] = [*borders[1:], None]

    found = b""
    for start, until in zip(borders, untils, strict=True):
        piece = LineBytes(io.BytesIO(data), Piece("", start, until), end.encode())
        while part := piece.read(step):
            found += part

    assert found == data


texts = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@pytest.mark.parametrize("kind", ["csv", "json"])
@given(rows=st.lists(st.tuples(texts, st.none() | st.integers(-(2**63), 2**63 - 1)), max_size=30))
@settings(max_examples=60, deadline=None)
def test_any_text_and_number_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, kind: str, rows: list[tuple[str | None, int | None]]
) -> None:
    folder = tmp_path_factory.mktemp("any")
    batch = pa.record_batch(
        {
            "s": pa.array([s for s, _ in rows], pa.string()),
            "i": pa.array([i for _, i in rows], pa.int64()),
        }
    )
    write(a_sink(folder, kind), batch)

    found = read_all(a_source(folder, kind, schema=schema_block(batch.schema)))

    assert found.rows == batch.to_pylist()


def test_only_what_repeats_gets_a_dictionary(tmp_path: Path) -> None:
    rows = pa.table(
        {
            "id": pa.array(range(60_000), pa.int64()),
            "city": pa.array([f"city {n % 300}" for n in range(60_000)]),
            "code": pa.array([f"{n * 7919 % 100_003:x}" for n in range(60_000)]),
        }
    )

    assert columnar.repeating_columns(rows) == ["city"]
    assert columnar.repeating_columns(rows.slice(0, 1_000)) is True
