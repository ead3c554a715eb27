"""The invariants: asked at every look once the faults are over, and all of them at the end."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress

from holdfast.checkpoint.chain import Chain
from holdfast.checkpoint.savepoint import read_savepoint
from holdfast.decide.retention import Kept, decide_retention
from holdfast.decide.status import PipelineStatus, derive_pipeline
from holdfast.model.attempts import Attempt
from holdfast.model.checkpoints import Checkpoint, CheckpointKind
from holdfast.model.errors import HoldfastError
from holdfast.model.jobs import Goal, Job, Outcome
from holdfast.model.json import JsonObject
from holdfast.runtime.keeping import RETAINED_MAX
from holdfast.testing.sim.cluster import Cluster
from holdfast.testing.sim.plan import Plan
from holdfast.testing.sim.seen import Made

REPORTED_MS = 1_500.0
"""What a worker does is known to its leader by then."""
SETTLED_MS = 9_000.0
"""After the faults: leases ended, late messages came, a leader is there."""
TIDIED_MS = 3_000


def judge_look(cluster: Cluster, plan: Plan, healed_ms: float) -> list[str]:
    """What is not as it shall be at last. What may never be is blamed at once."""
    live = [job for job in cluster.reads.all_jobs() if job.outcome is None]
    leader = cluster.leader()
    if leader is None:
        return ["nobody leads in fair weather"] if live else []
    world = leader.master.observe()
    clock_ms = leader.master.clock.now_ms()
    is_settled = (
        cluster.engine.now_ms > healed_ms + SETTLED_MS
        and clock_ms - leader.master._leading_since_ms > SETTLED_MS
    )
    wanting: list[str] = []
    if is_settled:
        _blame_what_takes_long(cluster, live, healed_ms)
    for job in live:
        for pipeline_id in job.submitted.pipeline_ids:
            shown = derive_pipeline(world, job, pipeline_id, clock_ms).status
            found = _judge_progress(cluster, job, pipeline_id, shown)
            is_running = shown is PipelineStatus.RUNNING
            if found is not None and is_settled and is_running:
                cluster.seen.blame(found)
            if is_running and not _is_hosted(cluster, world.attempts_of(job, pipeline_id)[-1]):
                wanting.append(f"{job.id}/{pipeline_id} shows RUNNING and nobody runs it")
            if not is_running or found is not None:
                wanting.append(found or f"{job.id}/{pipeline_id} shows {shown.value}")
    return wanting


def _blame_what_takes_long(cluster: Cluster, live: Sequence[Job], healed_ms: float) -> None:
    """A stop ends, whatever the sources do; a cleanup waits for nobody else's."""
    now_ms = cluster.engine.now_ms
    since_ms = max(healed_ms, cluster.awake_ms())
    limits = cluster.limits
    for job in live:
        cluster.seen.checked["a stop ends in time"] += 1
        wished_ms = cluster.seen.wished_ms.get((job.id, job.generation), now_ms)
        waits_ms = now_ms - max(wished_ms, since_ms)
        if waits_ms > 2 * limits.stop_deadline_ms + limits.worker_lease_ms + REPORTED_MS:
            cluster.seen.blame(f"{job.id} is to {job.goal.value} for {waits_ms:.0f} ms and lives")
    undeletable = cluster.faults.undeletable
    for cleanup in cluster.reads.cleanups():
        cluster.seen.checked["a cleanup is done in time"] += 1
        late_ms = now_ms + _START_MS - cleanup.due_at_ms
        is_able = now_ms > undeletable.get(cleanup.job_id, 0.0)
        if is_able and not cleanup.tries and min(late_ms, now_ms - since_ms) > SETTLED_MS:
            cluster.seen.blame(f"the cleanup of {cleanup.job_id} is {late_ms:.0f} ms late")


def blame_slots(cluster: Cluster, plan: Plan) -> None:
    """As many attempts as there are slots, and no more; in any weather."""
    if plan.slots is None:
        return
    cluster.seen.checked["slots balance"] += 1
    live = [job for job in cluster.reads.all_jobs() if job.outcome is None]
    hosted = Counter(
        attempt.worker_id
        for job in live
        for attempt in cluster.reads.attempts(job.id, job.generation)
        if attempt.is_open
    )
    for worker_id, count in hosted.items():
        if count > plan.slots:
            cluster.seen.blame(f"{worker_id} has {plan.slots} slots and {count} attempts")


def _is_hosted(cluster: Cluster, attempt: Attempt) -> bool:
    return any(run.key == attempt.key for run in cluster.running())


def _judge_progress(
    cluster: Cluster, job: Job, pipeline_id: int, shown: PipelineStatus
) -> str | None:
    """RUNNING implies a fresh tip. The leader may know of the newest a moment late."""
    cluster.seen.checked["RUNNING means a fresh tip"] += 1
    newest = cluster.seen.newest(job.id, pipeline_id)
    attempts = [
        a
        for a in cluster.reads.attempts(job.id, job.generation)
        if a.is_open and a.key.pipeline_id == pipeline_id
    ]
    began_ms = max((a.planned_at_ms for a in attempts), default=0) - _START_MS
    since_ms = max(began_ms, -1.0 if newest is None else newest.at_ms)
    age_ms = cluster.engine.now_ms - since_ms
    allowed_ms = 2 * job.submitted.checkpoint_interval_ms + cluster.limits.stall_grace_ms
    if age_ms > allowed_ms + REPORTED_MS:
        return f"{job.id}/{pipeline_id} shows {shown.value} and its tip is {age_ms:.0f} ms old"
    return None


_START_MS = 1_700_000_000_000


# ------------------------------------------------------------------------------------------------ the end


def judge_end(cluster: Cluster, plan: Plan) -> list[str]:
    """All that is wrong with a world that has come to rest."""
    checked = cluster.seen.checked
    wrong = [said for memory in cluster.around.sinks.values() for said in memory.violations]
    for (job_id, pipeline_id), made in sorted(cluster.seen.made.items()):
        checked["a chain has no gaps and one owner"] += len(made)
        wrong += [f"{job_id}/{pipeline_id}: {said}" for said in judge_chain(made)]
    newest: dict[str, Job] = {}
    for job in cluster.reads.all_jobs():
        if job.id not in newest or newest[job.id].generation < job.generation:
            newest[job.id] = job
        checked["a job reaches what was asked"] += 1
        wrong += _judge_outcome(cluster, plan, job)
    for job in newest.values():
        checked["rows are exact"] += 1
        checked["nothing is orphaned"] += 1
        wrong += _judge_rows(cluster, job)
        wrong += _judge_storage(cluster, job)
    wrong += [f"{c.job_id}'s cleanup is not done: {c.last_error}" for c in cluster.reads.cleanups()]
    wrong += _judge_running(cluster, plan)
    return wrong


def judge_chain(line: Sequence[Made]) -> list[str]:
    """No gaps; nobody advances behind a newer claim; each claim goes on from what it was to go on from."""
    wrong: list[str] = []
    before: Checkpoint | None = None
    owner = 0
    for made in line:
        now = made.checkpoint
        is_claim = now.kind is CheckpointKind.CLAIM
        expected = 1 if before is None else before.number + 1
        if is_claim and now.number < expected:
            # It slept until its number had been tidied away. It is told so, and must do nothing more.
            continue
        if now.number != expected:
            wrong.append(f"checkpoint {now.number} was made where {expected} was due")
        if is_claim:
            wrong += _judge_claim(before, made)
            owner = now.attempt
        elif now.attempt != owner:
            wrong.append(f"attempt {now.attempt} made {now.number} and {owner} had claimed")
        before = now
    return wrong


def _judge_claim(before: Checkpoint | None, made: Made) -> Iterator[str]:
    claim = made.checkpoint
    if before is None:
        return
    if claim.attempt <= before.attempt:
        yield f"claim {claim.number} has attempt {claim.attempt} again"
    due: JsonObject = dict(before.sources) if made.base is None else made.base
    if dict(claim.sources) != due:
        what = f"the tip {before.number}" if made.base is None else "what was asked for"
        yield f"claim {claim.number} goes on from {_at(claim.sources)} and not from {what}, {_at(due)}"


def _at(sources: object) -> str:
    return json.dumps(sources)


def _judge_outcome(cluster: Cluster, plan: Plan, job: Job) -> list[str]:
    name = f"{job.id} of generation {job.generation}"
    is_endless = plan.jobs[job.id].is_endless
    if plan.jobs[job.id].is_sick and job.goal is Goal.RUN:
        is_right = job.outcome is Outcome.FAILED
        return [] if is_right else [f"{name} cannot run and its outcome is {job.outcome}"]
    match job.goal, job.outcome:
        case Goal.RUN, Outcome.FINISHED:
            return [f"{name} is endless and FINISHED"] if is_endless else []
        case Goal.RUN, None if is_endless:
            return []
        case Goal.SAVEPOINT, Outcome.SAVEPOINT_DONE:
            return _judge_savepoint(cluster, job)
        case Goal.SAVEPOINT, Outcome.FINISHED | Outcome.CANCELED:
            return []
        case Goal.CANCEL | Goal.FORCE, Outcome.CANCELED | Outcome.FINISHED:
            return []
    return [f"{name} has goal '{job.goal.value}' and outcome {job.outcome} ({job.reason})"]


def _judge_savepoint(cluster: Cluster, job: Job) -> list[str]:
    """It is whole. Whether it holds the tips was judged when it was written."""
    try:
        read_savepoint(cluster.storage, str(job.savepoint))
    except HoldfastError as broken:
        return [f"{job.id}: its savepoint cannot be read: {broken}"]
    return []


def _judge_rows(cluster: Cluster, job: Job) -> Iterator[str]:
    """Exactly the rows up to the newest checkpoint's position are visible, once each."""
    for pipeline_id in job.submitted.pipeline_ids:
        newest = cluster.seen.newest(job.id, pipeline_id)
        if newest is None:
            continue
        tip = newest.checkpoint
        is_over = job.outcome in (Outcome.FINISHED, None)
        is_prepared = all(state.prepared for state in tip.sinks.values())
        if not is_over and (not is_prepared or tip.rewind_due is not None):
            continue
        for at, position in tip.sources.items():
            table = at if not tip.tables.get(at) else str(tip.tables[at][0]["path"])  # type: ignore[index, call-overload]
            expected = list(range(int(str(position["next"]))))
            found = [
                id_
                for (job_id, _), memory in cluster.around.sinks.items()
                if job_id == job.id
                for id_ in memory.ids(table)
            ]
            # What an attempt committed that was stopped right then, the next one publishes.
            is_open = not is_over and expected[: len(found)] == found
            if found != expected and not is_open and table != at:
                yield f"{job.id}: {table} shows {_short(found)}, not {_short(expected)}"
        if job.outcome is Outcome.FINISHED and not tip.completed:
            yield f"{job.id} is FINISHED and pipeline {pipeline_id} is not complete"


def _judge_storage(cluster: Cluster, job: Job) -> Iterator[str]:
    """Nothing stays that nobody needs."""
    if job.outcome is Outcome.FINISHED:
        for (job_id, at), memory in cluster.around.sinks.items():
            if job_id == job.id and memory.staged:
                yield f"{job.id}: {len(memory.staged)} parts stay staged in {at}"
    for pipeline_id in job.submitted.pipeline_ids:
        found = _read_chain(Chain(cluster.storage, job.id, pipeline_id))
        if not found or found[-1].submission != job.submitted.submission:
            continue
        name = f"{job.id}/{pipeline_id}"
        tip = found[-1]
        epochs = [c.number for c in found[:-1] if c.kind is not CheckpointKind.CLAIM]
        if job.outcome is Outcome.FINISHED and epochs:
            yield f"{name} is cleaned up and keeps {epochs}"
        made = cluster.seen.made[job.id, pipeline_id]
        if made[-1].at_ms < cluster.faults.removable_since_ms.get(job.id, 0.0) + TIDIED_MS / 2:
            continue  # It has committed nothing since, and so has not looked.
        if job.outcome is None and (due := _due_to_go(found, tip, job, made)):
            yield f"{name} keeps {due}, which retention does not want"


def _read_chain(chain: Chain) -> list[Checkpoint]:
    """What can be read of it, oldest first."""
    found: list[Checkpoint] = []
    for number in chain.list_numbers():
        with suppress(HoldfastError):
            found.append(chain.read(number))
    return found


def _due_to_go(
    found: Sequence[Checkpoint], tip: Checkpoint, job: Job, made: Sequence[Made]
) -> list[int]:
    """What retention would have removed a while ago, had the attempt that runs now tidied more than once.

    What came since has made other numbers due, and those may be there until the next look.
    """
    made_at_ms = {each.checkpoint.number: each.at_ms for each in made}
    own = [c for c in found if c.attempt == tip.attempt and c.kind is not CheckpointKind.CLAIM]
    if not own or made_at_ms[tip.number] - made_at_ms[own[0].number] < TIDIED_MS:
        return []
    old = [c for c in found if made_at_ms[c.number] < made_at_ms[tip.number] - TIDIED_MS]
    return decide_retention(
        [Kept(c.number, c.at_ms, c.kind is CheckpointKind.CLAIM) for c in old],
        interval_ms=job.submitted.checkpoint_interval_ms,
        retained_max=RETAINED_MAX,
    )


def _judge_running(cluster: Cluster, plan: Plan) -> Iterator[str]:
    """Nothing runs that is not wanted; where nothing befell a worker, each pipeline had one attempt."""
    jobs = cluster.reads.all_jobs()
    attempts = _attempts_of(cluster, jobs)
    live = {(job.id, job.generation) for job in jobs if job.outcome is None}
    for attempt in attempts:
        if attempt.is_open and (attempt.key.job_id, attempt.key.generation) not in live:
            yield f"{attempt.key} is open and its job has ended"
    yield from find_unwanted(cluster)
    if plan.only_masters:
        for attempt in attempts:
            if attempt.key.number > 1:
                yield f"only masters were touched, and {attempt.key} began"


def find_unwanted(cluster: Cluster) -> Iterator[str]:
    """What runs somewhere and is wanted by nobody."""
    attempts = _attempts_of(cluster, cluster.reads.all_jobs())
    open_keys = {attempt.key for attempt in attempts if attempt.is_open}
    for run in cluster.running():
        if run.key not in open_keys:
            yield f"{run.worker} runs {run.key}, which nobody wants"


def _attempts_of(cluster: Cluster, jobs: Sequence[Job]) -> list[Attempt]:
    return [a for job in jobs for a in cluster.reads.attempts(job.id, job.generation)]


def _short(ids: Sequence[int]) -> str:
    text = json.dumps(list(ids))
    return text if len(text) < 120 else f"{text[:80]}… ({len(ids)} rows)"
