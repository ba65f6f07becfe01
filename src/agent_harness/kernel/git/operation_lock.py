"""The folder ``harness`` in a git directory: a lock for one operation at a time, temporary files, and stored indexes.

The lock is a kernel lock that git processes inherit. If the harness is killed during an operation, the next operation
starts after the last git process of the killed operation has ended. Temporary folders found under the lock belong to
ended operations.

The name of a stored index is its SHA-256 digest. An index records the size, times and inode of each file. An agent can
forge these values, so the harness trusts an index only if it has recorded the index's digest. If the index is missing
or altered, git reads all files again. Git also reads a file again if the file changed in the second in which the index
was read. Most git builds compare times by whole seconds, so a later change could otherwise go unnoticed.

Git creates ``NAME.lock`` while it writes the file ``NAME``. If git is killed, the lock stays and git refuses to write.
The harness removes such a lock only if no process has the lock open and no git process runs in the repository."""

import hashlib
import os
import re
import shutil
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import CompletedProcess
from types import TracebackType
from typing import NamedTuple, Self

from agent_harness.errors import LockBusy, UnsafeTree
from agent_harness.kernel import owner
from agent_harness.kernel.clock import scaled
from agent_harness.kernel.git.isolated import GitFailed, own_folder
from agent_harness.kernel.git.locate import Repository
from agent_harness.kernel.lock import await_lock as await_kernel_lock

HEADER = struct.Struct(">4sII")
VERSIONS = (2, 3)  # later ones shorten names
FIXED = 40  # bytes of times, numbers and size before the object id
EXTENDED = 0x4000
LONG_NAME = 0xFFF
SHARED_PART = b"link"
HELD_SECONDS = 10.0
FRESH_SECONDS = 1.0
PROCESSES = "/proc"
LOCK_SECONDS = 60.0
KEPT_INDEXES = 12
LOCKING = "locking"
LOCKED = re.compile(r"Unable to create '(.+\.lock)': File exists")


class StoredEntry(NamedTuple):
    path: bytes
    mode: int
    oid: str
    changed_at: int  # whole seconds: when the file's content or mode last changed


def stored_entries(index: str | os.PathLike[str], *, id_bytes: int = 20) -> list[StoredEntry] | None:
    """Return the entries of a git index, or ``None`` if only git can read the index."""
    with open(index, "rb") as file:
        content = file.read()
    try:
        signature, version, count = HEADER.unpack_from(content)
        if signature != b"DIRC" or version not in VERSIONS:
            return None
        found, end = _entries(content, count, id_bytes)
    except (struct.error, ValueError):
        return None
    return None if content[end : end + 4] == SHARED_PART else found


def _entries(content: bytes, count: int, id_bytes: int) -> tuple[list[StoredEntry], int]:
    """Return the entries of a git index, and the byte offset behind the last entry."""
    found: list[StoredEntry] = []
    at, fixed = HEADER.size, FIXED + id_bytes + 2
    number, short = struct.Struct(">I").unpack_from, struct.Struct(">H").unpack_from
    for _ in range(count):
        flags = short(content, at + fixed - 2)[0]
        name = at + fixed + (2 if flags & EXTENDED else 0)
        length = flags & LONG_NAME
        if length == LONG_NAME:
            length = content.index(b"\0", name) - name
        path, oid = content[name : name + length], content[at + FIXED : at + FIXED + id_bytes]
        found.append(StoredEntry(path, number(content, at + 24)[0], oid.hex(), number(content, at)[0]))
        at += (name - at + length) // 8 * 8 + 8
    return found, at


def second_now(folder: str) -> int:
    """Return the current time by the clock of the file system that contains ``folder``, in whole seconds."""
    path = f"{folder}/second"
    with open(path, "wb"):
        pass
    found = int(os.stat(path).st_ctime)
    os.unlink(path)
    return found


def racy(index: str, second: int, *, id_bytes: int = 20) -> dict[bytes, str] | None:
    """Return the mode and object id of each index entry that changed at or after ``second``, by path.
    Return ``None`` if only git can read the index."""
    if os.stat(index).st_mtime < second:
        # the index is older than that
        return {}
    found = stored_entries(index, id_bytes=id_bytes)
    if found is None:
        return None
    return {entry.path: f"{entry.mode:o} {entry.oid}" for entry in found if entry.changed_at >= second}


def without_left_locks(
    repository: Repository, change: Callable[[], CompletedProcess[bytes]]
) -> CompletedProcess[bytes]:
    """Call ``change``. If an abandoned git lock blocks the change, move the lock away and call ``change`` again."""
    try:
        return change()
    except GitFailed as error:
        found = LOCKED.search(error.stderr)
        if not found:
            raise
        own_folder(repository)
        await_lock(repository, found[1])
        return change()


def await_lock(repository: Repository, lock: str) -> None:
    """Wait until a git lock file disappears, and move an abandoned one away. Raise ``UnsafeTree`` if it stays held."""
    until = time.monotonic() + scaled(HELD_SECONDS)
    seen, since = (0, 0), 0.0
    while True:
        try:
            found = os.lstat(lock)
        except FileNotFoundError:
            return
        if seen != (found.st_ino, found.st_mtime_ns):
            seen, since = (found.st_ino, found.st_mtime_ns), time.monotonic()
        # after the clock was set back, the lock's time lies in the future
        age = max(time.time() - found.st_mtime, time.monotonic() - since)
        if age > FRESH_SECONDS and _nobody_holds(repository, lock):
            # abandoned: moved away, not deleted
            os.replace(lock, f"{repository.git_dir}/harness/left.lock")
            return
        if time.monotonic() > until:
            hint = f"if no git command is running here, remove {lock} and try again"
            raise UnsafeTree(f"another git command holds the lock {lock}", hint=hint)
        time.sleep(0.02)


def _nobody_holds(repository: Repository, lock: str) -> bool:
    """Return True only if the process list proves that the lock has no holder."""
    if not os.path.isdir(f"{PROCESSES}/self"):
        return False
    places = tuple(os.fsencode(path) for path in (repository.top, repository.git_dir, repository.shared_dir))
    pids = [name for name in os.listdir(PROCESSES) if name.isdecimal()]
    return not any(_may_hold(f"{PROCESSES}/{pid}", os.fsencode(lock), places) for pid in pids)


def _may_hold(process: str, lock: bytes, places: tuple[bytes, ...]) -> bool:
    is_git = False
    try:
        with open(f"{process}/comm", "rb") as file:
            is_git = file.read().startswith(b"git")
        opened = [os.readlink(os.fsencode(f"{process}/fd/{name}")) for name in os.listdir(f"{process}/fd")]
        if lock in opened:
            return True
        with open(f"{process}/cmdline", "rb") as file:
            words = file.read()
        where = os.readlink(os.fsencode(f"{process}/cwd"))
    except PermissionError:
        return is_git
    except OSError:
        return False  # it has ended
    return is_git and any(where == place or where.startswith(place + b"/") or place in words for place in places)


class OperationLock:
    """Lock and temporary folder of one git operation."""

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
        return f"{self.folder}/{name}"

    def copy_of_index(self, name: str) -> str | None:
        """Copy the current index and return the copy's path, or ``None`` if there is no index."""
        copy = self.path(name)
        try:
            copy_index(f"{self.repository.git_dir}/index", copy)
        except FileNotFoundError:
            return None
        # git expects the shared part of a split index in the same folder
        for part in self.shared_parts():
            copy_index(f"{self.repository.git_dir}/{part}", self.path(part))
        return copy

    def shared_parts(self) -> list[str]:
        return [name for name in os.listdir(self.repository.git_dir) if name.startswith("sharedindex.")]

    def keep(self, index: str) -> str:
        """Store a copy of an index. Return the digest by which ``kept`` finds the copy."""
        digest = _digest(index)
        folder = f"{self._parent}/index"
        os.makedirs(folder, mode=0o700, exist_ok=True)
        copy = self.path("kept")
        copy_index(index, copy)
        os.replace(copy, f"{folder}/{digest}")
        entries = sorted(os.scandir(folder), key=lambda entry: entry.stat(follow_symlinks=False).st_atime_ns)
        for entry in entries[:-KEPT_INDEXES]:
            os.unlink(entry.path)
        return digest

    def kept(self, digest: str, name: str) -> str | None:
        """Return the path of a new copy of a stored index, or ``None`` if no intact index has this ``digest``."""
        kept = f"{self._parent}/index/{digest}"
        is_plain = digest.isalnum() and os.path.isfile(kept) and not os.path.islink(kept)
        if not is_plain or _digest(kept) != digest:
            return None
        os.utime(kept, ns=(time.time_ns(), os.lstat(kept).st_mtime_ns))
        copy = self.path(name)
        copy_index(kept, copy)
        return copy

    @contextmanager
    def locking(self, *refs: str) -> Iterator[None]:
        """Save the names of the refs that git may lock during the block."""
        # after a crash, the next operation removes the lock files of these refs
        note = self.path(LOCKING)
        with open(note, "wb") as file:
            file.write(b"".join(os.fsencode(ref) + b"\0" for ref in refs))
        yield
        os.unlink(note)


def copy_index(source: str, target: str) -> None:
    shutil.copyfile(source, target)
    # git trusts entries that are older than the index: a newer time could hide a change
    times = os.stat(source)
    os.utime(target, ns=(times.st_atime_ns, times.st_mtime_ns))


def install_index(repository: Repository, index: str) -> None:
    """Replace the repository's index. Raise ``UnsafeTree`` if another process keeps git's lock."""
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
    if not await_kernel_lock(lock, scaled(LOCK_SECONDS)):
        os.close(lock)
        raise LockBusy(
            f"another operation on this work tree holds the lock {path}",
            hint="wait until that operation ends, then try again",
        )
    return lock


def _sweep(parent: str, repository: Repository) -> None:
    for entry in list(os.scandir(parent)):
        kind, _, rest = entry.name.partition("-")
        over = kind == "work" or (
            kind == "view" and not ((pid := rest.partition("-")[0]).isdecimal() and owner.exists(int(pid)))
        )
        if over and entry.is_dir(follow_symlinks=False):
            _free_index_lock(Path(entry.path), repository)
            _free_ref_locks(f"{entry.path}/{LOCKING}", repository)
            shutil.rmtree(entry.path, ignore_errors=True)


def _free_index_lock(folder: Path, repository: Repository) -> None:
    lock = repository.git_dir / "index.lock"
    try:
        ours = [os.lstat(path).st_ino for path in folder.iterdir()]
        if os.lstat(lock).st_ino in ours:
            os.unlink(lock)
    except FileNotFoundError:
        return


def _free_ref_locks(note: str, repository: Repository) -> None:
    try:
        with open(note, "rb") as file:
            refs = file.read().split(b"\0")[:-1]
        since = os.lstat(note).st_mtime_ns
    except FileNotFoundError:
        return
    for folder in {repository.git_dir, repository.shared_dir}:
        for ref in refs:
            lock = os.path.join(os.fsencode(folder), ref + b".lock")
            # an older lock is another process's
            if os.path.isfile(lock) and os.lstat(lock).st_mtime_ns >= since:
                os.unlink(lock)


def _digest(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
