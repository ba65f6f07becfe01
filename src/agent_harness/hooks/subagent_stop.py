"""SubagentStop: a helper that the agent started goes on only while it owns a task itself.

Source: ``tasklist.md`` 5.2.
"""

from __future__ import annotations

from agent_harness.hooks import messages
from agent_harness.hooks.decision import allow, block
from agent_harness.protocols.tasklist import selection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_harness.hooks.decision import Decision
    from agent_harness.hooks.event import Event
    from agent_harness.protocols.tasklist.records import State, Task

__all__ = ["decide", "goes_free"]


def goes_free(event: Event) -> bool:
    """Whether nothing of the state matters: it was kept once already, or the client runs it for itself."""
    return event.flag("stop_hook_active") is True or event.payload.get("agent_type") == ""


def decide(event: Event, state: State) -> Decision:
    """The answer for a state that can be read. Pending work never keeps a helper."""
    under_way = selection.in_progress(state)
    identities = event.identities("agent_id", "teammate_name")
    if not under_way:
        return allow("nothing in progress")
    if state.concurrent and not identities:
        return block("no identity", _who_are_you(under_way[0]))
    own = next((task for task in under_way if _owns(task, identities, state)), None)
    return block("own task", _finish(own)) if own else allow("not the owner")


def _owns(task: Task, identities: list[str], state: State) -> bool:
    """In exclusive mode a task that names no owner is everybody's."""
    if task.claimed_by is None:
        return not state.concurrent
    return task.claimed_by in identities


def _who_are_you(task: Task) -> str:
    return (
        "Tasks are in progress in concurrent mode, and this worker has no id, so nobody can say whether one is yours.\n"
        f"In progress: {messages.task_name(task)}\n"
        "Set HARNESS_WORKER_ID to the id that you claim under; if you claimed nothing, stop again."
    )


def _finish(task: Task) -> str:
    name = messages.shell_word(task.id)
    reason = (
        f"Your task is still in progress: {messages.task_name(task)}\n"
        f"Prove it with `harness task complete {name}`, or end it with "
        f'`harness task fail {name} --category TASK_EXEC "why"` or `harness task release {name} "why"`.'
    )
    return messages.cut(reason, messages.REASON)
