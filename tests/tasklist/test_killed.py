"""A kill at any moment: one recovery ends the attempt, once, and nothing of a person's is lost."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agent_harness.errors import (
    LockBusy,
)
from agent_harness.protocols.tasklist.attempts import recover, verbs
from agent_harness.testing.task_list_project import TASK, TaskListProject


@pytest.fixture
def project(tmp_path: Path) -> TaskListProject:
    return TaskListProject.with_sources(tmp_path).add()


RUN = """
import sys
from agent_harness.protocols.tasklist.attempts import verbs
from agent_harness.protocols.tasklist.layout import TaskListLayout
from agent_harness.protocols.tasklist.claims.caller import Caller
root, tree, token, verb, *rest = sys.argv[1:]
caller = Caller.open(TaskListLayout(root), worker_id="me", token=token, cwd=tree, environ={}, lock_timeout_seconds=60.0)
getattr(verbs, verb)(caller, *rest)
"""


def start(project: TaskListProject, token: str, verb: str, *rest: str) -> "subprocess.Popen[bytes]":
    words = [sys.executable, "-c", RUN, str(project.root), str(project.path), token, verb, TASK, *rest]
    return subprocess.Popen(words, stderr=subprocess.DEVNULL)


def until(found: object, seconds: float = 60.0) -> None:
    """Waits until something is so."""
    deadline = time.monotonic() + seconds
    while not found():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.02)


def left_alone(project: TaskListProject) -> None:
    """The lease of the killed worker ends."""
    project.edit(TASK, lease_expires_at="2020-01-01T00:00:00Z")


def test_killed_between_the_commit_and_the_state(project: TaskListProject) -> None:
    project.leave_own_work()
    before = project.status()
    caller = project.hold()
    base = project.repo.head
    project.repo.write("new", "x")
    with caller.store.lock():
        child = start(project, str(caller.token), "complete")
        until(lambda: project.repo.head != base)
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert project.task().status == "in_progress"
    made = project.repo.head
    left_alone(project)
    [found] = recover.recover(project.caller("next"), TASK)
    assert (found["action"], found["row"], found["commit"]) == ("completed", "validate", made)
    assert (project.task().status, project.task().attempts, project.repo.head) == ("completed", 1, made)
    assert project.status() == before


def test_complete_repeated_after_the_state_could_not_be_written(project: TaskListProject) -> None:
    caller = project.hold()
    project.repo.write("new", "x")
    caller.store.lock_timeout_seconds = 0.3
    with project.caller().store.lock(), pytest.raises(LockBusy):
        verbs.complete(caller, TASK)
    made = project.repo.head
    done = verbs.complete(caller, TASK)
    assert (done["commit"], done["attempts"], project.repo.git("log", "--format=%s", "-1")) == (
        made,
        1,
        "[task-001] Title of task-001",
    )


@pytest.mark.parametrize("verb", ["fail", "release"])
def test_killed_between_the_way_back_and_the_state(project: TaskListProject, verb: str) -> None:
    project.leave_own_work()
    before = project.seen()
    caller = project.hold()
    project.repo.write("new", "x")
    with caller.store.lock():
        words = ("TEST_FAIL", "red") if verb == "fail" else ("no time",)
        child = start(project, str(caller.token), verb, *words)
        until(lambda: project.seen() == before)
        child.send_signal(signal.SIGKILL)
        child.wait()
    left_alone(project)
    [found] = recover.recover(project.caller("next"), TASK)
    task = project.task()
    if verb == "fail":
        assert (found["action"], task.status, task.attempts) == ("failed", "failed", 1)
        assert task.error_log == ["[TEST_FAIL] red"]
    else:
        assert (found["action"], task.status, task.attempts) == ("released", "pending", 0)
    assert task.rescues == ["refs/harness/rescue/task-001/1"]
    assert project.seen() == before


def test_killed_in_the_cleanup(project: TaskListProject, tmp_path: Path) -> None:
    before = project.seen()
    project.edit(TASK, on_failure={"cleanup": f"echo x >> {tmp_path}/cleaned; test -e {tmp_path}/go || sleep 100"})
    caller = project.hold()
    project.repo.write("new", "x")
    child = start(project, str(caller.token), "fail", "TEST_FAIL", "red")
    until((tmp_path / "cleaned").exists)
    child.send_signal(signal.SIGKILL)
    child.wait()
    (tmp_path / "go").touch()
    left_alone(project)
    [found] = recover.recover(project.caller("next"), TASK)
    assert (found["action"], project.task().attempts, found["cleanup"]["ok"]) == ("failed", 1, True)
    assert (project.seen(), (tmp_path / "cleaned").read_text()) == (before, "x\nx\n")


@pytest.mark.kill
@pytest.mark.parametrize("verb", ["fail", "complete"])
@pytest.mark.parametrize("delay", [0.15, 0.3, 0.5])
def test_killed_at_any_moment(project: TaskListProject, verb: str, delay: float) -> None:
    """Whatever a kill leaves, one recovery ends the attempt, once, and nothing of a person's is lost."""
    project.leave_own_work()
    before = project.seen()
    project.edit(TASK, validation={"command": "true" if verb == "complete" else "false"})
    caller = project.hold()
    project.repo.write("new", "x").write("app.py", "changed\n")
    words = ("TEST_FAIL", "red") if verb == "fail" else ()
    child = start(project, str(caller.token), verb, *words)
    time.sleep(delay)
    child.send_signal(signal.SIGKILL)
    child.wait()
    if project.task().status == "in_progress":
        left_alone(project)
        recover.recover(project.caller("next"), TASK)
    assert project.task().attempts == 1
    if verb == "fail":
        assert (project.seen(), project.task().status) == (before, "failed")
    else:
        assert (project.status(), project.task().status) == (before[1], "completed")
        assert project.repo.git("rev-list", "--count", f"{before[3]}..HEAD") == "1"
