"""A task directory of its own for each test, and the real `lth` in a process of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

Record = dict[str, Any]

NEXT = "Write the second chapter."


@dataclass(frozen=True)
class Done:
    """How one command went."""

    code: int
    out: str
    err: str

    @property
    def answer(self) -> Record:
        """The JSON on stdout."""
        return json.loads(self.out)


def at(seconds: float = 0.0) -> str:
    """A timestamp so many seconds from now."""
    moment = datetime.now(UTC) + timedelta(seconds=seconds)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def task(**members: object) -> Record:
    """A contract that loads."""
    return {
        "schemaVersion": 1,
        "id": "book",
        "title": "A book",
        "domain": "writing",
        "objective": "Write a book.",
        "successCriteria": [{"id": "written", "description": "It is written.", "metric": "manual"}],
        "workerPolicy": {"preferred": "local-command"},
        **members,
    }


def checkpoint(**members: object) -> Record:
    """A checkpoint that loads."""
    return {
        "schemaVersion": 1,
        "taskId": "book",
        "status": "active",
        "currentPhase": "drafting",
        "nextStep": NEXT,
        "blockedUntil": None,
        "blocker": None,
        "lastCompletedStep": "",
        "activeFiles": [],
        "openQuestions": [],
        "evidence": [],
        "updatedAt": "2026-01-01T00:00:00.000Z",
        **members,
    }


class Ground:
    """One task directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("runs", "evidence", "artifacts"):
            (root / name).mkdir(parents=True, exist_ok=True)
        (root / "harness.md").write_text("# Rules\n")
        self.task = task()
        self.checkpoint = checkpoint()

    @property
    def task(self) -> Record:
        return json.loads((self.root / "task.json").read_text())

    @task.setter
    def task(self, raw: Record) -> None:
        (self.root / "task.json").write_text(json.dumps(raw))

    @property
    def checkpoint(self) -> Record:
        return json.loads((self.root / "checkpoint.json").read_text())

    @checkpoint.setter
    def checkpoint(self, raw: Record) -> None:
        (self.root / "checkpoint.json").write_text(json.dumps(raw))

    @property
    def lock(self) -> Path:
        return self.root / ".lth.lock"

    def lth(self, command: str, *words: str, env: Mapping[str, str] | None = None, code: int | None = None) -> Done:
        """Runs `lth COMMAND TASK_DIR ...`; ``code`` is the exit status that is expected."""
        ran = subprocess.run(
            argv(command, str(self.root), *words),
            capture_output=True,
            text=True,
            env={**os.environ, **(env or {})},
            check=False,
            timeout=120,
        )
        assert code is None or ran.returncode == code, f"exit {ran.returncode}\n{ran.stdout}\n{ran.stderr}"
        return Done(ran.returncode, ran.stdout, ran.stderr)

    def run(self, command: str, *words: str, code: int | None = 0, env: Mapping[str, str] | None = None) -> Done:
        """`lth run` with one line of shell as its worker."""
        return self.lth("run", "--worker", "local-command", "--command", command, *words, code=code, env=env)

    def events(self, kind: str | None = None) -> list[Record]:
        """The log, oldest first."""
        lines = [line for log in sorted((self.root / "runs").glob("*.jsonl")) for line in log.read_text().splitlines()]
        found = [json.loads(line) for line in lines]
        return [each for each in found if kind in (None, each["type"])]

    def kinds(self) -> list[str]:
        """The types of the log's events."""
        return [each["type"] for each in self.events()]

    def reasons(self) -> list[str]:
        """Why the checkpoint was written, each time."""
        return [each["reason"] for each in self.events("checkpoint_written")]

    def outputs(self) -> list[str]:
        """What the output files hold, oldest first."""
        return [each.read_text() for each in sorted((self.root / "evidence").glob("worker-output-*.txt"))]

    def untouched(self) -> list[str]:
        """What there is besides the files of a new task; empty when nothing was written."""
        found = sorted(str(each.relative_to(self.root)) for each in self.root.rglob("*"))
        return [each for each in found if each not in _NEW]

    def loads(self) -> None:
        """Fails when the task does not load."""
        self.lth("validate", code=0)


_NEW = ("artifacts", "checkpoint.json", "evidence", "harness.md", "runs", "task.json")


def argv(*words: str) -> list[str]:
    """The command line of `lth`."""
    return [sys.executable, "-m", "agent_harness.cli.lth", *words]


def program(folder: Path, name: str, script: str) -> dict[str, str]:
    """Puts a shell script of this name first on PATH; the environment with it."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
