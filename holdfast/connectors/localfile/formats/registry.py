"""Which module reads and writes which format."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from holdfast.connectors.localfile.formats import columnar, delimited, json_lines
from holdfast.connectors.localfile.formats.binary_files import read_binary
from holdfast.connectors.localfile.formats.contract import (
    ByteStream,
    FileWriter,
    Piece,
    ReadSpec,
    WriteSpec,
)
from holdfast.connectors.localfile.formats.excel_files import ExcelWriter, read_excel
from holdfast.connectors.localfile.formats.kept_errors import KeptErrors
from holdfast.connectors.localfile.formats.xml_files import read_xml, write_xml

Reader = Callable[[ByteStream, Piece, ReadSpec], Iterator[pa.RecordBatch | pa.Table]]
READERS: dict[str, Reader] = {
    "text": delimited.read_text,
    "csv": delimited.read_csv,
    "json": json_lines.read_json,
    "parquet": columnar.read_parquet,
    "orc": columnar.read_orc,
    "xml": read_xml,
    "excel": read_excel,
    "binary": read_binary,
}
WRITERS: dict[str, Callable[[KeptErrors, WriteSpec], FileWriter]] = {
    "text": delimited.write_delimited,
    "csv": delimited.write_delimited,
    "json": json_lines.write_json,
    "parquet": columnar.ParquetWriter,
    "orc": columnar.OrcWriter,
    "xml": write_xml,
    "excel": ExcelWriter,
    "canal_json": json_lines.write_envelopes,
    "debezium_json": json_lines.write_envelopes,
    "maxwell_json": json_lines.write_envelopes,
}
EXTENTS: dict[str, Callable[[Any], list[columnar.Extent]]] = {
    "parquet": columnar.parquet_extents,
    "orc": columnar.orc_extents,
}
ENDINGS = {
    "text": ".txt",
    "csv": ".csv",
    "json": ".json",
    "parquet": ".parquet",
    "orc": ".orc",
    "xml": ".xml",
    "excel": ".xlsx",
    "binary": "",
    "canal_json": ".json",
    "debezium_json": ".json",
    "maxwell_json": ".json",
}
CODEC_ENDINGS = {"gzip": ".gz", "zstd": ".zst", "lz4": ".lz4", "bz2": ".bz2", "brotli": ".br"}
