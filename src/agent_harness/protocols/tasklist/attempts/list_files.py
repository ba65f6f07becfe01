"""Copies of the task list's own files, made before an agent's turn in ``harness run`` and used to restore these files.

An agent may remove these files, for example with ``git clean -fdx`` or ``git stash --all``, or replace them by links.
After the restoration, verification and the next attempt can use the task list. Source: ``tasklist.md`` 8, 11.4."""

import os
from typing import TYPE_CHECKING

from agent_harness.errors import HarnessError, StateDamaged
from agent_harness.kernel import files, root
from agent_harness.protocols.tasklist import proven, recovery
from agent_harness.protocols.tasklist.records import State

if TYPE_CHECKING:
    from agent_harness.protocols.tasklist.claims.caller import Caller
    from agent_harness.protocols.tasklist.layout import TaskListLayout

_MOST_BYTES = 8 << 20  # of a log that is held in memory for the length of a turn


class ListFiles:
    def __init__(self, caller: "Caller", state: State) -> None:
        layout = caller.layout
        self._caller = caller
        self._state = state
        self._is_link = os.path.islink(layout.tasks)
        self._is_active = caller.store.active()
        self._logs = {path: _content(path) for path in (layout.progress, layout.costs)}

    def put_back(self) -> str | None:
        """Restore the list's files that an agent damaged. Return a message that names these files, or None."""
        told = [
            *(["harness-tasks.json"] if self._is_list_lost() and self._list_put_back() else []),
            *self.put_logs_back(),
        ]
        if not told:
            return None
        said = f"the agent's turn changed or removed {', '.join(told)}; restored"
        self._caller.store.note("WARN", said)
        return said

    def put_list_back(self) -> dict[str, str]:
        """Restore a lost or edited list file. Return the path of the replaced file, by file name."""
        layout = self._caller.layout
        if not self._is_list_lost() and not _is_edited(layout):
            return {}
        with self._caller.store.lock():  # another process may have written the list, and not the copy yet
            if not self._is_list_lost() and not _is_edited(layout):
                return {}
        return {"harness-tasks.json": self._list_put_back()}

    def put_logs_back(self) -> list[str]:
        """Restore the hook marker, and each log whose beginning has changed. Return the paths of these logs."""
        if self._is_active and not self._caller.store.active():
            self._caller.store.activate()
        gone = [path for path, was in self._logs.items() if was and not (_content(path) or b"").startswith(was)]
        for path in gone:
            files.own_place(path, self._caller.layout.root)
            files.replace(path, (self._logs[path] or b"") + (_content(path) or b""))
        return [os.path.relpath(path, self._caller.layout.root) for path in gone]

    def _is_list_lost(self) -> bool:
        is_new_link = os.path.islink(self._caller.layout.tasks) and not self._is_link
        return is_new_link or not _is_whole(self._caller)

    def _list_put_back(self) -> str:
        layout = self._caller.layout
        aside = files.free_name(f"{layout.tasks}.corrupt")
        if os.path.islink(layout.tasks) or os.path.isdir(layout.tasks):
            os.rename(layout.tasks, aside)  # a link would lead to another list's copy
        with self._caller.store.lock():
            copy = proven.kept_list(layout)
            newest = copy if copy and copy.revision >= self._state.revision else self._state
            return recovery.put_in_place(layout.tasks, newest) or aside


def _is_whole(caller: "Caller") -> bool:
    try:
        caller.store.read()
    except (StateDamaged, OSError):
        return False
    return True


def _is_edited(layout: "TaskListLayout") -> bool:
    copy = root.kept_copy(layout.root)
    return copy is not None and _content(copy) not in (None, _content(layout.tasks))


def _content(path: str) -> bytes | None:
    try:
        if os.path.islink(path) or os.path.getsize(path) > _MOST_BYTES:
            return None
        return files.read_bytes(path)
    except (OSError, HarnessError):
        return None
