"""One change of one state file: read, changed, and written only while nobody else has written it.

The lock of a store excludes whoever takes it. A person with an editor takes none, nor does a script of theirs: so the
file is compared with how it stood when it was read, right before the new one takes its place, and a change of what
others have edited starts over on what they wrote. Source: ``tasklist.md`` 10.2, ``longtask.md`` 15.
"""

from __future__ import annotations

import os

from agent_harness.errors import Busy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    C = TypeVar("C")
    T = TypeVar("T")

__all__ = ["EditedMeanwhile", "change", "repeated"]

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
