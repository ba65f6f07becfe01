"""Long tasks for tests, each in a separate directory, and ``lth`` commands for these tasks.

    project = LongTaskProject.of_book(tmp_path / "task")
    project.run("echo written > chapter.txt")
    assert project.checkpoint["status"] == "active"

The methods use only the task's files and the command line. There are two sample contracts. ``task`` contains only the
required members. ``book`` also sets a worker, and a person decides whether its criterion is met."""

import json
import os
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

from agent_harness.cli import lth
from agent_harness.protocols.longtask import evidence
from agent_harness.protocols.longtask.layout import LongTaskLayout
from agent_harness.protocols.longtask.store import LongTaskStore
from agent_harness.testing import LTH, CommandResult, run_in_process, run_process

__all__ = [
    "NEXT",
    "LongTaskProject",
    "Record",
    "CommandResult",
    "argv",
    "book",
    "book_checkpoint",
    "checkpoint",
    "from_now",
    "program",
    "run_lth",
    "task",
]

Record = dict[str, Any]

NEXT = "Write the second chapter."
"""Next step in the checkpoint of ``book``."""


def from_now(seconds: float = 0.0) -> str:
    moment = datetime.now(UTC) + timedelta(seconds=seconds)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def task(**members: Any) -> Record:
    """Return a contract. ``members`` replace its default members. The value ``None`` removes a member."""
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


def checkpoint(**members: Any) -> Record:
    """Return an active checkpoint for ``task``. ``members`` replace the defaults."""
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


def book(**members: Any) -> Record:
    """Return the contract of a book with the worker ``local-command``. ``members`` replace the defaults."""
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


def book_checkpoint(**members: Any) -> Record:
    """Return an active checkpoint for ``book``. ``members`` replace the defaults."""
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


def argv(*words: str) -> list[str]:
    return [*LTH, *words]


def run_lth(
    *words: str, cwd: Path | None = None, given: bytes = b"", environ: Mapping[str, str] | None = None
) -> CommandResult:
    return run_in_process(lth.main, "lth", *words, cwd=cwd, given=given, environ=environ)


def program(folder: Path, name: str, script: str) -> dict[str, str]:
    """Write an executable script. Return an environment whose ``PATH`` begins with the script's folder."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


class LongTaskProject:
    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    def made(cls, root: Path, *, contract: Record | None = None, state: Record | None = None) -> Self:
        root.mkdir(parents=True)
        return cls(root)._fill(contract or task(), state or checkpoint())

    @classmethod
    def of_book(cls, root: Path) -> Self:
        """Create the sample task ``book`` and the folders that the first slice would create."""
        for name in ("runs", "evidence", "artifacts"):
            (root / name).mkdir(parents=True, exist_ok=True)
        return cls(root)._fill(book(), book_checkpoint())

    def _fill(self, contract: Record, state: Record) -> Self:
        self.task, self.checkpoint = contract, state
        self.write("harness.md", "# Rules\n")
        return self

    # ---- commands ----------------------------------------------------------------------------------------------

    def lth(
        self,
        command: str,
        *words: str,
        code: int | None = None,
        cwd: Path | None = None,
        given: bytes = b"",
        env: Mapping[str, str] | None = None,
    ) -> CommandResult:
        """Run ``lth COMMAND TASK_DIR WORDS`` in this process."""
        # code: the expected exit status; env is added to the environment
        ran = run_lth(command, str(self.root), *words, cwd=cwd, given=given, environ=env)
        assert code is None or ran.code == code, ran
        return ran

    def lth_process(self, command: str, *words: str, env: Mapping[str, str] | None = None) -> CommandResult:
        return run_process(argv(command, str(self.root), *words), environ={**os.environ, **(env or {})})

    def run(
        self, command: str, *words: str, code: int | None = 0, env: Mapping[str, str] | None = None
    ) -> CommandResult:
        return self.lth("run", "--worker", "local-command", "--command", command, *words, code=code, env=env)

    def start(
        self, command: str, *words: str, environment: Mapping[str, str] | None = None
    ) -> "subprocess.Popen[bytes]":
        pipe = subprocess.PIPE
        line = argv(command, str(self.root), *words)
        return subprocess.Popen(line, stdout=pipe, stderr=pipe, stdin=subprocess.DEVNULL, env=environment)

    def loads(self) -> None:
        self.lth("validate", code=0)

    # ---- files -------------------------------------------------------------------------------------------------

    def write(self, name: str, content: Any) -> Path:
        """Write a file of the task. Write bytes and text unchanged, and other values as JSON."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content if isinstance(content, str) else json.dumps(content, indent=2) + "\n")
        return path

    @property
    def task(self) -> Record:
        return json.loads((self.root / "task.json").read_text())

    @task.setter
    def task(self, raw: Record) -> None:
        """Write a contract that counts as accepted by a person, so that the next run asks no question."""
        self.write("task.json", raw)
        evidence.accept_contract(LongTaskLayout(self.root), None)

    @property
    def checkpoint(self) -> Record:
        return json.loads((self.root / "checkpoint.json").read_text())

    @checkpoint.setter
    def checkpoint(self, raw: Record) -> None:
        self.write("checkpoint.json", raw)

    @property
    def store(self) -> LongTaskStore:
        return LongTaskStore(LongTaskLayout(self.root))

    @property
    def lock(self) -> Path:
        return self.root / ".lth.lock"

    def events(self, kind: str | None = None) -> list[Record]:
        logs = sorted((self.root / "runs").glob("*.jsonl"))
        found = [json.loads(line) for log in logs for line in log.read_text().splitlines()]
        return [each for each in found if kind in (None, each["type"])]

    def kinds(self) -> list[str]:
        return [each["type"] for each in self.events()]

    def reasons(self) -> list[str]:
        return [each["reason"] for each in self.events("checkpoint_written")]

    def outputs(self) -> list[str]:
        return [each.read_text() for each in sorted((self.root / "evidence").glob("worker-output-*.txt"))]

    def tree(self) -> dict[str, bytes | None]:
        """Return the content of each file in the task directory, by path. A folder has the content ``None``."""
        found = sorted(self.root.rglob("*"))
        return {str(path.relative_to(self.root)): None if path.is_dir() else path.read_bytes() for path in found}

    def untouched(self) -> list[str]:
        """Return the paths in the task's folder that a new task's folder does not contain."""
        return [each for each in self.tree() if each not in _NEW]


_NEW = ("artifacts", "checkpoint.json", "evidence", "harness.md", "runs", "task.json")
