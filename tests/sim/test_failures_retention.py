"""Failures of retention, cleanup and growth that people have met elsewhere (docs/failures.md, area E)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.decide.status import JobStatus
from holdfast.model.checkpoints import CheckpointKind
from holdfast.model.jobs import Goal
from holdfast.runtime.keeping import RETAINED_MAX
from holdfast.store.commits import JobIsThere
from holdfast.store.schema import metadata
from holdfast.testing.sim.database import KeptReads
from holdfast.testing.sim.faults import FAIR, Weather
from holdfast.testing.sim.plan import LIMITS
from holdfast.testing.sim.script import Scene, batch, stream
from tests.sim.conftest import MakeScene


def _rows_of_the_store(play: Scene) -> dict[str, int]:
    raw = play.cluster.sql._raw
    return {
        name: raw.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in metadata.tables
    }


def _kept(play: Scene, job_id: str = "orders") -> dict[int, bool]:
    """The numbers in storage, and which of them are claims."""
    storage = play.cluster.storage
    claims = {c.number for c in play.made(job_id) if c.kind is CheckpointKind.CLAIM}
    return {int(i.name): int(i.name) in claims for i in storage.list_folder(f"{job_id}/1")}


def test_the_limit_of_kept_checkpoints_holds_whoever_was_killed(scene: MakeScene) -> None:
    """F120: what is kept is counted in storage, by each attempt anew."""
    play = scene({"orders": stream(interval_ms=200)}, masters=2, workers=2)
    play.submit("orders")
    for _ in range(5):
        play.run_for(6_000)
        play.kill_all()
        play.run_for(500)
        play.start_fallen()
    play.run_for(10_000)

    epochs = [number for number, is_claim in _kept(play).items() if not is_claim]
    assert len(play.made("orders")) > 3 * RETAINED_MAX
    assert len(epochs) <= RETAINED_MAX + 1 + 1_000 / 200
    play.rest()


def test_the_store_does_not_grow_with_checkpoints_and_refused_submissions(
    scene: MakeScene,
) -> None:
    """F121, F124: it holds what lives and what is history, and nothing of what happens in between."""
    play = scene({"orders": stream(every_ms=100, interval_ms=600)})
    play.submit("orders")
    play.until_rows("orders", 3)
    play.run_for(5_000)
    before = _rows_of_the_store(play)

    play.run_for(50_000)
    for _ in range(50):
        with pytest.raises(JobIsThere):
            play.submit("orders")

    assert len(play.made("orders")) > 400
    assert _rows_of_the_store(play) == before
    play.rest()


ENDS = ["finish", "fail", "cancel while queued", "cancel", "force", "savepoint"]


@pytest.mark.parametrize("end", ENDS)
def test_every_way_to_end_leaves_the_same_nothing(
    scene: MakeScene, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F122: when its history is past its time too."""
    monkeypatch.setattr(KeptReads, "expires", True)
    limits = replace(LIMITS, history_expire_ms=4_000)
    workers = 0 if end == "cancel while queued" else 1
    play = scene({"orders": replace(batch(20), retries=0)}, workers=workers, limits=limits)
    before = _rows_of_the_store(play)
    play.submit("orders")
    if workers:
        play.until_rows("orders", 2)
    if end == "fail":
        play.weather(Weather(source_fails=1.0))
    goals = {"cancel while queued": Goal.CANCEL, "cancel": Goal.CANCEL, "force": Goal.FORCE}
    if end in goals or end == "savepoint":
        play.ask("orders", goals.get(end, Goal.SAVEPOINT))
    play.run_until("an end", lambda: play.job("orders").outcome is not None)
    play.weather(FAIR)
    play.run_for(10_000)

    left = _rows_of_the_store(play)
    for name in ("jobs", "attempts", "cleanups", "events", "metrics"):
        assert left[name] == before[name], name


@pytest.mark.parametrize("how", ["killed", "stepping down", "paused past its lease"])
def test_the_end_of_a_master_removes_no_checkpoint(scene: MakeScene, how: str) -> None:
    """F128: only the cleanup of a finished job and the attempt that owns a chain remove anything."""
    play = scene({"orders": stream()}, masters=2)
    play.submit("orders")
    play.until_rows("orders", 10)
    for _ in range(3):
        found = play.cluster.leader()
        assert found is not None
        if how == "killed":
            play.kill(found.process.name)
        elif how == "paused past its lease":
            play.pause(found.process.name, 4_000)
        else:
            play.engine.spawn(found.process, found.master.step_down)
        play.run_for(4_500)
        play.start_fallen()

    removed = [p for p in play.points if p.startswith("master") and "remove" in p]
    assert removed == []
    play.rest()


def test_a_cleanup_takes_nothing_of_a_job_whose_name_begins_alike(scene: MakeScene) -> None:
    """F134."""
    play = scene({"123": batch(8), "1234": stream(), "12": stream()})
    play.submit_all()
    play.until_status("123", JobStatus.FINISHED)
    play.run_until("clean", lambda: not play.cluster.reads.cleanups())

    removed = {p.split("remove ")[1].split("/")[0] for p in play.points if "before remove 123" in p}
    by_masters = [p for p in play.points if p.startswith("master") and "remove" in p]
    assert all("remove 123/" in p for p in by_masters)
    assert removed <= {"123", "1234"}
    assert play.job("123").outcome is not None
    assert play.job("1234").outcome is None
    play.rest()


def test_a_restart_leaves_its_claim_and_nothing_else(scene: MakeScene) -> None:
    """F136: claims stay while the job lives, since they are what stops whoever was passed by."""
    play = scene({"orders": stream()}, workers=2)
    play.submit("orders")
    for _ in range(40):
        working = play.working()
        claims = len(play.claims("orders"))
        play.kill(working)
        play.start_fallen()
        play.run_until("a claim", lambda c=claims: len(play.claims("orders")) > c)  # type: ignore[misc]
    play.run_for(30_000)

    kept = _kept(play)
    assert sum(kept.values()) == len(play.claims("orders")) == 41
    assert len(kept) - sum(kept.values()) <= RETAINED_MAX + 8
    files = [
        item.name
        for number in kept
        for item in play.cluster.storage.list_folder(f"orders/1/{number}")
    ]
    assert set(files) == {"manifest.json", "restore.json"}
    play.rest()
