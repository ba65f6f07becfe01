"""One of many workers, as a process of its own: claims and ends tasks until no work is left.

    python laborer.py ROOT FOLDER FAIL_EVERY

FOLDER is its working directory; beside it lies ``held/``, where every worker puts its name on a task that it holds. A
name that is there already, of a process that lives, is a double claim. Prints what went wrong.
"""

import os
import sys
import time
from typing import Any

from agent_harness.errors import LockBusy, NothingEligible
from agent_harness.protocols.tasklist.api import TaskList

PATIENCE_SECONDS = 120.0


def main(root: str, folder: str, fail_every: int) -> int:
    """Works until all is done; 1 when somebody else held a task of ours."""
    tasks = TaskList.open(
        root, session=f"session-{os.path.basename(folder)}", cwd=folder, lock_timeout=PATIENCE_SECONDS
    )
    count = 0
    while True:
        try:
            claimed = tasks.claim()
        except NothingEligible as error:
            if not error.data["work_left"]:
                return 0
            time.sleep(0.02)
            continue
        except LockBusy:
            continue
        tasks.caller.token = claimed["token"]
        mark = os.path.join(os.path.dirname(folder), "held", claimed["task_id"])
        if not _take(mark):
            print(f"{claimed['task_id']} is held by two", flush=True)
            return 1
        count += 1
        os.unlink(mark)
        _end(tasks, claimed["task_id"], fails=bool(fail_every) and count % fail_every == 0)
        tasks.caller.token = None


def _take(mark: str) -> bool:
    """Puts our name on a task; a name of the dead, or our own, is put aside."""
    for _ in range(2):
        try:
            descriptor = os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            with open(mark, encoding="ascii") as file:
                name = file.read() or "0"
            if int(name) and os.path.exists(f"/proc/{name}"):
                return False
            os.unlink(mark)
            continue
        os.write(descriptor, str(os.getpid()).encode())
        os.close(descriptor)
        return True
    return False


def _end(tasks: TaskList, task_id: str, *, fails: bool) -> dict[str, Any]:
    if fails:
        return tasks.fail(task_id, category="TEST_FAIL", message="this one fails")
    return tasks.complete(task_id)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
