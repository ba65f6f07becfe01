"""Functions that end the processes that a supervisor left behind, if they provably belong to the supervisor's command.
Proof is the random run id in a process's environment (``HARNESS_RUN_ID``), or descent from a supervisor with this run
id. A process is checked again through an open pidfd before it gets a signal. Without /proc, psutil is used."""

import os
import select
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import TypeGuard

from agent_harness.kernel import owner
from agent_harness.kernel.process import supervisor

RUN_ID = "HARNESS_RUN_ID"
_LEAST_ID_LENGTH = 16  # a shorter run id could be somebody else's too, and proves nothing
_SWEEP_SECONDS = 5.0
_DEATH_SECONDS = 1.0
_LOOK_AGAIN_SECONDS = 0.002


def end_orphans(record: Mapping[str, object]) -> int:
    """Kill the remaining processes of a command. Return the number of killed processes."""
    if not isinstance(record, Mapping):
        return 0
    run_id = record.get("run_id")
    keeper = owner.Owner.from_record(dict(record))
    # only after a crash, under the project's lock, and never in this process's own run
    if not is_proof(run_id) or os.environ.get(RUN_ID) == run_id:
        return 0
    ended = 0
    if keeper is not None:
        here = owner.current()
        if keeper.host != here.host or keeper.boot_id != here.boot_id:
            return 0
        if owner.state(keeper) == "alive" and carries(keeper.pid, run_id):
            ended = end_descendants(keeper.pid)
    return ended + sweep(run_id)


def is_proof(run_id: object) -> TypeGuard[str]:
    """Return True if a run id is long enough to be unique."""
    return isinstance(run_id, str) and len(run_id) >= _LEAST_ID_LENGTH


def sweep(run_id: str, *, rounds: int = 2) -> int:
    """Kill every process with this run id. Return the number of killed processes."""
    if not is_proof(run_id):
        return 0
    # two rounds: a process that is just starting a program has no visible environment
    return _end_all(
        lambda: [pid for pid in owner.processes_tagged(RUN_ID, run_id) if pid != os.getpid()],
        lambda pid: carries(pid, run_id),
        rounds,
    )


def end_descendants(root: int) -> int:
    """Kill the descendants of a live supervisor. Return the number of killed processes."""
    return _end_all(lambda: descendants(root), lambda pid: pid in descendants(root), 2)


def carries(pid: int, run_id: str) -> bool:
    """Return True if the environment of a process contains this run id."""
    try:
        with open(f"/proc/{pid}/environ", "rb", buffering=0) as environment:
            return os.fsencode(f"{RUN_ID}={run_id}") in environment.read().split(b"\0")
    except FileNotFoundError:
        return not os.path.isdir("/proc/self") and pid in owner.processes_tagged(RUN_ID, run_id)
    except OSError:
        return False


def descendants(root: int) -> list[int]:
    """Return the pids of the live descendants of a process, parents first."""
    offspring: dict[int, list[int]] = {}
    for pid, parent in _families():
        offspring.setdefault(parent, []).append(pid)
    found = [root]
    for pid in found:
        found += offspring.pop(pid, ())
    return found[1:]


def _end_all(find: Callable[[], list[int]], ours: Callable[[int], bool], rounds: int) -> int:
    ended: set[int] = set()
    # otherwise /proc shows the pids of another container, and a kill would hit others
    is_safe = supervisor.sees_own_pids() or not os.path.isdir("/proc/self")
    until = time.monotonic() + (_SWEEP_SECONDS if is_safe else 0.0)
    empty = 0
    while time.monotonic() < until:
        killed = [pid for pid in find() if _kill(pid, ours)]
        ended.update(killed)
        empty = 0 if killed else empty + 1
        if empty == rounds:
            break
        if not killed:
            time.sleep(_LOOK_AGAIN_SECONDS)
    return len(ended)


def _kill(pid: int, ours: Callable[[int], bool]) -> bool:
    """Kill a process after ``ours`` has confirmed its pid. Return True if the process was killed."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    except (AttributeError, OSError):  # macOS, an old kernel
        return _kill_by_number(pid, ours)
    try:
        if not ours(pid):
            return False
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        poller = select.poll()
        poller.register(handle, select.POLLIN)  # readable once it is dead
        poller.poll(_DEATH_SECONDS * 1000)
    except OSError:
        return False
    finally:
        os.close(handle)
    _reap(pid)
    return True


def _kill_by_number(pid: int, ours: Callable[[int], bool]) -> bool:
    try:
        if not ours(pid):
            return False
        os.kill(pid, signal.SIGKILL)
    except OSError:
        return False
    until = time.monotonic() + _DEATH_SECONDS
    while owner.exists(pid) and time.monotonic() < until:
        time.sleep(_LOOK_AGAIN_SECONDS)
    _reap(pid)
    return True


def _reap(pid: int) -> None:
    # in a container, this process may be pid 1, and so the parent of all orphans
    with suppress(OSError):
        os.waitpid(pid, os.WNOHANG)


def _families() -> Iterator[tuple[int, int]]:
    """Yield the pid and parent pid of every visible live process."""
    if not os.path.isdir("/proc/self"):
        import psutil

        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.status() != psutil.STATUS_ZOMBIE:
                    yield process.pid, process.ppid()
        return
    for name in os.listdir("/proc"):
        if name.isdecimal():
            fields = owner.stat_fields(int(name))
            if fields and fields[0] not in ("Z", "X"):
                yield int(name), int(fields[1])
