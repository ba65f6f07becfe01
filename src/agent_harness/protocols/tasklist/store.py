"""State of a task list: read without a lock, and changed under the lock. This layer uses neither git nor agents.

A reader sees each change completely or not at all. The file ``.bak`` contains the state before the last change.
Concurrent changes are not lost, even if a person edits the file. Log lines are written after the change, before the
lock is released. Source: ``tasklist.md`` 8, 9, 10.2."""

from __future__ import annotations

import os

from agent_harness.errors import ConfigurationError, Refused, StateDamaged
from agent_harness.kernel import clock, files
from agent_harness.protocols.tasklist import records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from typing import TypeVar

    from agent_harness.kernel.json import JsonObject
    from agent_harness.kernel.json.list_file import ListDocument
    from agent_harness.kernel.lock import Lock
    from agent_harness.protocols.tasklist.layout import TaskListLayout

    T = TypeVar("T")


_HINT = "harness status"


def read(layout: TaskListLayout) -> records.State:
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
    there = backup_is_whole(layout) or copy_of(layout) is not None
    return "harness task recover" if there else "there is no backup: stop, and report this to a person"


def copy_of(layout: TaskListLayout) -> records.State | None:
    """Return the state in the copy outside the project, or ``None`` if a backup exists."""
    from agent_harness.protocols.tasklist import proven

    return None if os.path.lexists(layout.backup) else proven.kept_list(layout)


def backup_is_whole(layout: TaskListLayout) -> bool:
    """Return True if the backup of the state file is valid and can replace the state file."""
    try:
        records.State(files.read_json(layout.backup))
    except (OSError, StateDamaged):
        return False
    return True


class TaskListChange:
    """Pending change of the task list's state, with the log lines that describe the change."""

    __slots__ = ("_document", "_tasks", "dirty", "lines", "now", "state")

    def __init__(self, document: ListDocument, now: datetime) -> None:
        self._document = document
        self.state = records.State(document.value)
        self.now = now
        self.dirty = False
        self.lines: list[str] = []
        self._tasks: list[JsonObject] | None = []  # changed in place; ``None`` if any may be

    def touch(self, *tasks: records.Task) -> None:
        """Mark the state as changed. Without arguments, treat every task as changed."""
        self.dirty = True
        if self._tasks is not None:
            self._tasks = [*self._tasks, *(task.raw for task in tasks)] if tasks else None

    def log(self, line: str) -> None:
        self.lines.append(line)

    def note(
        self, kind: str, text: str, *, task: str | None = None, category: str | None = None, end: str = ""
    ) -> None:
        """Add a log entry with the session and the time of this change."""
        from agent_harness.protocols.tasklist import progress

        number = self.state.session_count
        self.log(progress.entry(kind, number, at=self.now, task=task, category=category, text=text, note=end))

    def halt(self, category: str, message: str, task_id: str | None = None) -> None:
        """Halt the task list. No task can be claimed before ``harness resume``."""
        at = clock.timestamp(self.now)
        self.state.raw["halt"] = {"category": category, "task_id": task_id, "message": message, "at": at}
        self.touch()

    def write(self, path: str, *, before: Callable[[], None]) -> None:
        from agent_harness.kernel.json import list_file

        self.state.raw["revision"] = self.state.revision + 1
        list_file.write(path, self._document, changed=self._tasks, before=before)


class TaskStore:
    def __init__(
        self, layout: TaskListLayout, *, lock_timeout_seconds: float = 5.0, now: datetime | None = None
    ) -> None:
        from agent_harness.kernel.shared_content import SharedContent  # hooks need none

        self.layout = layout
        self.lock_timeout_seconds = lock_timeout_seconds
        self._now = now
        self._content = SharedContent(layout.tasks)
        self._seen: ListDocument | None = None
        self._used: ListDocument | None = None  # a process that ends soon need not free thousands of tasks

    def read(self) -> records.State:
        return records.State(
            _load(self.layout, lambda path: files.read_json(path, exact=False, content=self._content.read()))
        )

    def look(self) -> records.State:
        """Return the present state. ``change`` modifies this object, so the caller must not keep it."""
        self._seen = document = self._document()
        return records.State(document.value)

    def _document(self, *, again: bool = False) -> ListDocument:
        from agent_harness.kernel.json import list_file

        seen, self._seen = self._seen, None
        self._used = _load(
            self.layout, lambda path: list_file.read(path, "tasks", seen, content=self._content.read(again=again))
        )
        return self._used

    def now(self) -> datetime:
        """Return the time of the shared file system's clock, which is the same for all workers."""
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
        """Return the lock on the state. Raise ``Refused`` if a harness folder is a symbolic link."""
        from agent_harness.kernel.lock import Lock

        if linked := self.layout.linked():
            raise Refused(
                f"{linked} is a symbolic link; the harness writes only inside the project", hint=f"rm {linked}"
            )
        return Lock(self.layout.root, timeout_seconds=self.lock_timeout_seconds)

    def take_links_away(self) -> list[str]:
        """Delete symbolic links that replace the harness's own folders, and return their paths."""
        taken: list[str] = []
        # of an agent: ``lock`` refuses links of the user before an agent starts
        while linked := self.layout.linked():
            os.unlink(linked)
            taken.append(linked)
        return taken

    def change(self, act: Callable[[TaskListChange], T]) -> T:
        """Run ``act`` on the state under the lock. ``act`` may run again, so it must have no other effects."""
        from agent_harness.kernel.lock import LockLost  # readers need none

        def under_a_lock() -> T:
            with self.lock() as lock:
                return self.change_under(lock, act)

        return files.repeated(under_a_lock, self.layout.tasks, after=LockLost, hint=_HINT)

    def change_under(self, lock: Lock, act: Callable[[TaskListChange], T]) -> T:
        """Run ``act`` for a caller that holds ``lock``. Raise ``LockLost`` if the lock is lost."""

        def write(change: TaskListChange, unedited: Callable[[], None]) -> None:
            def still_ours() -> None:
                unedited()
                lock.verify()

            if change.dirty:
                from agent_harness.protocols.tasklist import proven

                change.write(self.layout.tasks, before=still_ours)
                proven.keep_list(self.layout, self._content.read)
            for line in change.lines:
                self.log(line)

        return files.change(self.layout.tasks, read=self._open, act=act, write=write, hint=_HINT)

    def _open(self) -> TaskListChange:
        change = TaskListChange(self._document(again=True), self.now())
        if change.state.version > records.VERSION:
            raise ConfigurationError(
                f"harness-tasks.json has version {change.state.version}, but this harness writes version "
                f"{records.VERSION}",
                hint="install a newer agent-harness; harness status can still read it",
            )
        return change

    def create(self, raw: JsonObject) -> bool:
        """Write the first state of a list, unless the file exists. The caller must hold ``lock``."""
        if os.path.lexists(self.layout.tasks):
            return False
        files.write_json(self.layout.tasks, raw)
        return True

    def note(self, kind: str, text: str, *, task: str | None = None, category: str | None = None) -> None:
        from agent_harness.protocols.tasklist import progress

        try:
            number = self.read().session_count
        except StateDamaged:
            number = 0
        self.log(progress.entry(kind, number, task=task, category=category, text=text))

    def log(self, line: str) -> None:
        from agent_harness.kernel import journal

        journal.append_line(self.layout.progress, line)

    # -- the marker and the pause ----------------------------------------------------------------------------------

    def active(self) -> bool:
        return os.path.isfile(self.layout.marker)

    def activate(self) -> None:
        if not self.active():
            files.replace(self.layout.marker, "")

    def deactivate(self) -> bool:
        """Disable the client hooks for this list. Return True if they were enabled."""
        try:
            os.unlink(self.layout.marker)
        except FileNotFoundError:
            return False
        return True

    def paused(self) -> bool:
        return os.path.lexists(self.layout.pause)
