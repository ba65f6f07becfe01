"""The session lease of exclusive mode: one harness session at a time, for as long as its owner shows signs of life.

It lives in the state, since an agent runs every command in a process of its own and no lock could outlive one. Source:
``tasklist.md`` 10.1.
"""

from __future__ import annotations

import os

from agent_harness.errors import Busy
from agent_harness.kernel import clock, lease
from agent_harness.protocols.tasklist import progress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any, Protocol

    from agent_harness.kernel.owner import Owner
    from agent_harness.protocols.tasklist.records import State
    from agent_harness.protocols.tasklist.store import TaskListChange, TaskStore

    Record = dict[str, Any]

    class SessionOwner(Protocol):
        """The worker for whom a session is taken or kept."""

        @property
        def store(self) -> TaskStore: ...
        @property
        def session_owner(self) -> str: ...
        @property
        def process(self) -> Owner | None: ...


__all__ = ["SECONDS", "bring_back", "holder", "is_ahead", "is_alive", "keep", "process_is_dead", "refuse_other", "take"]

SECONDS = 3600.0


def is_alive(session: Record | None, now: datetime) -> bool:
    """Whether the owner may still be at work: the lease has not expired, and no death of its program is proven."""
    if session is None:
        return False
    ends = clock.parse(session.get("expires_at"))
    if ends is None or lease.expired(lease.Lease("", "", ends, ends, SECONDS), now):
        return False
    return not process_is_dead(session.get("process"))


def process_is_dead(record: object) -> bool:
    """Whether a process that was written down is proven to be gone; false where nothing can be proven."""
    if not isinstance(record, dict):
        return False
    from agent_harness.kernel import owner

    found = owner.Owner.from_record(record)
    return found is not None and owner.state(found) == "dead"


def is_ahead(state: State, now: datetime) -> bool:
    """Whether the lease was renewed, or ends, later than any clock that agrees with ours could have said."""
    session = state.session
    if session is None or state.concurrent:
        return False
    latest = now.timestamp() + lease.grace_seconds(lease.Lease("", "", now, now, SECONDS))
    renewed, ends = clock.parse(session.get("renewed_at")), clock.parse(session.get("expires_at"))
    return bool((renewed and renewed.timestamp() > latest) or (ends and ends.timestamp() > latest + SECONDS))


def bring_back(worker: SessionOwner) -> bool:
    """Gives a lease that a clock ahead of ours has renewed an hour from now, with a warning in the log; else false.

    Otherwise it would be a lock for as long as that clock was ahead. Source: ``tasklist.md`` 10.2.
    """
    if not is_ahead(worker.store.read(), worker.store.now()):
        return False

    def act(change: TaskListChange) -> None:
        session = change.state.session
        if session is None or not is_ahead(change.state, change.now):
            return
        was = session.get("renewed_at")
        _renew(session, change.now)
        text = f"the session of {session.get('owner')} was renewed in the future ({was}); it ends in an hour at most"
        change.log(progress.entry("WARN", change.state.session_count, at=change.now, text=text))
        change.touch()

    worker.store.change(act)
    return True


def holder(state: State, now: datetime) -> Record | None:
    """The session that is under way; ``None`` in concurrent mode and when nobody is at work."""
    session = state.session
    return session if not state.concurrent and is_alive(session, now) else None


def refuse_other(state: State, worker: SessionOwner, now: datetime) -> None:
    """``Busy`` while somebody else's session is under way."""
    found = holder(state, now)
    if found is None or found.get("owner") == worker.session_owner:
        return
    raise Busy(
        f"another harness session is active (owner={found.get('owner')}, since {found.get('started_at')}, "
        f"until {found.get('expires_at')})",
        hint="wait, or when you know that it is dead: harness session start --take-over",
        owner=found.get("owner"),
        since=found.get("started_at"),
        until=found.get("expires_at"),
    )


def keep(state: State, worker: SessionOwner, now: datetime) -> None:
    """Renews this worker's own session lease in place; ``Busy`` while somebody else's is alive."""
    refuse_other(state, worker, now)
    session = state.session
    if session is None or state.concurrent or session.get("owner") != worker.session_owner:
        return
    _renew(session, now)


def _renew(session: Record, now: datetime) -> None:
    session["renewed_at"] = clock.timestamp(now)
    session["expires_at"] = clock.timestamp(clock.moment(now.timestamp() + SECONDS))


def take(state: State, worker: SessionOwner, now: datetime) -> None:
    """Makes this worker the owner of the session under way; its number is the present ``session_count``."""
    state.raw["session"] = {
        "n": state.session_count,
        "owner": worker.session_owner,
        "host": os.uname().nodename,
        "process": worker.process.as_record() if worker.process else None,
        "started_at": clock.timestamp(now),
        "renewed_at": clock.timestamp(now),
        "expires_at": clock.timestamp(clock.moment(now.timestamp() + SECONDS)),
    }
