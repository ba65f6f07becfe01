"""The action for GitHub: its shell steps, run as a runner runs them, in a folder of their own."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from agent_harness.testing.task_list_project import TaskListProject, task

ACTION = Path(__file__).parents[2] / "action.yml"


def action() -> dict[str, Any]:
    return dict(YAML(typ="safe").load(ACTION.read_text()))


def test_every_input_is_handed_over_by_a_variable_and_never_into_a_script() -> None:
    """What somebody wrote into an input is no code."""
    steps = action()["runs"]["steps"]
    assert all("${{" not in step.get("run", "") for step in steps)
    assert all(step["shell"] == "bash" for step in steps if "run" in step)
    assert len(ACTION.read_text().splitlines()) <= 130


@pytest.mark.parametrize(
    ("script", "validation", "exit_code", "told", "page"),
    [
        ("touch made", "test -f made", 0, "0", "1 of 1 tasks are proven"),
        ("exit 0", "test -f made", 1, "1", "0 of 1 tasks are proven"),
        ("touch made", None, 0, "3", "0 of 1 tasks are proven"),  # a person must decide: no failure of the build
    ],
)
def test_its_run_step_ends_as_the_run_did_and_shows_the_page(
    tmp_path: Path, script: str, validation: str | None, exit_code: int, told: str, page: str
) -> None:
    one = task("task-001", validation={"command": validation}, max_attempts=1)
    listed = TaskListProject(tmp_path / "list", one, git=True)
    (step,) = [each for each in action()["runs"]["steps"] if each.get("id") == "run"]
    env = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "AGENT": listed.agent(f"{script}\n"),
        "ARGUMENTS": "--max-cost 5",
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
    }
    words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    done = subprocess.run(words, cwd=listed.root, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == exit_code, done.stdout + done.stderr
    assert (tmp_path / "output").read_text() == f"exit-code={told}\n"
    assert page in (tmp_path / "summary").read_text()
    assert page in (tmp_path / "agent-harness.html").read_text()
    assert ("::notice::" in done.stdout) == (told == "3")
