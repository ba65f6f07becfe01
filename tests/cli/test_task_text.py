"""``harness task`` and ``harness rescue`` at a terminal: lines for people; one JSON object everywhere else."""

import json
import os
import shlex
from pathlib import Path

import pexpect

from agent_harness.testing import HARNESS
from agent_harness.testing.task_list_project import TaskListProject, task


def at_terminal(root: Path, *words: str) -> str:
    env = {name: value for name, value in os.environ.items() if name != "CI"} | {"TERM": "xterm"}
    output = pexpect.run(shlex.join([*HARNESS, *words]), env=env, timeout=120, cwd=str(root))
    assert isinstance(output, bytes)
    return output.decode().replace("\r\n", "\n")


def test_a_person_gets_lines_without_json(tmp_path: Path) -> None:
    work = TaskListProject(tmp_path / "list", task("a", depends_on=["b"]), task("b"), git=True)
    shown = at_terminal(work.root, "task", "next")
    assert shown.splitlines()[:4] == [
        "task:",
        "  status: pending",
        "  priority: P1",
        "  validation: command true, timeout_seconds 300",
    ]
    assert shown.endswith("title: Title of b\nnext: harness task claim\n")
    for words in (
        ("task", "claim"),
        ("task", "stats"),
        ("rescue", "list"),
        ("task", "fail", "b", "--category", "TEST_FAIL", "why"),
    ):
        shown = at_terminal(work.root, *words)
        assert "{" not in shown and "\nnext: harness " in f"\n{shown}", words


def test_json_where_it_is_asked_for(tmp_path: Path) -> None:
    work = TaskListProject(tmp_path / "list", task("a"), git=True)
    shown = json.loads(at_terminal(work.root, "task", "next", "--json"))
    assert shown == json.loads(work.harness("task", "next").out)
