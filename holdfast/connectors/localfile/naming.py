"""Names of published files: each carries its job, sink, epoch and attempt, so that they are found again."""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime

from holdfast.connectors.base import StageScope
from holdfast.connectors.localfile.formats.java_patterns import parse_pattern
from holdfast.connectors.localfile.formats.registry import CODEC_ENDINGS, ENDINGS
from holdfast.connectors.localfile.options import CODECS, SinkOptions
from holdfast.connectors.placeholders import fill
from holdfast.model.schema import Table

_ID = "${transactionId}"
_JOB_LENGTH_MAX = 40


def key_of(job_id: str, location: str) -> str:
    """Tells the files of one sink of one job from all others, in a few letters that no name breaks."""
    plain = re.sub(r"[^A-Za-z0-9.-]", "-", job_id)[:_JOB_LENGTH_MAX].lstrip(".")
    digest = hashlib.sha256(f"{job_id}\0{location}".encode()).hexdigest()[:8]
    return f"{plain}_{digest}"


def transaction_id(scope: StageScope) -> str:
    """Of one try of one task."""
    key = f"{key_of(scope.job_id, scope.location)}_{plain_lineage(scope.lineage)}"
    return f"T_{key}_{scope.epoch}_{scope.attempt}_{scope.task}_{secrets.token_hex(4)}"


def plain_lineage(lineage: str) -> str:
    """As a part of names."""
    return re.sub(r"[^A-Za-z0-9]", "", lineage) or "0"


@dataclass(frozen=True, slots=True)
class Published:
    """What a file's name says."""

    epoch: int
    attempt: int


def parse_name(name: str, key: str, lineage: str) -> Published | None:
    """None for names that are not of this sink and lineage."""
    own = f"{re.escape(key)}_{plain_lineage(lineage)}"
    found = re.search(rf"T_{own}_(\d+)_(\d+)_\d+_[0-9a-f]{{8}}", name)
    return Published(int(found.group(1)), int(found.group(2))) if found else None


def ending_of(options: SinkOptions) -> str:
    """The format's, and the compression's behind it where it lies around the file."""
    if options.filename_extension is not None:
        return f".{options.filename_extension.lstrip('.')}"
    kind = options.file_format_type
    around = "" if kind in CODECS else CODEC_ENDINGS.get(options.compress_codec or "", "")
    return ENDINGS[kind] + around


def file_name(
    options: SinkOptions, table: Table, transaction: str, *, index: int, now_ms: int
) -> str:
    """`index` tells the files of one try in one folder apart."""
    stem = transaction
    if options.custom_filename:
        expression = options.file_name_expression
        if _ID not in expression:
            expression = f"{_ID}_{expression}"
        letters = parse_pattern(options.filename_time_format).letters
        now = datetime.fromtimestamp(now_ms / 1000, UTC).strftime(letters)
        stem = fill(expression, table).replace(_ID, transaction).replace("${now}", now)
        stem = stem.replace("${uuid}", secrets.token_hex(16)).replace("/", "_")
    suffix = "" if options.single_file_mode and not index else f"_{index}"
    return f"{stem}{suffix}{ending_of(options)}"
