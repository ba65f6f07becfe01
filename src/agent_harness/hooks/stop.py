"""Rules that decide at the end of a turn whether an agent (Stop), a subagent (SubagentStop) or a teammate
(TeammateIdle) may stop. The first rule that applies decides. Source: ``tasklist.md`` 5.1, 5.2, 6.1, 6.4, 6.5."""

from __future__ import annotations

from agent_harness.hooks import messages
from agent_harness.hooks.event import allow, block, keep
from agent_harness.protocols.tasklist import selection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from agent_harness.errors import StateDamaged
    from agent_harness.hooks.event import Decision, Event
    from agent_harness.hooks.stop_limit import Count
    from agent_harness.protocols.tasklist.records import State, Task


class StopFacts:
    """Facts that the rules need in addition to the task list's state."""

    __slots__ = ("count", "now", "outcomes", "unproven")

    def __init__(
        self,
        now: datetime,
        *,
        outcomes: Callable[[], int],
        count: Callable[[], Count],
        unproven: Callable[[], list[Task]] = list,
    ) -> None:
        self.now = now
        self.outcomes = outcomes  # of this session, by the log
        self.count = count  # counts this call, and returns the new count of the session
        self.unproven = unproven  # tasks marked as completed, but not by the harness


def decide_damaged(event: Event, error: StateDamaged, *, backup: bool, told: bool) -> Decision:
    """Block the first stop while the state file is damaged, and allow later stops."""
    text = messages.damaged(error, backup=backup)
    if told or event.flag("stop_hook_active") is True:
        return allow("damaged", f"HARNESS: {text}")
    return block("damaged", f"The state of this task list is damaged, so nothing can be claimed.\n{text}", "damage")


def decide(event: Event, state: State, facts: StopFacts) -> Decision:
    """Decide whether the agent may stop, by rules 4 to 10 of ``tasklist.md`` 6.1."""
    if waits := _limits(state, facts):
        return waits
    if event.text("permission_mode") == "plan":  # row 7: the agent cannot act, or is woken by itself
        return allow("plan mode")
    return allow("background tasks") if event.entries("background_tasks") else _work(event, state, facts)


def _limits(state: State, facts: StopFacts) -> Decision | None:
    """Return the decision if the list is halted or a limit is reached (rules 4 to 6)."""
    if state.halt is not None:
        return allow("halt", messages.halted(state))
    config = state.config
    if state.sessions_used_up:
        message = f"{state.session_count} of {config.max_sessions} sessions are used up."
        return _limit(state, facts, "max_sessions", message)
    limited = not config.concurrent and config.max_tasks > 0 and state.session_count > 0
    if limited and facts.outcomes() >= config.max_tasks:
        message = f"{config.max_tasks} tasks in this session, which is the limit."
        return _limit(state, facts, "max_tasks_per_session", message)
    return None


def _limit(state: State, facts: StopFacts, why: str, message: str) -> Decision:
    if not selection.work_left(state) and not facts.unproven():
        return _nothing_to_do(state)
    return allow(why, f"HARNESS: {message} {_stats(state)}", "forget")


def _work(event: Event, state: State, facts: StopFacts) -> Decision:
    """Block the stop while this worker has work left and the limit on blocked stops is not reached (rules 8 to 10)."""
    mine = next((task for task in selection.in_progress(state) if is_mine(task, state, event.worker, facts.now)), None)
    following = selection.next_task(state)
    unproven: list[Task] = [] if mine or following or selection.work_left(state) else facts.unproven()
    if mine is None and following is None and not unproven:
        return _nothing_to_do(state)
    count = facts.count()
    if not count.recorded:
        return allow("guard cannot be recorded", "HARNESS: stop allowed: .harness/stops.json cannot be written.")
    if count.reached:
        return allow("no progress", _let_go(state, count, following))
    if unproven:
        return block("not proven", _by_hand(unproven))
    return block("work left", _reason(state, mine, following))


def _nothing_to_do(state: State) -> Decision:
    if selection.work_left(state):
        return allow(
            "nothing for this worker", f"HARNESS: nothing to do here now. {_stats(state)} See `harness status`."
        )
    if not selection.finished(state):
        return allow("no tasks yet")
    effects = ("finish", "reflect") if state.config.reflect_iterations else ("finish",)
    return allow("all done", f"HARNESS: the task list is finished. {_stats(state)}", *effects)


def is_mine(task: Task, state: State, worker: str, now: datetime) -> bool:
    """Return False if another running worker owns the task in concurrent mode, otherwise True."""
    if not state.config.concurrent or not worker or task.claimed_by in (None, worker):
        return True
    from agent_harness.protocols.tasklist.claims import leases

    return not leases.is_live(task, state, now)


def _let_go(state: State, count: Count, following: Task | None) -> str:
    again = f" Next would be {messages.task_name(following)}." if following else ""
    return (
        f"HARNESS: the agent may stop after {count.limit} stops without progress, although work is left.{again} "
        f"{_stats(state)} See `harness status`."
    )


def _reason(state: State, mine: Task | None, following: Task | None) -> str:
    lines = [
        "The stop condition of this task list is not met: work is left, so continue without asking.",
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


def _by_hand(unproven: list[Task]) -> str:
    names = ", ".join(messages.task_name(task) for task in unproven[:5])
    return messages.cut(
        f"Marked as completed in the file, but not proven: {names}. Only the harness completes a task. Run `harness "
        "task claim`: each of these tasks stays completed if its validation passes, and is open again if not.",
        messages.REASON,
    )


def _stats(state: State) -> str:
    return f"STATS {' '.join(f'{name}={value}' for name, value in selection.stats(state).items())}."


# ---- a subagent continues only while it owns a task itself


NO_IDENTITY = """\
Tasks are in progress in concurrent mode, and this worker has no id, so nobody knows if one of them is yours.
In progress: {task}
Set HARNESS_WORKER_ID to the id that you claim under; if you claimed nothing, stop again."""


def subagent_goes_free(event: Event) -> bool:
    """Return True if the subagent may stop without a check of its tasks."""
    # a hook has blocked its stop once, or the client itself runs it
    return event.flag("stop_hook_active") is True or event.payload.get("agent_type") == ""


def decide_subagent(event: Event, state: State) -> Decision:
    """Decide whether a subagent may stop. Pending tasks never prevent the stop."""
    under_way = selection.in_progress(state)
    identities = event.identities("agent_id", "teammate_name")
    if not under_way:
        return allow("nothing in progress")
    if state.config.concurrent and not identities:
        return block("no identity", NO_IDENTITY.format(task=messages.task_name(under_way[0])))
    owners = identities if state.config.concurrent else [*identities, None]  # without an owner it counts
    own = next((task for task in under_way if task.claimed_by in owners), None)
    if own is None:
        return allow("not the owner")
    name = messages.shell_word(own.id)
    reason = (
        f"Your task is still in progress: {messages.task_name(own)}\n"
        f"Prove it with `harness task complete {name}`, or end it with "
        f'`harness task fail {name} --category TASK_EXEC "why"` or `harness task release {name} "why"`.'
    )
    return block("own task", messages.cut(reason, messages.REASON))


# ---- a teammate without a task takes the next one, one with a task finishes it


def decide_teammate(event: Event, state: State, count: Callable[[], Count]) -> Decision:
    """Decide whether a teammate may stop. Call ``count`` only if a stop would be blocked."""
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
