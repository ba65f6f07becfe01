"""TeammateIdle: a teammate without a task takes the next one, one with a task finishes it.

Source: ``tasklist.md`` 5.1.
"""

from __future__ import annotations

from agent_harness.hooks import messages
from agent_harness.hooks.decision import allow, keep
from agent_harness.protocols.tasklist import selection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_harness.hooks.decision import Decision
    from agent_harness.hooks.event import Event
    from agent_harness.hooks.stop_limit import Count
    from agent_harness.protocols.tasklist.records import State

__all__ = ["decide"]


def decide(event: Event, state: State, count: Callable[[], Count]) -> Decision:
    """The answer for a state that can be read; ``count`` counts this call when it would keep the teammate."""
    if state.halt is not None or state.sessions_used_up:
        return allow("halt" if state.halt is not None else "max_sessions")
    made = _own_task(event, state) or _next_task(state)
    if made is None:
        return allow("nothing to do")
    found = count()
    return made if found.recorded and not found.reached else allow("no progress")


def _own_task(event: Event, state: State) -> Decision | None:
    identities = event.identities("teammate_name")
    own = next((task for task in selection.in_progress(state) if task.claimed_by in identities), None)
    if own is None:
        return None
    name = messages.shell_word(own.id)
    text = (
        "HARNESS: your task is still in progress:\n"
        f"{messages.task_name(own)}\n"
        f"Go on with it; prove it with `harness task complete {name}`, or end it with "
        f'`harness task fail {name} --category TASK_EXEC "why"`.'
    )
    return keep("own task", messages.cut(text, messages.REASON))


def _next_task(state: State) -> Decision | None:
    found = selection.eligible(state)
    if not found:
        return None
    pending = sum(task.status == "pending" for task in found)
    text = (
        f"HARNESS: work is left: {pending} pending and {len(found) - pending} to try again. Next:\n"
        f"{messages.task_name(found[0])}\n"
        "Run `harness task claim`."
    )
    return keep("work left", messages.cut(text, messages.REASON))
