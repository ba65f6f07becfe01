"""Cleanup of the repository after an agent's turn in ``harness run``, by the rules of ``session.turn_end``.

An agent may leave another branch, a replaced history or an unfinished merge. The harness treats these as part of the
attempt, so a verification, a rollback or the next claim is still possible. For claims by people, or by agents that
people started, the rules in ``tasklist.md`` 11.3 apply."""

from itertools import count
from typing import TYPE_CHECKING

from agent_harness.errors import UnsafeTree
from agent_harness.kernel import files
from agent_harness.protocols.tasklist import proven
from agent_harness.protocols.tasklist.attempts.attempt import RESCUE_REFS, attempt_of, place_of, ref_folder
from agent_harness.session import turn_end

if TYPE_CHECKING:
    from agent_harness.kernel.git import Git
    from agent_harness.protocols.tasklist.attempts.attempt import Attempt
    from agent_harness.protocols.tasklist.claims.caller import Caller
    from agent_harness.protocols.tasklist.records import Task
    from agent_harness.session.turn_end import Block


def unfinished(caller: "Caller", task: "Task") -> "tuple[str, Block] | None":
    """Return a code and a message if a git operation is unfinished or the history was replaced."""
    place = place_of(caller)
    if place is None:
        return None
    if found := turn_end.unfinished(place.git):
        return turn_end.OPERATION, found
    if (attempt := _attempt(caller, task)) is None:
        return None
    found = turn_end.apart(place.git, attempt.base, start=attempt.snapshot.commit, leave=attempt.place.is_ours)
    return (turn_end.HISTORY, found) if found else None


def _attempt(caller: "Caller", task: "Task") -> "Attempt | None":
    return attempt_of(caller, task) if proven.noted(caller.layout, task, "turn") else None


def refuse_replaced(caller: "Caller", task: "Task") -> None:
    """Halt the task list and raise ``UnsafeTree`` if an agent's turn has replaced or removed the git repository."""
    if caller.git is None:
        return
    try:
        turn_end.refuse_replaced(caller.git, task.started_at_commit)
    except UnsafeTree as error:
        told = f"{error.message} ({error.hint})"
        caller.store.change(lambda change: change.halt("TASK_EXEC", told, task.id))
        raise


def put_in_order(caller: "Caller", task: "Task", *, ends: bool) -> str | None:
    """Restore HEAD and the claim's branch after an agent's turn, and return a message."""
    attempt = _attempt(caller, task)
    if attempt is None:
        return None
    attempt.refuse_elsewhere()
    if turn_end.unfinished(attempt.place.git):
        # the agent must finish its operation
        if not ends:
            return None
        folder = caller.layout.rescue_files(task.id, 0)
        files.drop_links(folder, caller.layout.root)
        turn_end.set_operation_aside(attempt.place.git, folder)
    found = turn_end.come_home(
        attempt.place.git,
        branch=attempt.snapshot.branch,
        base=attempt.base,
        keep=lambda commit: _kept(attempt, task, commit),
        start=attempt.snapshot.commit,
        leave=attempt.place.is_ours,
        ends=ends,
    )
    if found is None:
        return None
    caller.store.note("WARN", found.told, task=task.id)
    return found.told


def _kept(attempt: "Attempt", task: "Task", commit: str) -> str:
    """Return the ref that keeps this commit for the task. Create the ref if it does not exist."""
    git: Git = attempt.place.git
    folder = ref_folder(RESCUE_REFS, task.id)
    names = (f"{folder}/turn-{task.attempts + 1}-{number}" for number in count(1))
    ref = next(name for name in names if git.commit_of(name) in (None, commit))
    if git.commit_of(ref) is None:
        git.update_ref(ref, commit, "")
    return ref
