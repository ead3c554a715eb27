"""The cluster: who leads, who works, how much room there is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from holdfast import __version__
from holdfast.api.serving import Serving
from holdfast.master.looking import list_workers
from holdfast.model.errors import ConfigError

ALIVE = "ALIVE"

if TYPE_CHECKING:
    from holdfast.api.app import Call


def overview(serving: Serving, call: Call) -> object:
    """Numbers as text, as SeaTunnel has them."""
    master = serving.master
    reads = master.store.reads
    counts, pending, lease = reads.count_outcomes(), reads.count_pending(), reads.lease()
    workers = [worker for worker in _workers(serving) if worker["status"] == ALIVE]
    open_attempts = sum(int(str(worker["attempts"])) for worker in workers)
    fixed = [worker["slots"] for worker in workers]
    total = None if None in fixed else sum(int(str(slots)) for slots in fixed)
    found = {
        "projectVersion": __version__,
        "leader": lease.url if lease else "",
        "term": lease.term if lease else 0,
        "isLeader": master.term is not None,
        "totalSlot": "dynamic" if total is None else total,
        "unassignedSlot": "dynamic" if total is None else total - open_attempts,
        "works": len(workers),
        "runningJobs": counts.get("", 0) - pending,
        "pendingJobs": pending,
        "finishedJobs": counts.get("FINISHED", 0),
        "failedJobs": counts.get("FAILED", 0),
        "cancelledJobs": counts.get("CANCELED", 0),
        "savepointJobs": counts.get("SAVEPOINT_DONE", 0),
    }
    return {name: str(value) for name, value in found.items()}


def show_workers(serving: Serving, call: Call) -> object:
    return _workers(serving)


def _workers(serving: Serving) -> list[dict[str, object]]:
    master = serving.master
    now_ms = master.now_ms()
    hosted = master.store.reads.hosted()
    # What a stand-by knows is as old as the write-behind delay.
    lease_ms = master.settings.limits.worker_lease_ms + master.settings.write_behind_ms
    found: list[dict[str, object]] = []
    for worker in list_workers(master):
        told = worker.heartbeat
        found.append(
            {
                "workerId": worker.id,
                "url": told.url,
                "tags": dict(told.tags),
                "slots": told.slots,
                "attempts": hosted.get(worker.id, 0),
                "draining": told.draining,
                "lastHeartbeatTime": worker.heard_at_ms,
                "status": ALIVE if now_ms - worker.heard_at_ms <= lease_ms else "SILENT",
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
    ("GET", "/workers", show_workers),
    ("POST", "/update-tags", update_tags),
)
