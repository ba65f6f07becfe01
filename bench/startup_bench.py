"""How long the everyday answers take, as multiples of a bare start of the same interpreter."""

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import timing

import project

ROUNDS = 41


def measure() -> Mapping[str, float]:
    """Ratios of `harness --version` and of `harness status`, in a project of 30 features."""
    with tempfile.TemporaryDirectory() as folder:
        env = timing.environment(Path(folder))
        cwd = project.planned(Path(folder) / "project", env)
        commands = {
            "bare": [sys.executable, "-c", "pass"],
            "version": [project.HARNESS, "--version"],
            "status": [project.HARNESS, "status"],
        }
        seconds = timing.medians(commands, cwd=cwd, env=env, rounds=ROUNDS)
    return {name: seconds[name] / seconds["bare"] for name in ("version", "status")}
