"""How many agents and test runs there are at once on this machine, over all parallel runs of the user.

    $XDG_STATE_HOME/agent-harness/host/
        host.json          {"agents": 8, "tests": 1}: how many; the number of cores decides where it does not say
        agents/K.lock      held by the run that has an agent there, for as long as the agent works
        agents/K.json      what it works on
        tests/K.lock ...   the same of runs of checks before landing

A lock is the kernel's, so that any death gives it back. Nothing here counts a run without ``--workers``. SC-40.
"""

import os
from collections.abc import Mapping

from agent_harness.errors import HarnessError
from agent_harness.kernel import files, trusted_state
from agent_harness.kernel.json import JsonObject
from agent_harness.kernel.lock import LockFile
from agent_harness.kernel.process.resource_watch import free_memory

FREE_DISK = 2 << 30
AGENTS, TESTS = "agents", "tests"
MOST = 1024


def limits() -> Mapping[str, int]:
    """How many there may be of each kind."""
    usual = {AGENTS: 8, TESTS: max(1, (os.cpu_count() or 1) // 2)}
    folder = trusted_state.of_user("host", make=False)
    try:
        found = files.read_json(os.path.join(folder, "host.json")) if folder else {}
    except (OSError, HarnessError):
        return usual
    known = {kind: found.get(kind) for kind in usual}
    return {
        kind: each if type(each := known[kind]) is int and 1 <= each <= MOST else count for kind, count in usual.items()
    }


def take(kind: str, told: JsonObject) -> LockFile | None:
    """One of those of this machine, until it is released; ``None`` when all are taken. ``told``: what for."""
    folder = trusted_state.of_user("host")
    if folder is None:
        return LockFile(os.devnull)  # nobody counts where nothing can be written
    there = os.path.join(folder, kind)
    os.makedirs(there, mode=0o700, exist_ok=True)
    for number in range(1, limits()[kind] + 1):
        lock = LockFile(os.path.join(there, f"{number}.lock"))
        if lock.try_take() is None:
            files.write_json(os.path.join(there, f"{number}.json"), told)
            return lock
    return None


def shortage(folder: str, memory: int) -> str | None:
    """Why nobody should begin beside those who are at work: so many bytes of memory, or 2 GB of disk, are not free."""
    disk = os.statvfs(folder)
    if free_memory() < memory:
        return f"less than {memory >> 20} MB of memory are free"
    return f"less than 2 GB are free at {folder}" if disk.f_bavail * disk.f_frsize < FREE_DISK else None


def holders() -> list[JsonObject]:
    """Who has what now: ``kind``, ``number``, ``pid``, and what was said of it."""
    folder = trusted_state.of_user("host", make=False)
    found: list[JsonObject] = []
    for kind in (AGENTS, TESTS) if folder else ():
        there = os.path.join(str(folder), kind)
        names = os.listdir(there) if os.path.isdir(there) else []
        for number in sorted(int(name[:-5]) for name in names if name.endswith(".lock") and name[:-5].isdecimal()):
            holder = LockFile(os.path.join(there, f"{number}.lock")).holder()
            if holder is None:
                continue
            try:
                told = files.read_json(os.path.join(there, f"{number}.json"))
            except (OSError, HarnessError):
                told = JsonObject()
            found.append({**told, "kind": kind, "number": number, "pid": holder.pid})
    return found
