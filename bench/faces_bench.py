"""What the commands that tell a person take, on 200 tasks with 300 sessions, as multiples of a bare start."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import reader_bench
import timing

import project

ROUNDS = 15


def measure() -> Mapping[str, float]:
    """Ratios of `why`, `costs`, `watch --once`, `report` and `status --line`."""
    with tempfile.TemporaryDirectory() as folder:
        env = timing.environment(Path(folder))
        made = [sys.executable, __file__, folder]
        root = subprocess.run(
            made, env={**os.environ, **env}, capture_output=True, text=True, check=True
        ).stdout.strip()
        commands = {
            "bare": [sys.executable, "-c", "pass"],
            "why": [project.HARNESS, "why", "task-005"],
            "costs": [project.HARNESS, "costs"],
            "watch": [project.HARNESS, "watch", "--once"],
            "report": [project.HARNESS, "report", "--out", f"{folder}/report.html"],
            "status-line": [project.HARNESS, "status", "--line"],
        }
        seconds = timing.medians(commands, cwd=Path(root), env=env, rounds=ROUNDS)
    return {f"face-{name}": seconds[name] / seconds["bare"] for name in commands if name != "bare"}


def make(folder: Path) -> Path:
    """The task list, with its sessions and verdicts."""
    root = folder / "project"
    _, place = reader_bench.task_list(root)
    reader_bench.write_claims(root, place)
    return root


if __name__ == "__main__":
    print(make(Path(sys.argv[1])))
