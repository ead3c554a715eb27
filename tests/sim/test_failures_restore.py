"""Failures of restores that people have met elsewhere (docs/failures.md, area C)."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.checkpoint.chain import Chain
from holdfast.decide.status import JobStatus
from holdfast.model.ends import JobEnd
from holdfast.model.errors import Transient
from holdfast.model.jobs import Goal
from holdfast.store.commits import JobIsThere
from holdfast.testing.model_log import LogSource
from holdfast.testing.sim.faults import FAIR, Weather
from holdfast.testing.sim.script import Scene, batch, stream
from holdfast.testing.sim.storage import Storage
from tests.sim.conftest import MakeScene
from tests.sweep.sweeping import crash_at
from tests.sweep.worlds import make_world


def _tried(play: Scene, job_id: str = "orders") -> list[str]:
    return [attempt.reason for attempt in play.attempts(job_id) if attempt.ended_how]


def test_a_worker_that_sees_another_storage_begins_nothing_anew(scene: MakeScene) -> None:
    """F092, F118: as a folder that is not shared, or not mounted. It is told, and goes on once the storage is back."""
    play = scene({"orders": stream(retries=0)}, workers=1)
    play.submit("orders")
    play.until_rows("orders", 5)
    play.run_until("it is noted", lambda: play.attempts("orders")[0].advanced)
    shared = play.cluster.storage._root

    play.kill("worker-0")
    play.cluster.storage._root = Storage()._root
    play.start_fallen()
    play.run_until("a hold-up", lambda: "held-up" in play.ends("orders"))
    play.run_for(5_000)

    assert "none is in the checkpoint storage of this process" in _tried(play)[-1]
    assert play.cluster.storage.list_folder("orders") == []
    play.cluster.storage._root = shared
    before = len(play.rows("orders"))
    play.until_rows("orders", before + 3)
    play.rest()


def test_a_storage_that_cannot_be_read_for_a_while_rewinds_nothing(scene: MakeScene) -> None:
    """F090: also where falling back was allowed."""
    play = scene({"orders": stream(retries=0)}, workers=2)
    play.submit("orders", on_missing="previous")
    play.until_rows("orders", 8)

    play.weather(Weather(file_read_fails=1.0))
    play.kill("worker-0", "worker-1")
    tip = play.made("orders")[-1]
    play.start_fallen()
    play.run_for(30_000)
    play.weather(FAIR)
    play.run_until("a claim", lambda: len(play.claims("orders")) == 2)

    assert play.claims("orders")[-1].sources == tip.sources
    assert play.claims("orders")[-1].restored_from is None
    play.rest()


@pytest.mark.parametrize("again", ["auto", "latest", "savepoint", "none"])
def test_an_id_that_was_used_gives_one_of_four_clear_answers(scene: MakeScene, again: str) -> None:
    """F068, F069, F094: refused while it lives; gone on with; finished already; from the start."""
    play = scene({"orders": stream(), "done": batch(4)})
    play.submit_all()
    play.until_rows("orders", 4)
    with pytest.raises(JobIsThere, match="it is live"):
        play.submit("orders", again)
    play.ask("orders", Goal.SAVEPOINT)
    play.until_status("orders", JobStatus.SAVEPOINT_DONE)
    play.until_status("done", JobStatus.FINISHED)
    play.run_until("clean", lambda: not play.cluster.reads.cleanups())
    tip = play.made("orders")[-1]

    play.submit("orders", again)
    play.run_until("a claim", lambda: len(play.claims("orders")) == 2)
    job = play.submit("done", again) if again in ("auto", "latest", "none") else None

    begun = play.claims("orders")[-1]
    assert begun.sources == ({"source-0-tick": {"next": 0}} if again == "none" else tip.sources)
    if job is not None:
        play.run_until("an end", lambda: play.status("done") is JobStatus.FINISHED)
        read = play.made("done")[-1].counts["source-0-tick"].rows
        assert read == 4
        said = play.job("done").reason
        assert ("it had finished before: nothing was read" in said) is (again != "none")
    play.rest()


def test_what_was_asked_for_and_is_not_there_fails_and_touches_nothing(scene: MakeScene) -> None:
    """F068, F118, F100."""
    for restore in ("latest", "savepoint", "checkpoint:7", "path:savepoint/orders/1"):
        play = scene({"orders": stream()})
        play.submit("orders", restore)
        play.until_status("orders", JobStatus.FAILED)

        assert "Cannot restore pipeline orders/1" in play.job("orders").reason
        assert play.made("orders") == []
        assert len(play.attempts("orders")) == 1
        play.rest("orders")


def _break(play: Scene, where: str, error: Exception) -> None:
    """Something of the source fails from now on."""

    def fail(*given: object) -> object:
        raise error

    if where == "create":
        own = play.cluster.catalog.own
        (key,) = [key for key in own if key[1] == "Tick"]
        own[key] = replace(own[key], create=fail)  # type: ignore[index]
    else:
        play.change_sources(**{where: fail})


@pytest.mark.parametrize("where", ["create", "probe", "tables", "plan", "describe"])
@pytest.mark.parametrize("error", [ValueError("bad port"), LookupError("user"), Transient("away")])
def test_whatever_fails_in_a_restore_ends_the_attempt_with_its_cause(
    scene: MakeScene, where: str, error: Exception
) -> None:
    """F064, F100: nobody waits for ever."""
    play = scene({"orders": stream(retries=1)})
    play.submit("orders")
    play.until_rows("orders", 3)
    play.run_until("it is noted", lambda: play.attempts("orders")[0].advanced)
    play.kill("worker-0")
    _break(play, where, error)
    play.start_fallen()

    play.until_status("orders", JobStatus.FAILED, 40_000)
    assert str(error.args[0]) in play.job("orders").reason
    play.rest("orders")


class _Once:
    """A source that may say only once where it begins."""

    def __init__(self) -> None:
        self.asked = 0


def _ask_once(swept: object, once: _Once) -> None:
    """From now on `start` and `latest` fail when they are called a second time."""
    world = swept.world  # type: ignore[attr-defined]
    hooking = world._hooking

    def hooked(create: Callable[..., object], point: object) -> Callable[..., object]:
        inner = hooking(create, point)

        def make(options: object, context: object) -> object:
            made = inner(options, context)
            if isinstance(made, LogSource):
                start = made.start

                def start_once() -> object:
                    once.asked += 1
                    assert once.asked == 1, "asked again where it begins"
                    return start()

                made.start = start_once  # type: ignore[method-assign,assignment]
                made.latest = start_once  # type: ignore[method-assign,assignment]
            return made

        return make

    world._hooking = hooked


def test_where_a_source_begins_is_asked_once_and_kept_before_the_first_read(
    tmp_path: Path,
) -> None:
    """F070, F077, F104: the first claim holds it, and whoever goes on never asks again."""
    size = 12
    for number in range(1, size):
        swept = make_world(tmp_path, log=True)
        once = _Once()
        _ask_once(swept, once)
        point = crash_at(swept, number)
        if point == "before claim":
            once.asked = 0
        swept.grow()
        result = swept.world.run()

        assert result.end in (JobEnd.FINISHED, JobEnd.STOPPED), (number, point, result.error)
        assert once.asked == 1, point
        assert swept.world.judge(swept.expected()) == []


def test_a_completion_mark_that_is_gone_makes_the_one_before_the_newest(scene: MakeScene) -> None:
    """F074, F130: folders without a manifest are no checkpoints."""
    play = scene({"orders": stream()}, workers=1)
    play.submit("orders")
    play.until_rows("orders", 6)
    play.kill("worker-0")
    chain = Chain(play.cluster.storage, "orders", 1)
    newest = chain.head()
    before = chain.read(chain.list_numbers()[-2])

    play.cluster.storage.remove(f"orders/1/{newest}/manifest.json")

    tip = chain.tip()
    assert tip is not None
    assert tip.number == before.number


def test_every_kept_checkpoint_can_be_gone_on_from(scene: MakeScene) -> None:
    """F082: whoever was killed when, whatever has been tidied away since."""
    play = scene({"orders": stream()}, masters=1, workers=2)
    play.submit("orders")
    for number in range(16):
        play.run_for(4_000 + 137 * number)
        play.kill("worker-0")
        play.kill("worker-1")
        play.start_fallen()
        chain = Chain(play.cluster.storage, "orders", 1)
        numbers = [
            n for n in chain.list_numbers() if play.cluster.storage.list_folder(f"orders/1/{n}")
        ]
        assert [chain.read(number).number for number in numbers] == numbers
        assert chain.tip() == play.made("orders")[-1]
    play.rest()


def test_nothing_but_json_of_our_own_is_kept(scene: MakeScene) -> None:
    """F096, F097: no class of a library; a format number; one shape, and who changes it changes this test as well."""
    play = scene({"orders": stream()})
    play.submit("orders")
    play.until_rows("orders", 6)
    play.kill("worker-0")
    tip = play.made("orders")[-1]

    kept = json.loads(play.cluster.storage.read(f"orders/1/{tip.number}/manifest.json"))

    assert sorted(kept) == ["body", "format", "sha256"]
    assert kept["format"] == 1
    assert sorted(kept["body"]) == KEYS_OF_FORMAT_1


KEYS_OF_FORMAT_1 = [
    "abandonsAfter",
    "at_ms",
    "attempt",
    "checkpointId",
    "claimId",
    "completed",
    "counts",
    "fingerprint",
    "generation",
    "jobId",
    "kind",
    "lineage",
    "parent",
    "pipelineId",
    "restoredFrom",
    "rewindDue",
    "said",
    "sinkRows",
    "sinks",
    "sources",
    "submission",
    "tables",
]


def test_a_checkpoint_of_a_corrupt_storage_is_refused_and_nothing_is_overwritten(
    scene: MakeScene,
) -> None:
    """F089: and the way out that the message names works."""
    play = scene({"orders": stream()})
    play.submit("orders")
    play.until_rows("orders", 8)
    play.ask("orders", Goal.CANCEL)
    play.until_status("orders", JobStatus.CANCELED)
    tip = play.made("orders")[-1]
    path = f"orders/1/{tip.number}/manifest.json"
    whole = play.cluster.storage.read(path)

    play.cluster.storage.write(path, whole.replace(b'"next":', b'"nexu":'))
    play.submit("orders", "auto")
    play.until_status("orders", JobStatus.FAILED)
    assert f"checkpoint {tip.number}" in play.job("orders").reason
    assert play.made("orders")[-1] == tip

    play.submit("orders", "auto", on_missing="previous")
    play.run_until("a claim", lambda: play.made("orders")[-1].number > tip.number)
    assert play.claims("orders")[-1].abandons_after is not None
