"""A stored document is what was written, or it is named as broken."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.checkpoint.document import DocumentBroken, read_document, write_document
from holdfast.model.checkpoints import FORMAT
from holdfast.model.json import JsonObject

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
bodies = st.dictionaries(st.text(), values, max_size=4)


@given(body=bodies)
def test_any_json_is_read_as_it_was_written(body: JsonObject) -> None:
    assert read_document(write_document(body), "it") == body


def test_a_file_name_that_is_no_utf8_is_kept() -> None:
    body: JsonObject = {"file": b"caf\xe9".decode(errors="surrogateescape")}

    assert read_document(write_document(body), "it") == body


@given(body=bodies, data=st.data())
def test_a_document_cut_short_is_broken(body: JsonObject, data: st.DataObject) -> None:
    whole = write_document(body)
    size = data.draw(st.integers(0, len(whole) - 2))

    with pytest.raises(DocumentBroken, match="Cannot read it"):
        read_document(whole[:size], "it")


def test_a_changed_value_does_not_fit_the_checksum() -> None:
    changed = write_document({"at": 1}).replace(b'"at":1', b'"at":2')

    with pytest.raises(DocumentBroken, match="checksum does not fit"):
        read_document(changed, "it")


def test_a_newer_format_is_refused_by_name() -> None:
    newer = write_document({}).replace(b'"format": 1', b'"format": 99')

    with pytest.raises(DocumentBroken, match=f"format 99 and this release reads up to {FORMAT}"):
        read_document(newer, "it")


@pytest.mark.parametrize(
    "found", [b"", b"\x00" * 40, b"[]", b"3", b"{}", b'{"format":"x","sha256":"","body":{}}']
)
def test_what_is_no_document_is_broken(found: bytes) -> None:
    with pytest.raises(DocumentBroken, match="no whole document"):
        read_document(found, "it")


def test_a_body_that_is_no_object_is_broken() -> None:
    text = json.dumps({"format": 1, "sha256": "", "body": [1]})

    with pytest.raises(DocumentBroken, match="no whole document"):
        read_document(text.encode(), "it")
