"""Recovery after an interruption: a decision table for tasks in progress, and the backup for a damaged state file.

The backup contains the state before the last write. A task that was just claimed or finished therefore has an older
status in the backup. The log supplies the newer status, but it is not trusted. If the log shows a task as completed,
the harness verifies the task again. If it shows a claim, the task gets a lease from the time of the claim. Source:
``tasklist.md`` 8, 12."""

from __future__ import annotations

import os

from agent_harness.errors import StateDamaged
from agent_harness.kernel import clock, files, journal
from agent_harness.protocols.tasklist import lifecycle, progress, store
from agent_harness.protocols.tasklist.records import DEFAULT_LEASE_SECONDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agent_harness.kernel.json import JsonObject
    from agent_harness.protocols.tasklist.claims.caller import Caller
    from agent_harness.protocols.tasklist.progress import LogLine
    from agent_harness.protocols.tasklist.records import State, Task
    from agent_harness.protocols.tasklist.store import TaskListChange


class RecoveryRow:
    """Row of the recovery table. If ``checkpoints`` is ``None``, checkpoints do not matter."""

    __slots__ = ("checkpoints", "commits", "reason", "step", "uncommitted")

    def __init__(self, uncommitted: bool, commits: bool, checkpoints: bool | None, step: str, reason: str) -> None:
        self.uncommitted = uncommitted
        self.commits = commits
        self.checkpoints = checkpoints
        self.step = step  # fail, resume, validate
        self.reason = reason


ROWS: Sequence[RecoveryRow] = (
    RecoveryRow(False, False, False, "fail", "No progress detected"),
    RecoveryRow(
        False,
        False,
        True,
        "resume",
        "checkpoints are recorded, but the files are unchanged: the agent must compare them",
    ),
    RecoveryRow(False, True, None, "validate", "the task has commits"),
    RecoveryRow(True, False, None, "validate", "the task has uncommitted changes"),
    RecoveryRow(True, True, None, "validate", "the task has commits and uncommitted changes"),
)
"""Recovery table. Each row says which step recovers an interrupted task.

``validate`` runs the check: if it passes, the work is committed and the task is completed, otherwise the task fails.
The work of a failed task is rolled back. ``fail`` fails the task with the category SESSION_TIMEOUT. ``resume`` means
that only the agent can judge: it decides ``resume`` or ``fail``.
"""


def row_for(*, uncommitted: bool, commits: bool, checkpoints: bool) -> RecoveryRow:
    return next(
        row
        for row in ROWS
        if (row.uncommitted, row.commits) == (uncommitted, commits) and row.checkpoints in (None, checkpoints)
    )


# ---- a damaged state file --------------------------------------------------------------------------------------------

_TELLING = ("Starting", "Completed", "ERROR", "RECOVERY")


def restore_if_needed(caller: Caller) -> JsonObject | None:
    """Replace a damaged state file by its backup or, if no backup exists, by the copy outside the project.
    Return ``None`` if the file is not damaged. Raise ``StateDamaged`` if neither can be used."""
    if _damage(caller) is None:
        return None
    with caller.store.lock() as lock:
        reason = _damage(caller)
        if reason is None:  # another process has just done it
            return None
        kept, source = _put_back(caller)
        replayed = caller.store.change_under(lock, _replay(caller, reason, source))
    return {"kept": kept, "reason": reason, "replayed": replayed}


def _damage(caller: Caller) -> str | None:
    try:
        caller.store.read()
    except StateDamaged as error:
        return error.message
    return None


def _put_back(caller: Caller) -> tuple[str | None, str]:
    lost = "harness-tasks.json corrupted and unrecoverable"
    if store.backup_is_whole(caller.layout):
        return files.restore(caller.layout.tasks), ".bak"
    if copy := store.copy_of(caller.layout):
        return put_in_place(caller.layout.tasks, copy), "the copy outside the folder"
    line = progress.entry("ERROR", 0, category="ENV_SETUP", text=lost)
    last = progress.tail(caller.layout, 1)
    if not last or not last[0].endswith(line.partition("] ")[2]):
        caller.store.log(line)
    raise StateDamaged(lost, hint="stop, and report this to a person")


def put_in_place(path: str, state: State) -> str | None:
    kept = None
    if os.path.lexists(path):
        kept = files.free_name(f"{path}.corrupt")
        os.rename(path, kept)  # of a link the link itself
    files.write_json(path, state.raw)
    return kept


def _replay(caller: Caller, reason: str, source: str) -> Callable[[TaskListChange], list[str]]:
    last = _last_words(caller)

    def act(change: TaskListChange) -> list[str]:
        change.note("RECOVERY", f'action="restored from {source}" reason={progress.quoted(reason)}')
        changed = [task.id for task in change.state.tasks if task.id in last and _catch_up(task, last[task.id], change)]
        change.touch()
        return changed

    return act


def _last_words(caller: Caller) -> dict[str, LogLine]:
    """Return each task's last log line that shows the task's status."""
    found: dict[str, LogLine] = {}
    for line in journal.backwards(caller.layout.progress):
        entry = progress.parse(line)
        if entry and entry.task and entry.kind in _TELLING:
            found.setdefault(entry.task, entry)
    return found


def _catch_up(task: Task, said: LogLine, change: TaskListChange) -> bool:
    if task.status == "completed":
        return False
    if said.kind == "ERROR" and said.category and task.status == "in_progress" and progress.is_outcome(said):
        lifecycle.fail(task, said.category, said.text, said.time or change.now)
        return True
    if said.kind in ("Starting", "Completed") and task.status in ("pending", "failed") and _is_later(task, said):
        at = said.time or change.now
        seconds = DEFAULT_LEASE_SECONDS if said.kind == "Starting" else 1.0
        task.raw["status"] = "pending"
        lifecycle.start(task, owner="unknown", token="", at=at, lease_seconds=seconds)
        _, found, base = said.text.rpartition("(base=")
        if found and base.rstrip(")").isalnum() and base.rstrip(")") != "none":
            task.raw["started_at_commit"] = base.rstrip(")")
        return True
    return False


def _is_later(task: Task, said: LogLine) -> bool:
    known, at = task.failed_at, said.time
    return known is None or at is None or clock.timestamp(at) >= clock.timestamp(known)
