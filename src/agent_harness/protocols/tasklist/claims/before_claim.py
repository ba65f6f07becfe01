"""Before a claim: what was left unfinished in this work tree, and the way back for what comes next.

Source: ``tasklist.md`` 7.4, 11.2, 12.
"""

from __future__ import annotations

import os

from agent_harness.errors import Busy
from agent_harness.protocols.tasklist import selection
from agent_harness.protocols.tasklist.claims import expiry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any

    from agent_harness.protocols.tasklist.records import State, Task
    from agent_harness.protocols.tasklist.workers.worker import Worker

    Record = dict[str, Any]

__all__ = ["baseline", "drop", "interrupted", "kept_files", "recover_first", "unfinished"]


def baseline(worker: Worker, task: Task, dirty: str) -> Record | None:
    """The way back for the next attempt at a task, as it is written down; ``None`` where there is none."""
    from agent_harness.protocols.tasklist.attempts import rollback

    number = task.attempts + 1
    record = rollback.take_baseline(worker, task.id, number, dirty=dirty)
    return {**record, "task": task.id, "attempt": number} if record else None


def kept_files(worker: Worker, task: Task) -> Record | None:
    """What decides about the task in a folder without a baseline, as it is now: for comparison when it is proven."""
    if task.validation_command is None or not (worker.git or _holds_files(worker.layout.root)):
        return None
    from agent_harness.protocols.tasklist.attempts.attempt import place_of
    from agent_harness.verification.command import keep

    place = place_of(worker)
    return keep(place.folder if place else worker.layout.root, task.validation_command).as_record()


def _holds_files(folder: str) -> bool:
    """Whether anything but the harness's own files is there; where nothing is, the claim need not load the guard."""
    return any(not name.startswith((".harness", "harness-")) for name in os.listdir(folder))


def drop(worker: Worker, prepared: Record) -> None:
    """Forgets a way back that no claim came to use."""
    from agent_harness.protocols.tasklist.attempts import rollback

    rollback.drop_baseline(worker, prepared)


def interrupted(worker: Worker, state: State, now: datetime) -> list[Task]:
    """Tasks in progress that somebody left and that this worker can recover, in its own work tree.

    Exclusive: those whose owner shows no sign of life. Concurrent: those whose lease ended, in this work tree.
    """
    left = expiry.expired(state, now)
    here = worker.tree_name if left else ""
    return [task for task in left if not state.concurrent or task.raw.get("worktree") in (None, here)]


def unfinished(worker: Worker, state: State, now: datetime) -> list[Task]:
    """Those of them that left something to look at, unless everything rests; the others are taken back with a claim."""
    if worker.store.paused() or state.halt:
        return []
    left = interrupted(worker, state, now)
    return [task for task in left if task.base_ref or task.started_at_commit or task.checkpoints_of_attempt]


def recover_first(worker: Worker, state: State) -> None:
    """Recovers what was interrupted here; ``Busy`` when only the agent can judge what it is worth."""
    if not selection.in_progress(state):
        return
    for task in unfinished(worker, state, worker.store.now()):
        from agent_harness.protocols.tasklist.attempts import recover

        for found in recover.recover(worker, task.id):
            if found.get("action") == "resume":
                raise _must_judge(task)


def _must_judge(task: Task) -> Busy:
    steps = ", ".join(str(each.get("step")) for each in task.checkpoints_of_attempt)
    busy = Busy(
        f"{task.id} was interrupted after step {steps}, and its files show no change: compare them with that",
        hint=f"harness task recover {task.id} --decide resume   (or: --decide fail)",
        task_id=task.id,
    )
    busy.code = "interrupted"
    return busy
