"""The folder ``harness`` in a git directory: one operation at a time, its temporary files, and kept indexes.

The lock is a kernel lock that git's processes inherit: when the harness is killed in the middle of an operation, the
next one starts after the last git process of the killed one has ended. Temporary folders that are found when the lock
is held belong to operations that are over.

A kept index is a file whose name is its SHA-256. An index remembers, next to names and object ids, the size, the times
and the inode of each file as it was when its content was read. Such a memory can be forged, so an index is believed
only under a digest that the harness holds itself. One that is missing or altered costs time, never truth: everything
is read again.
"""

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from agent_harness.errors import LockBusy, UnsafeTree
from agent_harness.kernel import flock, owner
from agent_harness.kernel.clock import scaled
from agent_harness.kernel.git.isolated import own_folder
from agent_harness.kernel.git.locate import Repository
from agent_harness.kernel.git.locks import await_lock

__all__ = ["OperationLock", "copy_index", "install_index"]

LOCK_SECONDS = 60.0
KEPT_INDEXES = 12
LOCKING = "locking"


class OperationLock:
    """A context: holds the lock and a temporary folder. ``LockBusy`` when another operation does not end in time."""

    def __init__(self, repository: Repository) -> None:
        self.repository = repository
        self.folder = ""
        self.lock = -1
        self._parent = ""

    def __enter__(self) -> Self:
        self._parent = own_folder(self.repository)
        self.lock = _locked(f"{self._parent}/lock")
        try:
            _sweep(self._parent, self.repository)
            self.folder = tempfile.mkdtemp(prefix="work-", dir=self._parent)
        except BaseException:
            os.close(self.lock)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self.lock)

    def path(self, name: str) -> str:
        """A place for a temporary file of this operation."""
        return f"{self.folder}/{name}"

    def copy_of_index(self, name: str) -> str | None:
        """A copy of the repository's index as it is now; ``None`` when there is none yet.

        Git finds the shared part of a split index beside it, so that a copy of this part lies there too.
        """
        copy = self.path(name)
        try:
            copy_index(f"{self.repository.git_dir}/index", copy)
        except FileNotFoundError:
            return None
        for part in self.shared_parts():
            copy_index(f"{self.repository.git_dir}/{part}", self.path(part))
        return copy

    def shared_parts(self) -> list[str]:
        """Names of the files that hold the shared part of a split index."""
        return [name for name in os.listdir(self.repository.git_dir) if name.startswith("sharedindex.")]

    def keep(self, index: str) -> str:
        """The digest under which this index can be had again; the newest few are kept."""
        digest = _digest(index)
        folder = f"{self._parent}/index"
        os.makedirs(folder, mode=0o700, exist_ok=True)
        copy = self.path("kept")
        copy_index(index, copy)
        os.replace(copy, f"{folder}/{digest}")
        _drop_oldest(folder)
        return digest

    def kept(self, digest: str, name: str) -> str | None:
        """A copy of a kept index; ``None`` when it is missing or was altered."""
        kept = f"{self._parent}/index/{digest}"
        if not digest.isalnum() or not _is_kept(kept, digest):
            return None
        os.utime(kept, ns=(time.time_ns(), os.lstat(kept).st_mtime_ns))
        copy = self.path(name)
        copy_index(kept, copy)
        return copy

    @contextmanager
    def locking(self, *refs: str) -> Iterator[None]:
        """Notes that git may lock these refs now, so that locks which a crash leaves are known as ours."""
        note = self.path(LOCKING)
        with open(note, "wb") as file:
            file.write(b"".join(os.fsencode(ref) + b"\0" for ref in refs))
        yield
        os.unlink(note)


def copy_index(source: str, target: str) -> None:
    """Copies an index with its modification time.

    Git reads again each file that is not older than the index that speaks of it. A copy that looked younger than the
    original would make git believe files which changed right after they were read.
    """
    shutil.copyfile(source, target)
    times = os.stat(source)
    os.utime(target, ns=(times.st_atime_ns, times.st_mtime_ns))


def install_index(repository: Repository, index: str) -> None:
    """Makes this file the index of the repository, under git's own lock; the file is gone afterwards.

    ``UnsafeTree`` when another program holds the index lock.
    """
    lock, target = f"{repository.git_dir}/index.lock", f"{repository.git_dir}/index"
    while True:
        try:
            os.link(index, lock)
            break
        except FileExistsError:
            await_lock(repository, lock)
    os.replace(lock, target)
    os.unlink(index)


def _locked(path: str) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        lock = os.open(path, flags, 0o600)
    except OSError as error:
        raise UnsafeTree(f"{path} cannot be opened: {error.strerror}", hint=f"move {path} away") from None
    if not flock.await_lock(lock, scaled(LOCK_SECONDS)):
        os.close(lock)
        raise LockBusy(f"another operation on this work tree holds {path}", hint="wait for it to end")
    return lock


def _sweep(parent: str, repository: Repository) -> None:
    """Removes what operations that are over have left: their folders, and an index lock that was made from there."""
    for entry in list(os.scandir(parent)):
        kind, _, rest = entry.name.partition("-")
        over = kind == "work" or (kind == "view" and not _lives(rest.partition("-")[0]))
        if over and entry.is_dir(follow_symlinks=False):
            _free_index_lock(Path(entry.path), repository)
            _free_ref_locks(f"{entry.path}/{LOCKING}", repository)
            shutil.rmtree(entry.path, ignore_errors=True)


def _lives(pid: str) -> bool:
    return pid.isdecimal() and owner.exists(int(pid))


def _free_index_lock(folder: Path, repository: Repository) -> None:
    lock = repository.git_dir / "index.lock"
    try:
        ours = [os.lstat(path).st_ino for path in folder.iterdir()]
        if os.lstat(lock).st_ino in ours:
            os.unlink(lock)
    except FileNotFoundError:
        return


def _free_ref_locks(note: str, repository: Repository) -> None:
    """Removes locks on the noted refs that are not older than the note: the operation that made both is over."""
    try:
        with open(note, "rb") as file:
            refs = file.read().split(b"\0")[:-1]
        since = os.lstat(note).st_mtime_ns
    except FileNotFoundError:
        return
    for folder in {repository.git_dir, repository.shared_dir}:
        for ref in refs:
            lock = os.path.join(os.fsencode(folder), ref + b".lock")
            if os.path.isfile(lock) and os.lstat(lock).st_mtime_ns >= since:
                os.unlink(lock)


def _digest(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _is_kept(path: str, digest: str) -> bool:
    return os.path.isfile(path) and not os.path.islink(path) and _digest(path) == digest


def _drop_oldest(folder: str) -> None:
    """Leaves the indexes that were used last, by access time, which we set ourselves."""
    entries = sorted(os.scandir(folder), key=lambda entry: entry.stat(follow_symlinks=False).st_atime_ns)
    for entry in entries[:-KEPT_INDEXES]:
        os.unlink(entry.path)
