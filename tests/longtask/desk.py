"""A long task in a folder of its own, and the real `lth` on it."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from agent_harness.protocols.longtask.layout import LongTaskLayout
from agent_harness.protocols.longtask.store import LongTaskStore

__all__ = ["NOON", "Desk", "Ran", "after", "checkpoint", "task"]

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def after(seconds: float) -> str:
    """A timestamp so many seconds from the present moment."""
    at = datetime.now(UTC) + timedelta(seconds=seconds)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def task(**members: Any) -> dict[str, Any]:
    """A small contract; ``members`` win, ``None`` takes one away."""
    made = {
        "schemaVersion": 1,
        "id": "demo",
        "title": "Demo",
        "domain": "coding",
        "objective": "Show that it works",
        "successCriteria": ["It works"],
        **members,
    }
    return {name: value for name, value in made.items() if value is not None}


def checkpoint(**members: Any) -> dict[str, Any]:
    """An active checkpoint; ``members`` win."""
    return {
        "schemaVersion": 1,
        "taskId": "demo",
        "status": "active",
        "nextStep": "Do the first slice",
        "blockedUntil": None,
        "blocker": None,
        "evidence": [],
        "updatedAt": "2026-03-01T12:00:00.000Z",
        **members,
    }


class Ran:
    """How one command ended."""

    def __init__(self, done: subprocess.CompletedProcess[bytes]) -> None:
        self.code = done.returncode
        self.out = done.stdout.decode()
        self.err = done.stderr.decode()

    @property
    def json(self) -> dict[str, Any]:
        """The answer on stdout."""
        answer = json.loads(self.out)
        assert isinstance(answer, dict)
        return answer

    def __repr__(self) -> str:
        return f"Ran({self.code}, {self.out!r}, {self.err!r})"


class Desk:
    """One task directory. Everything goes through its files and the command line."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def made(cls, path: Path, *, contract: dict[str, Any] | None = None, state: dict[str, Any] | None = None) -> "Desk":
        """A task that loads."""
        desk = cls(path)
        path.mkdir(parents=True)
        desk.write("task.json", contract or task())
        desk.write("checkpoint.json", state or checkpoint())
        desk.write("harness.md", "# Rules\n")
        return desk

    @property
    def store(self) -> LongTaskStore:
        return LongTaskStore(LongTaskLayout(self.path))

    def write(self, name: str, content: Any) -> Path:
        """Writes a file of the task: bytes and text as they are, anything else as JSON."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content if isinstance(content, str) else json.dumps(content, indent=2) + "\n")
        return path

    def lth(self, command: str, *words: str, cwd: Path | None = None, given: bytes = b"", **env: str) -> Ran:
        """`lth COMMAND TASK_DIR WORDS`."""
        line = [sys.executable, "-m", "agent_harness.cli.lth", command, str(self.path), *words]
        return Ran(self._ran(line, cwd, given, env))

    def start(self, command: str, *words: str) -> "subprocess.Popen[bytes]":
        """The same, not waited for."""
        line = [sys.executable, "-m", "agent_harness.cli.lth", command, str(self.path), *words]
        return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)

    def _ran(self, line: list[str], cwd: Path | None, given: bytes, env: dict[str, str]) -> Any:
        return subprocess.run(
            line, capture_output=True, check=False, cwd=cwd, input=given, env={**os.environ, **env}, timeout=60
        )

    @property
    def checkpoint(self) -> dict[str, Any]:
        """What ``checkpoint.json`` holds."""
        found = json.loads((self.path / "checkpoint.json").read_text())
        assert isinstance(found, dict)
        return found

    @property
    def events(self) -> list[dict[str, Any]]:
        """Every line of the log."""
        lines = [line for log in sorted((self.path / "runs").glob("*.jsonl")) for line in log.read_text().splitlines()]
        return [json.loads(line) for line in lines]

    @property
    def event_types(self) -> list[str]:
        return [event["type"] for event in self.events]

    def tree(self) -> dict[str, bytes | None]:
        """Every path below the task and its content; ``None`` for a folder."""
        found = sorted(self.path.rglob("*"))
        return {str(path.relative_to(self.path)): None if path.is_dir() else path.read_bytes() for path in found}
