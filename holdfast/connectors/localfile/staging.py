"""Staged files on their way to being seen: found again, published, discarded, taken back.

    <staging>/<key>/<lineage>/<attempt>/<epoch>/<task>-<id>/0 1 2 … manifest.json
    <target>/.holdfast/<key>/published/<lineage>/<epoch>      the newest epoch that is published whole

A token names folders only, so that it stays small; a folder's manifest, written last, names where each file goes.
Publishing is a rename of each file. Whoever finds a file no longer staged knows that it was renamed before, since
nothing that a checkpoint names is ever discarded; whoever finds a folder gone asks the mark. So it may be done
twice, by two at once, much later, and after any part of it was done. What later epochs published is found by the
names of the files, which carry the epoch and the attempt also where the job file words them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.connectors.base import (
    Claim,
    StageScope,
    Token,
    token_attempt,
    token_epoch,
    token_lineage,
    token_parts,
)
from holdfast.connectors.localfile.naming import key_of, parse_name, plain_lineage
from holdfast.connectors.localfile.options import SinkOptions, fixed_part, plain_path
from holdfast.connectors.localfile.storage import OWN_FOLDER, FileNotThere, Storage
from holdfast.model.errors import Terminal
from holdfast.model.json import Json, JsonObject

MANIFEST = "manifest.json"
_MARKS = "published"
_WAITING = "waiting"


class StagedRowsGone(Terminal):
    """A checkpoint names staged files that are not there and were not published."""

    code = "staged-rows-gone"


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A file and the place it is for."""

    name: str
    target: str
    rows: int


@dataclass(frozen=True, slots=True)
class Staging:
    """The folders of one sink of one job."""

    storage: Storage
    root: str
    home: str
    target: str
    key: str

    def folder(self, scope: StageScope, transaction: str) -> str:
        """For one try of one task; never used twice."""
        name = f"{scope.task}-{transaction.rsplit('_', 1)[-1]}"
        return f"{self._of(scope.lineage)}/{scope.attempt}/{scope.epoch}/{name}"

    def _of(self, lineage: str) -> str:
        return f"{self.root}/{plain_lineage(lineage)}"

    def seal(self, folder: str, task: int, files: list[StagedFile]) -> JsonObject:
        """All of a task's files are on disk: say so, and what goes into the token."""
        self.storage.sync(folder)
        listed: Json = [[file.name, file.target, file.rows] for file in files]
        self.storage.write(f"{folder}/{MANIFEST}", json.dumps({"files": listed}).encode())
        return {
            "folder": folder.rsplit("/", 1)[-1],
            "files": len(files),
            "rows": sum(file.rows for file in files),
        }

    def publish(self, token: Token) -> None:
        attempt, epoch, lineage = token_attempt(token), token_epoch(token), token_lineage(token)
        under = f"{self._of(lineage)}/{attempt}/{epoch}"
        targets: set[str] = set()
        for part in token_parts(token):
            folder = f"{under}/{part['folder']}"
            files = self._files_in(folder)
            if files is None:
                if not self._is_published(lineage, epoch):
                    raise StagedRowsGone(
                        f"Cannot publish epoch {epoch}: its staged files in {folder} are gone and"
                        " were not published. Restore from an older checkpoint, and keep tmp_path"
                        " where nothing cleans it."
                    )
                continue
            for file in files:
                self.storage.move(f"{folder}/{file.name}", file.target, f"{self.home}/{_WAITING}")
                targets.add(os.path.dirname(file.target))
        for target in sorted(targets):
            self.storage.sync(target)
        self._mark(lineage, epoch)
        self.storage.remove(under)

    def discard(self, claim: Claim) -> None:
        """What attempts older than the claim's staged, but for the tip's token. Other lineages are left alone."""
        own, keep = self._of(claim.lineage), claim.keep
        kept = None
        if keep is not None and token_lineage(keep) == claim.lineage:
            kept = (token_attempt(keep), token_epoch(keep))
        for attempt in _numbers(self.storage.children(own)):
            if attempt >= claim.attempt:
                continue
            for epoch in _numbers(self.storage.children(f"{own}/{attempt}")):
                if (attempt, epoch) != kept:
                    self.storage.remove(f"{own}/{attempt}/{epoch}")
            if not self.storage.children(f"{own}/{attempt}"):
                self.storage.remove(f"{own}/{attempt}")

    def rewind(self, claim: Claim, epoch: int) -> None:
        """Staged files go first: an older attempt that is still publishing can then add nothing more."""
        self.discard(claim)
        folders: set[str] = set()
        for path in self.storage.find_files(self.target):
            found = parse_name(os.path.basename(path), self.key, claim.lineage)
            if found and found.epoch > epoch and found.attempt < claim.attempt:
                self.storage.remove(path)
                folders.add(os.path.dirname(path))
        for folder in sorted(folders):
            self.storage.sync(folder)

    def _files_in(self, folder: str) -> list[StagedFile] | None:
        try:
            found = json.loads(self.storage.read(f"{folder}/{MANIFEST}"))
        except FileNotThere:
            return None
        return [StagedFile(*file) for file in found["files"]]

    def _is_published(self, lineage: str, epoch: int) -> bool:
        marks = self.storage.children(self._marks_of(lineage))
        return any(number >= epoch for number in _numbers(marks))

    def _mark(self, lineage: str, epoch: int) -> None:
        """One mark stays: a later epoch is only ever published behind this one."""
        marks = self._marks_of(lineage)
        self.storage.write(f"{marks}/{epoch}", b"")
        for number in _numbers(self.storage.children(marks)):
            if number < epoch:
                self.storage.remove(f"{marks}/{number}")

    def _marks_of(self, lineage: str) -> str:
        return f"{self.home}/{_MARKS}/{plain_lineage(lineage)}"


def staging_for(storage: Storage, options: SinkOptions, job_id: str, location: str) -> Staging:
    """By default in the target itself, so that publishing never crosses file systems."""
    key = key_of(job_id, location)
    target = plain_path(fixed_part(options.path))
    home = f"{target}/{OWN_FOLDER}/{key}"
    root = f"{plain_path(options.tmp_path)}/{key}" if options.tmp_path else home
    return Staging(storage, root, home, target, key)


def _numbers(names: list[str]) -> Iterator[int]:
    return (int(name) for name in names if name.isdigit())
