"""Scheduling decision: run, wait, done or needs-human. Each function depends only on a checkpoint and a time.

Source: ``longtask.md`` 4."""

from __future__ import annotations

from agent_harness.kernel import clock
from agent_harness.protocols.longtask.records import Checkpoint, moment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime


class SchedulingDecision:
    def __init__(self, decision: str, reason: str, wait_seconds: int = 0) -> None:
        self.decision = decision
        self.reason = reason
        self.wait_seconds = wait_seconds

    def __repr__(self) -> str:
        return f"Decision({self.decision!r}, {self.reason!r}, {self.wait_seconds})"


def seconds_until(until: datetime, now: datetime) -> int:
    """Return the seconds from ``now`` to ``until``, rounded up. Return 0 if ``until`` has passed."""
    from agent_harness.kernel.clock import timedelta

    return max(0, -((now - until) // timedelta(seconds=1)))


def _is(*statuses: str) -> Callable[[Checkpoint, datetime], bool]:
    return lambda checkpoint, now: checkpoint.status in statuses


def _asks_for_a_person(checkpoint: Checkpoint, now: datetime) -> bool:
    return checkpoint.blocker is not None and checkpoint.blocker.requires_human


def _has_no_window(checkpoint: Checkpoint, now: datetime) -> bool:
    return checkpoint.status == "blocked" and checkpoint.raw.get("blockedUntil") in (None, "")


def _has_odd_window(checkpoint: Checkpoint, now: datetime) -> bool:
    return checkpoint.status == "blocked" and moment(checkpoint.raw.get("blockedUntil")) is None


def _is_closed(checkpoint: Checkpoint, now: datetime) -> bool:
    until = moment(checkpoint.raw.get("blockedUntil"))
    return checkpoint.status == "blocked" and until is not None and until > now


ROWS: tuple[tuple[Callable[[Checkpoint, datetime], bool], str, str], ...] = (
    (_is("done"), "done", "task is complete"),
    (_is("needs-human"), "needs-human", "checkpoint requires human input"),
    (_asks_for_a_person, "needs-human", "blocker requires human input"),
    (_has_no_window, "needs-human", "blocked without blockedUntil"),
    (_has_odd_window, "needs-human", "invalid blockedUntil"),
    (_is_closed, "wait", "blocked window has not reopened"),
    (_is("blocked"), "run", "blocked window reopened"),
    (_is("active", "paused"), "run", "checkpoint status is {status}"),
)
"""Decision table, with a condition, a decision and a reason in each row. The first row whose condition is true
decides.
"""

_OTHERWISE = ("needs-human", "checkpoint status is {status}")  # a valid checkpoint never gets here


def decide(checkpoint: Checkpoint, now: datetime) -> SchedulingDecision:
    found = (row[1:] for row in ROWS if row[0](checkpoint, now))
    decision, reason = next(found, _OTHERWISE)
    until = moment(checkpoint.raw.get("blockedUntil"))
    wait = seconds_until(until, now) if decision == "wait" and until else 0
    return SchedulingDecision(decision, reason.format(status=checkpoint.status), wait)


def reopened(checkpoint: Checkpoint, now: datetime) -> Checkpoint:
    """Return a copy of the checkpoint. In the copy, a `blocked` task is `active`."""
    raw = dict(checkpoint.raw)
    if checkpoint.status == "blocked":
        raw |= {"status": "active", "blockedUntil": None, "blocker": None}
        raw["updatedAt"] = clock.timestamp(now, fraction=True)
    return Checkpoint(raw)


def is_cooling(checkpoint: Checkpoint, worker: str, now: datetime) -> bool:
    found = checkpoint.cooldowns.get(worker)
    until = found.until if found else None
    return until is not None and until > now


def expired_cooldowns(checkpoint: Checkpoint, now: datetime) -> list[str]:
    return [worker for worker in checkpoint.cooldowns if not is_cooling(checkpoint, worker, now)]
