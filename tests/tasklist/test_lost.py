"""A task list whose file is gone altogether: its backup is found, nothing takes its place, and it comes back."""

import os
import shutil
from pathlib import Path

import pytest

from agent_harness.cli import main
from agent_harness.hooks import dispatch
from agent_harness.hooks.event import Event
from agent_harness.kernel import trusted_state
from agent_harness.testing import run_in_process
from agent_harness.testing.repo import Repo
from agent_harness.testing.task_list_project import TaskListProject, task


@pytest.fixture
def lost(tmp_path: Path) -> TaskListProject:
    """A list with a backup, and without the file."""
    project = TaskListProject(tmp_path / "list", task("task-001"), extra={"mine": 1})
    project.change(lambda change: None)
    project.store.activate()
    os.unlink(project.layout.tasks)
    return project


@pytest.mark.parametrize("words", ["status", "status --tail 2", "add more", "task next", "task claim", "init ."])
def test_what_needs_the_list_says_that_it_is_gone_and_what_brings_it_back(lost: TaskListProject, words: str) -> None:
    """Exit 6, the next command, and a disk as before: no new list takes the place of the old (tasklist.md 2, 8)."""
    before = lost.files()
    ran = lost.harness(*words.split(), "--json")
    assert ran.code == 6, ran
    error = ran.json["error"]
    assert error["message"].startswith("harness-tasks.json is missing")
    assert error["hint"] == "harness task recover"
    assert lost.files() == before


def test_recover_restores_it_from_a_folder_below_and_says_so(lost: TaskListProject) -> None:
    """The answer and the log name what was done; the tasks and unknown members are as before (tasklist.md 8)."""
    below = lost.root / "src/deep"
    below.mkdir(parents=True)
    ran = lost.harness("task", "recover", "--root", str(below))
    assert ran.code == 0, ran
    assert ran.json["restored"] == {"kept": None, "reason": "harness-tasks.json is missing", "replayed": []}
    assert (lost.statuses(), lost.raw["extra"]) == (["pending"], {"mine": 1})
    assert 'RECOVERY action="restored from .bak" reason="harness-tasks.json is missing"' in lost.log()[-1]
    assert lost.harness("task", "claim").json["task_id"] == "task-001"


def test_a_session_restores_it_by_itself(lost: TaskListProject) -> None:
    """Whoever starts a session unattended is not stopped by it (tasklist.md 8)."""
    found = lost.harness("session", "start").json
    assert (found["restored"]["reason"], found["next"]) == ("harness-tasks.json is missing", "harness task claim")


def test_the_stop_hook_names_the_way_out(lost: TaskListProject) -> None:
    """The hooks find the list too, and send the agent to ``recover`` once (tasklist.md 6.1, row 3b)."""
    told = dispatch.run("stop", Event({"cwd": str(lost.root), "session_id": "s"}, {}))
    assert b'"block"' in told.out
    assert b"harness-tasks.json is missing" in told.out
    assert b"harness task recover" in told.out


def test_without_a_good_backup_a_person_is_asked(lost: TaskListProject) -> None:
    """Nothing is made up (tasklist.md 8)."""
    Path(lost.layout.backup).write_text("{ half")
    for words, hint in (("status", "no backup"), ("init .", "to start a new list: rm ")):
        ran = lost.harness(*words.split(), "--json")
        assert (ran.code, hint in ran.json["error"]["hint"]) == (6, True), ran
    ran = lost.harness("task", "recover")
    assert (ran.code, "unrecoverable" in ran.json["error"]["message"]) == (6, True), ran


def test_a_list_of_which_nothing_is_left_in_the_folder_comes_back_from_its_copy(tmp_path: Path) -> None:
    """``git clean -fdx`` takes list, backup and log; a repository that is made anew in its place is another project."""
    repo = Repo.with_files(tmp_path / "app", {"app.py": "one\n"})
    words = {"cwd": repo.path}
    assert run_in_process(main.main, "harness", "add", "One", "--validate", "test -e done", **words).code == 0
    assert run_in_process(main.main, "harness", "task", "set", "task-001", "priority=P0", **words).code == 0
    repo.git("clean", "-fdx", "-q")
    for command in (("init", "."), ("status",)):
        refused = run_in_process(main.main, "harness", *command, **words)
        assert "harness task recover" in refused.text, command
    assert run_in_process(main.main, "harness", "task", "recover", **words).code == 0
    assert run_in_process(main.main, "harness", "status", "--json", **words).json["tasks"][0]["id"] == "task-001"
    home = Path(trusted_state.existing(str(repo.path / "harness-tasks.json"), str(repo.path)) or "")
    (home / "starts.jsonl").write_text("of the list before\n")
    shutil.rmtree(repo.path)
    again = Repo.with_files(tmp_path / "app", {"app.py": "two\n"})
    made = run_in_process(main.main, "harness", "init", ".", cwd=again.path)
    assert made.code == 0 and "An earlier task list was here; its state is now in " in made.out
    aside = Path(made.out.partition("its state is now in ")[2].splitlines()[0].rstrip("."))
    assert (aside / "starts.jsonl").exists() and not (home / "starts.jsonl").exists()
    assert run_in_process(main.main, "harness", "status", "--json", cwd=again.path).json["tasks"] == []
