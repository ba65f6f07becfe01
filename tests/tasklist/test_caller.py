"""Identity of the caller, and the tasks that it may touch."""

import subprocess
import sys
from pathlib import Path
from socket import gethostname

import pytest

from agent_harness.errors import LeaseLost, NotOwner, UsageError
from agent_harness.kernel import owner
from agent_harness.protocols.tasklist.claims.caller import Caller
from agent_harness.testing.repo import Repo
from agent_harness.testing.task_list_project import TaskListProject, after, task

HELD = {
    "status": "in_progress",
    "claimed_by": "me",
    "claim_token": "right",
    "claimed_at": "2026-03-01T12:00:00Z",
    "lease_expires_at": "2026-03-01T12:10:00Z",
    "lease_seconds": 600,
}


@pytest.fixture
def project(tmp_path: Path) -> TaskListProject:
    return TaskListProject.at_noon(tmp_path / "list", task("a", **HELD), task("b"), task("c", status="completed"))


@pytest.mark.parametrize(
    ("caller", "token", "at", "task_id", "error"),
    [
        ("me", "right", 0, "a", None),
        ("me", None, 0, "a", None),
        ("other", "right", 0, "a", None),  # the token is the proof
        ("me", "wrong", 0, "a", LeaseLost),
        ("me", "", 0, "a", None),
        ("other", None, 0, "a", NotOwner),
        (None, None, 0, "a", NotOwner),
        ("me", "right", 629, "a", None),
        ("me", "right", 630, "a", LeaseLost),
        ("me", "right", 0, "b", NotOwner),
        ("me", "right", 0, "c", NotOwner),
        ("me", "right", 0, "z", UsageError),
    ],
)
def test_who_owns_a_claim(
    project: TaskListProject,
    caller: str | None,
    token: str | None,
    at: float,
    task_id: str,
    error: type[Exception] | None,
) -> None:
    found = project.caller(caller, token=token)
    if error is None:
        assert found.own(project.store.read(), task_id, after(at)).id == "a"
    else:
        with pytest.raises(error) as raised:
            found.own(project.store.read(), task_id, after(at))
        assert type(raised.value) is error


def test_what_is_given_wins_over_the_environment_and_blanks_name_nobody(project: TaskListProject) -> None:
    environ = {"HARNESS_WORKER_ID": " w1 ", "HARNESS_SESSION_ID": " ", "HARNESS_CLAIM_TOKEN": "t1"}
    found = Caller.open(project.layout, environ=environ | {"CLAUDE_CODE_SESSION_ID": "client"})
    assert (found.id, found.session_id, found.token) == ("w1", "client", "t1")
    found = Caller.open(project.layout, environ=environ, worker_id="w2", session_id="s2", token="t2")
    assert (found.id, found.session_id, found.token) == ("w2", "s2", "t2")
    found = Caller.open(project.layout, environ={}, worker_id="", session_id=" ")
    assert (found.id, found.session_id, found.token) == (None, None, None)


def test_an_owner_is_the_worker_else_the_session_else_the_program(project: TaskListProject) -> None:
    host = gethostname()
    assert project.caller("w", session="s").owner == "w"
    assert project.caller(None, session="s").owner == f"{host}:s"
    me = owner.current()
    nobody = project.caller(None, session=None, process=me)
    assert nobody.owner == nobody.session_owner == f"{host}:{me.pid}"


def test_two_commands_of_one_program_are_one_session_whatever_shells_are_between(project: TaskListProject) -> None:
    code = (
        "from agent_harness.protocols.tasklist.claims.caller import Caller\n"
        "from agent_harness.protocols.tasklist.layout import TaskListLayout\n"
        "print(Caller.open(TaskListLayout('.'), environ={}).session_owner)"
    )
    (project.root / "ask.py").write_text(code)
    plain = f"{sys.executable} ask.py; true"
    nested = f"sh -c \"bash -c '{plain}'; true\"; true"
    found = {
        subprocess.run(["sh", "-c", each], cwd=project.root, capture_output=True, text=True, check=True).stdout
        for each in (plain, nested)
    }
    assert len(found) == 1


def test_the_tree_is_the_top_of_the_work_tree_else_the_folder(project: TaskListProject, tmp_path: Path) -> None:
    assert project.caller().git is None
    assert project.caller().tree == str(project.root)
    repo = Repo(tmp_path / "repo").write("sub/x", "").commit()
    inside = project.caller(cwd=str(repo.path / "sub"))
    assert inside.tree == str(repo.path)
    (tmp_path / "odd/.git").mkdir(parents=True)
    assert project.caller(cwd=str(tmp_path / "odd")).git is None


@pytest.mark.parametrize("content", [None, "", "{", "[]", '"x"'])
def test_a_claim_record_that_cannot_be_read_is_none(project: TaskListProject, content: str | None) -> None:
    caller = project.caller()
    if content is not None:
        caller.keep_claim_record("a", {"x": 1})
        assert caller.claim_record("a").record == {"x": 1}
        Path(project.layout.claim("a")).write_text(content)
    assert caller.claim_record("a").record == {}
