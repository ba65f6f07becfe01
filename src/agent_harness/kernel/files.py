"""State files that survive a crash. A file is read whole and replaced whole, and has a backup in the same folder.

A reader needs no lock: it sees either the old file or the new file. A killed process leaves at most a temporary file,
which ``sweep`` removes. Source: ``tasklist.md`` 8.

A lock excludes only programs that take the lock, not an editor or a script. Therefore ``change`` compares the file with
its state at the time of reading, right before it replaces the file. If someone edited the file meanwhile, the change
starts again from the edited version. Source: ``tasklist.md`` 10.2, ``longtask.md`` 15."""

from __future__ import annotations

import errno
import os
import stat

from agent_harness.errors import Busy, HarnessError, Refused, StateDamaged
from agent_harness.kernel import clock, owner
from agent_harness.kernel.json import jsontext
from agent_harness.kernel.json.jsontext import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    AnyPath = str | os.PathLike[str]
    from typing import TypeVar

    C = TypeVar("C")
    T = TypeVar("T")

MAX_BYTES = 64 << 20
"""Maximum size in bytes of a state file. A larger file is not read."""

_NO_FOLDER_SYNC = (errno.EACCES, errno.EBADF, errno.EINVAL, errno.ENOTSUP)
_HINTS = {
    errno.EACCES: "check the owner and the permissions (ls -l)",
    errno.EDQUOT: "your disk quota is used up; free some space, then run the same command again",
    errno.EFBIG: "a file size limit is set (ulimit -f); raise the limit, then run the same command again",
    errno.EISDIR: "a folder has this name; move the folder away",
    errno.ENOENT: "a folder in the path is missing, or a symbolic link is broken",
    errno.ELOOP: "a symbolic link is not allowed here; replace the link with a regular file",
    errno.ENOSPC: "free some space on that disk, then run the same command again",
    errno.EPERM: "check the owner and the permissions (ls -l)",
    errno.EROFS: "the disk is read-only; mount it for writing or work in another folder",
}


def read_bytes(path: AnyPath) -> bytes:
    """Return a file's content. Raise ``StateDamaged`` if the file is too large or not regular."""
    try:
        with os.fdopen(open_regular(path, os.O_RDONLY), "rb", buffering=0) as file:
            content = file.read(MAX_BYTES + 1 if os.fstat(file.fileno()).st_size > MAX_BYTES else -1) or b""
    except FileNotFoundError:
        raise
    except OSError as error:
        raise refusal(path, "read", error) from None
    if len(content) > MAX_BYTES:
        raise damaged(path, f"it is larger than {MAX_BYTES >> 20} MiB")
    return content


def read_json(path: AnyPath, *, exact: bool = True, content: bytes | None = None) -> dict[str, Any]:
    """Return the JSON object in a file. Raise ``StateDamaged`` if the file holds no JSON object."""
    # ``exact=False`` loses the spelling of numbers: never write such an object back
    content = read_bytes(path) if content is None else content
    try:
        return _json_object(content, exact=exact)
    except ValueError as error:
        raise damaged(path, str(error)) from None


def read_json_if_any(path: AnyPath) -> dict[str, Any]:
    """Return the JSON object in a file, or an empty object if the file cannot be read."""
    try:
        return read_json(path)
    except (OSError, HarnessError):
        return {}


def stamp_of(path: AnyPath) -> tuple[int, ...] | None:
    """Return a value that changes whenever the file changes, or ``None`` if the file is missing."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def is_inside(folder: str, path: str) -> bool:
    """Return True if no part of ``path`` below ``folder`` is a symbolic link."""
    below = os.path.relpath(path, folder)
    return os.path.realpath(path) == os.path.join(os.path.realpath(folder), below)


def replace(
    path: AnyPath,
    content: str | bytes | Iterable[bytes | memoryview],
    *,
    mode: int | None = None,
    before: Callable[[], object] | None = None,
    follow: bool = False,
) -> None:
    """Replace the content of a file atomically, or keep the old content if ``before`` raises.
    Raise ``Refused`` if the file cannot be written."""
    # ``follow`` only where no agent can replace the file, or where the file's contract allows a link
    target = os.path.realpath(path) if follow else _itself(path)
    temporary = temporary_name(target)
    whole = content.encode() if isinstance(content, str) else content
    parts = [whole] if isinstance(whole, bytes) else whole
    try:
        _write_new(temporary, parts, _permissions(target, mode, os.stat if follow else os.lstat))
        if before:
            before()
        os.replace(temporary, target)
        sync_folder(os.path.dirname(target))
    except BaseException as error:
        unlink(temporary)
        if isinstance(error, OSError):
            raise refusal(path, "written", error) from None
        raise


def create(path: str, content: str | bytes, *, mode: int | None = None) -> bool:
    """Write a new file. Return False if the path already exists."""
    target = _itself(path)
    temporary = temporary_name(target)
    try:
        _write_new(temporary, [content.encode() if isinstance(content, str) else content], (mode, -1, -1))
        try:
            os.link(temporary, target)
        except OSError:  # a disk without hard links: after a crash, the file may be empty
            os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
            os.replace(temporary, target)
        sync_folder(os.path.dirname(target))
    except FileExistsError:
        return False
    except OSError as error:
        raise refusal(path, "written", error) from None
    finally:
        unlink(temporary)
    return True


def write_json(
    path: AnyPath,
    value: dict[str, Any],
    *,
    backup: bool = False,
    before: Callable[[], object] | None = None,
    follow: bool = False,
) -> None:
    """Replace a state file with a JSON object. With ``backup``, first copy valid old content to ``<path>.bak``."""
    try:
        content = dumps(value).encode()
    except ValueError as error:
        raise StateDamaged(f"{os.fspath(path)} was not written: {error}") from None
    if backup:
        _back_up(path)
    replace(path, content, before=before, follow=follow)


def restore(path: AnyPath) -> str | None:
    """Replace a damaged state file by its valid backup, or raise ``StateDamaged`` and change nothing.
    Return the damaged file's new path, or ``None`` if the file was missing."""
    # never through a link: an agent can link any file of the user
    if os.path.islink(path):
        hint = f"repair {os.path.realpath(path)}, or remove the link {os.fspath(path)}"
        raise StateDamaged(f"{os.fspath(path)} is a symbolic link to a damaged file", hint=hint)
    backup = f"{os.fspath(path)}.bak"
    try:
        content = read_bytes(backup)
        _json_object(content)
    except (FileNotFoundError, ValueError) as error:
        why = "the backup is missing" if isinstance(error, FileNotFoundError) else str(error)
        raise StateDamaged(f"{os.fspath(path)} cannot be restored from {backup}: {why}") from None
    kept = _put_aside(os.fspath(path))
    replace(path, content)
    return kept


def sweep(path: AnyPath) -> int:
    """Remove the temporary files of killed processes beside ``path``. Return the number of removed files."""
    # the caller must hold the file's lock
    _part(os.path.realpath(path), f"{os.fspath(path)}.bak")
    folder, name = os.path.split(os.path.realpath(path))
    beginnings = (f"{name}.tmp.", f"{name}.bak.tmp.")
    swept = 0
    for entry in os.listdir(folder) if os.path.isdir(folder) else ():
        start = next((each for each in beginnings if entry.startswith(each)), None)
        pid = entry.removeprefix(start).partition(".")[0] if start else ""
        if pid.isdecimal() and not owner.exists(int(pid)):
            unlink(os.path.join(folder, entry))
            swept += 1
    return swept


def _part(target: str, backup: str) -> None:
    try:
        is_one = os.path.samestat(os.stat(target), os.lstat(backup))
    except OSError:
        return
    # so that an edit changes only one of the two files
    if is_one:
        replace(backup, read_bytes(backup))


def own_place(path: str, root: str) -> None:
    """Create the parent folders of ``path`` below ``root``. Remove links on the way, and rename other
    obstacles."""
    for folder in folders_between(root, path):
        _make_way(folder, os.path.isdir)
        try:
            os.makedirs(folder, exist_ok=True)
        except OSError as error:
            raise refusal(folder, "made", error) from None
    _make_way(path, os.path.isfile)


def _make_way(path: str, is_wanted: Callable[[str], bool]) -> None:
    try:
        if os.path.islink(path):
            os.unlink(path)
        elif os.path.lexists(path) and not is_wanted(path):
            os.rename(path, free_name(f"{path}.aside"))
    except FileNotFoundError:  # an agent removed it meanwhile
        pass


def drop_links(path: str, root: str) -> None:
    """Remove each symbolic link at ``path`` and in the folders between ``root`` and ``path``."""
    for each in (*folders_between(root, path), path):
        try:
            if os.path.islink(each):
                os.unlink(each)
        except FileNotFoundError:  # an agent removed it meanwhile
            pass


def folders_between(root: str, path: str) -> list[str]:
    names = os.path.relpath(os.path.dirname(path), root).split(os.sep)
    return [os.path.join(root, *names[: n + 1]) for n in range(len(names)) if names != [os.curdir]]


def free_name(wanted: str) -> str:
    """Return ``wanted``, or ``wanted`` with a number appended if that path already exists."""
    found, number = wanted, 1
    while os.path.lexists(found):
        number += 1
        found = f"{wanted}-{number}"
    return found


def temporary_name(target: str) -> str:
    # ``sweep`` reads the pid in the name
    return f"{target}.tmp.{os.getpid()}.{os.urandom(6).hex()}"


def unlink(path: str) -> None:
    """Remove a file, and ignore all errors."""
    try:
        os.unlink(path)
    except OSError:
        return


def damaged(path: AnyPath, why: str) -> StateDamaged:
    backup = f"{os.fspath(path)}.bak"
    hint = f"the state before the last write is in {backup}" if os.path.exists(backup) else None
    return StateDamaged(f"{os.fspath(path)} is damaged: {why}", hint=hint)


def digest(path: AnyPath) -> str | None:
    """Return the SHA-256 digest of a file's content in hexadecimal, or ``None`` if the file is missing."""
    from hashlib import file_digest

    try:
        with os.fdopen(open_regular(path, os.O_RDONLY), "rb") as file:
            return file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise refusal(path, "read", error) from None


def open_regular(path: AnyPath, flags: int, mode: int = 0o666) -> int:
    """Open a regular file and return its descriptor. Raise ``StateDamaged`` for any other kind of file."""
    descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, mode)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise StateDamaged(f"{os.fspath(path)} is not a regular file", hint=f"move {os.fspath(path)} away")
    return descriptor


def overwrite(descriptor: int, content: bytes) -> None:
    """Replace the content of an open file, and ignore write errors."""
    try:
        os.pwrite(descriptor, content, 0)
        os.ftruncate(descriptor, len(content))
    except OSError:
        return


def refusal(path: AnyPath, done: str, error: OSError) -> Refused:
    reason = error.strerror or str(error)
    return Refused(f"{os.fspath(path)} cannot be {done}: {reason}", hint=_HINTS.get(error.errno or 0))


def disk_refusal(error: OSError) -> Refused | None:
    """Return a ``Refused`` error if the disk is full or read-only. Otherwise, return ``None``."""
    if error.errno is None or error.errno not in (errno.EDQUOT, errno.EFBIG, errno.ENOSPC, errno.EROFS):
        return None
    return Refused(error.strerror or str(error), hint=_HINTS[error.errno])


def _json_object(content: bytes, *, exact: bool = True) -> dict[str, Any]:
    value = jsontext.loads(content, exact=exact)
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")
    return value


def _back_up(path: AnyPath) -> None:
    try:
        content = read_bytes(path)
        _json_object(content)
    except (FileNotFoundError, StateDamaged, ValueError):
        return
    replace(f"{os.fspath(path)}.bak", content, mode=stat.S_IMODE(os.stat(path).st_mode))


def _put_aside(target: str) -> str | None:
    if not os.path.lexists(target):
        return None
    stamp = clock.timestamp().replace("-", "").replace(":", "")
    kept = free_name(f"{target}.corrupt.{stamp}")
    try:
        os.link(target, kept)
    except OSError:  # a folder, or a file system without hard links
        try:
            os.rename(target, kept)
        except OSError as error:
            raise refusal(target, "renamed", error) from None
    return kept


def _itself(path: AnyPath) -> str:
    folder, name = os.path.split(os.fspath(path))
    return os.path.join(os.path.realpath(folder), name)


def _permissions(target: str, mode: int | None, look: Callable[[str], os.stat_result]) -> tuple[int | None, int, int]:
    try:
        old = look(target)
    except FileNotFoundError:
        return mode, -1, -1
    if stat.S_ISLNK(old.st_mode):  # the mode of its target does not matter
        return mode, -1, -1
    if stat.S_ISDIR(old.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    uid = -1 if old.st_uid == os.geteuid() else old.st_uid
    gid = -1 if old.st_gid == os.getegid() else old.st_gid
    return stat.S_IMODE(old.st_mode) if mode is None else mode, uid, gid


def _write_new(temporary: str, parts: Iterable[bytes | memoryview], permissions: tuple[int | None, int, int]) -> None:
    mode, uid, gid = permissions
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(temporary, flags, 0o666 if mode is None else 0o600), "wb") as file:
        for part in parts:
            file.write(part)
        file.flush()
        if uid != -1 or gid != -1:
            _give(file.fileno(), uid, gid)
        if mode is not None:
            os.fchmod(file.fileno(), mode)
        os.fsync(file.fileno())


def _give(descriptor: int, uid: int, gid: int) -> None:
    try:
        os.fchown(descriptor, uid, gid)
    except PermissionError:  # only an administrator may; the content counts more than its owner
        return


def sync_folder(folder: str) -> None:
    """Write the folder's entries to disk if the file system supports folder syncs."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in _NO_FOLDER_SYNC:
            raise


# ---- a change that starts over after an edit by others

_TRIES = 20


class EditedMeanwhile(Exception):
    """Error: another program changed a state file without holding its lock."""


def change(
    path: str,
    *,
    read: Callable[[], C],
    act: Callable[[C], T],
    write: Callable[[C, Callable[[], None]], object],
    hint: str,
) -> T:
    """Read, change and write a file. The caller must hold the file's lock."""

    def attempt() -> T:
        seen = stamp_of(path)

        def unedited() -> None:
            if stamp_of(path) != seen:
                raise EditedMeanwhile

        # repeated after an edit by others, so ``read`` and ``act`` must have no other effect
        opened = read()
        result = act(opened)
        write(opened, unedited)
        return result

    return repeated(attempt, path, after=EditedMeanwhile, hint=hint)


def repeated(attempt: Callable[[], T], path: str, *, after: type[Exception], hint: str) -> T:
    """Call ``attempt`` until a call does not raise ``after``. Raise ``Busy`` after 20 failed calls."""
    for _ in range(_TRIES):
        try:
            return attempt()
        except after:
            continue
    raise Busy(f"another program keeps changing {os.path.basename(path)} and does not use the file's lock", hint=hint)
