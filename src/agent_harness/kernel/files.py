"""State files that survive a crash: read whole, replaced whole, with the state before the last write kept beside them.

A reader needs no lock: it sees the old file or the new one. A process that is killed leaves at most a temporary file,
which ``sweep`` removes. Source: ``tasklist.md`` 8.

The lock of a store excludes whoever takes it. A person with an editor takes none, nor does a script of theirs: so
``change`` compares the file with how it stood when it was read, right before the new one takes its place, and a change
of what others have edited starts over on what they wrote. Source: ``tasklist.md`` 10.2, ``longtask.md`` 15.
"""

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

__all__ = [
    "MAX_BYTES",
    "EditedMeanwhile",
    "change",
    "damaged",
    "disk_refusal",
    "digest",
    "drop_links",
    "dumps",
    "folders_between",
    "free_name",
    "is_inside",
    "open_regular",
    "own_place",
    "read_bytes",
    "read_json",
    "refusal",
    "repeated",
    "replace",
    "restore",
    "stamp_of",
    "sweep",
    "sync_folder",
    "temporary_name",
    "unlink",
    "write_json",
]


MAX_BYTES = 64 << 20
"""A state file larger than this is not read."""

_NO_FOLDER_SYNC = (errno.EACCES, errno.EBADF, errno.EINVAL, errno.ENOTSUP)
_HINTS = {
    errno.EACCES: "check who owns it and what its mode allows",
    errno.EDQUOT: "free some of your quota, then run the same command again",
    errno.EFBIG: "a limit on the size of files is in force (ulimit -f); lift it, then run the same command again",
    errno.EISDIR: "a folder is in its place; move it away",
    errno.ENOENT: "a folder on the way is missing, or a link leads to nothing",
    errno.ELOOP: "it is a link where none may be; replace it by the file itself",
    errno.ENOSPC: "free some space on that disk, then run the same command again",
    errno.EPERM: "check who owns it and what its mode allows",
    errno.EROFS: "the disk is read-only; mount it for writing or work in another folder",
}


def read_bytes(path: AnyPath) -> bytes:
    """The whole content. ``FileNotFoundError`` when missing, ``StateDamaged`` when it is no file or far too large."""
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


def read_json(path: AnyPath, *, exact: bool = True) -> dict[str, Any]:
    """The JSON object in a file, numbers in their own spelling. ``FileNotFoundError``, ``StateDamaged`` as above.

    ``exact=False`` is for looking only (``jsontext.loads``).
    """
    content = read_bytes(path)
    try:
        return _json_object(content, exact=exact)
    except ValueError as error:
        raise damaged(path, str(error)) from None


def read_json_if_any(path: AnyPath) -> dict[str, Any]:
    """The same, and an empty one where there is none that can be read: for what may be gone, or anybody's."""
    try:
        return read_json(path)
    except (OSError, HarnessError):
        return {}


def stamp_of(path: AnyPath) -> tuple[int, ...] | None:
    """What is another one as soon as a file was replaced or written; ``None`` where there is none to be seen."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def is_inside(folder: str, path: str) -> bool:
    """Whether no link is on the way from a folder to the ``path`` below it; the folder itself may be reached by one."""
    below = os.path.relpath(path, folder)
    return os.path.realpath(path) == os.path.join(os.path.realpath(folder), below)


def replace(
    path: AnyPath,
    content: str | bytes | Iterable[bytes | memoryview],
    *,
    mode: int | None = None,
    before: Callable[[], object] | None = None,
    follow: bool = True,
) -> None:
    """Puts a new content in place of the old, whole or not at all, and durably.

    A link keeps and its target is written; without ``follow`` the file takes the place of the link, as it must where
    somebody else may have put one. Mode and owner stay; ``mode`` sets another one. ``before`` is called right
    before the change becomes visible; when it raises, the old content stays. ``Refused`` when the disk says no. No
    temporary file is left behind.
    """
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


def write_json(
    path: AnyPath,
    value: dict[str, Any],
    *,
    backup: bool = False,
    before: Callable[[], object] | None = None,
    follow: bool = True,
) -> None:
    """Replaces a state file; with ``backup`` its present content goes to ``<path>.bak`` first, unless it is damaged."""
    try:
        content = dumps(value).encode()
    except ValueError as error:
        raise StateDamaged(f"{os.fspath(path)} was not written: {error}") from None
    if backup:
        _back_up(path)
    replace(path, content, before=before, follow=follow)


def restore(path: AnyPath) -> str | None:
    """Puts the valid ``<path>.bak`` in place of a damaged file. ``StateDamaged``, and nothing done, when there is none.

    The damaged file is kept; its new name is returned, or ``None`` when it was missing.
    """
    backup = f"{os.fspath(path)}.bak"
    try:
        content = read_bytes(backup)
        _json_object(content)
    except (FileNotFoundError, ValueError) as error:
        why = "there is none" if isinstance(error, FileNotFoundError) else str(error)
        raise StateDamaged(f"{os.fspath(path)} cannot be restored from {backup}: {why}") from None
    kept = _put_aside(os.path.realpath(path))
    replace(path, content)
    return kept


def sweep(path: AnyPath) -> int:
    """Removes the temporary files that killed writers of this file and its backup left behind; how many.

    A file and a backup that one of them left as one file of two names are two files again. Call it under the lock.
    """
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
    """Whoever edits the one in place may not edit the other."""
    try:
        is_one = os.path.samestat(os.stat(target), os.lstat(backup))
    except OSError:
        return
    if is_one:
        replace(backup, read_bytes(backup), follow=False)


def own_place(path: str, root: str) -> None:
    """Makes room for a file of the harness below ``root``, which may be there already; a link is never followed.

    A link in its place or on the way to it is taken away; what is no folder on the way, or no file in its place (a
    folder, a pipe), is kept under another name beside it.
    """
    for folder in folders_between(root, path):
        if os.path.islink(folder):
            os.unlink(folder)
        elif os.path.lexists(folder) and not os.path.isdir(folder):
            os.rename(folder, free_name(f"{folder}.aside"))
        os.makedirs(folder, exist_ok=True)
    if os.path.islink(path):
        os.unlink(path)
    elif os.path.lexists(path) and not os.path.isfile(path):
        os.rename(path, free_name(f"{path}.aside"))


def drop_links(path: str, root: str) -> None:
    """Takes away each link on the way from ``root`` to ``path``, and in its place; nothing is made."""
    for each in (*folders_between(root, path), path):
        if os.path.islink(each):
            os.unlink(each)


def folders_between(root: str, path: str) -> list[str]:
    """The folders below ``root`` that lead to ``path``, the outermost first."""
    names = os.path.relpath(os.path.dirname(path), root).split(os.sep)
    return [os.path.join(root, *names[: n + 1]) for n in range(len(names)) if names != [os.curdir]]


def free_name(wanted: str) -> str:
    """This path, or the same with a number behind it where something is there already."""
    found, number = wanted, 1
    while os.path.lexists(found):
        number += 1
        found = f"{wanted}-{number}"
    return found


def temporary_name(target: str) -> str:
    """A name beside the target that no other process takes, and by which ``sweep`` knows whose it is."""
    return f"{target}.tmp.{os.getpid()}.{os.urandom(6).hex()}"


def unlink(path: str) -> None:
    """Removes a name, if it can be removed."""
    try:
        os.unlink(path)
    except OSError:
        return


def damaged(path: AnyPath, why: str) -> StateDamaged:
    """The error for a file that cannot be used; names the backup where there is one."""
    backup = f"{os.fspath(path)}.bak"
    hint = f"the state before the last write is in {backup}" if os.path.exists(backup) else None
    return StateDamaged(f"{os.fspath(path)} is damaged: {why}", hint=hint)


def digest(path: AnyPath) -> str | None:
    """SHA-256 of the content in hexadecimal; ``None`` when the file is missing."""
    from hashlib import file_digest

    try:
        with os.fdopen(open_regular(path, os.O_RDONLY), "rb") as file:
            return file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise refusal(path, "read", error) from None


def open_regular(path: AnyPath, flags: int, mode: int = 0o666) -> int:
    """A descriptor of a regular file, never of a pipe or a folder (``StateDamaged``); other errors as ``os.open``."""
    descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, mode)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise StateDamaged(f"{os.fspath(path)} is not a regular file", hint="move it away")
    return descriptor


def refusal(path: AnyPath, done: str, error: OSError) -> Refused:
    """The error for a person when the disk says no; ``done`` is what cannot be done with the file (``written``)."""
    reason = error.strerror or str(error)
    return Refused(f"{os.fspath(path)} cannot be {done}: {reason}", hint=_HINTS.get(error.errno or 0))


def disk_refusal(error: OSError) -> Refused | None:
    """The error for a person where the disk said no to a file that nobody needs to know of; ``None`` for any other."""
    if error.errno is None or error.errno not in (errno.EDQUOT, errno.EFBIG, errno.ENOSPC, errno.EROFS):
        return None
    return Refused(error.strerror or str(error), hint=_HINTS[error.errno])


def _json_object(content: bytes, *, exact: bool = True) -> dict[str, Any]:
    value = jsontext.loads(content, exact=exact)
    if not isinstance(value, dict):
        raise ValueError("it holds no JSON object")
    return value


def _back_up(path: AnyPath) -> None:
    try:
        content = read_bytes(path)
        _json_object(content)
    except (FileNotFoundError, StateDamaged, ValueError):
        return
    replace(f"{os.fspath(path)}.bak", content, mode=stat.S_IMODE(os.stat(path).st_mode), follow=False)


def _put_aside(target: str) -> str | None:
    """Gives a damaged file a second, free name beside it; ``None`` when there is no such file."""
    if not os.path.lexists(target):
        return None
    stamp = clock.timestamp().replace("-", "").replace(":", "")
    kept, count = f"{target}.corrupt.{stamp}", 1
    while os.path.lexists(kept):
        kept, count = f"{target}.corrupt.{stamp}.{count}", count + 1
    try:
        os.link(target, kept)
    except OSError:  # a folder, or a file system without hard links
        try:
            os.rename(target, kept)
        except OSError as error:
            raise refusal(target, "renamed", error) from None
    return kept


def _itself(path: AnyPath) -> str:
    """The path with all links resolved but the last."""
    folder, name = os.path.split(os.fspath(path))
    return os.path.join(os.path.realpath(folder), name)


def _permissions(target: str, mode: int | None, look: Callable[[str], os.stat_result]) -> tuple[int | None, int, int]:
    """Mode, user and group that the new file gets; -1 leaves a user or group as it comes."""
    try:
        old = look(target)
    except FileNotFoundError:
        return mode, -1, -1
    if stat.S_ISLNK(old.st_mode):  # what it leads to says nothing
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
    """Makes durable what names there are in a folder, where the file system can. ``OSError`` when the disk says no."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in _NO_FOLDER_SYNC:
            raise


# ---- a change that starts over on what others wrote meanwhile

_TRIES = 20


class EditedMeanwhile(Exception):
    """Somebody wrote the file without the lock, or took a name beside it, after it was read."""


def change(
    path: str,
    *,
    read: Callable[[], C],
    act: Callable[[C], T],
    write: Callable[[C, Callable[[], None]], object],
    hint: str,
) -> T:
    """What ``act`` returns for what ``read`` gave, once ``write`` has written it. Call it under the lock.

    ``write`` calls its second argument right before anything becomes visible, which raises ``EditedMeanwhile`` when the
    file is no longer the one that was read. All three run again then, so ``read`` and ``act`` have no other effect.
    What they raise drops everything. ``Busy`` as ``repeated``.
    """

    def attempt() -> T:
        seen = _stamp(path)

        def unedited() -> None:
            if _stamp(path) != seen:
                raise EditedMeanwhile

        opened = read()
        result = act(opened)
        write(opened, unedited)
        return result

    return repeated(attempt, path, after=EditedMeanwhile, hint=hint)


def repeated(attempt: Callable[[], T], path: str, *, after: type[Exception], hint: str) -> T:
    """What ``attempt`` returns, made again after this error; ``Busy`` when the writers of the file never rest."""
    for _ in range(_TRIES):
        try:
            return attempt()
        except after:
            continue
    raise Busy(f"{os.path.basename(path)} is being written by somebody without the lock", hint=hint)


def _stamp(path: str) -> object:
    """What changes when somebody writes a file; ``None`` when there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
