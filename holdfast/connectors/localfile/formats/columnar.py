"""parquet and orc: columns, types and compression lie in the file; pieces are row groups and stripes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.connectors.localfile.formats.contract import (
    ROWS_PER_BATCH_MAX,
    ByteStream,
    Piece,
    ReadSpec,
    WriteSpec,
)
from holdfast.connectors.localfile.formats.kept_errors import KeptErrors
from holdfast.connectors.localfile.formats.text_values import TextFormats, from_text, to_text
from holdfast.model.errors import SinkRejected

ISO = TextFormats()
ROW_GROUP_ROWS_MAX = 1_000_000
SAMPLED_ROWS = 4_096
DISTINCT_SHARE_MAX = 0.95
_FIRST_NS = -(2**63) // 1000
_LAST_NS = (2**63 - 1) // 1000
Extent = tuple[int, int]
"""Bytes and rows of a row group or stripe."""


def parquet_extents(stream: ByteStream) -> list[Extent]:
    import pyarrow.parquet as pq

    meta = pq.ParquetFile(stream).metadata
    groups = [meta.row_group(at) for at in range(meta.num_row_groups)]
    return [(group.total_byte_size, group.num_rows) for group in groups]


def orc_extents(stream: ByteStream) -> list[Extent]:
    """orc's reader tells rows and bytes of the file alone: stripes are taken as alike."""
    from pyarrow import orc

    file = orc.ORCFile(stream)
    count = max(1, file.nstripes)
    return [(file.content_length // count, file.nrows // count)] * file.nstripes


def parquet_schema(stream: ByteStream) -> pa.Schema:
    import pyarrow.parquet as pq

    return flowing_schema(pq.ParquetFile(stream).schema_arrow)


def orc_schema(stream: ByteStream) -> pa.Schema:
    from pyarrow import orc

    return flowing_schema(orc.ORCFile(stream).schema)


def read_parquet(stream: ByteStream, piece: Piece, spec: ReadSpec) -> Iterator[pa.RecordBatch]:
    """Only the wanted columns are read; a column that a file lacks is null."""
    import pyarrow.parquet as pq

    file = pq.ParquetFile(stream, pre_buffer=False)
    there = [name for name in spec.wanted if name in file.schema_arrow.names]
    until = file.num_row_groups if piece.until is None else piece.until
    batches = file.iter_batches(
        batch_size=ROWS_PER_BATCH_MAX, row_groups=list(range(piece.start, until)), columns=there
    )
    for batch in batches:
        yield _conform(batch, spec)


def read_orc(stream: ByteStream, piece: Piece, spec: ReadSpec) -> Iterator[pa.RecordBatch]:
    from pyarrow import orc

    file = orc.ORCFile(stream)
    there = [name for name in spec.wanted if name in file.schema.names]
    until = file.nstripes if piece.until is None else piece.until
    for stripe in range(piece.start, until):
        yield _conform(file.read_stripe(stripe, columns=there), spec)


def _conform(batch: pa.RecordBatch, spec: ReadSpec) -> pa.RecordBatch:
    columns = []
    for field in spec.wanted_schema:
        at = batch.schema.get_field_index(field.name)
        if at < 0:
            columns.append(pa.nulls(batch.num_rows, field.type))
        else:
            columns.append(_cast(batch.column(at), field))
    return pa.record_batch(columns, schema=spec.wanted_schema)


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    if column.type == field.type:
        return column
    try:
        if pa.types.is_time(field.type) and pa.types.is_string(column.type):
            return from_text(column, field.type, ISO)
        if pa.types.is_null(field.type):
            return pa.nulls(len(column))
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        safe = not (pa.types.is_timestamp(column.type) and pa.types.is_timestamp(field.type))
        return pc.cast(column, field.type, safe=safe)
    except (pa.ArrowException, ValueError) as error:
        raise ValueError(
            f"column '{field.name}' is {column.type} in the file and {field.type} in the table:"
            f" {str(error).splitlines()[0]}"
        ) from error


def flowing_schema(found: pa.Schema) -> pa.Schema:
    """The types of a file as they flow through a pipeline."""
    return pa.schema([pa.field(f.name, _flowing_type(f.type)) for f in found])


def _flowing_type(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(type_):
        return _flowing_type(type_.value_type)
    if pa.types.is_map(type_):
        return pa.map_(_flowing_type(type_.key_type), _flowing_type(type_.item_type))
    if (
        pa.types.is_list(type_)
        or pa.types.is_large_list(type_)
        or pa.types.is_fixed_size_list(type_)
    ):
        return pa.list_(_flowing_type(type_.value_type))
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(f.name, _flowing_type(f.type)) for f in type_])
    if pa.types.is_timestamp(type_):
        return pa.timestamp("us", "UTC" if type_.tz else None)
    if pa.types.is_decimal(type_):
        return pa.decimal128(min(type_.precision, 38), type_.scale)
    for fits, flowing in _FLOWING:
        if fits(type_):
            return flowing
    return type_


_FLOWING: tuple[tuple[Any, pa.DataType], ...] = (
    (pa.types.is_large_string, pa.string()),
    (pa.types.is_string_view, pa.string()),
    (pa.types.is_large_binary, pa.binary()),
    (pa.types.is_fixed_size_binary, pa.binary()),
    (pa.types.is_binary_view, pa.binary()),
    (pa.types.is_time, pa.time64("us")),
    (pa.types.is_date64, pa.date32()),
    (pa.types.is_uint8, pa.int16()),
    (pa.types.is_uint16, pa.int32()),
    (pa.types.is_uint32, pa.int64()),
    (pa.types.is_uint64, pa.decimal128(20, 0)),
    (pa.types.is_float16, pa.float32()),
    (pa.types.is_duration, pa.int64()),
)


class ParquetWriter:
    """Holds batches back until a row group is full. The first one says which columns are worth a dictionary."""

    def __init__(self, file: KeptErrors, spec: WriteSpec) -> None:
        self._file = file
        self._spec = spec
        self._int96 = spec.options.parquet_avro_write_timestamp_as_int96
        self._writer: Any = None
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = 0
        self._held_rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        if self._int96:
            _refuse_far_moments(batch, "as INT96")
        self._held.append(pa.record_batch(batch.columns, schema=self._spec.schema))
        self._held_bytes += batch.nbytes
        self._held_rows += batch.num_rows
        if self._held_bytes >= self._spec.buffer_bytes_max or self._held_rows >= ROW_GROUP_ROWS_MAX:
            self._flush()

    def close(self) -> None:
        self._flush()
        if self._writer is None:
            self._writer = self._begin(self._spec.schema.empty_table())
        self._writer.close()

    def abandon(self) -> None:
        self._held = []
        if self._writer is not None:
            self._writer.is_open = False

    def _begin(self, rows: pa.Table) -> Any:
        import pyarrow.parquet as pq

        return pq.ParquetWriter(
            self._file,
            self._spec.schema,
            compression=self._spec.options.compress_codec or "snappy",
            use_deprecated_int96_timestamps=self._int96,
            use_dictionary=repeating_columns(rows),
            **({} if self._int96 else {"coerce_timestamps": "us"}),
        )

    def _flush(self) -> None:
        if self._held:
            table = pa.Table.from_batches(self._held, self._spec.schema)
            if self._writer is None:
                self._writer = self._begin(table)
            self._writer.write_table(table, row_group_size=max(1, table.num_rows))
        self._held, self._held_bytes, self._held_rows = [], 0, 0


def repeating_columns(rows: pa.Table) -> list[str] | bool:
    """The columns whose values come again, as far as some of the rows show. For others the writer would fill a
    dictionary, only to give it up. True stands for all: where there are few rows, or columns within columns.
    """
    step = rows.num_rows // SAMPLED_ROWS
    if step == 0 or any(pa.types.is_nested(type_) for type_ in rows.schema.types):
        return True
    # Batch by batch: to take from a column in pieces, Arrow first makes it one piece.
    some = pa.Table.from_batches(
        [_every(batch, step) for batch in rows.to_batches()], rows.schema
    ).combine_chunks()
    return [
        name
        for name, column in zip(some.column_names, some.columns, strict=True)
        if pc.count_distinct(column).as_py() < some.num_rows * DISTINCT_SHARE_MAX
    ]


def _every(batch: pa.RecordBatch, step: int) -> pa.RecordBatch:
    places = np.arange(0, batch.num_rows, step)
    return batch.take(pa.Array.from_buffers(pa.int64(), len(places), [None, pa.py_buffer(places)]))


class OrcWriter:
    """orc has no times and no nulls-only columns: both are written as text."""

    def __init__(self, file: KeptErrors, spec: WriteSpec) -> None:
        from pyarrow import orc

        self._schema = pa.schema([pa.field(f.name, _orc_type(f.type)) for f in spec.schema])
        codec = spec.options.compress_codec
        compression = "uncompressed" if codec in (None, "none") else codec
        self._writer = orc.ORCWriter(file, compression=compression)
        self._written = False

    def write(self, batch: pa.RecordBatch) -> None:
        _refuse_far_moments(batch, "to orc")
        columns = [
            to_text(column, ISO).cast(field.type) if column.type != field.type else column
            for column, field in zip(batch.columns, self._schema, strict=True)
        ]
        self._writer.write(pa.table(columns, schema=self._schema))
        self._written = True

    def close(self) -> None:
        if not self._written:
            self._writer.write(self._schema.empty_table())
        self._writer.close()

    def abandon(self) -> None:
        self._writer.is_open = False


def _orc_type(type_: pa.DataType) -> pa.DataType:
    as_text = pa.types.is_time(type_) or pa.types.is_null(type_)
    return pa.string() if as_text else type_


def _refuse_far_moments(batch: pa.RecordBatch, how: str) -> None:
    """Nanoseconds in 64 bits end in the years 1677 and 2262: others would be read as something else."""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if not pa.types.is_timestamp(column.type) or column.null_count == len(column):
            continue
        bounds = pc.min_max(column.cast(pa.int64())).as_py()
        if bounds["min"] < _FIRST_NS or bounds["max"] > _LAST_NS:
            raise SinkRejected(
                f"Cannot write column '{name}' {how}: a timestamp lies outside the years 1678 to"
                " 2261, which this encoding cannot hold. Write parquet without INT96."
            )
