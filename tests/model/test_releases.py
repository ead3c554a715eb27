"""Options that one release has and another lacks."""

from __future__ import annotations

from holdfast.model.releases import with_known_options


def old(value: str) -> str:
    return value


def new(value: str, *, zone: str = "none") -> str:
    return f"{value} in {zone}"


def test_a_function_is_given_only_what_it_knows() -> None:
    assert with_known_options(old, zone="UTC")("noon") == "noon"
    assert with_known_options(new, zone="UTC")("noon") == "noon in UTC"
