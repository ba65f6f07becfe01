"""Tasks that say they are completed, and that the harness has not completed: proven now, or opened again.

Nobody but the harness closes a task; an agent that edits the file by hand gains nothing. Source: ``tasklist.md`` 8.
"""

from __future__ import annotations

from agent_harness.protocols.tasklist import lifecycle, progress, proven

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agent_harness.protocols.tasklist.store import TaskListChange
    from agent_harness.protocols.tasklist.workers.worker import Worker

    Record = dict[str, Any]

__all__ = ["confirm"]


def confirm(worker: Worker) -> list[Record]:
    """Runs the validation of each such task on the files as they are: its ``action`` is confirmed or reopened.

    A list that is seen for the first time is believed. Costs one look when there is nothing to do.
    """
    worker.store.change(lambda change: proven.adopt(worker.layout, change.state))
    found = proven.unproven(worker.layout, worker.store.read())
    return [_confirm(worker, task.id) for task in found]


def _confirm(worker: Worker, task_id: str) -> Record:
    from agent_harness.protocols.tasklist.attempts import validation

    task = worker.find(worker.store.read(), task_id)
    passes = validation.again(worker, task)
    action = "confirmed" if passes else "reopened"
    reason = "marked completed by hand; the validation passes" if passes else "marked completed by hand, and not proven"

    def act(change: TaskListChange) -> None:
        own = worker.find(change.state, task_id)
        if own.status != "completed":
            return
        if passes:
            proven.prove(worker.layout, change.state, task_id)
        else:
            lifecycle.reopen(own)
            change.touch()
        text = f'action="{action}" reason="{reason}"'
        change.log(progress.entry("RECOVERY", change.state.session_count, at=change.now, task=task_id, text=text))

    worker.store.change(act)
    return {"task_id": task_id, "action": action, "reason": reason}
