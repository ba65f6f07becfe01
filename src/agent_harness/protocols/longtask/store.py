"""Files of a long task. They are read completely and changed under the directory lock, so that they are always valid.

Readers take no lock and write nothing. A change reads the files again under ``flock``, and validates the result before
anything is written. A change writes in this order: new files, archive, checkpoint file, log. After a crash between
these steps, the log may lack events, but every claim has its evidence.

The lock is ``flock`` on the task directory, which creates no file and ends with the process. The lock is held for
milliseconds, during one change, and is independent of the lease of a run. Source: ``longtask.md`` 3.5, 6, 12, 15."""

from __future__ import annotations

import os

from agent_harness.errors import HarnessError, LockBusy, StateDamaged
from agent_harness.kernel import clock, files
from agent_harness.kernel.json import jsontext
from agent_harness.protocols.longtask import log, records
from agent_harness.protocols.longtask.layout import LongTaskLayout, file_stamp
from agent_harness.protocols.longtask.records import Checkpoint, Contract

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime
    from typing import Any, TypeVar

    from agent_harness.kernel.json import JsonObject
    from agent_harness.protocols.longtask.records import LogEvent
    from agent_harness.session.ledger import ClaimVerdict

    T = TypeVar("T")


class UnreadableFile(HarnessError):
    code = "unreadable"


def real_checkpoint(layout: LongTaskLayout) -> str | None:
    """Return the checkpoint file's real path, or None if that path leads outside the task."""
    # write only to this path: an agent can replace the file by another link
    if not os.path.islink(layout.checkpoint):
        return layout.checkpoint
    root, real = os.path.realpath(layout.root), os.path.realpath(layout.checkpoint)
    return real if os.path.commonpath((root, real)) == root and os.path.isfile(real) else None


def read_json(path: str) -> Any:
    """Return the value in a JSON file. Raise ``UnreadableFile`` if the file is missing or is not valid JSON."""
    try:
        content = files.read_bytes(path)
        return _loads(content)
    except FileNotFoundError:
        raise UnreadableFile(f"Cannot read JSON {path}: there is no such file") from None
    except (StateDamaged, ValueError) as error:
        why = str(error).removeprefix(f"{path} is damaged: ")
        raise UnreadableFile(f"Cannot read JSON {path}: {why}") from None
    except HarnessError as error:
        raise UnreadableFile(f"Cannot read JSON {path}: {error.message}") from None


def _loads(content: bytes) -> Any:
    try:
        return jsontext.loads(content)
    except ValueError as error:
        if "lone surrogate" not in str(error):
            raise
    whole = jsontext.line(jsontext.loads(content, exact=False)).encode("utf-16", "surrogatepass")
    return jsontext.loads(whole.decode("utf-16", "replace"))


def make_folder(path: str) -> None:
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
    except OSError as error:
        raise files.refusal(path, "written", error) from None


def names(path: str) -> Iterator[str]:
    """Yield ``path``, then the same path with ``-2``, ``-3`` and so on before the suffix."""
    yield path
    stem, suffix = os.path.splitext(path)
    number = 2
    while True:
        yield f"{stem}-{number}{suffix}"
        number += 1


class DirectoryLock:
    """Lock against all other changes in a directory. Uses of the lock cannot be nested."""

    def __init__(self, root: str, *, timeout_seconds: float = 30.0) -> None:
        self.root = root
        self.timeout_seconds = timeout_seconds
        self._descriptor = -1

    def __enter__(self) -> None:
        from agent_harness.kernel.lock import await_lock  # readers need none

        try:
            descriptor = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise files.refusal(self.root, "locked", error) from None
        try:
            if not await_lock(descriptor, self.timeout_seconds):
                raise LockBusy(f"{self.root} is locked by another command", hint="try again")
        except BaseException as error:
            os.close(descriptor)
            if isinstance(error, OSError):
                raise files.refusal(self.root, "locked", error) from None
            raise
        self._descriptor = descriptor

    def __exit__(self, *error: object) -> None:
        os.close(self._descriptor)


class InvalidTask(HarnessError):
    """Error for an invalid task. ``errors`` contains one line for each problem."""

    code = "invalid_task"

    def __init__(self, errors: list[str]) -> None:
        super().__init__("; ".join(errors))
        self.errors = errors


def _word_for(record: JsonObject, verdict: ClaimVerdict | None) -> JsonObject:
    """Return the grade and its reason for an event that sets the status `done`."""
    if verdict is None or not verdict.accepted or not verdict.grade or record.get("status") != "done":
        return {}
    return {"grade": verdict.grade, "basis": verdict.basis}


class CheckpointChange:
    """Change to a checkpoint, and the files and events that belong to it."""

    def __init__(self, layout: LongTaskLayout, task: Contract, checkpoint: Checkpoint, now: datetime) -> None:
        self.layout = layout
        self.task = task
        self.checkpoint = checkpoint
        self.now = now
        self.dirty = False
        self.damaged: str | None = None  # copy of the damaged checkpoint that ``fallback`` replaces
        self.events: list[JsonObject] = []
        self.kept: dict[str, bytes] = {}  # absolute path -> content
        self.archived: list[JsonObject] = []  # evidence that leaves the window
        self.verdict: ClaimVerdict | None = None  # on a claim of `done`; written before the checkpoint

    @property
    def at(self) -> str:
        return clock.timestamp(self.now, fraction=True)

    def touch(self) -> None:
        """Mark the checkpoint as changed, so that the store writes it."""
        self.checkpoint.raw["updatedAt"] = self.at
        self.dirty = True

    def event(self, kind: str, **members: object) -> None:
        """Add an event to the change. The store logs it after writing the checkpoint."""
        self.events.append({"type": kind, "at": self.at, **members})

    def free_name(self, name: str) -> str:
        """Return an unused file path, relative to the task."""
        for path in names(self.layout.inside(name)):
            if path not in self.kept and not os.path.lexists(path):
                return self.layout.relative(path)
        raise AssertionError("no unused name was found")

    def keep(self, name: str, content: str | bytes) -> str:
        """Add a new file to the change. Return the file's path."""
        free = self.free_name(name)
        self.kept[self.layout.inside(free)] = content.encode() if isinstance(content, str) else content
        return free


class LongTaskStore:
    def __init__(
        self, layout: LongTaskLayout, *, lock_timeout_seconds: float = 30.0, now: datetime | None = None
    ) -> None:
        self.layout = layout
        self.lock_timeout_seconds = lock_timeout_seconds
        self._now = now

    def now(self) -> datetime:
        return self._now or clock.now()

    # ---- reading; takes no lock

    def load(self) -> tuple[Contract, Checkpoint]:
        """Return the contract and the checkpoint. Raise ``UnreadableFile`` or ``InvalidTask`` if this is impossible."""
        task = read_json(self.layout.task)
        if real_checkpoint(self.layout) is None:
            raise UnreadableFile(
                f"{self.layout.checkpoint} is a symbolic link to a path outside the task, or to no file"
            )
        checkpoint = read_json(self.layout.checkpoint)
        errors = records.problems(task, checkpoint, self.layout)
        if errors:
            raise InvalidTask(errors)
        return Contract(task), Checkpoint(checkpoint)

    def errors(self) -> list[str]:
        """Return one line for each problem of the task. The list is empty if the task can be loaded."""
        try:
            self.load()
        except InvalidTask as error:
            return error.errors
        except HarnessError as error:
            return [error.message]
        return []

    def unfilled(self) -> list[str]:
        try:
            return records.unfilled(read_json(self.layout.task))
        except HarnessError:
            return []

    def task_id(self) -> str | None:
        """Return the id in ``task.json``, or None. The rest of the task may be invalid."""
        try:
            found = read_json(self.layout.task)
        except HarnessError:
            return None
        return Contract(found).text("id") if isinstance(found, dict) else None

    def revision(self) -> str:
        from agent_harness.kernel import digest

        contents = (files.read_bytes(path) for path in (self.layout.task, self.layout.checkpoint))
        try:
            return digest.sha256(b"\0".join(contents))
        except (OSError, StateDamaged) as error:
            raise UnreadableFile(f"Cannot read the task: {error}") from None

    def events(self) -> tuple[list[LogEvent], int]:
        return log.events(self.layout)

    # ---- writing

    def exclusive(self) -> DirectoryLock:
        # hold it only for milliseconds
        return DirectoryLock(self.layout.root, timeout_seconds=self.lock_timeout_seconds)

    def change(self, act: Callable[[CheckpointChange], T], *, fallback: Checkpoint | None = None) -> T:
        """Call ``act`` under the lock and write its changes. If ``act`` raises an error, write nothing.

        If another program edits the file, ``act`` runs again, so it must have no other effect."""
        with self.exclusive():
            return files.change(
                self.layout.checkpoint,
                # a damaged file is kept, and ``act`` gets ``fallback`` instead
                read=lambda: self._open(fallback),
                act=act,
                write=self._write,
                hint="run the same command again",
            )

    def _write(self, change: CheckpointChange, unedited: Callable[[], None]) -> None:
        content = self._checked(change) if change.dirty else None
        if change.events:
            log.refuse_elsewhere(self.layout, change.at)
        written: list[str] = []
        try:
            for path, kept in change.kept.items():
                make_folder(path)
                if not files.create(path, kept):
                    raise files.EditedMeanwhile
                written.append(path)
            if change.verdict:
                from agent_harness.session import ledger

                unedited()
                ledger.write(self.layout.ledger(), change.verdict)
            if content is not None:
                unedited()
                if change.archived:
                    log.add_to_archive(self.layout, change.task, change.archived, change.at)
                place = real_checkpoint(self.layout) or self.layout.checkpoint
                files.replace(place, content, before=unedited)
        except files.EditedMeanwhile:
            for path in written:  # nothing refers to them
                os.unlink(path)
            raise
        for record in change.events:
            log.add(self.layout, {**record, **_word_for(record, change.verdict)}, change.task.id)

    def _open(self, fallback: Checkpoint | None) -> CheckpointChange:
        try:
            return CheckpointChange(self.layout, *self.load(), self.now())
        except (InvalidTask, UnreadableFile):
            if fallback is None:
                raise
        return self._open_fallback(fallback)

    def _open_fallback(self, fallback: Checkpoint) -> CheckpointChange:
        task = read_json(self.layout.task)
        errors = records.problems(task, fallback.raw, self.layout)
        if errors:
            raise InvalidTask(errors)
        copy = jsontext.loads(jsontext.line(fallback.raw))
        change = CheckpointChange(self.layout, Contract(task), Checkpoint(copy), self.now())
        change.damaged = change.keep(f"evidence/invalid-checkpoint-{file_stamp(change.at)}.json", self._damage())
        change.dirty = True
        return change

    def _damage(self) -> bytes:
        """Return the content of the damaged checkpoint file."""
        path = self.layout.checkpoint
        try:
            left = real_checkpoint(self.layout) is None
            return os.fsencode(f"{os.readlink(path)}\n") if left else files.read_bytes(path)
        except (OSError, HarnessError):
            return b""

    def _checked(self, change: CheckpointChange) -> bytes:
        """Return the new checkpoint file's content. Raise ``InvalidTask`` if the checkpoint is invalid."""
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

    def event(self, record: JsonObject) -> bool:
        return log.add(self.layout, record, self.task_id())

    def keep(self, name: str, content: str | bytes) -> str:
        """Write a new file at once. Return its path relative to the task."""
        data = content.encode() if isinstance(content, str) else content
        start = self.layout.inside(name)
        make_folder(start)
        for path in names(start):
            if files.create(path, data):
                return self.layout.relative(path)
        raise AssertionError("no unused name was found")
