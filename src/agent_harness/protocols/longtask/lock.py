"""The lock on a task directory: ``flock`` on the directory itself, so that it leaves no file and dies with its holder.

It is held for milliseconds, around one change; the lease of a run is another thing. Source: ``longtask.md`` 15.
"""

from __future__ import annotations

import os

from agent_harness.errors import LockBusy
from agent_harness.kernel import files, flock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

__all__ = ["DirectoryLock"]


class DirectoryLock:
    """Excludes every other change of the same directory while it is held; a context manager, not to be nested."""

    __slots__ = ("_descriptor", "root", "timeout_seconds")

    def __init__(self, root: str, *, timeout_seconds: float = 30.0) -> None:
        self.root = root
        self.timeout_seconds = timeout_seconds
        self._descriptor = -1

    def acquire(self) -> None:
        """Takes the lock. ``LockBusy`` after the timeout, ``Refused`` when it can never be had."""
        try:
            descriptor = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise files.refusal(self.root, "locked", error) from None
        try:
            if not flock.await_lock(descriptor, self.timeout_seconds):
                raise LockBusy(f"{self.root} is locked by another command", hint="try again")
        except BaseException as error:
            os.close(descriptor)
            if isinstance(error, OSError):
                raise files.refusal(self.root, "locked", error) from None
            raise
        self._descriptor = descriptor

    def release(self) -> None:
        """Gives the lock back. Safe to repeat."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *error: object) -> None:
        self.release()
