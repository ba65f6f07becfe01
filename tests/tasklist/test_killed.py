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

from .yard import TASK, Yard


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path).add()


RUN = """
import sys
from agent_harness.protocols.tasklist.attempts import verbs
from agent_harness.protocols.tasklist.layout import TaskListLayout
from agent_harness.protocols.tasklist.workers.worker import Worker
root, tree, token, verb, *rest = sys.argv[1:]
worker = Worker.open(TaskListLayout(root), worker_id="me", token=token, cwd=tree, environ={}, lock_timeout_seconds=60.0)
getattr(verbs, verb)(worker, *rest)
"""


def start(yard: Yard, token: str, verb: str, *rest: str) -> "subprocess.Popen[bytes]":
    words = [sys.executable, "-c", RUN, str(yard.root), str(yard.path), token, verb, TASK, *rest]
    return subprocess.Popen(words, stderr=subprocess.DEVNULL)


def until(found: object, seconds: float = 60.0) -> None:
    """Waits until something is so."""
    deadline = time.monotonic() + seconds
    while not found():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.02)


def left_alone(yard: Yard) -> None:
    """The lease of the killed worker ends."""
    yard.edit(lease_expires_at="2020-01-01T00:00:00Z")


def test_killed_between_the_commit_and_the_state(yard: Yard) -> None:
    yard.leave_own_work()
    before = yard.status()
    worker = yard.claim()
    base = yard.repo.head
    yard.repo.write("new", "x")
    with worker.store.lock():
        child = start(yard, str(worker.token), "complete")
        until(lambda: yard.repo.head != base)
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert yard.task().status == "in_progress"
    made = yard.repo.head
    left_alone(yard)
    [found] = recover.recover(yard.worker("next"), TASK)
    assert (found["action"], found["row"], found["commit"]) == ("completed", "validate", made)
    assert (yard.task().status, yard.task().attempts, yard.repo.head) == ("completed", 1, made)
    assert yard.status() == before


def test_complete_repeated_after_the_state_could_not_be_written(yard: Yard) -> None:
    worker = yard.claim()
    yard.repo.write("new", "x")
    worker.store.lock_timeout_seconds = 0.3
    with yard.worker().store.lock(), pytest.raises(LockBusy):
        verbs.complete(worker, TASK)
    made = yard.repo.head
    done = verbs.complete(worker, TASK)
    assert (done["commit"], done["attempts"], yard.repo.git("log", "--format=%s", "-1")) == (
        made,
        1,
        "[task-001] Title of task-001",
    )


@pytest.mark.parametrize("verb", ["fail", "release"])
def test_killed_between_the_way_back_and_the_state(yard: Yard, verb: str) -> None:
    yard.leave_own_work()
    before = yard.seen()
    worker = yard.claim()
    yard.repo.write("new", "x")
    with worker.store.lock():
        words = ("TEST_FAIL", "red") if verb == "fail" else ("no time",)
        child = start(yard, str(worker.token), verb, *words)
        until(lambda: yard.seen() == before)
        child.send_signal(signal.SIGKILL)
        child.wait()
    left_alone(yard)
    [found] = recover.recover(yard.worker("next"), TASK)
    task = yard.task()
    if verb == "fail":
        assert (found["action"], task.status, task.attempts) == ("failed", "failed", 1)
        assert task.error_log == ["[TEST_FAIL] red"]
    else:
        assert (found["action"], task.status, task.attempts) == ("released", "pending", 0)
    assert task.rescues == ["refs/harness/rescue/task-001/1"]
    assert yard.seen() == before


def test_killed_in_the_cleanup(yard: Yard, tmp_path: Path) -> None:
    before = yard.seen()
    yard.edit(on_failure={"cleanup": f"echo x >> {tmp_path}/cleaned; test -e {tmp_path}/go || sleep 100"})
    worker = yard.claim()
    yard.repo.write("new", "x")
    child = start(yard, str(worker.token), "fail", "TEST_FAIL", "red")
    until((tmp_path / "cleaned").exists)
    child.send_signal(signal.SIGKILL)
    child.wait()
    (tmp_path / "go").touch()
    left_alone(yard)
    [found] = recover.recover(yard.worker("next"), TASK)
    assert (found["action"], yard.task().attempts, found["cleanup"]["ok"]) == ("failed", 1, True)
    assert (yard.seen(), (tmp_path / "cleaned").read_text()) == (before, "x\nx\n")


@pytest.mark.kill
@pytest.mark.parametrize("verb", ["fail", "complete"])
@pytest.mark.parametrize("delay", [0.15, 0.3, 0.5])
def test_killed_at_any_moment(yard: Yard, verb: str, delay: float) -> None:
    """Whatever a kill leaves, one recovery ends the attempt, once, and nothing of a person's is lost."""
    yard.leave_own_work()
    before = yard.seen()
    yard.edit(validation={"command": "true" if verb == "complete" else "false"})
    worker = yard.claim()
    yard.repo.write("new", "x").write("app.py", "changed\n")
    words = ("TEST_FAIL", "red") if verb == "fail" else ()
    child = start(yard, str(worker.token), verb, *words)
    time.sleep(delay)
    child.send_signal(signal.SIGKILL)
    child.wait()
    if yard.task().status == "in_progress":
        left_alone(yard)
        recover.recover(yard.worker("next"), TASK)
    assert yard.task().attempts == 1
    if verb == "fail":
        assert (yard.seen(), yard.task().status) == (before, "failed")
    else:
        assert (yard.status(), yard.task().status) == (before[1], "completed")
        assert yard.repo.git("rev-list", "--count", f"{before[3]}..HEAD") == "1"
