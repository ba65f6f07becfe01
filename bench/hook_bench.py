"""What a hook and the claim script cost, as multiples of a bare interpreter that reads the same state.

Each round runs a pair in turn, bare first; the figure is the median of the ratios of the pairs.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import timing

import agent_harness

ROUNDS = 31
SIZES = (10, 100, 5000)
SCRIPTS = Path(agent_harness.__file__).parent / "plugin" / "hooks"
PYTHON = (sys.executable, "-S", "-E")


def stop() -> Mapping[str, float]:
    """Ratio of the Stop hook that keeps a session going, by the number of tasks."""
    return {f"stop-{size}": _ratio("harness-stop.py", size) for size in SIZES}


def claim() -> Mapping[str, float]:
    """Ratio of the claim script that claims a task, by the number of tasks."""
    return {f"claim-{size}": _ratio("harness-claim.py", size) for size in SIZES}


def _ratio(script: str, size: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "project"
        root.mkdir()
        env = {**timing.environment(Path(folder)), "HARNESS_WORKER_ID": "bench"}
        state = json.dumps(tasks(size), indent=2)
        asked = json.dumps({"session_id": "bench", "cwd": str(root), "stop_hook_active": False}).encode()
        bare = [*PYTHON, "-c", f"import json; json.load(open({str(root / 'harness-tasks.json')!r}))"]
        ratios = []
        for turn in range(ROUNDS + 1):
            _fresh(root, state)
            seconds = [_run(command, asked, root, env) for command in (bare, [*PYTHON, str(SCRIPTS / script)])]
            if turn:
                ratios.append(seconds[1] / seconds[0])
        return statistics.median(ratios)


def _fresh(root: Path, state: str) -> None:
    """The same state before every pair, so that a claim has something to claim."""
    shutil.rmtree(root / ".harness", ignore_errors=True)
    (root / "harness-tasks.json").write_text(state)
    (root / ".harness-active").touch()


def _run(command: list[str], given: bytes, cwd: Path, env: Mapping[str, str]) -> float:
    began = time.perf_counter()
    done = subprocess.run(command, input=given, cwd=cwd, env=env, capture_output=True, check=False)
    took = time.perf_counter() - began
    if done.returncode or b'"error"' in done.stdout or (command[-1].endswith(".py") and not done.stdout):
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}: {os.fsdecode(done.stdout + done.stderr)}")
    return took


def tasks(size: int) -> Mapping[str, object]:
    """A state in the middle of its work: half of the tasks are completed."""
    return {
        "version": 2,
        "session_config": {"concurrency_mode": "exclusive", "max_tasks_per_session": 20, "max_sessions": 50},
        "tasks": [task(number, size) for number in range(1, size + 1)],
        "session_count": 1,
        "last_session": None,
    }


def task(number: int, size: int) -> Mapping[str, object]:
    """One task with the members that every task has."""
    done = number <= size // 2
    return {
        "id": f"task-{number:03d}",
        "title": f"Thing number {number} works",
        "status": "completed" if done else "pending",
        "priority": "P1",
        "depends_on": [f"task-{number - 1:03d}"] if number > 1 else [],
        "attempts": int(done),
        "max_attempts": 3,
        "started_at_commit": "def5678",
        "validation": {"command": "true", "timeout_seconds": 300},
        "on_failure": {"cleanup": None},
        "error_log": [],
        "checkpoints": [],
        "completed_at": "2025-07-01T10:15:30Z" if done else None,
    }
