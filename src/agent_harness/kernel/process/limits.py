"""Resource limits of agents and checks: parsing of amounts, default limits, and messages about an exceeded limit. A
limit stops a command that would exhaust the machine. The default limits are far above legitimate use. The supervisor
process of a command enforces the limits (``kernel/process/resource_watch.py``)."""

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

from agent_harness.kernel.process import supervisor

MEMORY, PROCESSES, FREE_DISK = "80%", "auto", "256 MiB"
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*(%|[kmgt]?i?b?)", re.IGNORECASE)
_UNITS = {prefix: power for power, prefix in enumerate(("", "k", "m", "g", "t"))}
_OFF = (False, 0, "off", "no", "none", "0")
_LEAST_PROCESSES, _FOR_EACH_PROCESSOR = 4096, 256  # threads counted: a test for each processor, with its own for each


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Resource limits of a command. 0 means no limit."""

    memory: int = 0  # bytes
    processes: int = 0  # threads counted
    free_disk: int = 0  # bytes that must be left on the disks of ``folders``
    folders: tuple[str, ...] = ()

    @property
    def terms(self) -> tuple[str, ...]:
        """Limits as words for the supervisor process."""
        found = (self.memory, self.processes, self.free_disk if self.folders else 0)
        return (*map(str, found), *self.folders) if any(found) else ()

    def on(self, *folders: str) -> "Limits":
        return replace(self, folders=tuple(dict.fromkeys(folders)))


NO_LIMITS = Limits()


def bytes_from(given: object, *, least: int = 0) -> int:
    """Return the number of bytes for a setting such as ``4 GiB``, ``50%`` or ``off``."""
    if given in _OFF and given != "":
        return 0
    found = _AMOUNT.fullmatch(str(given).strip()) if isinstance(given, str | int) and given is not True else None
    if found is None:
        raise ValueError("must be an amount such as `4 GiB` or `50%`, or `off`")
    number, unit = float(found[1]), found[2].lower()
    if unit == "%":
        return int(number / 100 * memory_of_machine())
    # kB and GB are decimal, KiB, GiB, K and G are binary
    base = 1000 if unit.endswith("b") and "i" not in unit else 1024
    count = int(number * base ** _UNITS[unit.rstrip("b").rstrip("i")])
    if count < least:
        raise ValueError(f"must be at least {size(least)}")
    return count


def count_from(given: object) -> int:
    """Return the number of processes for a setting such as ``500``, ``auto`` or ``off``."""
    if given == PROCESSES:
        return usual_processes()
    if given in _OFF and given != "":
        return 0
    if isinstance(given, int) and not isinstance(given, bool) and given > 0:
        return given
    raise ValueError("must be a number of processes, `auto` or `off`")


@cache
def memory_of_machine() -> int:
    """Return the memory in bytes that this process and its children can use."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min((whole, *_of_control_groups("memory", "memory.max", "memory.limit_in_bytes")))


@cache
def usual_processes() -> int:
    """Return the default maximum number of processes."""
    wished = max(_LEAST_PROCESSES, _FOR_EACH_PROCESSOR * (os.cpu_count() or 1))
    of_kernel = (_number(f"/proc/sys/kernel/{name}") for name in ("pid_max", "threads-max"))
    most = [each for each in (*of_kernel, *_of_control_groups("pids", "pids.max", "pids.max")) if each]
    return min((wished, *(each // 2 for each in most)))


def _of_control_groups(controller: str, name: str, older: str) -> Iterator[int]:
    # version 1 of control groups has the file ``older`` in place of ``name``
    try:
        with open("/proc/self/cgroup", encoding="utf-8", errors="replace") as listing:
            groups = [line.rstrip("\n").split(":", 2) for line in listing]
    except OSError:
        return
    for _, controllers, path in (group for group in groups if len(group) == 3):
        if controllers and controller not in controllers.split(","):
            continue
        top = f"/sys/fs/cgroup/{controller}" if controllers else "/sys/fs/cgroup"
        parts = [part for part in path.split("/") if part and part != ".."]
        for depth in range(len(parts) + 1):
            found = _number("/".join((top, *parts[:depth], older if controllers else name)))
            if found:
                yield found


def _number(path: str) -> int | None:
    try:
        with open(path, encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):  # ``max`` means no limit
        return None


def held() -> bool:
    """Return True if the harness can enforce memory and process limits on this machine."""
    return sys.platform == "linux" and supervisor.sees_own_pids()


def told(said: str) -> str:
    """Return the end of a sentence about the limit that the command exceeded."""
    name, limit, found = said.split()
    match name:
        case "memory":
            return f"used {size(int(found))} of memory, more than {size(int(limit))} (limit: sandbox.memory)"
        case "processes":
            return f"had {found} processes and threads, more than {limit} (limit: sandbox.processes)"
        case "disk":
            return f"left {size(int(found))} free on the disk, less than {size(int(limit))} (limit: sandbox.free_disk)"
    return f"failed while the machine had no free memory; processes that the kernel killed there: {found}"


def size(count: int) -> str:
    power = min(4, max(0, (count.bit_length() - 1) // 10))
    number = count / 1024**power
    return f"{number:.0f} bytes" if not power else f"{number:.1f} {'KMGT'[power - 1]}iB".replace(".0 ", " ")
