"""Lock in the form of a directory, which ``mkdir`` creates. A file in the directory names the owner.

Shell scripts can use the lock, because ``mkdir`` is exclusive in every language. Hosts that share a disk without
``flock`` can use it too. A lock directory is renamed before it is removed. Before a harness process inspects a lock
directory, it takes the kernel lock on the lock file, if there is one. So no two harness processes inspect the same
directory concurrently. Source: ``tasklist.md`` 9.1, 9.3."""

from __future__ import annotations

import errno
import os
import stat
import time

from agent_harness.errors import Refused
from agent_harness.kernel import clock, owner
from agent_harness.kernel.files import refusal
from agent_harness.kernel.json import jsontext
from agent_harness.kernel.owner import Owner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

START_SECONDS = 2.0
"""Seconds within which the process that created a lock directory must write its pid into the directory."""

FAR_HOLDER_SECONDS = 120.0
"""Seconds for which a holder on another host counts as alive after its last sign of life."""

_PID, _OWNER = "pid", "owner.json"
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_SNATCHED = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EEXIST)


class LockDirectory:
    """Lock that a process takes by creating the directory ``path``."""

    __slots__ = ("_made", "_now", "path")

    def __init__(self, path: str, now: Callable[[], float] = time.time) -> None:
        self.path = path
        # time of the directory's file system, in seconds since 1970
        self._now = now
        self._made: tuple[int, int] | None = None

    def try_take(self) -> str | None:
        """Take the lock and return ``None``. If the lock is taken, return a text that names its holder."""
        if self._make():
            return None
        seen = _look(self.path)
        if seen is None:
            return "a process that is just ending"
        if seen.uid != os.geteuid():
            raise Refused(
                f"{self.path} belongs to another user (uid {seen.uid}), so you cannot take the lock",
                hint=f"ask that user to remove it: rm -r {self.path}",
                reason="lock_denied",
            )
        holder = seen.holder(self._now())
        if holder:
            return holder
        _remove(self.path, seen)
        return None if self._make() else "a process that was faster"

    def confirm(self) -> bool:
        """Return True if this process still owns the directory."""
        if self._own() is None:
            return False
        try:
            # a sign of life
            os.utime(self.path)
        except FileNotFoundError:
            return False
        return True

    def release(self) -> None:
        """Remove the directory if this process owns it."""
        seen, self._made = self._own(), None
        if seen:
            try:
                _remove(self.path, seen)
            except Refused:
                return

    def holder(self) -> Owner | None:
        """Return the live process that holds the lock directory, or ``None``."""
        seen = _look(self.path)
        return seen.owner if seen and seen.holder(self._now()) else None

    def _own(self) -> _Seen | None:
        seen = _look(self.path) if self._made else None
        return seen if seen and seen.inode == self._made and seen.pid == os.getpid() else None

    def _make(self) -> bool:
        try:
            os.mkdir(self.path, 0o700)
        except FileExistsError:
            return False
        except OSError as error:
            raise refusal(self.path, "made", error) from None
        try:
            self._fill()
        except OSError as error:
            if error.errno not in _SNATCHED:
                self._give_up()
                raise refusal(self.path, "made", error) from None
        return self._own() is not None

    def _fill(self) -> None:
        folder = os.open(self.path, _FOLDER_FLAGS)
        try:
            made = os.fstat(folder)
            self._made = (made.st_dev, made.st_ino)
            record = {**owner.current().as_record(), "token": os.urandom(8).hex(), "at": clock.timestamp()}
            _write(folder, _OWNER, jsontext.dumps(record))  # first: a pid alone may soon be another process's
            _write(folder, _PID, f"{os.getpid()}\n")
        finally:
            os.close(folder)

    def _give_up(self) -> None:
        seen = _look(self.path)
        if seen and seen.inode == self._made:
            _remove(self.path, seen)
        self._made = None


class _Seen:
    """State of a lock directory's path at one moment."""

    __slots__ = ("inode", "is_folder", "mtime_ns", "owner", "pid", "uid")

    def __init__(self, status: os.stat_result, pid: bytes = b"", record: bytes = b"") -> None:
        self.inode = (status.st_dev, status.st_ino)
        self.mtime_ns = status.st_mtime_ns
        self.uid = status.st_uid
        self.is_folder = stat.S_ISDIR(status.st_mode)
        self.pid = int(pid) if pid.strip().isdigit() else 0
        self.owner = owner_in(record)
        if self.owner and f"{self.owner.pid}".encode().startswith(pid):
            self.pid = self.owner.pid  # its writer may have died in the middle of the number

    def holder(self, now: float) -> str | None:
        if not self.is_folder:
            return None
        age = abs(now - self.mtime_ns / 1e9)
        if self.owner and self.pid in (0, self.owner.pid):
            known = owner.state(self.owner)
            lives = known == "alive" or (known == "unknown" and age <= FAR_HOLDER_SECONDS)
            return str(self.owner) if lives else None
        if self.pid:
            return f"process {self.pid}" if owner.exists(self.pid) else None
        return "a process that is just starting" if age < START_SECONDS else None

    def is_same_as(self, status: os.stat_result) -> bool:
        # inodes are reused, so the times must match too
        return self.inode == (status.st_dev, status.st_ino) and self.mtime_ns == status.st_mtime_ns


def _look(path: str) -> _Seen | None:
    try:
        folder = os.open(path, _FOLDER_FLAGS)
    except FileNotFoundError:
        return None
    except OSError:
        try:
            return _Seen(os.lstat(path))
        except FileNotFoundError:
            return None
    try:
        return _Seen(os.fstat(folder), _read(folder, _PID), _read(folder, _OWNER))
    finally:
        os.close(folder)


def _remove(path: str, seen: _Seen) -> None:
    try:
        aside = f"{path}.stale.{os.getpid()}.{os.urandom(6).hex()}"
        remove_if(path, aside, lambda: seen.is_same_as(os.lstat(aside)))
    except FileNotFoundError:
        return
    except OSError as error:
        raise refusal(path, "removed", error) from None


def remove_if(path: str, aside: str, is_same: Callable[[], bool]) -> bool:
    """Rename ``path`` to ``aside``, and delete it only if ``is_same`` then returns True. Return that result."""
    os.rename(path, aside)
    if is_same():
        delete(aside)
        return True
    # a newer lock goes back to its place
    if not os.path.lexists(path):
        os.rename(aside, path)
    return False


def delete(path: str) -> None:
    if not stat.S_ISDIR(os.lstat(path).st_mode):
        os.unlink(path)
        return
    try:
        for name in os.listdir(path):
            os.unlink(os.path.join(path, name))
        os.rmdir(path)
    except OSError:  # there are folders in it
        from shutil import rmtree

        rmtree(path, ignore_errors=True)


def _write(folder: int, name: str, text: str) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, 0o600, dir_fd=folder)
    left = text.encode()
    try:
        while left:
            left = left[os.write(descriptor, left) :]
    finally:
        os.close(descriptor)


def _read(folder: int, name: str) -> bytes:
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        try:
            return os.read(descriptor, 4096)
        finally:
            os.close(descriptor)
    except OSError:
        return b""


def owner_in(record: bytes) -> Owner | None:
    """Return the process that a JSON record identifies, or ``None`` if the record is invalid."""
    try:
        return Owner.from_record(jsontext.loads(record))
    except ValueError:
        return None
