"""Where a task list stands, from its files alone; takes no lock. Source: ``tasklist.md`` 13.2."""

from __future__ import annotations

import os

from agent_harness.kernel import clock
from agent_harness.kernel.terminal import printable
from agent_harness.protocols.tasklist import (
    progress,
    proven,
    selection,
    spending,
    store,
)
from agent_harness.protocols.tasklist.records import ADD
from agent_harness.protocols.tasklist.workers import session_lease

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agent_harness.protocols.tasklist.layout import TaskListLayout
    from agent_harness.protocols.tasklist.records import State, Task

    Record = dict[str, Any]

__all__ = ["lines", "next_command", "read"]


def read(layout: TaskListLayout, *, tail: int = 5, tasks: bool = True) -> Record:
    """The answer of ``harness status``. ``StateDamaged`` when the state does not parse."""
    state, now = store.read(layout), clock.now()
    holder = session_lease.holder(state, now)
    return {
        "kind": "tasklist",
        "root": layout.root,
        "active": os.path.isfile(layout.marker),
        "paused": os.path.lexists(layout.pause),
        "halt": state.halt,
        "mode": "concurrent" if state.concurrent else "exclusive",
        "isolation": state.isolation,
        "requires_red": state.requires_red,
        "counts": {**selection.counts(state), "blocked": selection.blocked_count(state)},
        "stats": selection.stats(state),
        "work_left": selection.work_left(state),
        "session_count": state.session_count,
        "max_sessions": state.max_sessions,
        "last_session": state.raw.get("last_session"),
        "session": {name: holder.get(name) for name in ("n", "owner", "started_at", "expires_at")} if holder else None,
        "in_progress": [_claim_of(task) for task in selection.in_progress(state)],
        "next": next_command(state, paused=os.path.lexists(layout.pause)),
        "next_task": _named(selection.next_task(state)),
        "rescues": sum(len(task.rescues) for task in state.tasks),
        "green_before": [task.id for task in state.tasks if task.proof.get("red_before") == "green"],
        "unproven": [task.id for task in proven.unproven(layout, state)],
        "findings": [each.as_json() for each in state.findings()],
        "costs": spending.read(layout),
        "log": progress.tail(layout, tail),
        **({"tasks": [_row(task) for task in state.tasks]} if tasks else {}),
    }


def next_command(state: State, *, paused: bool = False) -> str:
    """The one command to type now."""
    if state.halt or paused:
        return "harness resume"
    if state.findings() and not selection.next_task(state):
        return "harness task set ID FIELD=VALUE"
    return "harness run" if selection.work_left(state) else ADD


def _named(task: Task | None) -> Record | None:
    return {"id": task.id, "title": task.title} if task else None


def _claim_of(task: Task) -> Record:
    return {
        "id": task.id,
        "title": task.title,
        "claimed_by": task.claimed_by,
        "lease_expires_at": task.raw.get("lease_expires_at"),
        "checkpoints": len(task.checkpoints_of_attempt),
    }


def _row(task: Task) -> Record:
    return {
        "id": task.id,
        "title": task.title,
        "status": task.status,
        "priority": task.priority,
        "attempts": task.attempts,
        "max_attempts": task.max_attempts,
        "proof": task.proof or None,
        "last_error": task.error_log[-1] if task.error_log and task.status == "failed" else None,
    }


def lines(found: Record) -> list[str]:
    """The same for a person."""
    counts = found["counts"]
    words = ("completed", "failed", "in_progress", "pending", "blocked")
    summary = ", ".join(f"{counts.get(word, 0)} {word.replace('_', ' ')}" for word in words)
    last = found["last_session"] or "never"
    text = [
        f"Tasks: {summary}, {counts['total']} in all",
        f"Sessions: {found['session_count']} of {found['max_sessions'] or 'any number'}; last ended {last}",
    ]
    text += [*spending.lines(found["costs"]), *_warnings(found)]
    text += [_task_line(row) for row in found.get("tasks", ())]
    if found["log"]:
        text += ["", *found["log"]]
    return [printable(line) for line in (*text, "", f"next: {found['next']}")]


def _warnings(found: Record) -> list[str]:
    text = []
    if found["paused"]:
        text.append("Paused by a person: harness resume")
    if halt := found["halt"]:
        text.append(f"Halted by {halt.get('category')}: {halt.get('message')}")
    if session := found["session"]:
        text.append(f"A session is active: {session['owner']} until {session['expires_at']}")
    if unproven := found["unproven"]:
        text.append(
            f"Marked completed, and not proven by the harness: {', '.join(unproven)}; harness session start looks"
        )
    if green := found["green_before"]:
        text.append(f"Proven by a command that passed before the work as well: {', '.join(green)}")
    if not found["active"] and found["work_left"]:
        text.append("Hooks rest here: harness activate")
    if found["rescues"]:
        text.append(f"{found['rescues']} rescued attempts are kept: harness rescue list")
    text += [f"CONFIG {each['field']}: {each['message']}" for each in found["findings"]]
    return [*text, ""]


def _task_line(row: Record) -> str:
    why = f"   {row['last_error'][:100]}" if row["last_error"] else ""
    return f"[{row['status']}] {row['id']}: {row['title']} ({row['attempts']}/{row['max_attempts']}){why}"
