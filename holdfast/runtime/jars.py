"""Jars that a job names in `jars` of env: JDBC drivers, mostly. What other schemes than files name, Spark finds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from holdfast.model.errors import ConfigError


class JarMissing(ConfigError):
    """`jars` names a file that is not there."""

    code = "jar-missing"


def missing_jars(jars: Sequence[str]) -> list[str]:
    """Those of this machine's files that are not there."""
    return [jar for jar in jars if is_local(jar) and not Path(path_of(jar)).is_file()]


def expect_jars(jars: Sequence[str]) -> None:
    for jar in missing_jars(jars):
        raise JarMissing(
            f"Cannot put jar {jar} on Spark's class path: there is no such file on this machine."
            " Correct `jars` in env, or put the file there."
        )


def is_local(jar: str) -> bool:
    """Whether it is a file of this machine."""
    return "://" not in jar or jar.startswith("file://")


def path_of(jar: str) -> str:
    return jar.removeprefix("file://").removeprefix("file:")
