"""From where a pipeline goes on: requests, policies, and what is no place to go on from."""

import pytest

from holdfast.decide.restore import (
    Candidate,
    Found,
    Policy,
    Refuse,
    RestoreMode,
    RestoreRequest,
    StartFresh,
    TryPrevious,
    Use,
    ask_for_tip,
    decide_candidate,
    decide_without_candidate,
    derive_abandoned,
    derive_displaced,
    parse_restore,
    request_of,
)
from holdfast.model.checkpoints import Checkpoint, CheckpointKind
from holdfast.model.errors import ConfigError


def a_link(number: int, attempt: int = 1, *, abandons_after: int | None = None) -> Checkpoint:
    claims = abandons_after is not None
    return Checkpoint(
        job_id="orders",
        pipeline_id=1,
        number=number,
        attempt=attempt,
        generation=1,
        kind=CheckpointKind.CLAIM if claims else CheckpointKind.EPOCH,
        at_ms=0,
        sources={},
        sinks={},
        fingerprint={},
        abandons_after=abandons_after,
    )


WHOLE = Candidate("checkpoint 3", a_link(3))
BROKEN = Candidate("checkpoint 3", None, broken="its checksum does not fit")


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        (None, RestoreMode.AUTO),
        ("auto", RestoreMode.AUTO),
        ("latest", RestoreMode.LATEST),
        ("savepoint", RestoreMode.SAVEPOINT),
        (" none ", RestoreMode.NONE),
    ],
)
def test_simple_forms_are_modes(text: str | None, mode: RestoreMode) -> None:
    assert parse_restore(text).mode is mode


def test_a_checkpoint_is_named_with_or_without_its_pipeline() -> None:
    alone, within = parse_restore("checkpoint:12"), parse_restore("checkpoint:2/12")

    assert (alone.mode, alone.pipeline, alone.checkpoint) == (RestoreMode.CHECKPOINT, None, 12)
    assert (within.mode, within.pipeline, within.checkpoint) == (RestoreMode.CHECKPOINT, 2, 12)


def test_a_path_may_hold_colons() -> None:
    assert parse_restore("path:/a:b/c").path == "/a:b/c"


@pytest.mark.parametrize(
    "text",
    ["", "x", "checkpoint", "checkpoint:", "checkpoint:0", "checkpoint:-1", "checkpoint:1/",
     "checkpoint:/1", "checkpoint:1/2/3", "checkpoint:²", "path:", "none:1", "latest:2"],
)  # fmt: skip
def test_other_forms_are_refused_with_all_that_there_are(text: str) -> None:
    if text == "":
        assert parse_restore(text).mode is RestoreMode.AUTO
        return
    with pytest.raises(ConfigError, match="expected auto, latest, savepoint"):
        parse_restore(text)


def test_an_unknown_policy_is_refused_by_its_option() -> None:
    with pytest.raises(ConfigError, match="on-incompatible 'maybe': expected fail"):
        parse_restore("auto", "fail", "maybe")


def test_one_pipelines_checkpoint_leaves_the_others_at_their_tips() -> None:
    request = parse_restore("checkpoint:2/12", "previous", "fresh")

    assert request_of(request, 2, [1, 2]) == request
    assert request_of(request, 1, [1, 2]) == parse_restore("auto", "previous", "fresh")


def test_a_bare_number_is_refused_where_several_pipelines_have_one() -> None:
    with pytest.raises(ConfigError, match="checkpoint:<pipeline>/<id>"):
        request_of(parse_restore("checkpoint:12"), 1, [1, 2])


def test_a_checkpoint_of_a_pipeline_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match="pipelines 1, 2 and not 3"):
        request_of(parse_restore("checkpoint:3/12"), 1, [1, 2])


def test_to_ask_for_the_tip_keeps_the_policies() -> None:
    request = parse_restore("path:/x", "latest", "previous")

    assert ask_for_tip(request) == parse_restore("auto", "latest", "previous")


def test_what_is_whole_fits_and_can_be_read_is_used() -> None:
    assert decide_candidate(WHOLE, Found(), RestoreRequest()) == Use()


@pytest.mark.parametrize(
    ("policy", "kind"),
    [
        (Policy.FAIL, Refuse),
        (Policy.PREVIOUS, TryPrevious),
        (Policy.FRESH, StartFresh),
        (Policy.LATEST, StartFresh),
    ],
)
def test_a_broken_checkpoint_is_on_missings_to_decide(policy: Policy, kind: type) -> None:
    verdict = decide_candidate(BROKEN, Found(), RestoreRequest(on_missing=policy))

    assert isinstance(verdict, kind)
    assert "its checksum does not fit" in str(verdict)


def test_latest_skips_only_the_sources_that_cannot_be_read() -> None:
    found = Found(unreadable={"source-1": "was purged"})

    verdict = decide_candidate(WHOLE, found, RestoreRequest(on_missing=Policy.LATEST))

    assert isinstance(verdict, Use)
    assert verdict.skip == ("source-1",)


def test_what_does_not_fit_is_on_incompatibles_to_decide() -> None:
    found = Found(incompatible=["source-0: was A and is B"], changed_sources=["source-0"])

    refused = decide_candidate(WHOLE, found, RestoreRequest(on_missing=Policy.FRESH))
    skipped = decide_candidate(WHOLE, found, RestoreRequest(on_incompatible=Policy.LATEST))

    assert isinstance(refused, Refuse)
    assert isinstance(skipped, Use)
    assert skipped.skip == ("source-0",)


def test_a_job_never_seen_starts_fresh() -> None:
    assert isinstance(decide_without_candidate(RestoreRequest(), []), StartFresh)


def test_a_fresh_start_that_was_asked_for_does_not_say_that_nothing_is_kept() -> None:
    verdict = decide_without_candidate(RestoreRequest(RestoreMode.NONE), [])

    assert verdict == StartFresh("as was asked; what is kept is not looked at")


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        (RestoreMode.LATEST, "nothing is kept of this job id"),
        (RestoreMode.SAVEPOINT, "there is no savepoint of this job"),
        (RestoreMode.CHECKPOINT, "there is no checkpoint 77"),
        (RestoreMode.PATH, "nothing is kept of this job id"),
    ],
)
def test_what_was_named_and_is_not_there_is_refused_by_its_name(
    mode: RestoreMode, said: str
) -> None:
    verdict = decide_without_candidate(RestoreRequest(mode, checkpoint=77), [])

    assert isinstance(verdict, Refuse)
    assert said in verdict.reason


def test_having_passed_over_all_there_was_is_no_fresh_start() -> None:
    request = RestoreRequest(on_missing=Policy.PREVIOUS)

    assert isinstance(decide_without_candidate(request, ["checkpoint 3"]), Refuse)


def test_a_claim_that_went_back_abandons_what_lies_between() -> None:
    chain = [a_link(5), a_link(6), a_link(7), a_link(8, 2, abandons_after=5), a_link(9, 2)]

    assert derive_abandoned(chain) == {6, 7}


def test_a_claim_that_came_too_late_is_no_link() -> None:
    line = [a_link(1, 1), a_link(2, 2, abandons_after=0), a_link(3, 1), a_link(4, 2)]

    assert derive_displaced(line) == {2}


def test_attempts_that_only_grow_are_all_links() -> None:
    assert derive_displaced([a_link(1, 1), a_link(2, 2), a_link(3, 2), a_link(4, 5)]) == set()
