"""SessionStart hook. It gives a text to the agent at the start of a session, after ``/clear`` and after a compaction.
Source: ``tasklist.md`` 4."""

from __future__ import annotations

from agent_harness.hooks import messages
from agent_harness.hooks.event import context
from agent_harness.protocols.tasklist import selection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from agent_harness.errors import StateDamaged
    from agent_harness.hooks.event import Decision
    from agent_harness.protocols.tasklist.records import State

__all__ = ["decide", "decide_damaged"]

WHOLE = 8000
LAST_LOG = 220
NAMED = 5
"""Maximum number of interrupted tasks, and of findings, that are listed."""


def decide_damaged(error: StateDamaged, *, backup: bool) -> Decision:
    return context(f"HARNESS: {messages.damaged(error, backup=backup)}", "session")


def decide(state: State, *, last_log: str | None, other: Mapping[str, Any] | None) -> Decision:
    """Return the decision that tells the agent the progress and the first step."""
    lines = [_counts(state)]
    lines += [f"last_log={messages.cut(last_log, LAST_LOG)}"] if last_log else []
    found = state.findings()
    lines += [
        *_interrupted(state),
        *_waiting(state),
        *_other_session(other),
        *(f"[CONFIG] {messages.cut(each.message, 300)} (a person must fix it)" for each in found[:NAMED]),
    ]
    lines.append(_first_step(state))
    return context(messages.cut("\n".join(lines), WHOLE), "session")


def _counts(state: State) -> str:
    found = selection.counts(state)
    total = found.pop("total")
    numbers = [f"{messages.cut(' '.join(name.split()), 40)}={count}" for name, count in list(found.items())[:20]]
    following = selection.next_task(state)
    shown = [f"next={messages.task_name(following)}"] if following else []
    return " ".join(["HARNESS:", *numbers, f"total={total}", *shown])


def _interrupted(state: State) -> list[str]:
    found = selection.in_progress(state)
    return [
        f"In progress: {messages.task_name(task)}. If nobody works on it: `harness task recover "
        f"{messages.shell_word(messages.cut(task.id, messages.TITLE))}`."
        for task in found[:NAMED]
    ]


def _waiting(state: State) -> list[str]:
    if state.halt is not None:
        return [messages.halted(state)]
    if state.sessions_used_up:
        return [
            f"The limit of {state.config.max_sessions} sessions is reached. Start no session; a person can raise it."
        ]
    return []


def _other_session(other: Mapping[str, Any] | None) -> list[str]:
    if other is None:
        return []
    told = map(other.get, ("owner", "started_at", "expires_at"))
    owner, since, ends = (messages.cut(" ".join(each.split()), 100) if isinstance(each, str) else "?" for each in told)
    return [f"Another session is at work: {owner}, since {since}, until {ends}. Its tasks are not yours."]


def _first_step(state: State) -> str:
    if state.halt is not None or state.sessions_used_up:
        return "Run `harness status`."
    if not state.tasks:
        return 'There are no tasks yet. A task is added with `harness add "what is to be done" --validate "CMD"`.'
    return "The harness manages the tasks of this project: run `harness session start`, then `harness task claim`."
