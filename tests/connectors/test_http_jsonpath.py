"""The part of JSONPath that is understood."""

from __future__ import annotations

import pytest

from holdfast.connectors.http.jsonpath import find_all, parse_path, split_rows
from holdfast.model.json import Json

DOCUMENT: Json = {"a": {"b": [{"c": 1}, {"c": 2, "d e": 3}]}, "x": None}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("$", [DOCUMENT]),
        ("$.a.b[0].c", [1]),
        ("$.a.b[-1].c", [2]),
        ("$.a.b[*].c", [1, 2]),
        ("$.a.b.*.c", [1, 2]),
        ("$['a'][\"b\"][1]['d e']", [3]),
        ("$..c", [1, 2]),
        ("$.x", [None]),
        ("$.none.c", []),
        ("$.a.b[9]", []),
        ("$.a[0]", []),
    ],
)
def test_a_path_gives_all_values_that_stand_there(path: str, found: list[Json]) -> None:
    assert find_all(DOCUMENT, parse_path(path)) == found


@pytest.mark.parametrize("path", ["", "a.b", "$.a[", "$.a[?(@.b)]", "$a", "$.a[1:2]"])
def test_what_is_not_understood_is_said(path: str) -> None:
    with pytest.raises(ValueError, match=r"\$|JSONPath"):
        parse_path(path)


def test_paths_share_their_rows_up_to_the_last_common_wildcard() -> None:
    paths = [parse_path("$.r[*].a"), parse_path("$.r[*].b[*].c")]

    shared, rests = split_rows(paths)

    assert shared == parse_path("$.r[*]")
    assert rests == [parse_path("$.a"), parse_path("$.b[*].c")]
    assert split_rows([parse_path("$.a"), parse_path("$.b")])[0] == ()
