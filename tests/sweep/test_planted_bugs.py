"""A loop that is broken on purpose is caught by the sweeps: so they can fail."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.connectors.base import Claim
from holdfast.model.checkpoints import Checkpoint, SinkState
from holdfast.runtime.attempt import Attempt
from holdfast.testing.crashes import PauseAt
from holdfast.testing.world import Runner
from tests.sweep.sweeping import bring_to_rest, crash_at, points_of
from tests.sweep.worlds import WORLDS, Make

MAKE: Make = WORLDS["bounded log into two sinks"]
COMMIT = Attempt._commit
PUBLISH = Attempt._publish
CLAIM = Attempt._claim
SETTLE = Attempt._settle
Patch = tuple[str, Callable[..., Any]]


def _publish_before_commit(self: Attempt, checkpoint: Checkpoint) -> None:
    PUBLISH(self, checkpoint)
    COMMIT(self, checkpoint)


def _settle_without_publishing(self: Attempt, claim: Checkpoint) -> Checkpoint:
    for at, sink in self._pipeline.sinks.items():
        sink.discard(self._claim_for(claim, at))
    return claim


def _settle_without_discarding(self: Attempt, claim: Checkpoint) -> Checkpoint:
    PUBLISH(self, claim)
    return claim


def _claim_after_discarding(self: Attempt, claim: Checkpoint) -> None:
    for at, sink in self._pipeline.sinks.items():
        sink.discard(self._claim_for(claim, at))
    CLAIM(self, claim)


def _discard_without_keeping(self: Attempt, claim: Checkpoint, at: str) -> Claim:
    return Claim(claim.job_id, claim.pipeline_id, at, claim.attempt, None, claim.lineage)


def _forget_that_it_is_prepared(self: Attempt, claim: Checkpoint) -> Checkpoint:
    tip = SETTLE(self, claim)
    for at in tip.sinks:
        self._pipeline.sinks[at].prepare(list(self._reaching.get(at, [])))
    return tip


def _ack_before_publishing(self: Attempt, checkpoint: Checkpoint) -> None:
    COMMIT(self, checkpoint)
    for at, source in self._pipeline.sources.items():
        source.ack(checkpoint.sources[at])


def _commit_over_others(self: Attempt, checkpoint: Checkpoint) -> None:
    path = f"{checkpoint.job_id}/{checkpoint.pipeline_id}/{checkpoint.number}"
    self._chain._files.remove(path)
    COMMIT(self, checkpoint)


def _lose_a_token(self: Attempt, checkpoint: Checkpoint) -> None:
    sinks = {at: SinkState(True, None) for at in checkpoint.sinks}
    COMMIT(self, checkpoint.follow(number=checkpoint.number, sinks=sinks))


IN_CRASHES: dict[str, Patch] = {
    "it publishes before the commit": ("_commit", _publish_before_commit),
    "it does not publish what the tip promised": ("_settle", _settle_without_publishing),
    "it does not discard": ("_settle", _settle_without_discarding),
    "it discards what the tip promised": ("_claim_for", _discard_without_keeping),
    "it prepares again": ("_settle", _forget_that_it_is_prepared),
    "it acks before it has published": ("_commit", _ack_before_publishing),
    "its checkpoints name no tokens": ("_commit", _lose_a_token),
}
BETWEEN_TWO: dict[str, Patch] = {
    "it discards before the claim": ("_claim", _claim_after_discarding),
    "its create is not exclusive": ("_commit", _commit_over_others),
}


@pytest.mark.parametrize("name", IN_CRASHES)
def test_a_crash_sweep_shows_that(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = len(points_of(MAKE, tmp_path))
    method, broken = IN_CRASHES[name]
    monkeypatch.setattr(Attempt, method, broken)

    with pytest.raises(AssertionError):
        _crash_everywhere(MAKE, tmp_path, size)


@pytest.mark.parametrize("name", BETWEEN_TWO)
def test_two_attempts_show_that(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = len(points_of(MAKE, tmp_path))
    method, broken = BETWEEN_TWO[name]
    monkeypatch.setattr(Attempt, method, broken)

    with pytest.raises(AssertionError):
        _take_turns_everywhere(MAKE, tmp_path, size)


def _crash_everywhere(make: Make, folder: Path, size: int) -> None:
    for number in range(1, size + 1):
        swept = make(folder)
        point = crash_at(swept, number)
        bring_to_rest(swept, f"crash at {number} ({point})")


def _take_turns_everywhere(make: Make, folder: Path, size: int) -> None:
    for number in range(1, size + 1):
        for other in range(1, size + 1, 7):
            _take_turns(make, folder, number, other)


def _take_turns(make: Make, folder: Path, first: int, second: int) -> None:
    swept = make(folder)
    pauses = [PauseAt(first), PauseAt(second)]
    runners = []
    for pause in pauses:
        runners.append(Runner(lambda at=pause: swept.world.run(at), pause.over))  # type: ignore[misc]
        assert pause.paused.wait(60)
    for pause, runner in zip(pauses, runners, strict=True):
        pause.go_on()
        runner.result()
    bring_to_rest(swept, f"asleep at {first}, {second}")
