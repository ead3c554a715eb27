"""How declared options are read from a block, and what is said of wrong ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import pytest

from holdfast.model.json import JsonObject
from holdfast.spec.hocon import parse_hocon
from holdfast.spec.options import (
    all_options,
    declared_options,
    identity_values,
    option,
    read_options,
)


@dataclass(frozen=True)
class Inner:
    path: str = option("Where.")
    size: int = option("How big.", default=1)


@dataclass(frozen=True)
class Options:
    path: str = option("Where.", identity=True)
    rows: int = option("How many.", default=5, name="row.num", minimum=1, maximum=2147483647)
    ratio: float | None = option("How much.", default=None)
    strict: bool = option("Whether.", default=False)
    mode: Literal["FAST", "SAFE"] = option("How.", default="FAST")
    names: list[str] = option("Which.", default=[])
    props: dict[str, str] = option("More.", default={}, aliases=("properties",))
    tables: list[Inner] = option("Tables.", default=[])
    free: JsonObject = option("Anything.", default={})


@dataclass(frozen=True)
class Part:
    path: str = option("Where.")
    size: int = option("How big.", default=1)


@dataclass(frozen=True)
class Whole:
    path: str = option("Where.")
    parts: list[Part] = option("Parts of their own.", default=[])


def read(text: str) -> tuple[Options | None, list[str]]:
    options, problems = read_options(Options, parse_hocon(text).root, "source X")
    return options, [str(problem) for problem in problems]


def test_every_type_is_read() -> None:
    options, problems = read("""
        path = /x, row.num = "7", ratio = 1, strict = "TRUE", mode = safe, names = [a, 1, true]
        properties { a.b = 1.10, "c.d" = x }, tables = [{ path = p, size = 2 }]
        free { a = [1] }
    """)

    assert problems == []
    assert options == Options(
        path="/x",
        rows=7,
        ratio=1.0,
        strict=True,
        mode="SAFE",
        names=["a", "1", "true"],
        props={"a.b": "1.10", "c.d": "x"},
        tables=[Inner(path="p", size=2)],
        free={"a": [1]},
    )


def test_one_value_may_stand_for_a_list_of_one() -> None:
    options, _ = read("path = x, names = a, tables { path = p }")

    assert options is not None
    assert (options.names, options.tables) == (["a"], [Inner(path="p")])


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("row.num = 0", "option 'row.num' is 0; 1 is the least"),
        ("row.num = 9999999999", "option 'row.num' is 9999999999; 2147483647 is the most"),
        ("row.num = 1.5", "expected a whole number, found 1.5"),
        ("row.num = true", "expected a whole number, found True"),
        ("row.num = []", "expected a whole number, found a list"),
        ("strict = 1", "expected true or false, found 1"),
        ("ratio = much", "expected a number, found 'much'"),
        ("mode = SAVE", "'SAVE' is not one of FAST, SAFE. Did you mean 'SAFE'?"),
        ("path = { a = 1 }", "expected a string, found an object"),
        ("props = 3", "expected a map, found 3"),
        ("props { a = [1] }", "expected a string, found a list"),
        ("tables = [{ size = 1 }]", "option 'path' is required (string) and missing"),
        ("tables = [{ path = p, sise = 1 }]", "there is no option 'sise'. Did you mean 'size'?"),
        ("tables = [3]", "expected an object, found 3"),
        ("row { nun = 1 }", "there is no option 'row.nun'. Did you mean 'row.num'?"),
    ],
)
def test_a_wrong_value_is_a_problem_with_its_line(written: str, said: str) -> None:
    options, problems = read(f"path = p\n{written}")

    assert options is None
    assert any(p.startswith("line 2: source X: ") and said in p for p in problems), problems


def test_a_required_option_that_is_missing_is_a_problem_of_the_block() -> None:
    assert read("strict = true")[1] == [
        "line 1: source X: option 'path' is required (string) and missing"
    ]


def test_the_options_that_a_position_depends_on_are_its_identity() -> None:
    options, _ = read("path = p, row.num = 3")

    assert identity_values(options) == {"path": "p"}


def test_what_is_declared_can_be_listed() -> None:
    found: dict[str, Any] = {o.name: (o.type_name, o.required) for o in declared_options(Options)}

    assert found["path"] == ("string", True)
    assert found["row.num"] == ("int", False)
    assert found["mode"] == ("FAST | SAFE", False)
    assert found["tables"] == ("list of object", False)


def test_options_inside_objects_are_listed_behind_them_but_not_twice() -> None:
    assert [o.name for o in all_options(Whole)] == ["path", "parts", "parts.size"]
