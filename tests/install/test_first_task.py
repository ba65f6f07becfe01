"""A person who never saw the project: from a fresh machine to the first proven task of their own."""

import json
from pathlib import Path

import pytest

from .fresh import first_task

pytestmark = [pytest.mark.install, pytest.mark.timeout(600)]


def test_three_commands_lead_to_a_proven_task(wheel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Install, add, run: no option names an agent, and no other command is needed."""
    machine, project, seconds = first_task(tmp_path, wheel)
    with capsys.disabled():
        print(f"\n{len(machine.typed)} commands, {seconds:.1f} s to the first proven task")
    assert len(machine.typed) <= 3
    (task,) = json.loads(project.read("harness-tasks.json"))["tasks"]
    assert (task["title"], task["status"], task["attempts"]) == ("Say hello", "completed", 1)
    assert project.git("log", "--format=%s").splitlines() == ["[task-001] Say hello", "First"]
    assert project.git("show", "HEAD:hello.py") == 'print("hello")'
    told = machine.type("harness", "why", "task-001", cwd=project.path)
    assert told.out.startswith("task-001 Say hello: proven at "), told
