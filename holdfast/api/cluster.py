"""The cluster: who leads, who works, how much room there is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast import __version__
from holdfast.api.bodies import read_object
from holdfast.api.serving import Serving
from holdfast.master.looking import list_workers
from holdfast.master.master import Asked
from holdfast.model.errors import ConfigError, Terminal, Transient

ALIVE = "ALIVE"
ASKED_TIMEOUT_MS = 5_000
ASKED_LOOK_MS = 20

if TYPE_CHECKING:
    from holdfast.api.app import Call


class NoSuchWorker(Terminal):
    """No worker, or more than one, goes by what was given."""

    code = "no-such-worker"


class WorkerSilent(Transient):
    """A worker was asked for something and has not reported since."""

    code = "worker-silent"


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
                "host": told.host,
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
    """Of the worker that is named; else of the one in this process, as SeaTunnel has it."""
    tags = {str(name): str(value) for name, value in read_object(call).items()}
    if "workerId" in call.query:
        _ask_worker(serving, call.query["workerId"], Asked(tags=tags))
    elif serving.worker is None:
        raise ConfigError(
            "Cannot set tags: no worker runs in this process. Name one: /update-tags?workerId=…; /workers lists them."
        )
    else:
        serving.worker.update_tags(tags)
    return {"status": "success", "message": "update node tags done."}


def drain_worker(serving: Serving, call: Call) -> object:
    """Its pipelines go on elsewhere, each after its epoch; then it ends, unless it is part of a server."""
    worker_id = _ask_worker(serving, str(read_object(call).get("workerId", "")), Asked(drain=True))
    return {"workerId": worker_id}


def _ask_worker(serving: Serving, named: str, asked: Asked) -> str:
    """The id of the worker, once it has heard it."""
    master = serving.master
    master.leading_term()
    worker_id = _find_worker(serving, named)
    master.ask_worker(worker_id, asked)
    until_ms = master.clock.elapsed_ms() + ASKED_TIMEOUT_MS
    while master.is_asked(worker_id):
        if master.clock.elapsed_ms() > until_ms:
            raise WorkerSilent(
                f"Cannot tell whether worker {worker_id} was told: it did not report within"
                f" {ASKED_TIMEOUT_MS / 1000:g} s. It is told when it does; `holdfast workers` shows it."
            )
        master.clock.wait(ASKED_LOOK_MS)
    return worker_id


def _find_worker(serving: Serving, named: str) -> str:
    """By its id or the first letters of it."""
    known = [worker["workerId"] for worker in _workers(serving) if worker["status"] == ALIVE]
    found = [str(id_) for id_ in known if named and str(id_).startswith(named)]
    if len(found) != 1:
        said = f"{len(found)} of {len(known)} workers have an id that begins so"
        raise NoSuchWorker(f"Cannot ask worker '{named}': {said}. `holdfast workers` lists them.")
    return found[0]


ROUTES = (
    ("GET", "/overview", overview),
    ("GET", "/workers", show_workers),
    ("POST", "/update-tags", update_tags),
    ("POST", "/drain-worker", drain_worker),
)
