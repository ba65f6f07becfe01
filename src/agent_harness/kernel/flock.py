"""The kernel's lock on an open file or folder: one holder at a time, freed at any death of it.

The kernel has no wait with an end, so whoever waits asks again, first soon and then more seldom.
"""

from __future__ import annotations

import fcntl
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["await_free", "await_lock", "try_lock"]

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.001, 0.02


def try_lock(descriptor: int) -> bool:
    """Whether the lock is ours now. ``OSError`` where the disk knows no ``flock``."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def await_lock(descriptor: int, timeout_seconds: float) -> bool:
    """The same after at most so many seconds."""
    return await_free(lambda: None if try_lock(descriptor) else "", time.monotonic() + timeout_seconds) is None


def await_free(try_take: Callable[[], str | None], deadline: float) -> str | None:
    """``None`` once ``try_take`` gives that, else who still holds it at ``deadline``, by ``time.monotonic``."""
    pause = _FIRST_PAUSE_SECONDS
    while (who := try_take()) is not None:
        if time.monotonic() >= deadline:
            return who
        time.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
    return None
