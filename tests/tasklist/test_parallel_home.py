"""The list as a coordinator reads it: what an agent has written into it counts for no workspace and no landing."""

from pathlib import Path

import pytest

from agent_harness.protocols.tasklist.parallel.project_port import TaskListProjectPort
from agent_harness.testing.task_list_project import TaskListProject, task


def home_of(work: TaskListProject) -> TaskListProjectPort:
    return TaskListProjectPort(work.caller(), 1, {}, {})


@pytest.mark.parametrize("added", [True, False], ids=["added by a command", "written by hand"])
def test_papers_have_what_proves_each_task_as_it_was_kept(tmp_path: Path, added: bool) -> None:
    """SC-34: an agent weakens the proof of another task, lets it change its own guard, and plants a set-up script."""
    work = TaskListProject(tmp_path / "list", git=True)
    for name in ("first", "second"):
        if added:
            assert work.harness("add", name, "--validate", f"grep -q . {name}", "--may-change", "its/*").code == 0
        else:
            work.add(f"task-00{1 + len(work.raw['tasks'])}", validation=f"grep -q . {name}")
    home = home_of(work)
    for name in ("task-001", "task-002"):
        work.edit(name, validation={"command": "true", "may_change": ["*"]}, title="As it is now")
    Path(work.layout.init_script).write_text("exit 1\n")
    inputs = home.inputs("task-002", None)
    kept = {"may_change": ["its/*"]} if added else {}
    assert inputs["task"]["title"] == "As it is now"
    for given, name in ((inputs["task"], "second"), (inputs["others"][0], "first")):
        assert given["validation"]["command"] == f"grep -q . {name}"
        assert {"may_change": given["validation"].get("may_change")} == {"may_change": kept.get("may_change")}
    assert inputs["init"] is None
    (check,) = home.checks("HEAD", "HEAD", ["task-002"])
    assert check["task"]["validation"]["command"] == "grep -q . second"


def test_what_was_added_meanwhile_counts_as_it_is_found(tmp_path: Path) -> None:
    work = TaskListProject(tmp_path / "list", task("a"), git=True)
    home = home_of(work)
    work.add("b", validation="test -e b")
    assert home.inputs("b", None)["task"]["validation"]["command"] == "test -e b"
