"""State of a list: the same numbers for people and programs, from the files alone."""

from pathlib import Path
from typing import Any

import pytest

from agent_harness.errors import StateDamaged
from agent_harness.protocols.tasklist import status
from agent_harness.testing.task_list_project import TaskListProject, task

from . import SEED
from .test_claims import claimed
from .test_session_lease import LIVE


def test_the_example_of_the_document(tmp_path: Path) -> None:
    project = TaskListProject(tmp_path / "list").holding(SEED)
    before = project.files()
    found = status.read(project.layout)
    assert status.lines(found) == [
        "list: 1 of 3 proven.",
        "needs you  nothing",
        "next       harness run",
        "",
        "Tasks: 1 completed, 1 failed, 0 in progress, 1 pending, 0 blocked, 3 in all",
        "Sessions: 1 of 50, last ended 2025-07-01T10:20:02Z",
        "Hooks are off in this project. To turn them on: harness activate",
        "",
        "[completed] task-001: Implement user authentication (1/3)  proven",
        "[failed] task-002: Add rate limiting (1/3)  will be retried: [TASK_EXEC] Redis connection refused",
        "[pending] task-003: Add OAuth providers (0/3)",
        "",
        "Last lines of harness-progress.txt:",
        *(project.root / "harness-progress.txt").read_text().splitlines()[-5:],
    ]
    assert len(status.lines(found, columns=80)) == 11, "a person has `harness log` for the lines of the log"
    assert (found["next_task"], found["findings"]) == ({"id": "task-003", "title": "Add OAuth providers"}, [])
    assert project.files() == before


def test_everything_that_a_person_must_know_is_said(tmp_path: Path) -> None:
    far = {"lease_expires_at": "2099-01-01T00:00:00Z"}
    project = TaskListProject.at_noon(
        tmp_path / "list",
        task("a", **claimed("w1") | far, rescues=["refs/x"]),
        task("b", depends_on=["gone"]),
        halt={"category": "CONFIG", "message": "no command"},
        session=LIVE | {"expires_at": "2099-01-01T00:00:00Z"},
    )
    Path(project.layout.pause).touch()
    found = status.read(project.layout)
    text = "\n".join(status.lines(found))
    for said in ("Paused", "halted, CONFIG: no command", "session is active: s1", "1 rolled back", "b depends on gone"):
        assert said in text
    assert found["in_progress"] == [
        {"id": "a", "title": "Title of a", "claimed_by": "w1", "checkpoints": 0, **far},
    ]
    assert found["next"] == "harness resume"
    assert "claim_token" not in str(found)


@pytest.mark.parametrize(
    ("tasks", "members", "command"),
    [
        ([], {}, "harness add "),
        ([task("a")], {}, "harness run"),
        ([task("a", status="completed")], {}, "harness add "),
        ([task("a", status="failed", attempts=3)], {}, "harness task reset --failed"),
        ([task("a", depends_on="x")], {}, "harness task set ID FIELD=VALUE"),
        ([task("a")], {"halt": {}}, "harness run"),
        ([task("a")], {"halt": {"category": "CONFIG"}}, "harness resume"),
    ],
)
def test_the_next_command(tmp_path: Path, tasks: list[Any], members: dict[str, Any], command: str) -> None:
    found = status.read(TaskListProject.at_noon(tmp_path / "list", *tasks, **members).layout)
    assert found["next"].startswith(command)


def test_a_pause_is_taken_back_before_anything_else(tmp_path: Path) -> None:
    """The next command is not a run, which would be refused (tasklist.md 13.3)."""
    project = TaskListProject.at_noon(tmp_path / "list", task("a"))
    Path(project.layout.pause).touch()
    assert status.read(project.layout)["next"] == "harness resume"


def test_a_damaged_list_has_no_status(tmp_path: Path) -> None:
    project = TaskListProject.at_noon(tmp_path / "list")
    Path(project.layout.tasks).write_text("{")
    with pytest.raises(StateDamaged):
        status.read(project.layout)
