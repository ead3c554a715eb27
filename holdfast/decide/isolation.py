"""Jobs under which workers die: put where they harm nobody, then given up.

Which of its attempts killed a worker is not known. A job that was there each time is suspected; who is suspected begins
alone, for a while, so that what happens then is its own doing. Who commits something has shown that it can run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.decide.attempts import HEALTHY_STRETCH_MS
from holdfast.decide.world import JobKey, Limits, World
from holdfast.model.attempts import Attempt, EndedHow
from holdfast.model.jobs import Job

TRIAL_MAX_MS = HEALTHY_STRETCH_MS // 2


def find_suspects(world: World, now_ms: int) -> Mapping[JobKey, int]:
    """Jobs that were there when workers died, again and again; the heavier, the more likely it is them. What had
    committed something weighs half, and so does what was never seen to run: workers also die of other things, and of a
    neighbour.
    """
    lost = {
        (attempt.key.job_id, attempt.key.generation)
        for attempt in world.attempts
        if attempt.ended_how is EndedHow.LOST and _is_recent(attempt, now_ms)
    }
    if not lost:
        return {}
    weights = {key_of(job): _weigh(world, job, now_ms) for job in world.jobs if key_of(job) in lost}
    least = 2 * world.limits.crashes_to_isolate
    return {key: weight for key, weight in weights.items() if weight >= least}


def key_of(job: Job) -> JobKey:
    return job.id, job.generation


def _weigh(world: World, job: Job, now_ms: int) -> int:
    weight = 0
    for pipeline_id in job.submitted.pipeline_ids:
        for attempt in reversed(world.attempts_of(job, pipeline_id)):
            if not _is_recent(attempt, now_ms):
                break
            if attempt.ended_how is EndedHow.LOST:
                weight += 2 if attempt.started_at_ms is not None and not attempt.advanced else 1
            elif attempt.alone and attempt.advanced:
                break
    return weight


def count_deaths(limits: Limits, attempts: Sequence[Attempt]) -> int:
    """How many workers in a row died under a pipeline that was on trial there, without a commit between. The newest
    attempt must be one of them.
    """
    count = 0
    for at in range(len(attempts) - 1, -1, -1):
        attempt = attempts[at]
        if attempt.advanced or not _is_recent(attempt, attempts[-1].ended_at_ms or 0):
            break
        is_own = attempt.alone and attempt.ended_how is EndedHow.LOST
        if is_own and _life_ms(attempt) <= trial_ms(limits, attempts[: at + 1]):
            count += 1
        elif attempt is attempts[-1]:
            return 0
    return count


def trial_ms(limits: Limits, attempts: Sequence[Attempt]) -> int:
    """How long nobody is put beside the newest of these: twice as long as it took the last workers to die."""
    newest = attempts[-1]
    longest_ms = 0
    for attempt in reversed(attempts[:-1]):
        if attempt.advanced or newest.planned_at_ms - (attempt.ended_at_ms or 0) > TRIAL_MAX_MS:
            break
        if attempt.ended_how is EndedHow.LOST:
            longest_ms = max(longest_ms, _life_ms(attempt))
    return max(limits.alone_ms, min(2 * longest_ms, TRIAL_MAX_MS))


def begun_at_ms(attempt: Attempt) -> int:
    return attempt.planned_at_ms if attempt.started_at_ms is None else attempt.started_at_ms


def _life_ms(attempt: Attempt) -> int:
    return (attempt.ended_at_ms or 0) - begun_at_ms(attempt)


def _is_recent(attempt: Attempt, now_ms: int) -> bool:
    ended_at_ms = now_ms if attempt.ended_at_ms is None else attempt.ended_at_ms
    return now_ms - ended_at_ms < HEALTHY_STRETCH_MS
