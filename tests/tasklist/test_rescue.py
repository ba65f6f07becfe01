"""Rolled-back work can be listed, looked at, restored and let go."""

from pathlib import Path

import pytest

from agent_harness.errors import UnsafeTree, UsageError
from agent_harness.protocols.tasklist.attempts import rescue, verbs
from agent_harness.testing.task_list_project import TASK, TaskListProject

REF = "refs/harness/rescue/task-001/1"


@pytest.fixture
def project(tmp_path: Path) -> TaskListProject:
    """A failed attempt beside a person's own changes."""
    project = TaskListProject.with_sources(tmp_path).add()
    project.repo.write("lib/b.py", "my edit\r\n").write("run.sh", "#!/bin/sh\n", executable=True).write(
        "notes", "mine\n"
    )
    caller = project.hold()
    project.repo.write("app.py", "changed\n").write("d/new", b"\xff\r\n").link("link", "d/new").remove("notes")
    project.repo.stage("d/new").git("commit", "-q", "-m", "agent", "--", "d/new")
    verbs.fail(caller, TASK, "TEST_FAIL", "red")
    return project


def test_the_list(project: TaskListProject) -> None:
    [found] = rescue.entries(project.caller())
    assert (found["ref"], found["task_id"], found["number"]) == (REF, TASK, 1)
    assert found["commit"] == project.repo.git("rev-parse", REF)


def test_the_list_outside_of_git(tmp_path: Path) -> None:
    plain = TaskListProject.with_sources(tmp_path, git=False).add()
    assert rescue.entries(plain.caller()) == []
    assert rescue.prune(plain.caller(), 0.0) == {"pruned": [], "kept": 0}


@pytest.mark.parametrize("name", [REF, "task-001/1"])
def test_one_rescue(project: TaskListProject, name: str) -> None:
    found = rescue.show(project.caller(), name)
    assert {(each["status"], each["path"]) for each in found["files"]} == {
        *(("M", "app.py"), ("A", "d/new"), ("A", "link"), ("D", "notes"))
    }
    assert [each["subject"] for each in found["commits"]] == ["agent"]


def test_no_such_rescue(project: TaskListProject) -> None:
    for name in ("task-001/9", "HEAD", "refs/heads/main", ""):
        with pytest.raises(UsageError, match="No rescue ref named"):
            rescue.show(project.caller(), name)


def test_all_of_it_in_a_new_folder(project: TaskListProject, tmp_path: Path) -> None:
    before = project.seen()
    done = rescue.restore(project.caller(), REF, str(tmp_path / "back"))
    back = Path(done["to"])
    assert (back / "app.py").read_text() == "changed\n"
    assert (back / "lib/b.py").read_bytes() == b"my edit\r\n"
    assert (back / "d/new").read_bytes() == b"\xff\r\n"
    assert (back / "link").is_symlink()
    assert (back / "run.sh").stat().st_mode & 0o100
    assert not (back / "notes").exists()
    assert project.seen() == before
    with pytest.raises(UnsafeTree, match="not an empty folder"):
        rescue.restore(project.caller(), REF, str(tmp_path / "back"))


def test_what_it_changed_in_the_work_tree(project: TaskListProject) -> None:
    head, index = project.repo.head, project.repo.git("ls-files", "-s")
    done = rescue.restore(project.caller(), REF)
    assert done["files"] == ["app.py", "d/new", "link", "notes"]
    assert project.repo.read("app.py") == b"changed\n"
    assert project.repo.read("lib/b.py") == b"my edit\r\n"
    assert not (project.path / "notes").exists()
    assert (project.repo.head, project.repo.git("ls-files", "-s")) == (head, index)
    assert rescue.restore(project.caller(), REF)["files"] == done["files"]


def test_a_file_that_changed_since_is_not_overwritten(project: TaskListProject) -> None:
    project.repo.write("app.py", "my newer work\n")
    before = project.seen()
    with pytest.raises(UnsafeTree, match="was changed after the attempt"):
        rescue.restore(project.caller(), REF)
    assert project.seen() == before


def test_nothing_is_written_through_a_link(project: TaskListProject, tmp_path: Path) -> None:
    project.repo.link("d", str(tmp_path))
    with pytest.raises(UnsafeTree, match="d/new was changed after"):
        rescue.restore(project.caller(), REF)
    assert (project.path / "d").is_symlink()


def test_pruning_lets_go_of_what_is_old_and_not_in_use(project: TaskListProject) -> None:
    assert rescue.prune(project.caller(), 1.0) == {"pruned": [], "kept": 2}
    caller = project.hold()
    done = rescue.prune(project.caller(), 0.0)
    assert done == {"pruned": [REF, "refs/harness/base/task-001/1"], "kept": 1}
    assert rescue.entries(project.caller()) == []
    assert verbs.roll_back(caller, TASK)["rolled_back"]


def test_moved_files_go_with_their_rescue(tmp_path: Path) -> None:
    project = TaskListProject.with_sources(tmp_path).add()
    caller = project.hold()
    project.repo.remove("app.py").write("app.py/x.o", "ignored, where a file was")
    done = verbs.fail(caller, TASK, "TEST_FAIL", "red")
    folder = Path(project.layout.rescue_files(TASK, 1))
    assert done["moved"] == ["app.py/x.o"]
    assert (folder / "app.py/x.o").exists()
    rescue.prune(project.caller(), 0.0)
    assert not folder.exists()
