"""Reads the state of a task list, and changes it under the lock; the waterline: files, never git or an agent.

What a change promises: it is seen whole or not at all, ``.bak`` holds the state before it, no write of anybody else is
lost (not even one by hand), and its log lines are written after it while the lock is still held. Source:
``tasklist.md`` 8, 9, 10.2.
"""

from __future__ import annotations

import os

from agent_harness.errors import Busy, ConfigurationError, NotOwner, Refused, StateDamaged
from agent_harness.kernel import clock, files
from agent_harness.protocols.tasklist import records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from typing import Any, TypeVar

    from agent_harness.kernel.json.spans import ListDocument
    from agent_harness.kernel.lock import Lock
    from agent_harness.protocols.tasklist.layout import TaskListLayout

    T = TypeVar("T")

__all__ = ["TaskListChange", "TaskStore", "read"]

_TRIES = 20


class _ListEdited(Exception):
    """Somebody wrote the state without the lock after we had read it; everything starts over."""


def read(layout: TaskListLayout) -> records.State:
    """The state as it is now, old or new but never half; takes no lock. ``StateDamaged`` also when it is missing."""
    return records.State(_load(layout, lambda path: files.read_json(path, exact=False)))


def _load(layout: TaskListLayout, read_file: Callable[[str], T]) -> T:
    try:
        return read_file(layout.tasks)
    except FileNotFoundError:
        raise StateDamaged("harness-tasks.json is missing", hint=_way_out(layout)) from None
    except StateDamaged as error:
        error.hint = _way_out(layout)
        raise


def _way_out(layout: TaskListLayout) -> str:
    return "harness task recover" if backup_is_whole(layout) else "there is no backup: report it to a person and stop"


def backup_is_whole(layout: TaskListLayout) -> bool:
    """Whether the backup could take the place of the state."""
    try:
        records.State(files.read_json(layout.backup))
    except (OSError, StateDamaged):
        return False
    return True


class TaskListChange:
    """One change under way: what it changes and what it will log."""

    __slots__ = ("_tasks", "dirty", "lines", "now", "state")

    def __init__(self, state: records.State, now: datetime) -> None:
        self.state = state
        self.now = now
        self.dirty = False
        self.lines: list[str] = []
        self._tasks: list[records.Record] | None = []

    def touch(self, *tasks: records.Task) -> None:
        """Says that the state was changed and must be written: of the tasks, these alone; without any, perhaps all.

        Tasks that came or went, and all that is no task, are seen without being named.
        """
        self.dirty = True
        if self._tasks is not None:
            self._tasks = [*self._tasks, *(task.raw for task in tasks)] if tasks else None

    @property
    def changed(self) -> list[records.Record] | None:
        """The tasks that were changed in place; ``None`` when any may have been."""
        return self._tasks

    def log(self, line: str) -> None:
        """A line for the log, written after the state."""
        self.lines.append(line)


class TaskStore:
    """The files of one task list. ``now`` stands still in tests."""

    def __init__(
        self, layout: TaskListLayout, *, lock_timeout_seconds: float = 5.0, now: datetime | None = None
    ) -> None:
        self.layout = layout
        self.lock_timeout_seconds = lock_timeout_seconds
        self._now = now
        self._seen: ListDocument | None = None
        self._used: ListDocument | None = (
            None  # a process that ends soon spares itself the freeing of thousands of tasks
        )

    def read(self) -> records.State:
        """The state as it is now; takes no lock."""
        return read(self.layout)

    def look(self) -> records.State:
        """The same for a caller that ``change`` follows: the file is read once for both, as long as nobody writes it.

        The change alters this very state, so keep nothing of it. Read strictly, as ``change`` does.
        """
        self._seen = document = self._document()
        return records.State(document.value)

    def _document(self) -> ListDocument:
        from agent_harness.kernel.json import list_file

        seen, self._seen = self._seen, None
        self._used = _load(self.layout, lambda path: list_file.read(path, "tasks", seen))
        return self._used

    def now(self) -> datetime:
        """The time by the clock of the disk, which all workers share; the local clock when it cannot be touched."""
        if self._now:
            return self._now
        path = self.layout.clock_file
        if os.path.islink(self.layout.state_dir):
            return clock.now()
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        try:
            os.makedirs(self.layout.state_dir, exist_ok=True)
            descriptor = os.open(path, flags, 0o644)
            try:
                os.utime(descriptor)
                seconds = os.fstat(descriptor).st_mtime
            finally:
                os.close(descriptor)
        except OSError:
            return clock.now()
        return clock.moment(seconds)

    def lock(self) -> Lock:
        """The lock on the state; ``change`` takes it by itself. ``Refused`` where a folder of ours is a link."""
        from agent_harness.kernel.lock import Lock

        if linked := self.layout.linked():
            raise Refused(f"{linked} is a link; the harness writes only inside the project", hint=f"rm {linked}")
        return Lock(self.layout.root, timeout_seconds=self.lock_timeout_seconds)

    def change(self, act: Callable[[TaskListChange], T]) -> T:
        """Runs ``act`` on the state under the lock, and writes what it changed; returns what it returns.

        ``act`` runs again on fresh state when somebody edited the file meanwhile, so it has no other effect. What it
        raises drops everything. ``LockBusy`` after the timeout, ``StateDamaged``, ``ConfigurationError`` for a file of
        a later version.
        """
        for _ in range(_TRIES):
            try:
                with self.lock() as lock:
                    return self.change_under(lock, act)
            except NotOwner as error:
                if not _is_lost_lock(error):
                    raise
        raise _never_quiet()

    def change_under(self, lock: Lock, act: Callable[[TaskListChange], T]) -> T:
        """The same for a caller that holds the lock."""
        for _ in range(_TRIES):
            try:
                return self._change(act, lock)
            except _ListEdited:
                continue
        raise _never_quiet()

    def _change(self, act: Callable[[TaskListChange], T], lock: Lock) -> T:
        stamp = _stamp(self.layout.tasks)
        document = self._document()
        state = records.State(document.value)
        if state.version > records.VERSION:
            raise ConfigurationError(
                f"harness-tasks.json has version {state.version}; this harness writes version {records.VERSION}",
                hint="install a newer agent-harness; harness status can still read it",
            )
        change = TaskListChange(state, self.now())
        result = act(change)
        if change.dirty:
            self._write(change, lock, stamp, document)
        for line in change.lines:
            self.log(line)
        return result

    def _write(self, change: TaskListChange, lock: Lock, stamp: object, document: ListDocument) -> None:
        change.state.raw["revision"] = change.state.revision + 1

        def still_ours() -> None:
            if _stamp(self.layout.tasks) != stamp:
                raise _ListEdited
            try:
                lock.verify()
            except NotOwner as error:
                error.data["lost_lock"] = True
                raise

        from agent_harness.kernel.json import list_file

        list_file.write(self.layout.tasks, document, changed=change.changed, before=still_ours)

    def create(self, raw: dict[str, Any]) -> bool:
        """Writes the first state; false when there is one already. Call it under ``lock``."""
        if os.path.lexists(self.layout.tasks):
            return False
        files.write_json(self.layout.tasks, raw)
        return True

    def log(self, line: str) -> None:
        """Adds one line to the log."""
        from agent_harness.kernel import journal

        journal.append_line(self.layout.progress, line)

    # -- the marker and the pause ----------------------------------------------------------------------------------

    def active(self) -> bool:
        """Whether hooks act here."""
        return os.path.isfile(self.layout.marker)

    def activate(self) -> None:
        """Makes hooks act here."""
        if not self.active():
            files.replace(self.layout.marker, "", follow=False)

    def deactivate(self) -> bool:
        """Makes hooks rest; whether they acted before."""
        try:
            os.unlink(self.layout.marker)
        except FileNotFoundError:
            return False
        return True

    def paused(self) -> bool:
        """Whether a person paused the work."""
        return os.path.lexists(self.layout.pause)


def _never_quiet() -> Busy:
    return Busy("harness-tasks.json is being written by somebody without the lock", hint="harness status")


def _stamp(path: str) -> object:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _is_lost_lock(error: NotOwner) -> bool:
    return bool(error.data.get("lost_lock"))
