"""Keeps a claim alive while something long runs for it. Source: ``tasklist.md`` 10.2."""

import time
from typing import TYPE_CHECKING

from agent_harness.errors import Busy
from agent_harness.protocols.tasklist import lifecycle
from agent_harness.protocols.tasklist.records import DEFAULT_LEASE_SECONDS

if TYPE_CHECKING:
    from agent_harness.protocols.tasklist.records import Task
    from agent_harness.protocols.tasklist.store import Change
    from agent_harness.protocols.tasklist.worker import Worker

__all__ = ["Holding"]

SOON_SECONDS = 1.0


class Holding:
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

    def _change(self, change: "Change") -> None:
        lifecycle.renew(self._worker.own(change.state, self._task_id, change.now), change.now, self._seconds)
        change.touch()
