"""Holding on to a claim, and telling how far it is. Source: ``tasklist.md`` 10.2."""

from __future__ import annotations

from agent_harness.errors import UsageError
from agent_harness.protocols.tasklist import lifecycle, progress
from agent_harness.protocols.tasklist.records import DEFAULT_LEASE_SECONDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agent_harness.protocols.tasklist.store import TaskListChange
    from agent_harness.protocols.tasklist.workers.worker import Worker

    Record = dict[str, Any]

__all__ = ["checkpoint", "renew"]


def renew(worker: Worker, task_id: str, *, lease_seconds: float = DEFAULT_LEASE_SECONDS) -> Record:
    """Moves the end of the claim forward. ``LeaseLost``, ``NotOwner``, ``UsageError``."""

    def act(change: TaskListChange) -> Record:
        task = worker.own(change.state, task_id, change.now)
        lifecycle.renew(task, change.now, lease_seconds)
        change.touch(task)
        return {"task_id": task.id, "lease_expires_at": task.raw.get("lease_expires_at")}

    return worker.store.change(act)


def checkpoint(worker: Worker, task_id: str, step: int, total: int, description: str) -> Record:
    """Records a finished step, in the state and in the log, and renews the claim."""
    if not 0 < step <= total:
        raise UsageError(f"step {step} of {total} is no step", hint='harness task checkpoint ID 2/4 "what was done"')

    said = " ".join(description.split()).encode("utf-8", "replace").decode()

    def act(change: TaskListChange) -> Record:
        task = worker.own(change.state, task_id, change.now)
        lifecycle.checkpoint(task, step, total, said, change.now)
        held = task.lease
        lifecycle.renew(task, change.now, held.seconds if held else DEFAULT_LEASE_SECONDS)
        text = f"step={step}/{total} {progress.quoted(said)}"
        change.log(progress.entry("CHECKPOINT", change.state.session_count, at=change.now, task=task.id, text=text))
        change.touch(task)
        return {
            "task_id": task.id,
            "step": step,
            "total": total,
            "checkpoints": len(task.checkpoints_of_attempt),
            "lease_expires_at": task.raw.get("lease_expires_at"),
        }

    return worker.store.change(act)
