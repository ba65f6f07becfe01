"""Lock on a root folder: a kernel lock on a file in the root, then a lock directory for shell scripts.

The lock directory is in ``/tmp``, which belongs to one host and often to one container. So the lock directory excludes
only processes in this host or container. The file in the root excludes all processes. On a disk without ``flock``, a
directory inside the root replaces the file. On such a disk, a holder on another host counts as dead 120 s after its
last ``verify``. A process that was suspended for minutes may have lost the lock. Therefore, pass ``verify`` as
``before`` to every ``files.replace``. Source: ``tasklist.md`` 9."""

from __future__ import annotations

import errno
import fcntl
import os
import time

from agent_harness.errors import LockBusy, NotOwner
from agent_harness.kernel import clock, digest, owner
from agent_harness.kernel.files import open_regular, overwrite, refusal
from agent_harness.kernel.json import jsontext
from agent_harness.kernel.lock_directory import LockDirectory, owner_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from agent_harness.kernel.files import AnyPath
    from agent_harness.kernel.owner import Owner

LOCK_FILE = ".harness-lock"
SHARED_FOLDER = "/tmp"  # noqa: S108  # the name that shell scripts use
_NO_FLOCK = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)


class LockFile:
    """File lock. ``previous`` is the process that died while it held the lock, if any."""

    __slots__ = ("_descriptor", "path", "previous")

    def __init__(self, path: str) -> None:
        self.path = path
        self.previous: Owner | None = None
        self._descriptor = -1

    def try_take(self) -> str | None:
        """Take the lock and return ``None``. If the lock is taken, return a text that names its holder.
        Raise ``OSError`` on a disk without ``flock``."""
        descriptor = self._open()
        try:
            holder = self._holder_of(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        if holder:
            os.close(descriptor)
            return holder
        self._descriptor = descriptor
        self.previous = _named_in(descriptor)
        _sign(descriptor)
        return None

    def _holder_of(self, descriptor: int) -> str | None:
        if not try_lock(descriptor):
            return str(_named_in(descriptor) or "another process")
        return None if self._is_at_its_place(descriptor) else "a process that removed the lock file"

    def confirm(self) -> bool:
        """Return True if this process still has the lock."""
        if self._descriptor < 0:
            return False
        return self._is_at_its_place(self._descriptor) or (not os.path.lexists(self.path) and self._make_again())

    def release(self) -> None:
        """Release the lock, and keep the empty lock file."""
        if self._descriptor < 0:
            return
        descriptor, self._descriptor = self._descriptor, -1
        overwrite(descriptor, b"")
        os.close(descriptor)

    def holder(self) -> Owner | None:
        """Return the process that holds the lock, or ``None`` if the lock is free or its holder is unknown."""
        try:
            descriptor = open_regular(self.path, os.O_RDONLY | os.O_NOFOLLOW)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _named_in(descriptor)
        finally:
            os.close(descriptor)
        return None

    def touch(self) -> float:
        """Set the lock file's time to now, and return this time."""
        descriptor = self._open()
        try:
            os.utime(descriptor)
            return os.fstat(descriptor).st_mtime
        finally:
            os.close(descriptor)

    def _open(self) -> int:
        try:
            return open_regular(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise refusal(self.path, "opened", error) from None

    def _is_at_its_place(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), os.lstat(self.path))
        except FileNotFoundError:
            return False

    def _make_again(self) -> bool:
        try:
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
            descriptor = open_regular(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError:
            return False
        try:
            taken = try_lock(descriptor)
        except OSError:
            taken = False
        if not taken:
            os.close(descriptor)
            return False
        os.close(self._descriptor)
        self._descriptor = descriptor
        _sign(descriptor)
        return True


def _sign(descriptor: int) -> None:
    overwrite(descriptor, jsontext.dumps({**owner.current().as_record(), "at": clock.timestamp()}).encode())


def _named_in(descriptor: int) -> Owner | None:
    return owner_in(os.pread(descriptor, 4096, 0))


class LockLost(NotOwner):
    """Error: this process lost its lock, for example while it was suspended."""


class Lock:
    """Lock on a root folder."""

    __slots__ = ("_file", "_held", "_inside", "_shared", "root", "timeout_seconds")

    def __init__(
        self,
        root: AnyPath,
        *,
        timeout_seconds: float = 5.0,
        compatible: bool = True,
        file: str = LOCK_FILE,
        shared_folder: str = SHARED_FOLDER,
    ) -> None:
        self.root = os.path.realpath(root)
        self.timeout_seconds = timeout_seconds
        self._file = LockFile(os.path.join(self.root, file))
        self._inside = LockDirectory(f"{self._file.path}.d", now=self._file.touch)
        # shell scripts take this directory
        self._shared = LockDirectory(directory_for(self.root, shared_folder)) if compatible else None
        self._held: list[LockFile | LockDirectory] = []

    @property
    def previous(self) -> Owner | None:
        """Process that died while it held the lock, if any."""
        return self._file.previous

    def acquire(self) -> None:
        """Take the lock. Raise ``LockBusy`` if another process keeps the lock."""
        if self._held:
            raise RuntimeError("this lock is held already")
        deadline = time.monotonic() + self.timeout_seconds
        try:
            self._take_inside_the_root(deadline)
            if self._shared:
                self._take(self._shared, deadline)
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Release the lock if this process still holds it."""
        while self._held:
            self._held.pop().release()

    def verify(self) -> None:
        """Raise ``LockLost`` if this process no longer holds the lock."""
        if self._held and all(part.confirm() for part in self._held):
            return
        raise LockLost(
            f"the lock on {self.root} was lost during the operation; nothing was written",
            hint="run the same command again",
        )

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *error: object) -> None:
        self.release()

    def _take_inside_the_root(self, deadline: float) -> None:
        try:
            if os.path.isdir(self.root):
                os.makedirs(os.path.dirname(self._file.path), exist_ok=True)
            self._take(self._file, deadline)
        except OSError as error:
            if error.errno not in _NO_FLOCK:
                raise refusal(self._file.path, "locked", error) from None
            self._held.clear()
            self._take(self._inside, deadline)

    def _take(self, part: LockFile | LockDirectory, deadline: float) -> None:
        self._held.append(part)
        if who := await_free(part.try_take, deadline):
            raise LockBusy(
                f"{self.root} is locked by {who}", hint="wait until that process is done, then try again", holder=who
            )


def directory_for(root: AnyPath, shared_folder: str = SHARED_FOLDER) -> str:
    """Return the path of the directory that shell scripts create to lock ``root``."""
    key = digest.sha256(os.fsencode(os.path.realpath(root)))[:16]
    return f"{shared_folder}/harness-{key}.lock"


def holder(root: AnyPath, file: str = LOCK_FILE) -> Owner | None:
    """Return the known holder of the lock on ``root``, or ``None``."""
    path = os.path.join(os.path.realpath(root), file)
    try:
        return LockFile(path).holder()
    except OSError as error:
        return LockDirectory(f"{path}.d").holder() if error.errno in _NO_FLOCK else None


# ---- the kernel's lock on any open file or folder: one holder at a time, freed when it dies

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.001, 0.02
"""Shortest and longest pause in seconds between attempts to take a lock."""


def try_lock(descriptor: int) -> bool:
    """Lock an open file. Return False if the file is already locked. Raise ``OSError`` on a disk without ``flock``."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def await_lock(descriptor: int, timeout_seconds: float) -> bool:
    """Wait for the lock on an open file. Return False if the wait exceeds ``timeout_seconds``."""
    return await_free(lambda: None if try_lock(descriptor) else "", time.monotonic() + timeout_seconds) is None


def await_free(try_take: Callable[[], str | None], deadline: float) -> str | None:
    """Call ``try_take`` until it returns ``None`` or the deadline passes. Return the last result."""
    pause = _FIRST_PAUSE_SECONDS
    while (who := try_take()) is not None:
        if time.monotonic() >= deadline:
            return who
        time.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
    return None
