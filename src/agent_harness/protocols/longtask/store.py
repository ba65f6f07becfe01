"""The files of a long task: read whole, changed under the lock of the directory, never left in a state that fails.

Readers take no lock and write nothing. A change reads again under ``flock``, is checked before anything is written, and
lands in this order: kept files, archive, checkpoint, log. A crash in between leaves the state ahead of the log, never a
claim without its evidence. Source: ``longtask.md`` 3.5, 6, 12, 15.
"""

from __future__ import annotations

import os

from agent_harness.errors import HarnessError
from agent_harness.kernel import clock, files
from agent_harness.kernel.json import jsontext
from agent_harness.protocols.longtask import disk, log, records
from agent_harness.protocols.longtask.layout import LongTaskLayout, file_stamp
from agent_harness.protocols.longtask.records import Checkpoint, Contract

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from typing import Any, TypeVar

    from agent_harness.protocols.longtask.lock import DirectoryLock

    Record = dict[str, Any]
    T = TypeVar("T")

__all__ = ["CheckpointChange", "InvalidTask", "LongTaskStore"]


class InvalidTask(HarnessError):
    """The task does not pass its check; ``errors`` says everything that is wrong, one line each."""

    code = "invalid_task"

    def __init__(self, errors: list[str]) -> None:
        super().__init__("; ".join(errors))
        self.errors = errors


class CheckpointChange:
    """One change under way: the checkpoint it edits in place, and what is written with it."""

    __slots__ = ("archived", "checkpoint", "damaged", "dirty", "events", "kept", "layout", "now", "task")

    def __init__(self, layout: LongTaskLayout, task: Contract, checkpoint: Checkpoint, now: datetime) -> None:
        self.layout = layout
        self.task = task
        self.checkpoint = checkpoint
        self.now = now
        self.dirty = False
        self.damaged: str | None = None  # where the damaged checkpoint went that ``fallback`` stands in for
        self.events: list[Record] = []
        self.kept: dict[str, bytes] = {}  # absolute path -> content
        self.archived: list[Record] = []

    @property
    def at(self) -> str:
        """The time of the change, as records write it."""
        return clock.timestamp(self.now, fraction=True)

    def touch(self) -> None:
        """Says that the checkpoint was changed: it gets its time, and is written."""
        self.checkpoint.raw["updatedAt"] = self.at
        self.dirty = True

    def event(self, kind: str, **members: object) -> None:
        """A record for the log, written after the checkpoint."""
        self.events.append({"type": kind, "at": self.at, **members})

    def free_name(self, name: str) -> str:
        """A name for a new file of the task, as records name it: ``-2``, ``-3``… is added when this one is taken."""
        for path in disk.names(self.layout.inside(name)):
            if path not in self.kept and not os.path.lexists(path):
                return self.layout.relative(path)
        raise AssertionError("there is always a free name")

    def keep(self, name: str, content: str | bytes) -> str:
        """A new file of the task, written before the checkpoint, under a free name, which is returned."""
        free = self.free_name(name)
        self.kept[self.layout.inside(free)] = content.encode() if isinstance(content, str) else content
        return free

    def archive(self, item: Record) -> None:
        """An item that leaves the window."""
        self.archived.append(item)


class LongTaskStore:
    """The files of one task. ``now`` stands still in tests."""

    def __init__(
        self, layout: LongTaskLayout, *, lock_timeout_seconds: float = 30.0, now: datetime | None = None
    ) -> None:
        self.layout = layout
        self.lock_timeout_seconds = lock_timeout_seconds
        self._now = now

    def now(self) -> datetime:
        """The present moment."""
        return self._now or clock.now()

    # ---- reading; takes no lock

    def load(self) -> tuple[Contract, Checkpoint]:
        """The task as it is now. ``Unreadable``, or ``InvalidTask`` with everything that is wrong."""
        task = disk.read_json(self.layout.task)
        if disk.leaves(self.layout):
            raise disk.UnreadableFile(f"{self.layout.checkpoint} is a link that leads out of the task, or nowhere")
        checkpoint = disk.read_json(self.layout.checkpoint)
        errors = records.problems(task, checkpoint, self.layout)
        if errors:
            raise InvalidTask(errors)
        return Contract(task), Checkpoint(checkpoint)

    def errors(self) -> list[str]:
        """Everything that is wrong with the task; empty when it loads."""
        try:
            self.load()
        except InvalidTask as error:
            return error.errors
        except HarnessError as error:
            return [error.message]
        return []

    def task_id(self) -> str | None:
        """The id in ``task.json``, also of a task that does not load; ``None`` when there is none."""
        try:
            found = disk.read_json(self.layout.task)
        except HarnessError:
            return None
        return Contract(found).text("id") if isinstance(found, dict) else None

    def events(self) -> tuple[list[Record], int]:
        """The log, by time, and how many damaged lines were passed over, each with a warning."""
        return log.events(self.layout)

    # ---- writing

    def exclusive(self) -> DirectoryLock:
        """The lock on the task directory, for milliseconds; a context manager. ``change`` takes it by itself."""
        from agent_harness.protocols.longtask.lock import DirectoryLock  # readers need none

        return DirectoryLock(self.layout.root, timeout_seconds=self.lock_timeout_seconds)

    def change(self, act: Callable[[CheckpointChange], T], *, fallback: Record | None = None) -> T:
        """Runs ``act`` on the checkpoint under the lock, and writes what it changed; returns what it returns.

        ``act`` edits ``change.checkpoint.raw`` and calls ``change.touch()``. It runs again on a fresh checkpoint when
        somebody edited the file meanwhile, so it has no other effect; what it raises drops everything. ``InvalidTask``,
        and nothing written, when the task does not load or the new checkpoint would not. ``fallback`` stands in for a
        checkpoint that is gone or does not load: the file is kept as ``evidence/invalid-checkpoint-STAMP.json``, and
        ``change.damaged`` names it.
        """
        from agent_harness.kernel import state  # readers need none

        with self.exclusive():
            return state.change(
                self.layout.checkpoint,
                read=lambda: self._open(fallback),
                act=act,
                write=self._write,
                hint="run the same command again",
            )

    def _write(self, change: CheckpointChange, unedited: Callable[[], None]) -> None:
        from agent_harness.kernel.state import EditedMeanwhile

        content = self._checked(change) if change.dirty else None
        if change.events:
            log.refuse_elsewhere(self.layout, change.at)
        written: list[str] = []
        try:
            for path, kept in change.kept.items():
                disk.make_folder(path)
                if not disk.create(path, kept):
                    raise EditedMeanwhile
                written.append(path)
            if content is not None:
                self._write_checkpoint(change, content, unedited)
        except EditedMeanwhile:
            for path in written:  # nothing names them
                os.unlink(path)
            raise
        for record in change.events:
            self.event(record)

    def _open(self, fallback: Record | None) -> CheckpointChange:
        try:
            return CheckpointChange(self.layout, *self.load(), self.now())
        except (InvalidTask, disk.UnreadableFile):
            if fallback is None:
                raise
        return self._open_fallback(fallback)

    def _open_fallback(self, fallback: Record) -> CheckpointChange:
        task = disk.read_json(self.layout.task)
        errors = records.problems(task, fallback, self.layout)
        if errors:
            raise InvalidTask(errors)
        copy = jsontext.loads(jsontext.line(fallback))
        change = CheckpointChange(self.layout, Contract(task), Checkpoint(copy), self.now())
        change.damaged = change.keep(f"evidence/invalid-checkpoint-{file_stamp(change.at)}.json", self._damage())
        change.dirty = True
        return change

    def _damage(self) -> bytes:
        """What stands in the place of the checkpoint; of a link that leaves the task, where it leads."""
        path = self.layout.checkpoint
        try:
            return os.fsencode(f"{os.readlink(path)}\n") if disk.leaves(self.layout) else files.read_bytes(path)
        except (OSError, HarnessError):
            return b""

    def _checked(self, change: CheckpointChange) -> bytes:
        """The new content. The write-side rule: what would not load again is not written. ``longtask.md`` 3.5."""
        errors = records.problems(change.task.raw, change.checkpoint.raw, self.layout)
        if errors:
            raise InvalidTask(errors)
        try:
            content = files.dumps(change.checkpoint.raw).encode()
        except ValueError as error:
            raise InvalidTask([f"checkpoint cannot be written: {error}"]) from None
        if len(content) > files.MAX_BYTES:
            raise InvalidTask([f"checkpoint would be larger than {files.MAX_BYTES >> 20} MiB"])
        return content

    def _write_checkpoint(self, change: CheckpointChange, content: bytes, unedited: Callable[[], None]) -> None:
        unedited()
        if change.archived:
            log.add_to_archive(self.layout, change.task, change.archived, change.at)
        if disk.leaves(self.layout):
            disk.replace_link(self.layout.checkpoint, content)
        else:
            files.replace(self.layout.checkpoint, content, before=unedited)

    def event(self, record: Record) -> bool:
        """Adds one event to the log of its day; false, with a warning, when it does not fit."""
        return log.add(self.layout, record)

    def keep(self, name: str, content: str | bytes) -> str:
        """Writes a new file of the task at once; its path as records name it. See ``CheckpointChange.keep`` for the
        name."""
        data = content.encode() if isinstance(content, str) else content
        start = self.layout.inside(name)
        disk.make_folder(start)
        for path in disk.names(start):
            if disk.create(path, data):
                return self.layout.relative(path)
        raise AssertionError("there is always a free name")
