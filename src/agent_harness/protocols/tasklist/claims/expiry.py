"""Claims whose owner shows no sign of life any more. Source: ``tasklist.md`` 7.4."""

from __future__ import annotations

from agent_harness.kernel import lease
from agent_harness.protocols.tasklist import lifecycle, progress, selection
from agent_harness.protocols.tasklist.records import DEFAULT_LEASE_SECONDS
from agent_harness.protocols.tasklist.workers import session_lease

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime

    from agent_harness.protocols.tasklist.records import State, Task
    from agent_harness.protocols.tasklist.store import TaskListChange

__all__ = ["expired", "is_live", "reap"]


def is_live(task: Task, state: State, now: datetime) -> bool:
    """Whether the owner of a claim may still be at work on it."""
    held = task.lease
    if held is None:
        began = task.claimed_at
        if began is None:
            return False
        held = lease.Lease(task.claimed_by or "", "", began, began, DEFAULT_LEASE_SECONDS)
        held = lease.renewed(held, began, DEFAULT_LEASE_SECONDS)
    if lease.expired(held, now):
        return False
    return state.concurrent or not session_lease.process_is_dead(task.raw.get("claimed_process"))


def expired(state: State, now: datetime) -> list[Task]:
    """Claims that anybody may take back: without a sign of life of their owner."""
    return [task for task in selection.in_progress(state) if not is_live(task, state, now)]


def reap(change: TaskListChange) -> list[Task]:
    """Fails the tasks whose claims have expired, and says so in the log; they are tried again like any failed task."""
    reaped = expired(change.state, change.now)
    for task in reaped:
        who = task.claimed_by
        lifecycle.reap(task, change.now)
        text = f'action="failed" reason="Lease expired (claimed_by={who})"'
        change.log(progress.entry("RECOVERY", change.state.session_count, at=change.now, task=task.id, text=text))
        change.touch(task)
    return reaped
