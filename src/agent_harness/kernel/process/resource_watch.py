"""Resource use of a command, measured in its supervisor: memory, processes, and free disk space.

This module uses only the standard library, like the supervisor. A check costs a few small reads, however many processes
run. The command's own memory is added up only if all programs of the machine together exceed its limit. A command that
suddenly starts many processes is suspended meanwhile, because it would fork faster than it is measured.

    memory      anonymous and written memory of the command and its descendants, without mapped files
    processes   processes and threads of the command and its descendants
    disk        free space on the disks of its folders; a disk that has the required space at the start must keep it
    killed      processes that the kernel killed during the command because memory ran out"""

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from signal import SIGCONT, SIGSTOP
else:
    try:  # as the lifeline has it
        from _signal import SIGCONT, SIGSTOP
    except ImportError:
        from signal import SIGCONT, SIGSTOP

_SOON, _CALM = 0.05, 0.1  # seconds to the next look at processes; calm: there are not half as many as may be
_SLOW = 0.2  # the same for memory and disks, which are not full so soon
_SHARE, _LONGEST_REST = 50, 2.0  # adding up takes one part in so many of a processor; so many seconds without, at most
_PAGE = os.sysconf("SC_PAGE_SIZE")


class ResourceWatch:
    """Monitor of memory, processes and free disk space for this process's descendants."""

    __slots__ = (
        *("_count_at", "_disks", "_free", "_kills", "_memory", "_others", "_processes", "_room", "_sees", "_signal"),
        *("_slow_at", "_tasks", "_weigh_at", "rest"),
    )

    def __init__(
        self,
        terms: "Sequence[bytes]",
        before: "tuple[int, ...]",
        tasks: "Callable[[], int]",
        free: "Callable[[bytes], int]",
        signal: "Callable[[int], object]",
    ) -> None:
        # numbers of tasks and free bytes are -1 if unknown; ``before``: from before the command started
        self._tasks, self._free, self._signal = tasks, free, signal
        self._others, *free_before = before  # that are not the command's, when they were last counted
        self._sees = self._others >= 0
        self._memory, self._processes, self._room = (int(term) for term in terms[:3])
        had = zip(terms[3:], free_before)  # noqa: B905  as many
        self._disks = [path for path, free_then in had if self._room and free_then >= self._room]
        self._kills = _kills() if self._sees and self._memory else 0
        self._count_at = self._weigh_at = self._slow_at = 0.0  # of the monotonic clock
        self.rest = _SOON  # seconds until it is to look again

    def look(self) -> str:
        """Return the name and value of the violated limit and the measured value, or an empty text."""
        if self._sees and (found := self._many()):
            return found
        now = time.monotonic()
        if now < self._slow_at:
            return ""
        self._slow_at = now + _SLOW - _SOON / 2  # the timer need not be exact
        if self._sees and (found := self._much()):
            return found
        return self._full_disk()

    def look_back(self) -> str:
        """Return the shortage of memory or disk space that may explain a failed command, or an empty text."""
        more = _kills() - self._kills if self._sees and self._memory else 0
        return f"killed {more} {more}" if more > 0 else self._full_disk()

    def _many(self) -> str:
        total = self._tasks()
        self.rest = _CALM if total * 2 < self._processes or not self._processes else _SOON
        sudden = total - self._others > self._processes
        if not 0 < self._processes < total or (not sudden and time.monotonic() < self._count_at):
            return ""
        if sudden:
            self._signal(SIGSTOP)
        own, self._count_at = _own()
        count = sum(threads for _, threads, _ in own)
        self._others = max(0, total - count)
        if count > self._processes:
            return f"processes {self._processes} {count}"
        if sudden:
            self._signal(SIGCONT)
        return ""

    def _much(self) -> str:
        if not 0 < self._memory < _memory_of_machine() or time.monotonic() < self._weigh_at:
            return ""
        own, self._weigh_at = _own()
        if sum(pages for _, _, pages in own) * _PAGE <= self._memory:
            return ""
        held = sum(_held(pid) for pid, _, _ in own)
        return f"memory {self._memory} {held}" if held > self._memory else ""

    def _full_disk(self) -> str:
        left = [self._free(path) for path in self._disks]
        return next((f"disk {self._room} {free}" for free in left if 0 <= free < self._room), "")


def _own() -> "tuple[list[tuple[int, int, int]], float]":
    # and the time from which they may be listed again
    began = time.process_time()
    found = descendants(os.getpid())
    return found, time.monotonic() + min(_LONGEST_REST, (time.process_time() - began) * _SHARE)


def descendants(root: int) -> "list[tuple[int, int, int]]":
    """Return the pid, thread count and resident pages of every live descendant of ``root``."""
    offspring: dict[int, list[tuple[int, int, int]]] = {}
    for parent, *facts in _everybody():
        offspring.setdefault(parent, []).append((facts[0], facts[1], facts[2]))
    found = list(offspring.pop(root, ()))
    for pid, _, _ in found:
        found += offspring.pop(pid, ())
    return found


def _everybody() -> "Iterator[tuple[int, int, int, int]]":
    """Yield the parent pid, pid, thread count and resident pages of every visible process."""
    for name in os.listdir("/proc"):
        if name.isdecimal():
            fields = _read(f"/proc/{name}/stat").rpartition(b")")[2].split()
            if len(fields) > 21:
                yield int(fields[1]), int(name), max(1, int(fields[17])), int(fields[21])


def _held(pid: int) -> int:
    # without mapped files, and with a share of shared memory
    sizes = _sizes(f"/proc/{pid}/smaps_rollup")
    if b"Pss_Anon" in sizes:
        return sum(sizes.get(name, 0) for name in (b"Pss_Anon", b"Pss_Shmem", b"SwapPss"))
    return _sizes(f"/proc/{pid}/status").get(b"RssAnon", 0)


def _memory_of_machine() -> int:
    """Return the used memory of this machine in bytes."""
    sizes = _sizes("/proc/meminfo", 256)
    return sizes.get(b"MemTotal", 1 << 62) - sizes.get(b"MemAvailable", 0)


def free_memory() -> int:
    """Return the available memory in bytes, or a huge number on systems that do not report it."""
    return _sizes("/proc/meminfo", 256).get(b"MemAvailable", 1 << 62)


def _sizes(path: str, most: int = 1 << 16) -> "dict[bytes, int]":
    # the lines look like ``NAME: 4 kB``
    words = (line.split() for line in _read(path, most).splitlines())
    return {name[:-1]: 1024 * int(count) for name, count, *unit in (w for w in words if len(w) == 3) if unit == [b"kB"]}


def _kills() -> int:
    """Return how many processes the kernel has killed for lack of memory since the machine started."""
    line = next((line for line in _read("/proc/vmstat").splitlines() if line.startswith(b"oom_kill ")), b"oom_kill 0")
    return int(line.split()[1])


def _read(path: str, most: int = 1 << 16) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        found = b""
        while len(found) < most and (part := os.read(descriptor, most - len(found))):
            found += part
        return found
    except OSError:
        return b""
    finally:
        os.close(descriptor)
