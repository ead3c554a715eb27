"""Heartbeats and answers as JSON, and back."""

from __future__ import annotations

from typing import Any

from holdfast.model.attempts import AttemptKey, EndedHow
from holdfast.model.json import JsonObject
from holdfast.model.workers import Answer, DesiredAttempt, Heartbeat, ObservedAttempt, Wish


def key_to_json(key: AttemptKey) -> list[Any]:
    return [key.job_id, key.generation, key.pipeline_id, key.number]


def key_from_json(found: Any) -> AttemptKey:
    return AttemptKey(*found)


def observed_to_json(seen: ObservedAttempt) -> JsonObject:
    return {
        "key": key_to_json(seen.key),
        "tip": seen.tip,
        "tipAtMs": seen.tip_at_ms,
        "sourcesDone": list(seen.sources_done),
        "counts": {at: list(count) for at, count in seen.counts.items()},
        "fraction": seen.fraction,
        "restored": seen.restored,
        "endedHow": None if seen.ended_how is None else seen.ended_how.value,
        "reason": seen.reason,
    }


def observed_from_json(found: Any) -> ObservedAttempt:
    return ObservedAttempt(
        key=key_from_json(found["key"]),
        tip=found["tip"],
        tip_at_ms=found["tipAtMs"],
        sources_done=tuple(found["sourcesDone"]),
        counts={at: (rows, size) for at, (rows, size) in found["counts"].items()},
        fraction=found["fraction"],
        restored=found["restored"],
        ended_how=None if found["endedHow"] is None else EndedHow(found["endedHow"]),
        reason=found["reason"],
    )


def heartbeat_to_json(heartbeat: Heartbeat) -> JsonObject:
    return {
        "workerId": heartbeat.worker_id,
        "host": heartbeat.host,
        "sentAtMs": heartbeat.sent_at_ms,
        "slots": heartbeat.slots,
        "tags": dict(heartbeat.tags),
        "draining": heartbeat.draining,
        "attempts": [observed_to_json(seen) for seen in heartbeat.attempts],
        "term": heartbeat.term,
    }


def heartbeat_from_json(found: Any) -> Heartbeat:
    return Heartbeat(
        worker_id=found["workerId"],
        host=found.get("host", ""),
        sent_at_ms=found["sentAtMs"],
        slots=found["slots"],
        tags=found["tags"],
        draining=found["draining"],
        attempts=tuple(observed_from_json(seen) for seen in found["attempts"]),
        term=found.get("term", 0),
    )


def answer_to_json(answer: Answer) -> JsonObject:
    return {
        "term": answer.term,
        "sentAtMs": answer.sent_at_ms,
        "leaseMs": answer.lease_ms,
        "attempts": [
            {
                "key": key_to_json(wanted.key),
                "wish": wanted.wish.value,
                "submission": wanted.submission,
                "jobText": wanted.job_text,
                "jobFormat": wanted.job_format,
                "jobName": wanted.job_name,
                "variables": dict(wanted.variables),
                "restore": wanted.restore,
                "claimed": wanted.claimed,
            }
            for wanted in answer.attempts
        ],
        "tags": None if answer.tags is None else dict(answer.tags),
        "drain": answer.drain,
    }


def answer_from_json(found: Any) -> Answer:
    return Answer(
        term=found["term"],
        sent_at_ms=found["sentAtMs"],
        lease_ms=found["leaseMs"],
        attempts=tuple(
            DesiredAttempt(
                key=key_from_json(wanted["key"]),
                wish=Wish(wanted["wish"]),
                submission=wanted["submission"],
                job_text=wanted["jobText"],
                job_format=wanted["jobFormat"],
                job_name=wanted["jobName"],
                variables=wanted["variables"],
                restore=wanted["restore"],
                claimed=bool(wanted.get("claimed")),
            )
            for wanted in found["attempts"]
        ),
        tags=found.get("tags"),
        drain=found.get("drain", False),
    )
