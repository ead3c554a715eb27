"""Including files: what is put in where, and that every problem is told where it stands."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.spec.config import Problem
from holdfast.spec.hocon import parse_hocon
from holdfast.spec.includes import JobText, as_it_is, include_files


def _whole(text: str, **files: str) -> JobText:
    def read(including: str, path: str) -> tuple[str, str] | None:
        found = files.get(path.removesuffix(".conf"))
        return None if found is None else (path, found)

    return include_files("job.conf", text, read)


def _plain(text: str, **files: str) -> Any:
    whole = _whole(text, **files)
    assert whole.problem is None, whole.problem
    return parse_hocon(whole.text).root.plain()


@pytest.mark.parametrize(
    "text",
    [
        'include "a.conf"',
        'include file("a.conf")',
        'include required("a.conf")',
        'include required(file("a.conf"))',
        '  include "a.conf" # as it is',
        'include "a.conf", c = 3',
        '{ include "a.conf" }',
    ],
)
def test_every_form_of_include_puts_the_file_in(text: str) -> None:
    found = _plain(text, a="x = 1\ny { z = 2 }")

    assert found.items() >= {"x": 1, "y": {"z": 2}}.items()


def test_a_file_is_put_in_where_it_is_named() -> None:
    found = _plain('env { a = 1, include "e.conf"\n b = 3 }', e="a = 2\nb = 2\nc = 2 // end")

    assert found == {"env": {"a": 2, "b": 3, "c": 2}}


def test_json_and_braces_around_a_file_are_no_object_of_their_own() -> None:
    assert _plain('include "a.conf"', a='# c\n{ "x": { "y": 1 } }\n') == {"x": {"y": 1}}


def test_blocks_of_several_files_come_one_after_the_other() -> None:
    found = _plain('include "a.conf"\nsink { B { n = 2 } }', a="sink { A { n = 1 } }")

    assert [block["plugin_name"] for block in found["sink"]] == ["A", "B"]


def test_references_reach_into_included_files_and_back() -> None:
    assert _plain('y = 5\ninclude "a.conf"\nz = ${x}', a="x = ${y}") == {"y": 5, "x": 5, "z": 5}


@pytest.mark.parametrize(
    "text",
    [
        'a = "include \\"b.conf\\""',
        'a = """\ninclude "b.conf"\n"""',
        '# include "b.conf"\na = 1',
        'a = 1 // include "b.conf"',
        "include = 1",
    ],
)
def test_what_only_looks_like_an_include_is_left_alone(text: str) -> None:
    assert _whole(text).text == text
    assert _whole(text).problem is None


def test_a_file_that_is_not_there_is_noted_and_is_an_error_where_it_is_required() -> None:
    noted = _whole('a = 1\ninclude "no.conf"\nb = 2')
    refused = _whole('a = 1\ninclude required("no.conf")')

    said = "there is no file 'no.conf' to include"
    assert noted.notes == [Problem(2, f"{said}; it is left out")]
    assert parse_hocon(noted.text).root.plain() == {"a": 1, "b": 2}
    assert refused.problem == Problem(2, said)


def test_a_file_that_includes_itself_is_told() -> None:
    whole = _whole('include "a.conf"', a='x = 1\ninclude "b.conf"', b='include "a.conf"')

    assert whole.problem is not None
    assert whole.located(whole.problem) == Problem(1, "'a.conf' includes itself", "b.conf")


def test_only_files_are_included() -> None:
    problem = _whole('include url("http://x/a.conf")').problem

    assert problem == Problem(1, "only files can be included, and this is url(…)")


def test_a_brace_that_an_included_file_lacks_is_told_there() -> None:
    whole = _whole('a = 1\n\ninclude "b.conf"\nc = 2', b="x = 1\ny {\n z = 1\n")

    assert whole.problem is not None
    said = "expected '}' to close what line 2 opened, found the end of the file"
    assert whole.located(whole.problem) == Problem(4, said, "b.conf")


def test_every_line_knows_its_file() -> None:
    whole = _whole('a = 1\ninclude "b.conf"\nc = 3', b="x = 1\n\ny = 2")

    rows = dict(zip(whole.rows, whole.places, strict=True))
    assert rows["a = 1"] == ("job.conf", 1)
    assert rows["x = 1"] == ("b.conf", 1)
    assert rows["y = 2"] == ("b.conf", 3)
    assert rows["c = 3"] == ("job.conf", 3)


def test_lines_named_in_words_are_those_of_their_files() -> None:
    whole = _whole('a = 1\ninclude "b.conf"\na = 3', b="x = 1\na = 2")
    at = {text: number for number, text in enumerate(whole.rows, start=1)}

    found = whole.located(
        Problem(at["a = 3"], f"'a' is given in line {at['a = 2']} as well; this line counts")
    )

    assert found == Problem(3, "'a' is given in line 2 of b.conf as well; this line counts")


def test_a_text_that_includes_nothing_keeps_its_lines() -> None:
    whole = as_it_is("job.sql", 'SELECT 1;\ninclude "x"')

    assert whole.located(Problem(2, "no")) == Problem(2, "no")
    assert whole.text == 'SELECT 1;\ninclude "x"'
