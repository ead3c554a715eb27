"""How the blocks of a job file are wired, and what is said where they cannot be."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.model.jobs import Role
from holdfast.spec.graph import Step, Wiring, wire
from tests.spec.a_catalog import parse, said_of, spec_of


def source(name: str = "A", output: str | None = None, line: int = 1) -> Step:
    return Step(Role.SOURCE, name, f"source-{name}", line, output, None)


def transform(
    name: str = "T", inputs: tuple[str, ...] | None = None, output: str | None = None
) -> Step:
    return Step(Role.TRANSFORM, name, f"transform-{name}", 2, output, inputs, 2)


def sink(name: str = "S", inputs: tuple[str, ...] | None = None) -> Step:
    return Step(Role.SINK, name, f"sink-{name}", 3, None, inputs, 3)


def said(wiring: Wiring) -> str:
    return "\n".join(str(problem) for problem in wiring.problems)


def test_without_names_each_step_takes_the_previous_one() -> None:
    wiring = wire([source(), transform("T"), transform("U"), sink("S"), sink("R")])

    assert wiring.problems == []
    assert wiring.inputs == {
        "source-A": (),
        "transform-T": ("source-A",),
        "transform-U": ("transform-T",),
        "sink-S": ("transform-U",),
        "sink-R": ("transform-U",),
    }


def test_an_input_may_be_several_and_come_later_in_the_file() -> None:
    wiring = wire(
        [
            source("A", "a"),
            source("B", "b"),
            transform("T", ("u", "b"), "t"),
            transform("U", ("a",), "u"),
            sink("S", ("t",)),
        ]
    )

    assert wiring.problems == []
    assert wiring.pipelines == [["source-A", "source-B", "transform-U", "transform-T", "sink-S"]]


def test_several_sources_and_no_names_are_ambiguous_and_never_guessed() -> None:
    wiring = wire([source("A", "a"), source("B", "b"), sink()])

    assert "there are 2 sources and it does not say which it takes" in said(wiring)
    assert 'plugin_input = ["a", "b"]' in said(wiring)


def test_a_sink_behind_several_sources_takes_the_last_transform() -> None:
    wiring = wire([source("A", "a"), source("B", "b"), transform("T", ("a", "b")), sink()])

    assert wiring.problems == []
    assert wiring.inputs["sink-S"] == ("transform-T",)


def test_an_input_that_nobody_gives_is_told_with_the_nearest_name() -> None:
    wiring = wire([source("A", "orders"), source("B", "b"), sink("S", ("order",))])

    assert "line 3: sink S: there is no output 'order' to take. Did you mean 'orders'?" in said(
        wiring
    )


def test_a_name_that_only_the_sink_knows_means_the_step_before_in_a_simple_job() -> None:
    wiring = wire([source("A"), sink("S", ("fake",))])

    assert wiring.problems == []
    assert wiring.inputs["sink-S"] == ("source-A",)
    assert "nothing is named 'fake'" in str(wiring.notes[0])


def test_two_outputs_of_one_name_are_told_with_both_lines() -> None:
    wiring = wire([source("A", "a", line=4), source("B", "a", line=9), sink("S", ("a",))])

    assert said(wiring).startswith(
        "line 9: source B: 'plugin_output' is 'a', as that of source A in line 4"
    )


def test_a_loop_is_told_with_its_way() -> None:
    wiring = wire(
        [
            source("A", "a"),
            transform("T", ("u", "a"), "t"),
            transform("U", ("t",), "u"),
            sink("S", ("u",)),
        ]
    )

    assert "its input comes from itself: transform-T <- transform-U <- transform-T" in said(wiring)
    assert wiring.pipelines == []


def test_a_transform_that_takes_its_own_output_is_a_loop() -> None:
    assert "comes from itself" in said(wire([source(), transform("T", ("t",), "t"), sink()]))


def test_what_no_sink_takes_is_left_out_with_a_note() -> None:
    wiring = wire([source("A", "a"), source("B", "b"), sink("S", ("a",))])

    assert wiring.problems == []
    assert wiring.pipelines == [["source-A", "sink-S"]]
    assert [str(note) for note in wiring.notes] == [
        "line 1: source B: no sink takes what it gives; it is left out"
    ]


def test_a_job_needs_a_source_and_a_sink() -> None:
    assert said(wire([])) == (
        "there is no source: a job needs one at least\nthere is no sink: a job needs one at least"
    )


def test_an_empty_list_of_inputs_is_a_problem() -> None:
    assert "line 3: sink S: 'plugin_input' names nothing" in said(wire([source(), sink("S", ())]))


def test_a_source_takes_no_input() -> None:
    taking = Step(Role.SOURCE, "A", "source-A", 1, None, ("x",), 2)

    assert "line 2: source A: a source takes no input" in said(wire([taking, sink()]))


def test_unconnected_parts_are_pipelines_in_file_order() -> None:
    spec = spec_of("""
        source { FakeSource { plugin_output = a }
                 FakeSource { plugin_output = b }
                 FakeSource { plugin_output = c } }
        sink { Console { plugin_input = c }
               Console { plugin_input = [b, a] } }
    """)

    assert [(p.id, [v.location for v in p.vertices]) for p in spec.pipelines] == [
        (1, ["source-0-fakesource", "source-1-fakesource", "sink-1-console"]),
        (2, ["source-2-fakesource", "sink-0-console"]),
    ]


def test_the_old_names_of_input_and_output_still_count() -> None:
    spec = spec_of("""
        source { FakeSource { result_table_name = a } FakeSource { result_table_name = b } }
        sink { Console { source_table_name = "a,b" } }
    """)

    assert spec.pipelines[0].vertices[-1].inputs == ("source-0-fakesource", "source-1-fakesource")


def test_an_input_that_is_no_name_is_a_problem() -> None:
    text = "source { FakeSource {} }\nsink { Console { plugin_input = { a = 1 } } }"

    assert (
        "line 2: sink Console: option 'plugin_input' must be a name or a list of names"
        in said_of(text)
    )


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["source", "transform", "sink"]),
            st.none() | st.lists(st.sampled_from("abcd"), max_size=3),
            st.none() | st.sampled_from("abcd"),
        ),
        max_size=9,
    )
)
def test_whatever_the_wiring_a_pipeline_is_connected_and_sorted(
    drawn: list[tuple[str, list[str] | None, str | None]],
) -> None:
    steps = [
        Step(Role(role), "X", f"{role}-{at}", at, output, None if read is None else tuple(read))
        for at, (role, read, output) in enumerate(drawn)
    ]
    steps.sort(key=lambda step: list(Role).index(step.role))

    wiring = wire(steps)

    if not wiring.problems:
        placed = [at for locations in wiring.pipelines for at in locations]
        assert len(placed) == len(set(placed))
        assert {s.location for s in steps if s.role is Role.SINK} <= set(placed)
        assert all(wiring.inputs[at] for at in placed if not at.startswith("source"))
        for locations in wiring.pipelines:
            for index, at in enumerate(locations):
                assert set(wiring.inputs[at]) <= set(locations[:index])


def test_notes_do_not_stop_a_job() -> None:
    parsed = parse(
        "source { FakeSource { plugin_output = a } }\nsink { Console { plugin_output = z } }"
    )

    assert parsed.spec is not None
    assert "'plugin_output' has no effect on a sink" in str(parsed.notes[0])
