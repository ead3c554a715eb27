"""The cluster: who leads, who works, how much room there is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from holdfast import __version__
from holdfast.api.serving import Serving
from holdfast.model.errors import ConfigError

if TYPE_CHECKING:
    from holdfast.api.app import Call


def overview(serving: Serving, call: Call) -> object:
    """Numbers as text, as SeaTunnel has them."""
    master = serving.master
    counts = master.store.reads.count_outcomes()
    workers = _workers(serving)
    world = master.observe()
    open_attempts = sum(1 for attempt in world.attempts if attempt.is_open)
    fixed = [worker["slots"] for worker in workers]
    total = None if not fixed or None in fixed else sum(int(str(slots)) for slots in fixed)
    lease = master.store.reads.lease()
    found = {
        "projectVersion": __version__,
        "leader": lease.url if lease else "",
        "term": lease.term if lease else 0,
        "isLeader": master.term is not None,
        "totalSlot": "dynamic" if total is None else total,
        "unassignedSlot": "dynamic" if total is None else total - open_attempts,
        "works": len(workers),
        "runningJobs": counts.get("", 0),
        "finishedJobs": counts.get("FINISHED", 0),
        "failedJobs": counts.get("FAILED", 0),
        "cancelledJobs": counts.get("CANCELED", 0),
        "savepointJobs": counts.get("SAVEPOINT_DONE", 0),
    }
    return {name: str(value) for name, value in found.items()}


def list_workers(serving: Serving, call: Call) -> object:
    return _workers(serving)


def _workers(serving: Serving) -> list[dict[str, object]]:
    """From the store, so that a stand-by knows too; as old as the write-behind delay."""
    master = serving.master
    now_ms = master.now_ms()
    world = master.observe()
    found: list[dict[str, object]] = []
    for heartbeat, heard_at_ms in master.store.reads.workers():
        worker_id = heartbeat["workerId"]
        hosted = [a for a in world.attempts if a.is_open and a.worker_id == worker_id]
        silent_ms = now_ms - heard_at_ms
        lease_ms = master.settings.limits.worker_lease_ms + master.settings.write_behind_ms
        found.append(
            {
                "workerId": worker_id,
                "url": heartbeat["url"],
                "tags": heartbeat["tags"],
                "slots": heartbeat["slots"],
                "attempts": len(hosted),
                "draining": heartbeat["draining"],
                "lastHeartbeatTime": heard_at_ms,
                "status": "ALIVE" if silent_ms <= lease_ms else "SILENT",
            }
        )
    return found


def update_tags(serving: Serving, call: Call) -> object:
    """Of the worker in this process."""
    if serving.worker is None:
        raise ConfigError("Cannot set tags: no worker runs in this process. Ask its own address.")
    try:
        tags = json.loads(call.body or b"{}")
    except ValueError as wrong:
        raise ConfigError(f"Cannot set tags: the request is not JSON ({wrong}).") from wrong
    if not isinstance(tags, dict):
        raise ConfigError("Cannot set tags: expected a JSON object.")
    serving.worker.update_tags({str(name): str(value) for name, value in tags.items()})
    return {"status": "success", "message": "update node tags done."}


ROUTES = (
    ("GET", "/overview", overview),
    ("GET", "/workers", list_workers),
    ("POST", "/update-tags", update_tags),
)
