"""Lock files of git that a killed process left behind, told from those that somebody holds.

Git makes ``NAME.lock`` beside a file while it writes it. Nobody removes the lock of a process that was killed, and git
then refuses for ever. A lock is taken away only on proof: no process has it open, and no git runs in the repository.
"""

import os
import time

from agent_harness.errors import UnsafeTree
from agent_harness.kernel.clock import scaled
from agent_harness.kernel.git.locate import Repository

__all__ = ["await_lock"]

HELD_SECONDS = 10.0
FRESH_SECONDS = 1.0
PROCESSES = "/proc"


def await_lock(repository: Repository, lock: str) -> None:
    """Returns when the lock is gone, or was taken away because nobody holds it; ``UnsafeTree`` when it stays held."""
    until = time.monotonic() + scaled(HELD_SECONDS)
    while True:
        try:
            age = time.time() - os.lstat(lock).st_mtime
        except FileNotFoundError:
            return
        if age > FRESH_SECONDS and _nobody_holds(repository, lock):
            os.replace(lock, f"{repository.git_dir}/harness/left.lock")
            return
        if time.monotonic() > until:
            hint = f"if no git command is running here, remove {lock} and try again"
            raise UnsafeTree(f"another git command holds {lock}", hint=hint)
        time.sleep(0.02)


def _nobody_holds(repository: Repository, lock: str) -> bool:
    """Proof from the list of processes; False where there is none, or where a process hides what it does."""
    if not os.path.isdir(f"{PROCESSES}/self"):
        return False
    places = tuple(os.fsencode(path) for path in (repository.top, repository.git_dir, repository.shared_dir))
    pids = [name for name in os.listdir(PROCESSES) if name.isdecimal()]
    return not any(_may_hold(f"{PROCESSES}/{pid}", os.fsencode(lock), places) for pid in pids)


def _may_hold(process: str, lock: bytes, places: tuple[bytes, ...]) -> bool:
    is_git = False
    try:
        with open(f"{process}/comm", "rb") as file:
            is_git = file.read().startswith(b"git")
        opened = [os.readlink(os.fsencode(f"{process}/fd/{name}")) for name in os.listdir(f"{process}/fd")]
        if lock in opened:
            return True
        with open(f"{process}/cmdline", "rb") as file:
            words = file.read()
        where = os.readlink(os.fsencode(f"{process}/cwd"))
    except PermissionError:
        return is_git
    except OSError:
        return False  # it has ended
    return is_git and any(where == place or where.startswith(place + b"/") or place in words for place in places)
