"""The verbs in the sandbox of Codex, where commands have process numbers of their own and `.git` is read-only."""

from pathlib import Path

import pytest

from agent_harness.testing.repo import Repo

from .client import Codex
from .tasklist import FEEDBACK, ONE_TASK, TaskList, both, heard, intruded

pytestmark = [pytest.mark.client, pytest.mark.parametrize("client", ["codex"], indirect=True)]


@pytest.fixture
def work(client: Codex, project: Repo) -> TaskList:
    """A list of two tasks for a Codex in its usual sandbox."""
    made = TaskList(project, client.env)
    client.install_our_hooks(project.path)
    client.sandbox = "workspace-write"
    made.add("Write one", "Write two")
    return made


def test_a_repository_that_cannot_be_written_is_told(client: Codex, work: TaskList) -> None:
    client.island.script("go", [{"run": "harness task claim"}, "I leave it."])
    run = client.run("SCRIPT:go", project=work.repo.path, env={"HARNESS_DISABLE": "1"})
    assert run.exit_code == 0, run.output
    assert heard(client.island, "unsafe_tree") == 1
    assert work.statuses == ["pending", "pending"]


def test_a_list_is_worked_to_the_end_once_git_may_be_written(client: Codex, work: TaskList) -> None:
    client.island.script("idle", ["I am done."])
    client.island.script("next", ONE_TASK, start=FEEDBACK)
    run = client.run("SCRIPT:idle", project=work.repo.path, words=["--add-dir", str(git(work))])
    assert run.exit_code == 0, run.output
    assert (work.statuses, work.active) == (["completed", "completed"], False)


def test_a_second_session_is_kept_out(client: Codex, work: TaskList) -> None:
    both(client, work, *intruded(client.island, work), words=["--add-dir", str(git(work))])
    assert heard(client.island, "another harness session is active") > 0
    assert work.statuses == ["completed", "pending"]
    assert work.kinds("Starting", "Completed", "ERROR") == ["Starting", "Completed"]


def git(work: TaskList) -> Path:
    """The git folder, which the sandbox keeps from being written unless it is named."""
    return work.repo.path / ".git"
