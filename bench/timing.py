"""Runs commands in turn and compares their medians."""

import os
import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

_DROPPED = ("HARNESS_", "GIT_", "PYTHON", "XDG_")


def environment(home: Path) -> dict[str, str]:
    """The caller's variables without what changes how Python, git or the harness start."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_DROPPED)}
    return {**kept, "HOME": str(home), "NO_COLOR": "1"}


def medians(
    commands: Mapping[str, Sequence[str]], *, cwd: Path, env: Mapping[str, str], rounds: int
) -> dict[str, float]:
    """Median seconds of each command over rounds in which every one runs once, after one round that is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(rounds + 1):
        for name, command in commands.items():
            began = time.perf_counter()
            done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
            took = time.perf_counter() - began
            if done.returncode:
                raise SystemExit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()}")
            if turn:
                seconds[name].append(took)
    return {name: statistics.median(values) for name, values in seconds.items()}
