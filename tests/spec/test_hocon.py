"""How the text of a job file is read."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.spec.config import ConfigObject, ConfigValue
from holdfast.spec.hocon import parse_hocon
from holdfast.spec.hocon_syntax import DEPTH_MAX, HoconError


def read(text: str, **variables: str) -> Any:
    return parse_hocon(text, variables).root.plain()


def said_of(text: str) -> str:
    with pytest.raises(HoconError) as caught:
        parse_hocon(text)
    return str(caught.value)


def error_of(text: str, **variables: str) -> HoconError | None:
    try:
        parse_hocon(text, variables)
    except HoconError as error:
        return error
    return None


def line_of(text: str, path: str) -> int:
    found = parse_hocon(text).root.find(path)
    assert found is not None
    return found.line


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a = b", "b"),
        ("a : b", "b"),
        ("a=b // why", "b"),
        ("a = b # why", "b"),
        ("a = foo  bar   # two words", "foo  bar"),
        ('a = "x # y // z"', "x # y // z"),
        ('a = "tab\\tquote\\"back\\\\ \\u00e4 \\/"', 'tab\tquote"back\\ ä /'),
        ('a = "\\ud83d\\ude00"', "😀"),
        ('a = """raw "quoted" \\n\nline"""', 'raw "quoted" \\n\nline'),
        ('a = """ends with a quote""""', 'ends with a quote"'),
        ("a = 12", 12),
        ("a = -1.5e3", -1500.0),
        ("a = 007", "007"),
        ("a = 10s", "10s"),
        ("a = 1e999", "1e999"),
        ("a = true", True),
        ("a = null", None),
        ("a = truely", "truely"),
        ("a = 2024-01-31", "2024-01-31"),
        ("a = com.mysql.cj.jdbc.Driver", "com.mysql.cj.jdbc.Driver"),
        ("a = .*", ".*"),
        ("a = []", []),
        ("a = [1, 2\n3,\n]", [1, 2, 3]),
        ("a = [1] [2]", [1, 2]),
        ("a = {}", {}),
        ("a\n{\nb = 1\n}", {"b": 1}),
        ("a {b:1,c:2}", {"b": 1, "c": 2}),
        ("a { b = 1 } \n a { c = 2 }", {"b": 1, "c": 2}),
        ("a = { b = 1 } { c = 2 }", {"b": 1, "c": 2}),
        ("a = 1\na = 2", 2),
        ("a = { b = 1 }\na = 2", 2),
        ("a = [1]\na += 2\na += { b = 3 }", [1, 2, {"b": 3}]),
        ("a += 1", [1]),
        ("\ufeffa = 1", 1),
        ("a = 1\r\nb = 2\r\n", 1),
        ('{"a": 1}', 1),
    ],
)
def test_values_are_read_as_hocon_says(text: str, value: object) -> None:
    assert read(text)["a"] == value


def test_dots_in_a_key_nest_and_quotes_keep_them_together() -> None:
    found = read('a.b.c = 1, "d.e" = 2, f."g.h".i = 3, Postgres-CDC { x = 4 }')

    assert found == {
        "a": {"b": {"c": 1}},
        "d.e": 2,
        "f": {"g.h": {"i": 3}},
        "Postgres-CDC": {"x": 4},
    }


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("x = 5, a = ${x}", 5),
        ("a = ${x}, x = 5", 5),
        ("b.c = /data, a = ${b.c}/in", "/data/in"),
        ("b.c = /data, a = ${b.c} in ${b.c}", "/data in /data"),
        ("b { c = 1 }, a = ${b} { d = 2 }", {"c": 1, "d": 2}),
        ("b = [1], a = ${b} [2]", [1, 2]),
        ("a = [1], a = ${a} [2], a = ${a} [3]", [1, 2, 3]),
        ("a { b = 1 }, a = ${a} { c = 2 }", {"b": 1, "c": 2}),
        ("b { x = 1, z = 0 }, a = ${b}, a { y = 2, z = 3 }", {"x": 1, "z": 3, "y": 2}),
        ("b = 5, a { x = 1 }, a = ${b}", 5),
        ("a = 1, a = ${?nowhere}", 1),
        ('a = "x"${?nowhere}"y"', "xy"),
        ("b { c = 1, d = ${b.c} }, a = ${b.d}", 1),
        ("b = ${c} { e = 1 }, c { f = 2 }, a = ${b.f}", 2),
        ("c { f = 2 }, b = ${c}, b { g = ${b.f} }, a = ${b.g}", 2),
        ("l = [1], l += 2, a = ${l}", [1, 2]),
    ],
)
def test_references_are_looked_up_in_the_file(text: str, value: object) -> None:
    assert read(text)["a"] == value


def test_an_optional_reference_to_nothing_leaves_no_key() -> None:
    assert read("a = ${?nowhere}, b = [${?nowhere}, 1]") == {"b": [1]}


def test_nor_a_key_before_its_dots() -> None:
    assert read("a.b.c = ${?x}, d { e = ${?x} }") == {"d": {}}


def test_a_variable_that_was_handed_in_comes_before_the_file() -> None:
    assert read("rows = 1, a = ${rows}", rows="2")["a"] == "2"


def test_what_nobody_knows_stays_as_it_was_written() -> None:
    found = read('a = ${table_name}, b = ${x:5}, c = "/tmp/"${now}/x, d = "${q}"')

    assert found == {"a": "${table_name}", "b": "${x:5}", "c": "/tmp/${now}/x", "d": "${q}"}


def test_blocks_of_one_name_are_two_blocks_in_file_order() -> None:
    found = read("""
        source { Jdbc { url = a } Http { url = b }
                 Jdbc { url = c } }
        source { Jdbc { url = d } }
        transform {}
        sink { Console {} }
    """)

    assert [(b["plugin_name"], b["url"]) for b in found["source"]] == [
        ("Jdbc", "a"),
        ("Http", "b"),
        ("Jdbc", "c"),
        ("Jdbc", "d"),
    ]
    assert found["transform"] == []
    assert found["sink"] == [{"plugin_name": "Console"}]


def test_blocks_may_be_a_list_as_json_writes_them() -> None:
    found = read('{"source": [{"plugin_name": "Jdbc", "url": "a"}], "sink": []}')

    assert found == {"source": [{"plugin_name": "Jdbc", "url": "a"}], "sink": []}


def test_a_block_may_refer_to_a_block_before_it() -> None:
    found = read("source { Jdbc { url = a } }\nsink { Jdbc { url = ${source.Jdbc.url} } }")

    assert found["sink"][0]["url"] == "a"


def test_every_value_knows_its_line() -> None:
    text = (
        'a = 1\n# why\nb {\n  c = """x\ny"""\n  d = [1,\n   2]\n}\nsource {\n\n  X { k = 1 }\n}\n'
    )

    assert line_of(text, "a") == 1
    assert line_of(text, "b") == 3
    assert line_of(text, "b.d") == 6
    blocks = parse_hocon(text).root.entries["source"].value
    assert isinstance(blocks, list)
    assert [block.line for block in blocks] == [11]


def test_a_number_keeps_how_it_was_written() -> None:
    found = parse_hocon("a = 1.10, b = 1e5").root

    assert [entry.text for entry in found.entries.values()] == ["1.10", "1e5"]


def test_a_key_given_twice_with_another_value_is_told() -> None:
    assert parse_hocon("x { a = 1\na = 2\nb = 1, b = 1 }").repeated == (("a", 1, 2),)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        (
            "a = {\nb = 1\n",
            3,
            "expected '}' to close what line 1 opened, found the end of the file",
        ),
        ("a = [1, 2\n", 2, "expected ']' to close what line 1 opened"),
        ("a = [1,,2]", 1, "between two commas"),
        ("a = 1 }", 1, "expected a comma or a new line, found '}'"),
        ("x\n\na = \n", 3, "expected '=', ':' or '{' after 'x', found 'a = '"),
        ("a = \n", 2, "expected a value, found the end of the file"),
        ("\na = jdbc:mysql://h", 2, "':' cannot stand in a value without quotes around it"),
        ("a = \\001", 1, "cannot stand in a value without quotes"),
        ('a = "x\n"', 1, "a quoted string is not closed on its line"),
        ('a = """x\n', 1, "is not closed"),
        (r'a = "\q"', 1, r"'\q' is no escape"),
        ('a = "\\ud800"', 1, "surrogate"),
        ("a = ${b", 1, "expected '}' to close '${'"),
        ("a = ${}", 1, "expected a name"),
        ("a..b = 1", 1, "nothing between two dots"),
        ("= 1", 1, "expected a key, found '= 1'"),
        ('a = 1\ninclude "b.conf"', 2, "'include' needs files"),
        ("a = x b = 2", 1, "or a comma or a new line is missing"),
        ("a = x { b = 2 }", 1, "a comma or a new line is missing"),
        ("a = ${b}\nb = ${a}", 1, "refers to itself"),
        ("a = ${a}", 1, "refers to itself"),
        ("a { b = ${a} }", 1, "refers to itself"),
        ("a = [1] x", 1, "cannot be joined"),
        ("a = 1, a += 2", 1, "'+=' needs a list"),
        ("[1]", 1, "expected blocks"),
        ("source { x = 1 }", 1, "expected a block 'x { … }' in 'source'"),
        ("a = " + "[" * (DEPTH_MAX + 1), 1, "nested deeper than"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_line(text: str, line: int, said: str) -> None:
    found = said_of(text)

    assert found.startswith(f"line {line}: ")
    assert said in found


def test_references_that_multiply_come_to_an_end() -> None:
    text = "a0 = [1, 2, 3, 4, 5, 6, 7, 8, 9]\n" + "\n".join(
        f"a{n + 1} = [${{a{n}}}, ${{a{n}}}, ${{a{n}}}, ${{a{n}}}]" for n in range(30)
    )

    assert "references make more than" in said_of(text)


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(f"a{n} = ${{a{n + 1}}}" for n in range(3000)) + "\na3000 = 1",
        "a = []\n" + "a += 1\n" * 3000,
        "a = ${?x}\n" * 3000,
        "\n".join(f"a{n} = {{ x = ${{a{n + 1}}} }}" for n in range(3000)) + "\na3000 = 1",
    ],
    ids=["a chain of references", "appending", "overriding", "objects within objects"],
)
def test_what_builds_on_itself_too_often_is_refused_and_nothing_breaks(text: str) -> None:
    assert "build on each other too many times" in said_of(text)


PIECES = st.sampled_from(
    [
        *('"', '"""', "{", "}", "[", "]", "${", "${?", "$", ":", "=", "+=", ",", "\n", " ", "#"),
        *("//", "\\", "\\u", "a", "b", "a.b", ".", "..", "1", "-", "1e9", "true", "null"),
        *("source", "sink", "env", "include ", "${a}", "${?b}", "${a.b:1}", "é", "\ud800", "\x00"),
    ]
)


@settings(deadline=None)
@given(st.lists(PIECES, max_size=40).map("".join))
def test_no_text_whatever_ends_in_anything_but_a_value_or_a_clear_error(text: str) -> None:
    error = error_of(text, b="x")

    assert error is None or re.fullmatch(r"(?s)line \d+: .+", str(error))


@settings(deadline=None)
@given(st.text(max_size=200))
def test_arbitrary_characters_do_no_harm_either(text: str) -> None:
    error = error_of(text)

    assert error is None or 1 <= error.line <= text.count("\n") + 1


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(deadline=None)
@given(JSON, st.booleans())
def test_every_json_document_is_read_as_json_reads_it(found: object, ascii_only: bool) -> None:
    text = json.dumps({"root": found}, ensure_ascii=ascii_only)

    assert read(text) == {"root": found}


@settings(deadline=None)
@given(JSON)
def test_lines_never_run_backwards_within_a_document(found: object) -> None:
    root = parse_hocon(json.dumps({"root": found}, indent=1)).root

    lines = list(_lines(root))
    assert lines == sorted(lines)


def _lines(value: ConfigObject | list[ConfigValue]) -> list[int]:
    found: list[int] = []
    for entry in value.entries.values() if isinstance(value, ConfigObject) else value:
        found.append(entry.line)
        if isinstance(entry.value, ConfigObject | list):
            found += _lines(entry.value)
    return found
