"""The agents of a backlog, in one program: which of them works on an item is said by the item's number.

    python backlog_agent.py MEMORY

MEMORY is a folder outside of the project in which the starts on each item are counted. The item is the number at the
end of HARNESS_TASK_ID, HARNESS_FEATURE_ID or of the folder LTH_TASK_DIR; a session about no item does nothing.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

KINDS = (
    "honest",  # right at once
    "fixer",  # wrong at first, and right when it is asked again
    "forger",  # makes the runner of all proofs say yes
    "editor",  # makes its own proof say yes
    "deleter",  # takes its proof away
    "claimer",  # says done without any work
    "crasher",  # dies halfway, and does better when it is started again
    "hanger",  # stops halfway until its time is up, and does better when it is started again
    "litterer",  # is right, and leaves files, folders and a process behind
    "hopeless",  # never right
)
DOABLE = frozenset({"honest", "fixer", "crasher", "hanger", "litterer"})


def kind(item: int) -> str:
    """Return the kind of agent that works on an item."""
    return KINDS[(item - 1) % len(KINDS)]


def product(item: int) -> Path:
    """The module that an item asks for."""
    return Path(f"items/item_{item}.sh")


def proof(item: int) -> Path:
    """The check of that module."""
    return Path(f"tests/item_{item}.sh")


def trace(item: int) -> Path:
    """Return the file that a liar leaves beside its lie; no accepted commit may hold it."""
    return Path(f"traces/item_{item}.txt")


def litter_pid(memory: Path, item: int) -> Path:
    """Return the file that holds the number of the process that the litterer leaves behind."""
    return memory / f"{item}.pid"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _right(item: int) -> None:
    _write(product(item), f"echo {item * item}\n")


def _wrong(item: int) -> None:
    _write(product(item), f"echo {item * item + 1}\n")


def _fix(item: int, start: int, _memory: Path) -> None:
    (_right if start > 1 else _wrong)(item)


def _forge(item: int, _start: int, _memory: Path) -> None:
    _write(trace(item), "forged\n")
    Path("check.sh").write_text("exit 0\n")


def _edit(item: int, _start: int, _memory: Path) -> None:
    _write(trace(item), "edited\n")
    proof(item).write_text("exit 0\n")


def _delete(item: int, _start: int, _memory: Path) -> None:
    _write(trace(item), "deleted\n")
    proof(item).unlink(missing_ok=True)


def _crash(item: int, start: int, _memory: Path) -> None:
    (_right if start > 1 else _wrong)(item)
    if start == 1 and item % 20 < 10:
        sys.exit(3)
    if start == 1:
        os.kill(os.getpid(), signal.SIGKILL)


def _hang(item: int, start: int, _memory: Path) -> None:
    (_right if start > 1 else _wrong)(item)
    if start == 1:
        time.sleep(3600)


def _litter(item: int, _start: int, memory: Path) -> None:
    _right(item)
    _write(Path(f"stray/{item}/deep/junk.tmp"), "junk\n")
    _write(Path(f"core.{item}"), "junk\n")
    Path(f"stray/{item}/empty").mkdir(exist_ok=True)
    with open(os.devnull, "r+b") as nowhere:
        left = subprocess.Popen(
            ["sleep", "3600"], start_new_session=True, stdin=nowhere, stdout=nowhere, stderr=nowhere
        )
    litter_pid(memory, item).write_text(str(left.pid))


def _fail(item: int, _start: int, _memory: Path) -> None:
    _write(trace(item), "hopeless\n")
    _wrong(item)


WORK: dict[str, Callable[[int, int, Path], None]] = {
    "honest": lambda item, _start, _memory: _right(item),
    "fixer": _fix,
    "forger": _forge,
    "editor": _edit,
    "deleter": _delete,
    "claimer": lambda _item, _start, _memory: None,
    "crasher": _crash,
    "hanger": _hang,
    "litterer": _litter,
    "hopeless": _fail,
}


def _claim(item: int) -> None:
    """Says done, in the words of the protocol. On a task list the end of a turn says so."""
    if "HARNESS_FEATURE_ID" in os.environ:
        path = Path("features.json")
        whole = json.loads(path.read_text())
        next(each for each in whole["features"] if each["id"] == item)["passes"] = True
        path.write_text(json.dumps(whole, indent=2) + "\n")
    elif folder := os.environ.get("LTH_TASK_DIR"):
        path = Path(folder, "checkpoint.json")
        path.write_text(json.dumps({**json.loads(path.read_text()), "status": "done"}, indent=2) + "\n")


def main(memory: Path) -> None:
    """One turn."""
    sys.stdin.read()
    names = ("HARNESS_TASK_ID", "HARNESS_FEATURE_ID", "LTH_TASK_DIR")
    found = re.search(r"\d+$", next((os.environ[name] for name in names if os.environ.get(name)), ""))
    if found is None:
        return
    item = int(found.group())
    with (memory / f"{item}.starts").open("a+") as starts:
        starts.write("x")
        starts.flush()
        start = starts.tell()
    WORK[kind(item)](item, start, memory)
    if kind(item) != "hopeless":
        _claim(item)
    print(f"Item {item} is done.")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
