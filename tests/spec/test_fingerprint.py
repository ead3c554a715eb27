"""Which vertex of a changed job goes on from which place, and which changes stand in the way."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.model.json import JsonObject
from holdfast.spec.fingerprint import (
    Comparison,
    compare_fingerprints,
    match_pipelines,
    pipeline_fingerprint,
)
from tests.spec.a_catalog import spec_of


def of(text: str) -> JsonObject:
    (pipeline,) = spec_of(text).pipelines
    return pipeline_fingerprint(pipeline)


def jdbc(table: str, *, output: str = "", more: str = "") -> str:
    name = f", plugin_output = {output}" if output else ""
    return f'Jdbc {{ url = "jdbc:x", table = {table}{name} {more} }}\n'


def job(*sources: str, transform: str = "select 1", sink: str = "Console {}") -> str:
    return (
        f'source {{ {"".join(sources)} }}\ntransform {{ Sql {{ plugin_input = [a, b], query = "{transform}" }} }}\n'
        f"sink {{ {sink} }}"
    )


A, B = jdbc("orders", output="a"), jdbc("items", output="b")


def compare(before: str, after: str) -> Comparison:
    return compare_fingerprints(of(before), of(after))


def test_the_same_job_matches_in_everything() -> None:
    found = compare(job(A, B), job(A, B))

    assert found == Comparison(
        matches={
            at: at for at in ("source-0-jdbc", "source-1-jdbc", "transform-0-sql", "sink-0-console")
        }
    )


def test_sources_that_changed_places_in_the_file_keep_theirs() -> None:
    found = compare(job(A, B), job(B, A))

    assert found.matches["source-0-jdbc"] == "source-1-jdbc"
    assert found.matches["source-1-jdbc"] == "source-0-jdbc"
    assert (found.incompatible, found.added, found.gone) == ((), (), ())


def test_sources_that_read_the_same_are_told_apart_by_their_names() -> None:
    a, b = jdbc("orders", output="a"), jdbc("orders", output="b")

    found = compare(job(a, b), job(b, a))

    assert found.matches["source-0-jdbc"] == "source-1-jdbc"
    assert found.matches["source-1-jdbc"] == "source-0-jdbc"


def test_sources_without_names_are_found_by_what_they_read() -> None:
    plain = "source { %s }\nsink { Console {} }"
    before = of(plain % jdbc("orders"))
    after: Any = of(plain % jdbc("orders"))
    after["vertices"]["source-3-jdbc"] = after["vertices"].pop("source-0-jdbc")
    after["vertices"]["source-0-jdbc"] = {**after["vertices"]["source-3-jdbc"], "identity": {}}

    found = compare_fingerprints(before, after)

    assert found.matches["source-3-jdbc"] == "source-0-jdbc"
    assert found.added == ("source-0-jdbc",)


def test_a_source_that_is_gone_is_incompatible() -> None:
    found = compare(
        job(A, B, jdbc("old", output="c") + "").replace("[a, b]", "[a, b, c]"), job(A, B)
    )

    assert found.gone == ("source-2-jdbc",)
    assert found.incompatible == (
        "source-2-jdbc: the checkpoint has its position and the job has it no more",
    )


def test_a_new_source_starts_fresh_and_is_named() -> None:
    after = job(A, B, jdbc("new", output="c")).replace("[a, b]", "[a, b, c]")

    found = compare(job(A, B), after)

    assert found.added == ("source-2-jdbc",)
    assert found.incompatible == ()
    assert "source-2-jdbc: is new and starts fresh" in found.notes


def test_another_table_under_the_same_name_is_incompatible_and_says_what_changed() -> None:
    found = compare(job(A, B), job(jdbc("orders2", output="a"), B))

    assert found.incompatible == ('source-0-jdbc: \'table\' was "orders" and is "orders2"',)
    assert found.changed_sources == ("source-0-jdbc",)
    assert found.matches["source-0-jdbc"] == "source-0-jdbc"


def test_another_kind_under_the_same_name_is_incompatible() -> None:
    found = compare(job(A, B), job("FakeSource { plugin_output = a }\n", B))

    assert found.incompatible == ("source-0-fakesource: was Jdbc and is FakeSource",)
    assert found.changed_sources == ("source-0-fakesource",)


def test_a_new_password_is_no_change() -> None:
    with_old = job(A, B).replace("jdbc:x", "jdbc:x://u:old@h?password=old")
    with_new = job(A, B).replace("jdbc:x", "jdbc:x://u:new@h?password=new")

    assert compare(with_old, with_new).changed == {}
    assert "old" not in json.dumps(of(with_old))


def test_an_option_that_says_what_holds_anyway_is_no_change() -> None:
    found = compare(
        "source { FakeSource {} }\nsink { Console {} }",
        "source { FakeSource { row.num = 5 } }\nsink { Console { log.print.data = true } }",
    )

    assert (found.changed, found.notes) == ({}, ())


def test_a_changed_transform_is_a_note() -> None:
    found = compare(job(A, B), job(A, B, transform="select 2"))

    assert found.incompatible == ()
    assert found.notes == ("transform-0-sql: its other options were changed",)


def test_a_changed_sink_is_a_note() -> None:
    found = compare(job(A, B), job(A, B, sink="LocalFile { path = x }"))

    assert found.incompatible == ()
    assert found.notes == ("sink-0-localfile: is new", "sink-0-console: the job has it no more")


def test_a_sink_that_writes_elsewhere_is_another_sink() -> None:
    before = job(A, B, sink="LocalFile { path = x }")

    found = compare(before, before.replace("path = x", "path = y"))

    assert "sink-0-localfile" not in found.matches
    assert (found.added, found.gone) == (("sink-0-localfile",), ("sink-0-localfile",))
    assert found.incompatible == ()
    assert found.notes == (
        'sink-0-localfile: \'path\' was "x" and is "y"; it begins as a new sink',
    )


def test_sinks_that_changed_places_keep_their_tokens() -> None:
    x, y = "LocalFile { path = x }", "LocalFile { path = y }"

    found = compare(job(A, B, sink=f"{x} {y}"), job(A, B, sink=f"{y} {x}"))

    assert found.matches["sink-0-localfile"] == "sink-1-localfile"
    assert found.matches["sink-1-localfile"] == "sink-0-localfile"


def test_an_option_of_a_source_that_means_nothing_to_its_position_is_a_note() -> None:
    found = compare(job(A, B), job(jdbc("orders", output="a", more=", query = q"), B))

    assert found.incompatible == ()
    assert found.notes == ("source-0-jdbc: its other options were changed",)


def test_vertices_that_moved_with_their_inputs_are_not_changed() -> None:
    found = compare(job(A, B), job(B, A))

    assert "transform-0-sql" not in found.changed


def test_a_vertex_that_reads_from_elsewhere_is_a_note() -> None:
    found = compare(job(A, B), job(A, B).replace("[a, b]", "[a, c]").replace("= b ", "= c "))
    other = compare(
        job(A, B) + "", job(A, B).replace("Console {}", "Console { plugin_input = [a, b] }")
    )

    assert found.changed == {}
    assert other.gone == ("transform-0-sql",)
    assert other.changed["sink-0-console"].startswith("its inputs were transform-0-sql")


@settings(max_examples=24, deadline=None)
@given(st.permutations([0, 1, 2, 3]))
def test_whatever_the_order_each_source_finds_its_own(order: list[int]) -> None:
    tables = [jdbc(f"t{n}", output=f"o{n}") for n in range(4)]
    taken = "sink { Console { plugin_input = [o0, o1, o2, o3] } }"

    found = compare_fingerprints(
        of(f"source {{ {''.join(tables)} }}\n{taken}"),
        of(f"source {{ {''.join(tables[n] for n in order)} }}\n{taken}"),
    )

    assert {at: found.matches[at] for at in found.matches if at.startswith("source")} == {
        f"source-{now}-jdbc": f"source-{before}-jdbc" for now, before in enumerate(order)
    }
    assert found.incompatible == ()


def test_pipelines_are_found_again_when_another_was_put_before_them() -> None:
    def fingerprints(text: str) -> dict[int, JsonObject]:
        return {p.id: pipeline_fingerprint(p) for p in spec_of(text).pipelines}

    sink = "Console { plugin_input = %s }\n"
    before = f"source {{ {A} {B} }}\nsink {{ {sink % 'a'} {sink % 'b'} }}"
    new = jdbc("new", output="n")
    other = A.replace("}", ", query = q }")
    after = f"source {{ {new} {other} {B} }}\nsink {{ {sink % 'a'} {sink % 'b'} {sink % 'n'} }}"

    assert match_pipelines(fingerprints(before), fingerprints(after)) == {2: 1, 3: 2}
    assert match_pipelines(fingerprints(before), fingerprints(before)) == {1: 1, 2: 2}


def test_what_a_later_release_stored_is_compared_as_far_as_it_is_known() -> None:
    found = compare_fingerprints({"format": 2, "something": []}, of(job(A, B)))

    assert "source-0-jdbc" in found.added
    assert found.incompatible == ()
