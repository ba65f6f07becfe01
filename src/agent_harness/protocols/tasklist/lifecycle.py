"""Legal states of a task, and the transitions between these states. Each function changes only the given task.

    pending ──start──> in_progress ──complete──> completed
    failed  ──start──>             ──fail─────> failed
                                   ──release──> pending

``attempts`` is the number of finished attempts. ``complete`` and ``fail`` increase the number, but ``release`` does
not. Source: ``tasklist.md`` 1.1, 7.2, 7.4, 10, 11."""

from __future__ import annotations

from agent_harness.errors import NotOwner
from agent_harness.kernel import clock, lease

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from agent_harness.protocols.tasklist.records import Task


MOVES: dict[tuple[str, str], str] = {
    ("pending", "start"): "in_progress",
    ("failed", "start"): "in_progress",
    ("in_progress", "complete"): "completed",
    ("in_progress", "fail"): "failed",
    ("in_progress", "release"): "pending",
}
"""Allowed transitions of a task, as a mapping from (status, transition) to the new status. All others are refused."""

CLAIM_FIELDS = (
    "claimed_by",
    "claimed_at",
    "claimed_process",
    "claimed_run",
    "claimed_session",
    "lease_expires_at",
    "lease_seconds",
    "claim_token",
    "worktree",
)
MAX_CHECKPOINTS = 50
"""Maximum number of checkpoints in one attempt that count as progress (``tasklist.md`` 6.3)."""


def _move(task: Task, move: str) -> None:
    after = MOVES.get((task.status, move))
    if after is None:
        raise NotOwner(
            f"{task.id} is {task.status}, so there is nothing to {move}", hint="harness task claim", status=task.status
        )
    task.raw["status"] = after


def start(
    task: Task,
    *,
    owner: str,
    token: str,
    at: datetime,
    lease_seconds: float,
    head: str | None = None,
    branch: str | None = None,
    base_ref: str | None = None,
) -> None:
    _move(task, "start")
    ends = lease.renewed(lease.Lease(owner, token, at, at, lease_seconds), at, lease_seconds).expires_at
    task.raw.update(
        claimed_by=owner,
        claimed_at=clock.timestamp(at),
        lease_expires_at=clock.timestamp(ends),
        lease_seconds=lease_seconds,
        claim_token=token,
        started_at_commit=head,
        started_branch=branch,
        base_ref=base_ref,
        completed_at=None,
    )


def renew(task: Task, at: datetime, seconds: float) -> None:
    """Extend the lease on the task, but never shorten it. Raise ``LeaseLost`` if the lease has expired."""
    held = task.lease
    if held is None:
        held = lease.Lease(task.claimed_by or "", task.claim_token or "", at, at, seconds)
    later = lease.renewed(held, at, seconds)
    if later.expires_at > held.expires_at or task.lease_expires_at is None:
        task.raw["lease_expires_at"] = clock.timestamp(later.expires_at)
        task.raw["lease_seconds"] = later.seconds


def checkpoint(task: Task, step: int, total: int, description: str, at: datetime) -> None:
    """Record a finished step of the present attempt. Replace an earlier record of the same step."""
    found = task.raw.get("checkpoints")
    kept = found if isinstance(found, list) else []
    attempt = task.attempts + 1
    entry = {"step": step, "total": total, "description": description, "timestamp": clock.timestamp(at)}
    same = [
        n
        for n, each in enumerate(kept)
        if isinstance(each, dict) and each.get("step") == step and each.get("attempt") in (None, attempt)
    ]
    if same:
        kept[same[-1]] = {**kept[same[-1]], **entry}
    else:
        kept.append({**entry, "attempt": attempt})
    task.raw["checkpoints"] = kept


def complete(task: Task, at: datetime) -> None:
    """Mark the task as completed, count the attempt, and delete the claim."""
    _move(task, "complete")
    task.raw.update(attempts=task.attempts + 1, completed_at=clock.timestamp(at))
    _let_go(task)


def fail(task: Task, category: str, message: str, at: datetime, *, give_up: bool = False) -> None:
    """Mark the task as failed and count the attempt. With ``give_up``, do not allow any further attempt."""
    _move(task, "fail")
    attempts = task.attempts + 1
    task.raw["attempts"] = max(attempts, task.max_attempts) if give_up else attempts
    task.raw["failed_at"] = clock.timestamp(at, fraction=True)
    _note(task, category, message)
    _let_go(task)


def keep_rescues(task: Task, refs: Iterable[str]) -> None:
    task.raw["rescues"] = [*task.rescues, *(ref for ref in refs if ref not in task.rescues)]


def reap(task: Task, at: datetime) -> None:
    fail(task, "SESSION_TIMEOUT", f"Lease expired (claimed_by={task.claimed_by})", at)


def release(task: Task) -> None:
    _move(task, "release")
    _let_go(task)


def reopen(task: Task) -> None:
    """Make a completed task pending, because there is no proof for the task."""
    task.raw.update(status="pending", completed_at=None)


def unprove(task: Task, message: str, at: datetime) -> None:
    """Mark a completed task as failed because its check now fails. The task is not retried until the user decides."""
    task.raw.update(status="failed", attempts=max(task.attempts, task.max_attempts), completed_at=None)
    task.raw["failed_at"] = clock.timestamp(at, fraction=True)
    _note(task, "TEST_FAIL", message)


def take_back(task: Task) -> None:
    """Make a task pending because the user has undone its accepted work. The number of attempts stays unchanged."""
    reopen(task)
    for name in ("completed_commit", "proof"):
        task.raw.pop(name, None)


def mark(task: Task, message: str, at: datetime) -> None:
    """Mark a task as failed because its dependencies prevent its start. The number of attempts stays unchanged."""
    task.raw["status"] = "failed"
    task.raw["failed_at"] = clock.timestamp(at, fraction=True)
    _note(task, "DEPENDENCY", message)


def _note(task: Task, category: str, message: str) -> None:
    found = task.raw.get("error_log")
    task.raw["error_log"] = [*(found if isinstance(found, list) else []), f"[{category}] {message}"]


def _let_go(task: Task) -> None:
    # with it, the owner can ask for the result again
    task.raw["last_claim_token"] = task.claim_token
    task.raw["last_owner"] = task.claimed_by
    for name in CLAIM_FIELDS:
        task.raw.pop(name, None)
