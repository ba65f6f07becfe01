"""What a checkpoint and a rollback take on a large repository, as a multiple of one `git status` there."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar

from agent_harness.kernel.git import Git
from agent_harness.kernel.snapshot import restore, take

T = TypeVar("T")

FILES = 20_000
ROUNDS = 9
SETTLE_SECONDS = 0.1


def measure() -> Mapping[str, float]:
    """Median seconds of checkpoint plus rollback, of those of `git status` in the same repository."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        top = repository(Path(folder))
        seconds = rounds(top, Path(folder) / "rescued")
    return {"snapshot": (seconds["take"] + seconds["restore"]) / seconds["status"]}


def repository(folder: Path) -> Path:
    """A clean repository with so many small files in 200 folders."""
    top = folder / "project"
    for number in range(FILES):
        path = top / f"package_{number % 20}" / f"part_{number // 20 % 10}" / f"module_{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"VALUE = {number}\n" * 10)
    (top / ".gitignore").write_text("__pycache__/\n*.log\n")
    git(top, "init", "-q", "-b", "main")
    git(top, "add", ".")
    git(top, "commit", "-q", "-m", "Everything")
    time.sleep(1)
    git(top, "status")
    return top


def rounds(top: Path, rescued: Path) -> dict[str, float]:
    """Median seconds of the three, taken in turn; the first round is not counted."""
    seconds: dict[str, list[float]] = {"status": [], "take": [], "restore": []}
    for turn in range(ROUNDS + 1):
        repo = Git(top)
        status = timed(lambda: git(top, "status", "--porcelain"))
        took, snapshot = timed_value(partial(take, repo, f"refs/harness/base/bench/{turn}"))
        attempt(top, turn)
        back = timed(partial(restore, repo, snapshot, f"refs/harness/rescue/bench/{turn}", rescue_files=rescued))
        git(top, "update-index", "-q", "--refresh")
        if git(top, "status", "--porcelain"):
            raise SystemExit("the rollback did not bring the checkpoint back")
        for name, value in (("status", status), ("take", took), ("restore", back)):
            seconds[name] += [value] if turn else []
    return {name: statistics.median(values) for name, values in seconds.items()}


def attempt(top: Path, turn: int) -> None:
    """What an agent leaves: edits, a new file, a deletion, a commit, and work that is not committed."""
    for number in range(0, 400, 20):
        path = top / "package_0" / f"part_{number // 20 % 10}" / f"module_{number}.py"
        path.write_text(f"CHANGED = {turn}\n")
    (top / "package_0" / "new.py").write_text(f"NEW = {turn}\n")
    git(top, "add", ".")
    git(top, "commit", "-q", "-m", f"Attempt {turn}")
    (top / "package_1" / "part_0" / "module_1.py").unlink()
    (top / "package_0" / "new.py").write_text(f"NEWER = {turn}\n")


def timed(action: Callable[[], object]) -> float:
    """Seconds that it took."""
    return timed_value(action)[0]


def timed_value(action: Callable[[], T]) -> tuple[float, T]:
    """Seconds that it took, and what it answered."""
    time.sleep(SETTLE_SECONDS)
    began = time.perf_counter()
    value = action()
    return time.perf_counter() - began, value


def git(top: Path, *words: str) -> str:
    """What git prints, run as a person would."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    person = ("-c", "user.name=Bench", "-c", "user.email=bench@localhost")
    return subprocess.run(["git", *person, *words], cwd=top, env=env, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    sys.stdout.write("".join(f"{name}: {value:.2f} x git status\n" for name, value in measure().items()))
