"""A lock that the kernel keeps on a file and frees at any death: no stale locks, no pid that is used again.

The file is never removed by us. What stands in it is for people; the lock is ``flock``. Source: ``tasklist.md`` 9.2.
"""

from __future__ import annotations

import fcntl
import os

from agent_harness.kernel import clock, flock, owner
from agent_harness.kernel.files import open_regular, refusal
from agent_harness.kernel.json import jsontext
from agent_harness.kernel.owner import Owner

__all__ = ["LockFile"]


class LockFile:
    """One lock file. ``previous`` is who held the lock before and died with it, known once the lock is ours."""

    __slots__ = ("_descriptor", "path", "previous")

    def __init__(self, path: str) -> None:
        self.path = path
        self.previous: Owner | None = None
        self._descriptor = -1

    def try_take(self) -> str | None:
        """``None`` when the lock is ours now, else who holds it. ``OSError`` where the disk knows no ``flock``."""
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
        if not flock.try_lock(descriptor):
            return str(_named_in(descriptor) or "another process")
        return None if self._is_at_its_place(descriptor) else "somebody who removed the lock file"

    def confirm(self) -> bool:
        """Whether the lock is still ours. A lock file that was deleted under us is made again, if nobody else did."""
        if self._descriptor < 0:
            return False
        return self._is_at_its_place(self._descriptor) or (not os.path.lexists(self.path) and self._make_again())

    def release(self) -> None:
        """Frees the lock; the file stays, empty. Safe to repeat."""
        if self._descriptor < 0:
            return
        descriptor, self._descriptor = self._descriptor, -1
        _empty(descriptor)
        os.close(descriptor)

    def holder(self) -> Owner | None:
        """Who holds the lock now; ``None`` when nobody does. Takes nothing. ``OSError`` as above."""
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
        """The time of the disk that the file lies on, which all hosts share, in seconds since 1970."""
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
            taken = flock.try_lock(descriptor)
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
    """Writes who we are, for people; a full disk does not stop us."""
    text = jsontext.dumps({**owner.current().as_record(), "at": clock.timestamp()}).encode()
    try:
        os.pwrite(descriptor, text, 0)
        os.ftruncate(descriptor, len(text))
    except OSError:
        return


def _empty(descriptor: int) -> None:
    try:
        os.ftruncate(descriptor, 0)
    except OSError:
        return


def _named_in(descriptor: int) -> Owner | None:
    try:
        return Owner.from_record(jsontext.loads(os.pread(descriptor, 4096, 0)))
    except ValueError:
        return None
