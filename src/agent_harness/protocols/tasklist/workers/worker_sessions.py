"""The sessions of the workers of a concurrent list: how many attempts each has ended in the one that it has under way.

In exclusive mode the log counts them, since one session follows the other there. Here they overlap, so the state holds
one record a worker, ``worker_sessions``: {worker: {``n``, ``owner``, ``outcomes``, ``at``}}. Source: ``tasklist.md``
6.2, 12.2.
"""

from __future__ import annotations

from agent_harness.kernel import clock
from agent_harness.kernel.clock import timedelta
from agent_harness.protocols.tasklist.records import whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any

    from agent_harness.protocols.tasklist.records import State
    from agent_harness.protocols.tasklist.workers.worker import Worker

    Record = dict[str, Any]

__all__ = ["begin", "count", "outcomes"]

MEMBER = "worker_sessions"
KEPT_DAYS = 7
"""A worker that has ended nothing for so long is forgotten."""


def begin(state: State, worker: Worker, now: datetime) -> None:
    """A session starts: nothing has ended in it yet."""
    if state.concurrent:
        _keep(state, worker, 0, now)


def count(state: State, worker: Worker, now: datetime) -> None:
    """One more attempt of the worker has ended, with whatever outcome."""
    if state.concurrent:
        _keep(state, worker, outcomes(state, worker) + 1, now)


def outcomes(state: State, worker: Worker) -> int:
    """Attempts that have ended in the worker's present session; another client session is another one."""
    found = _all(state).get(worker.owner)
    if not isinstance(found, dict) or found.get("owner") != worker.session_owner:
        return 0
    return whole(found.get("outcomes"), 0)


def _keep(state: State, worker: Worker, number: int, now: datetime) -> None:
    known = _all(state)
    oldest = now - timedelta(days=KEPT_DAYS)
    kept = {name: each for name, each in known.items() if name != worker.owner and not _is_older(each, oldest)}
    mine = known.get(worker.owner)
    began = state.session_count if number == 0 or not isinstance(mine, dict) else mine.get("n")
    record = {"n": began, "owner": worker.session_owner, "outcomes": number, "at": clock.timestamp(now)}
    state.raw[MEMBER] = {**kept, worker.owner: record}


def _all(state: State) -> Record:
    found = state.raw.get(MEMBER)
    return found if isinstance(found, dict) else {}


def _is_older(record: object, than: datetime) -> bool:
    at = clock.parse(record.get("at")) if isinstance(record, dict) else None
    return at is not None and at < than
