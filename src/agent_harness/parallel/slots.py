"""Whether this machine has memory and disk for one more agent, and for all that are at work. SC-41.

How many there may be at once, and who has what, is ``kernel/host.py``.
"""

import os

from agent_harness.kernel.process.resource_watch import free_memory

FREE_DISK = 2 << 30
SHORT_SECONDS = 60.0


def shortage(folder: str, memory: int) -> str | None:
    """Why nobody should begin beside those who are at work: so many bytes of memory, or 2 GB of disk, are not free."""
    disk = os.statvfs(folder)
    if free_memory() < memory:
        return f"less than {memory >> 20} MB of memory are free"
    return f"less than 2 GB are free at {folder}" if disk.f_bavail * disk.f_frsize < FREE_DISK else None


class MemoryWatch:
    """Says when an agent is to be taken back: while less than half of ``memory`` is free, one a minute.

    A rule of values: moments are seconds of one clock.
    """

    def __init__(self, memory: int) -> None:
        self._least = memory // 2
        self._short_since: float | None = None

    def is_due(self, free: int, now: float) -> bool:
        """Whether one is, by what is free now; to be asked all the time."""
        if free >= self._least:
            self._short_since = None
            return False
        if self._short_since is None:
            self._short_since = now
        if now - self._short_since < SHORT_SECONDS:
            return False
        self._short_since = now
        return True
