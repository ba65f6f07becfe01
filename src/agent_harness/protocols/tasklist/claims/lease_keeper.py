"""Keeps a claim alive while something long runs for it. Source: ``tasklist.md`` 10.2."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agent_harness.errors import Busy
from agent_harness.kernel import process
from agent_harness.kernel.redact import redact
from agent_harness.protocols.tasklist import lifecycle
from agent_harness.protocols.tasklist.records import DEFAULT_LEASE_SECONDS

if TYPE_CHECKING:
    from agent_harness.protocols.tasklist.records import Task
    from agent_harness.protocols.tasklist.store import TaskListChange
    from agent_harness.protocols.tasklist.workers.worker import Worker

__all__ = ["LeaseKeeper", "run_step"]

Record = dict[str, Any]

SOON_SECONDS = 1.0
TAIL_LINES = 40


class LeaseKeeper:
    """To be asked often; renews the lease once a third of it is over. Always answers false.

    ``LeaseLost`` or ``NotOwner`` when the claim is no longer the worker's: what runs for it must end.
    """

    def __init__(self, worker: "Worker", task: "Task") -> None:
        self._worker = worker
        self._task_id = task.id
        self._seconds = task.lease.seconds if task.lease and task.lease.seconds > 0 else DEFAULT_LEASE_SECONDS
        self._next = time.monotonic() + self._seconds / 3

    def __call__(self) -> bool:
        if time.monotonic() >= self._next:
            self._renew()
        return False

    def _renew(self) -> None:
        try:
            self._worker.store.change(self._change)
        except Busy:
            self._next = time.monotonic() + SOON_SECONDS
        else:
            self._next = time.monotonic() + self._seconds / 3

    def _change(self, change: "TaskListChange") -> None:
        lifecycle.renew(self._worker.own(change.state, self._task_id, change.now), change.now, self._seconds)
        change.touch()


def run_step(worker: "Worker", task_id: str, command: Sequence[str], *, timeout_seconds: float) -> Record:
    """Runs a long step of a task and holds on to the claim meanwhile: ``exit``, ``seconds``, ``tail``.

    ``exit`` is none after a timeout. The command gets this process's environment. ``LeaseLost`` ends it.
    """
    task = worker.own(worker.store.read(), task_id, worker.store.now())
    done = process.run(
        command,
        cwd=worker.cwd,
        env=worker.environ,
        timeout_seconds=timeout_seconds,
        stop=LeaseKeeper(worker, task),
    )
    lines = redact(done.output.decode("utf-8", "replace")).splitlines()
    return {
        "task_id": task_id,
        "exit": None if done.timed_out else done.exit_code,
        "seconds": round(done.seconds, 3),
        "tail": lines[-TAIL_LINES:],
    }
