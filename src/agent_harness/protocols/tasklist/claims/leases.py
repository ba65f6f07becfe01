"""Records of live owners: the session lease, the signs of life of a claim's owner, and the workers of a concurrent
list.

The task list's state contains these records. A lock could not replace them, because an agent runs each command in a
separate process. In exclusive mode, only one session runs at a time, and its ended attempts are counted from the log.
In concurrent mode, sessions overlap. The state then has a record for each worker: ``worker_sessions``: {worker: {``n``,
``owner``, ``outcomes``, ``at``}}. Source: ``tasklist.md`` 6.2, 7.4, 10.1, 12.2."""

from __future__ import annotations

import os

from agent_harness.errors import Busy, SessionHeld
from agent_harness.kernel import clock, lease
from agent_harness.kernel.clock import timedelta
from agent_harness.kernel.json import members_of
from agent_harness.protocols.tasklist import lifecycle
from agent_harness.protocols.tasklist.records import DEFAULT_LEASE_SECONDS, SessionLease, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from typing import Protocol

    from agent_harness.kernel.owner import Owner
    from agent_harness.protocols.tasklist.records import State, Task
    from agent_harness.protocols.tasklist.store import TaskListChange, TaskStore

    class SessionOwner(Protocol):
        """Interface of a worker that starts or continues a session."""

        @property
        def store(self) -> TaskStore: ...
        @property
        def owner(self) -> str: ...
        @property
        def session_owner(self) -> str: ...
        @property
        def process(self) -> Owner | None: ...


SECONDS = 3600.0
KEPT_DAYS = 7
"""Number of days after which a worker's record is deleted if none of the worker's attempts has ended."""


def is_alive(session: SessionLease | None, now: datetime) -> bool:
    """Return True if the session's lease is valid and its process is not known to be dead."""
    if session is None or (ends := session.ends) is None:
        return False
    return not lease.expired(lease.Lease("", "", ends, ends, SECONDS), now) and not process_is_dead(session.process)


def process_is_dead(record: object) -> bool:
    """Return True only if the recorded process has certainly exited."""
    if not isinstance(record, dict):
        return False
    from agent_harness.kernel import owner

    found = owner.Owner.from_record(record)
    return found is not None and owner.state(found) == "dead"


def is_ahead(state: State, now: datetime) -> bool:
    """Return True if a machine whose clock is fast has renewed the session lease."""
    session = state.session
    if session is None or state.config.concurrent:
        return False
    latest = now.timestamp() + lease.grace_seconds(lease.Lease("", "", now, now, SECONDS))
    renewed, ends = session.renewed, session.ends
    return bool((renewed and renewed.timestamp() > latest) or (ends and ends.timestamp() > latest + SECONDS))


def bring_back(caller: SessionOwner) -> bool:
    """Shorten the session lease if a machine whose clock is fast has renewed it."""
    if not is_ahead(caller.store.read(), caller.store.now()):
        return False

    def act(change: TaskListChange) -> None:
        session = change.state.session
        if session is None or not is_ahead(change.state, change.now):
            return
        was = session.record.get("renewed_at")
        # else the list stays locked for as long as that clock was ahead (tasklist.md 10.2)
        _renew(session, change.now)
        change.note(
            "WARN",
            f"the session of {session.owner} was renewed with a clock that is ahead ({was}); "
            "it now expires within an hour",
        )
        change.touch()

    caller.store.change(act)
    return True


def holder(state: State, now: datetime) -> SessionLease | None:
    """Return the lease of the running session. Return ``None`` without a session or in concurrent mode."""
    session = state.session
    return session if not state.config.concurrent and is_alive(session, now) else None


def refuse_other(state: State, caller: SessionOwner, now: datetime) -> None:
    """Raise ``Busy`` while the session of another caller is running."""
    found = holder(state, now)
    if found is None or found.owner == caller.session_owner:
        return
    since, until = found.record.get("started_at"), found.record.get("expires_at")
    raise SessionHeld(
        f"another harness session is active (owner={found.owner}, since {since}, until {until})",
        hint="harness session start --take-over && harness session end  # if no process uses that session; else wait",
        owner=found.owner,
        since=since,
        until=until,
    )


def refuse_living(state: State, caller: SessionOwner, now: datetime) -> None:
    """Raise ``Busy`` while another running worker has a task in progress."""
    own = (None, caller.owner, caller.session_owner)
    me = caller.process.as_record() if caller.process else None
    for task in state.tasks:
        if task.status != "in_progress" or task.claimed_by in own or not is_live(task, state, now):
            continue
        if me is None or task.claimed_process != me:
            raise Busy(
                f"{task.id} is claimed by {task.claimed_by}, whose lease ends at {task.raw.get('lease_expires_at')}",
                hint="wait, or if no process works on it: harness session start --take-over",
                task_id=task.id,
                owner=task.claimed_by,
            )


def keep(state: State, caller: SessionOwner, now: datetime) -> None:
    refuse_other(state, caller, now)
    session = state.session
    if session is not None and not state.config.concurrent and session.owner == caller.session_owner:
        _renew(session, now)


def _renew(session: SessionLease, now: datetime) -> None:
    ends = clock.timestamp(clock.moment(now.timestamp() + SECONDS))
    session.record.update(renewed_at=clock.timestamp(now), expires_at=ends)


def take(state: State, caller: SessionOwner, now: datetime) -> None:
    state.raw["session"] = {
        "n": state.session_count,
        "owner": caller.session_owner,
        "host": os.uname().nodename,
        "process": caller.process.as_record() if caller.process else None,
        "started_at": clock.timestamp(now),
        "renewed_at": clock.timestamp(now),
        "expires_at": clock.timestamp(clock.moment(now.timestamp() + SECONDS)),
    }


# ---- claims ----------------------------------------------------------------------------------------------------------


def is_live(task: Task, state: State, now: datetime) -> bool:
    """Return True if the owner of the task's claim may still be working on the task."""
    held = task.lease
    if held is None:
        began = task.claimed_at
        if began is None:
            return False
        held = lease.Lease(task.claimed_by or "", "", began, began, DEFAULT_LEASE_SECONDS)
        held = lease.renewed(held, began, DEFAULT_LEASE_SECONDS)
    if lease.expired(held, now):
        return False
    return state.config.concurrent or not process_is_dead(task.claimed_process)


def expired(state: State, now: datetime) -> list[Task]:
    """Return the tasks in progress whose owners show no sign of life, except those of a dead parallel run."""
    return [
        t
        for t in state.tasks
        if t.raw.get("status") == "in_progress" and not is_live(t, state, now) and not is_left_by_run(t)
    ]


def is_left_by_run(task: Task) -> bool:
    """Return True if a dead parallel run still has the claim on this task."""
    # the work may be proven and wait to be merged: only a continued run releases the claim
    return (
        task.raw.get("status") == "in_progress"
        and task.claimed_run is not None
        and process_is_dead(task.claimed_process)
    )


def left_by_run(state: State) -> list[Task]:
    return [task for task in state.tasks if is_left_by_run(task)]


def terms_of_run(left: Sequence[Task]) -> tuple[int, str | None]:
    """Return the worker count and the target branch of the run that claimed these tasks."""
    found = [task.claimed_run or {} for task in left]
    branches = (each["branch"] for each in found if isinstance(each.get("branch"), str))
    return max(whole(each.get("workers"), 1) for each in found), next(branches, None)


def jobs_of_run(left: Sequence[Task]) -> dict[str, str]:
    return {task.id: task.claim_token for task in left if isinstance(task.claim_token, str)}


def command_of_run(left: Sequence[Task]) -> str:
    """Return the command with which the user continues the run that had claimed these tasks."""
    workers, branch = terms_of_run(left)
    if branch is None:
        return f"harness run --workers {workers}"
    import shlex

    return f"harness run --workers {workers} --branch {shlex.quote(branch)}"


def reap(change: TaskListChange) -> list[Task]:
    """Mark tasks with expired claims as failed, so that the harness retries these tasks. Return these tasks."""
    reaped = expired(change.state, change.now)
    for task in reaped:
        who = task.claimed_by
        lifecycle.reap(task, change.now)
        change.note("RECOVERY", f'action="failed" reason="Lease expired (claimed_by={who})"', task=task.id)
        change.touch(task)
    return reaped


# ---- the workers of a concurrent list --------------------------------------------------------------------------------


def begin_outcomes(state: State, caller: SessionOwner, now: datetime) -> None:
    if state.config.concurrent:
        _keep(state, caller, 0, now)


def count_outcome(state: State, caller: SessionOwner, now: datetime) -> None:
    if state.config.concurrent:
        _keep(state, caller, outcomes(state, caller) + 1, now)


def outcomes(state: State, caller: SessionOwner) -> int:
    found = members_of(state.worker_sessions.get(caller.owner))
    return whole(found.get("outcomes"), 0) if found.get("owner") == caller.session_owner else 0


def _keep(state: State, caller: SessionOwner, number: int, now: datetime) -> None:
    known = state.worker_sessions
    oldest = now - timedelta(days=KEPT_DAYS)
    kept = {
        name: each
        for name, each in known.items()
        if name != caller.owner and (clock.parse(members_of(each).get("at")) or now) >= oldest
    }
    mine = known.get(caller.owner)
    began = state.session_count if number == 0 or not isinstance(mine, dict) else mine.get("n")
    record = {"n": began, "owner": caller.session_owner, "outcomes": number, "at": clock.timestamp(now)}
    state.raw["worker_sessions"] = {**kept, caller.owner: record}
