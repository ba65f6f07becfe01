"""How long the five commands of `lth` take that a scheduler and a worker call, as multiples of a bare start."""

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import timing

LTH = str(Path(sys.executable).with_name("lth"))
ROUNDS = 41
CRITERION = "verified-outcome"


def measure() -> Mapping[str, float]:
    """Ratios of `validate`, `next`, `tick --dry-run`, `record` and `verify`, on a task with one manual criterion."""
    with tempfile.TemporaryDirectory() as folder:
        env = timing.environment(Path(folder))
        task = str(Path(folder) / "task")
        prepare = {
            "init": [
                *(LTH, "init", task, "--worker", "local-command", "--command", "true", "--force"),
                *("--objective", "Show that it works", "--criterion", "It works"),
            ],
            "evidence": [LTH, "evidence", task, "--type", "test", "--criterion-id", CRITERION, "--summary", "shown"],
        }
        timing.medians(prepare, cwd=Path(folder), env=env, rounds=1)
        commands = {
            "bare": [sys.executable, "-c", "pass"],
            "validate": [LTH, "validate", task],
            "next": [LTH, "next", task],
            "tick": [LTH, "tick", task, "--dry-run"],
            "record": [LTH, "record", task, "--status", "active", "--note", "go on"],
            "verify": [LTH, "verify", task],
        }
        seconds = timing.medians(commands, cwd=Path(folder), env=env, rounds=ROUNDS)
    return {f"lth-{name}": seconds[name] / seconds["bare"] for name in commands if name != "bare"}
