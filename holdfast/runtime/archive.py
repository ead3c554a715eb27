"""A class-data archive of Spark: the JVM maps it, instead of reading and checking 14,000 classes at each start.

The first run notes the classes it loads; when it ends, a process of lowest priority makes the archive from that list.
The archive is a cache: the JVM checks it against the jars and goes on without when it does not fit.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.outside.processes import launch_detached
from holdfast.runtime.java import Java

_BUILD = """\
"$@" >"$0.log" 2>&1 && mv "$0.part" "$0"
rm -f "$0.part" "$0.log" "$0.classes"
"""


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """Where the archive for one Java and one set of jars is, or will be."""

    java: Java
    jars: tuple[Path, ...]
    path: Path

    def flags(self, scratch: Path) -> list[str]:
        """Use the archive, or note for it what is loaded."""
        if self.path.exists():
            return [f"-XX:SharedArchiveFile={self.path}", "-Xshare:auto"]
        return [f"-XX:DumpLoadedClassList={_list_in(scratch)}"]

    def build_if_missing(self, scratch: Path) -> None:
        """Start making it, unless it is there, or somebody is at it, or the folder cannot be written."""
        noted = _list_in(scratch)
        if self.path.exists() or not noted.exists():
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            lock = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        except OSError:
            return
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            kept = Path(f"{self.path}.classes")
            kept.write_bytes(noted.read_bytes())
            launch_detached(self._build_command(kept), keep_open=(lock,))
        except OSError:
            return
        finally:
            os.close(lock)

    def _build_command(self, noted: Path) -> list[str]:
        return [
            *("nice", "-n", "19", "/bin/sh", "-c", _BUILD, str(self.path)),
            str(self.java.program),
            "-Xshare:dump",
            "-Xmx1g",
            f"-XX:SharedClassListFile={noted}",
            f"-XX:SharedArchiveFile={self.path}.part",
            *("-cp", os.pathsep.join(map(str, self.jars))),
        ]


def locate_archive(java: Java, jars: Sequence[Path], folder: Path) -> ClassArchive:
    """One name for each Java and set of jars, wherever they are installed."""
    known = hashlib.sha256(f"{java.program} {java.version}".encode())
    for jar in jars:
        found = jar.stat()
        known.update(f"{jar} {found.st_size} {found.st_mtime_ns}".encode())
    return ClassArchive(java, tuple(jars), folder / f"spark-{known.hexdigest()[:16]}.jsa")


def _list_in(scratch: Path) -> Path:
    return scratch / "classes"
