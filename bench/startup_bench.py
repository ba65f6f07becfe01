"""How long the everyday answers take, as multiples of a bare start of the same interpreter."""

import json
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import timing

import project

ROUNDS = 41
OPENING = '{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}}'
TASKS = 30


def measure() -> Mapping[str, float]:
    """Ratios of `--version` and `status` in a project of 30 features, of `task next` with 30 tasks, of `mcp`."""
    with tempfile.TemporaryDirectory() as folder:
        env = timing.environment(Path(folder))
        cwd = project.planned(Path(folder) / "project", env)
        listed = task_list(Path(folder) / "list", env)
        commands = {
            "bare": [sys.executable, "-c", "pass"],
            "version": [project.HARNESS, "--version"],
            "status": [project.HARNESS, "status"],
            "task-next": [project.HARNESS, "task", "next", "--root", str(listed)],
            "mcp": ["sh", "-c", f"echo '{OPENING}' | {shlex.quote(project.HARNESS)} mcp"],
        }
        seconds = timing.medians(commands, cwd=cwd, env=env, rounds=ROUNDS)
    return {name: seconds[name] / seconds["bare"] for name in ("version", "status", "task-next", "mcp")}


def task_list(folder: Path, env: Mapping[str, str]) -> Path:
    """A folder with a list of tasks that wait."""
    folder.mkdir()
    rows = ({"title": f"Thing number {each}", "validation": {"command": "true"}} for each in range(TASKS))
    (folder / "tasks.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    for words in (("init", "."), ("add", "--from", "tasks.jsonl")):
        subprocess.run([project.HARNESS, *words], cwd=folder, env=dict(env), check=True, capture_output=True)
    return folder
