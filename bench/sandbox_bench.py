"""What a sandbox costs for each command: the best that this machine offers, beside the same commands without one."""

import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import timing

from agent_harness.kernel import process
from agent_harness.kernel.process import sandbox

ROUNDS = 40


def measure(rounds: int = ROUNDS) -> Mapping[str, float]:
    """Milliseconds that a check, and an agent, start later, by the fastest of rounds in which all take turns."""
    with tempfile.TemporaryDirectory() as folder:
        env = timing.environment(Path(folder))
        os.environ |= {"HOME": folder, "XDG_STATE_HOME": f"{folder}/state", "XDG_CACHE_HOME": f"{folder}/cache"}
        own = Path(folder, "cache/agent-harness/worktrees/one")
        own.mkdir(parents=True)
        taken: dict[str, list[float]] = {"bare": [], "check": [], "agent": []}
        for turn in range(rounds + 1):
            for name, seconds in taken.items():
                began = time.perf_counter()
                made = {"bare": lambda: None, "check": lambda: _check(own, folder), "agent": lambda: _agent(own)}[
                    name
                ]()
                process.run(["true"], cwd=own, env=env, timeout_seconds=60, sandbox=made)
                if turn:
                    seconds.append(time.perf_counter() - began)
    fastest = {name: min(seconds) for name, seconds in taken.items()}
    return {f"sandbox-{name}": 1000 * (fastest[name] - fastest["bare"]) for name in ("check", "agent")}


def _check(own: Path, temporary: str) -> sandbox.Sandbox | None:
    return sandbox.of_check([own], temporary=temporary)[0]


def _agent(own: Path) -> sandbox.Sandbox | None:
    return sandbox.of_agent([own])
