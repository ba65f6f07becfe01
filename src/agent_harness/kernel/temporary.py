"""Temporary folders that are removed after their owner has exited, even after a crash. The owner holds a lock on the
folder itself (``flock``). The kernel releases this lock when the process exits. An unlocked folder was left by a killed
harness. The next harness process that creates a temporary folder removes the unlocked folders."""

import fcntl
import os
import secrets
import stat
import tempfile
from contextlib import suppress
from functools import cache
from types import TracebackType
from typing import Self

PREFIX = "harness-tmp-"


class TemporaryFolder:
    """Temporary folder that only this user can access."""

    def __init__(self) -> None:
        _sweep_once()
        held = None
        while held is None:  # another process's sweep may be faster
            self.path = tempfile.mkdtemp(prefix=PREFIX)
            held = _hold(self.path)
        self._held = held

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        if self._held >= 0:
            remove_tree(self.path)
            os.close(self._held)
            self._held = -1

    def __del__(self) -> None:
        if getattr(self, "_held", -1) >= 0:  # the next sweep removes it
            os.close(self._held)


def sweep() -> int:
    """Remove the temporary folders of exited processes. Return the number of removed folders."""
    place = tempfile.gettempdir()
    with suppress(OSError):
        return sum(_swept(os.path.join(place, name)) for name in os.listdir(place) if name.startswith(PREFIX))
    return 0


@cache
def _sweep_once() -> None:
    sweep()


def _swept(path: str) -> bool:
    try:
        found = os.lstat(path)
        held = _open(path) if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() else -1
    except OSError:
        return False
    if held < 0:
        return False
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return remove_tree(path)
    except OSError:  # it has an owner, or this disk knows no locks
        return False
    finally:
        os.close(held)


def _hold(path: str) -> int | None:
    # None if another process is removing the folder
    try:
        held = _open(path)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_there = os.path.samestat(os.fstat(held), os.lstat(path))
    except (BlockingIOError, FileNotFoundError):
        is_there = False
    except OSError:  # a disk without locks: then nobody sweeps it either
        is_there = True
    if not is_there:
        os.close(held)
        return None
    return held


def _open(path: str) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def remove(path: str) -> None:
    """Remove the file, folder or symbolic link at ``path``, if any."""
    if os.path.isdir(path) and not os.path.islink(path):
        remove_tree(path)
    else:
        with suppress(FileNotFoundError):
            os.unlink(path)


def remove_tree(folder: str | os.PathLike[str]) -> bool:
    """Remove a folder. Return True if the folder is gone."""
    # never through a symbolic link; no other process may use the folder meanwhile
    top = os.fspath(folder)
    if os.path.isdir(top) and not os.path.islink(top):
        while _thinned(top) and os.path.lexists(top):  # a long list can lose its place while it is shortened
            continue
    return not os.path.lexists(top)


def _thinned(top: str) -> bool:
    token, moved, removed = secrets.token_hex(8), 0, 0
    waiting = [top]
    while waiting:
        place = waiting.pop()
        with suppress(OSError):
            os.chmod(place, stat.S_IRWXU)
            with os.scandir(place) as entries:
                for entry in entries:
                    with suppress(OSError):
                        if not entry.is_dir(follow_symlinks=False):
                            os.unlink(entry.path)
                            removed += 1
                        elif not entry.name.startswith(token):
                            moved += 1
                            # moved to the top before it is read, so neither paths nor a stack grow with the depth
                            waiting.append(os.path.join(top, f"{token}{moved}"))
                            os.rename(entry.path, waiting[-1])
        with suppress(OSError):
            os.rmdir(place)
            removed += 1
    with suppress(OSError):
        os.rmdir(top)
        removed += 1
    return removed > 0
