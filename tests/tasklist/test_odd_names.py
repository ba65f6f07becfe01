"""A folder whose name is no UTF-8 is a folder like any other."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent_harness.protocols.tasklist.layout import path_of, written
from agent_harness.testing.task_list_project import TaskListProject, task

ODD = os.fsdecode(b"na\xffme")


@pytest.mark.parametrize("name", ["/plain", "/ü/ß", f"/{ODD}", f"/{ODD}%41/ü\n", "/a%FFb"])
def test_a_path_is_written_so_that_it_can_be_read_again(name: str) -> None:
    """JSON holds no half characters, and no path is taken for another."""
    assert path_of(json.loads(json.dumps(written(name)).encode("utf-8"))) == name
    assert written("/plain") == "/plain"


@pytest.mark.scenario
@pytest.mark.skipif(sys.platform == "darwin", reason="its file systems take UTF-8 alone")
def test_a_list_is_worked_down_in_such_a_folder(tmp_path: Path) -> None:
    """Every verb works, the state is written, and answers are JSON in UTF-8 (tasklist.md 1, 13.3)."""
    proof = {"command": "test -e made", "timeout_seconds": 60}
    project = TaskListProject(tmp_path / ODD, task("a", validation=proof), task("b", validation=proof), git=True)
    me = {"HARNESS_SESSION_ID": "s1"}
    assert project.harness("session", "start", **me).code == 0
    won = project.harness("task", "claim", **me).json
    assert won["task"]["worktree"] == written(str(project.root))
    (project.root / "made").touch()
    assert project.harness("task", "complete", "a", **me).json["commit"]
    assert project.harness("task", "claim", **me).json["task_id"] == "b"
    (project.root / "junk").touch()
    assert project.harness("task", "fail", "b", "no", "--category", "TEST_FAIL", **me).json["rolled_back"]
    assert not (project.root / "junk").exists()
    command = [sys.executable, "-m", "agent_harness.cli.main", "status", "--json"]
    env = {**os.environ, "PYTHONIOENCODING": "utf-8:strict"}
    done = subprocess.run(command, cwd=project.root, env=env, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout.decode("utf-8"))["root"] == str(project.root)
