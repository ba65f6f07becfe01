"""Task lists and calls of hooks for the tests of this folder."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import agent_harness
from agent_harness.hooks.event import Event
from agent_harness.protocols.tasklist.records import State

Record = dict[str, Any]

SCRIPTS = Path(agent_harness.__file__).parent / "plugin" / "hooks"
NOW = datetime(2026, 1, 31, 9, 30, tzinfo=UTC)


def task(number: int, status: str = "pending", **members: object) -> Record:
    """Return a task; its id is ``task-001`` and so on."""
    return {"id": f"task-{number:03d}", "title": f"Thing {number}", "status": status, **members}


def state(*tasks: Record, mode: str = "exclusive", **members: Any) -> State:
    """Return a state of these tasks; ``config`` adds to its configuration."""
    config = {"concurrency_mode": mode, **members.pop("config", {})}
    return State({"version": 2, "session_config": config, "tasks": list(tasks), "session_count": 1, **members})


def event(environ: Mapping[str, str] | None = None, **payload: object) -> Event:
    """Return the event of a hook's call."""
    return Event(payload, environ or {})


def lease(minutes: float) -> str:
    """Return the end of a lease so many minutes from now."""
    return (NOW + timedelta(minutes=minutes)).isoformat()


def make(root: Path, *tasks: Record, active: bool = True, **members: Any) -> Path:
    """Write a task list to disk."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "harness-tasks.json").write_text(json.dumps(state(*tasks, **members).raw))
    if active:
        (root / ".harness-active").touch()
    return root


def call(
    name: str, root: Path, payload: Mapping[str, Any] | bytes | None = None, **environ: str
) -> subprocess.CompletedProcess[bytes]:
    """Run a script of the plugin as clients do."""
    given = payload if isinstance(payload, bytes) else json.dumps({"session_id": "s", **(payload or {})}).encode()
    command = [sys.executable, "-S", "-E", str(SCRIPTS / f"harness-{name}.py")]
    env = {**os.environ, **environ}
    return subprocess.run(command, cwd=root, env=env, input=given, capture_output=True, check=False)


def answer(done: subprocess.CompletedProcess[bytes]) -> Any:
    """Return the JSON that a hook printed; ``None`` if it printed nothing."""
    assert done.returncode == 0, done
    return json.loads(done.stdout) if done.stdout else None
