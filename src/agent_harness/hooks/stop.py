"""Stop: whether the agent may end its turn. The first row that fits decides.

Source: ``tasklist.md`` 6.1, 6.4, 6.5.
"""

from __future__ import annotations

from agent_harness.hooks import messages
from agent_harness.hooks.decision import allow, block
from agent_harness.protocols.tasklist import selection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from agent_harness.errors import StateDamaged
    from agent_harness.hooks.decision import Decision
    from agent_harness.hooks.event import Event
    from agent_harness.hooks.stop_limit import Count
    from agent_harness.protocols.tasklist.records import State, Task

__all__ = ["StopFacts", "decide", "decide_damaged", "is_mine"]


class StopFacts:
    """What the rule needs besides the state. Both functions are asked only when a row needs them."""

    __slots__ = ("count", "now", "outcomes")

    def __init__(self, now: datetime, *, outcomes: Callable[[], int], count: Callable[[], Count]) -> None:
        self.now = now
        self.outcomes = outcomes  # of this session, by the log
        self.count = count  # counts this call, and says where that leaves the session


def decide_damaged(event: Event, error: StateDamaged, *, backup: bool, told: bool) -> Decision:
    """The answer when the state cannot be read: said to the agent once in a session, then to the person."""
    text = messages.damaged(error, backup=backup)
    if told or event.flag("stop_hook_active") is True:
        return allow("damaged", f"HARNESS: {text}")
    return block("damaged", f"The state of this task list is damaged, so nothing can be claimed.\n{text}", "damage")


def decide(event: Event, state: State, facts: StopFacts) -> Decision:
    """The answer for a state that can be read."""
    return _limits(state, facts) or _other_reasons(event) or _work(event, state, facts)


def _limits(state: State, facts: StopFacts) -> Decision | None:
    """Rows 4 to 6: the whole list waits, whatever is left."""
    if state.halt is not None:
        return allow("halt", messages.halted(state))
    if state.sessions_used_up:
        return _limit(state, "max_sessions", f"{state.session_count} of {state.max_sessions} sessions are used up.")
    limited = not state.concurrent and state.max_tasks > 0 and state.session_count > 0
    if limited and facts.outcomes() >= state.max_tasks:
        return _limit(state, "max_tasks_per_session", f"{state.max_tasks} tasks in this session, as many as it may do.")
    return None


def _limit(state: State, why: str, message: str) -> Decision:
    if not selection.work_left(state):
        return _nothing_to_do(state)
    return allow(why, f"HARNESS: {message} {_stats(state)}", "forget")


def _other_reasons(event: Event) -> Decision | None:
    """Row 7: the agent cannot act, or is woken by itself."""
    if event.text("permission_mode") == "plan":
        return allow("plan mode")
    return allow("background tasks") if event.entries("background_tasks") else None


def _work(event: Event, state: State, facts: StopFacts) -> Decision:
    """Rows 8 to 10: what is left for this worker decides, within the guard."""
    mine = next((task for task in selection.in_progress(state) if is_mine(task, state, event.worker, facts.now)), None)
    following = selection.next_task(state)
    if mine is None and following is None:
        return _nothing_to_do(state)
    count = facts.count()
    if not count.recorded:
        return allow("guard cannot be recorded", "HARNESS: let go: .harness/stops.json cannot be written.")
    if count.reached:
        return allow("no progress", _let_go(state, count, following))
    return block("work left", _reason(state, mine, following))


def _nothing_to_do(state: State) -> Decision:
    if selection.work_left(state):
        return allow(
            "nothing for this worker", f"HARNESS: nothing to do here now. {_stats(state)} See `harness status`."
        )
    if not selection.finished(state):
        return allow("no tasks yet")
    effects = ("finish", "reflect") if state.reflect_iterations else ("finish",)
    return allow("all done", f"HARNESS: the task list is finished. {_stats(state)}", *effects)


def is_mine(task: Task, state: State, worker: str, now: datetime) -> bool:
    """Whether a task in progress keeps this worker: its own, nobody's, or one whose lease has expired."""
    if not state.concurrent or not worker or task.claimed_by in (None, worker):
        return True
    from agent_harness.protocols.tasklist.claims import expiry

    return not expiry.is_live(task, state, now)


def _let_go(state: State, count: Count, following: Task | None) -> str:
    again = f" Next would be {messages.task_name(following)}." if following else ""
    return (
        f"HARNESS: let go after {count.limit} stops without progress; work is left.{again} {_stats(state)} "
        "See `harness status`."
    )


def _reason(state: State, mine: Task | None, following: Task | None) -> str:
    lines = [
        "The stop condition of this task list is not met: work is left, so go on without asking.",
        messages.status_line(state, following),
    ]
    if mine is not None:
        name = messages.shell_word(mine.id)
        lines.append(f"In progress: {messages.task_name(mine)}")
        lines.append(
            f"Prove it with `harness task complete {name}`, or give the attempt up with "
            f'`harness task fail {name} --category TASK_EXEC "why"`. If an earlier session left it so, run '
            f"`harness task recover {name}` first."
        )
    else:
        lines.append("Run `harness task claim` and work on the task that it gives you.")
    return messages.cut("\n".join(lines), messages.REASON)


def _stats(state: State) -> str:
    return f"STATS {messages.stats_line(state)}."
