"""One owner at a time: the kernel's lock on a file in the root, then the directory that shell scripts look at.

What it does not promise: ``/tmp`` belongs to one host and often to one container, so the directory excludes nobody
else; only the file in the root does. Where the disk knows no ``flock``, a directory inside the root stands in for it,
and a holder on another host counts as dead 120 s after its last ``verify``. A process that was stopped for minutes may
have lost the lock: pass ``verify`` as ``before`` to every ``files.replace``. Source: ``tasklist.md`` 9.
"""

from __future__ import annotations

import errno
import os
import time

from agent_harness.errors import LockBusy, NotOwner
from agent_harness.kernel import digest, flock
from agent_harness.kernel.files import refusal
from agent_harness.kernel.lock.directory import LockDirectory
from agent_harness.kernel.lock.file import LockFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

    from agent_harness.kernel.files import AnyPath
    from agent_harness.kernel.owner import Owner

__all__ = ["LOCK_FILE", "Lock", "LockLost", "directory_for", "holder"]

LOCK_FILE = ".harness-lock"
SHARED_FOLDER = "/tmp"  # noqa: S108  # the name that shell scripts use
_NO_FLOCK = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)


class LockLost(NotOwner):
    """The lock was taken away while it was held, from a process that was stopped for minutes; nothing was written."""


class Lock:
    """Excludes every other holder of the same root while it is held; a context manager.

    ``file`` is the lock file, relative to the root. ``compatible`` also takes the directory that shell scripts use, in
    ``shared_folder``.
    """

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
        self._shared = LockDirectory(directory_for(self.root, shared_folder)) if compatible else None
        self._held: list[LockFile | LockDirectory] = []

    @property
    def previous(self) -> Owner | None:
        """Who held the lock before and died with it; ``None`` when it was released in order."""
        return self._file.previous

    def acquire(self) -> None:
        """Takes the lock. ``LockBusy`` names the holder after the timeout; ``Refused`` when it can never be had."""
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
        """Gives the lock back, as far as it is still ours. Safe to repeat."""
        while self._held:
            self._held.pop().release()

    def verify(self) -> None:
        """``LockLost`` when the lock is no longer ours; nothing may be written then."""
        if self._held and all(part.confirm() for part in self._held):
            return
        raise LockLost(
            f"the lock on {self.root} was lost while it was held; nothing was written",
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
        if who := flock.await_free(part.try_take, deadline):
            raise LockBusy(f"{self.root} is locked by {who}", hint="wait until it is done, then try again", holder=who)


def directory_for(root: AnyPath, shared_folder: str = SHARED_FOLDER) -> str:
    """The directory by which shell scripts lock this root: its name holds a digest of the resolved path."""
    key = digest.sha256(os.fsencode(os.path.realpath(root)))[:16]
    return f"{shared_folder}/harness-{key}.lock"


def holder(root: AnyPath, file: str = LOCK_FILE) -> Owner | None:
    """Who holds the lock on a root now, for messages; ``None`` when nobody does or it cannot be seen."""
    path = os.path.join(os.path.realpath(root), file)
    try:
        return LockFile(path).holder()
    except OSError as error:
        return LockDirectory(f"{path}.d").holder() if error.errno in _NO_FLOCK else None
