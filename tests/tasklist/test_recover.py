"""An interrupted task is made whole: every row of the table, and who may do it."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from agent_harness.errors import Busy, LeaseLost, LockBusy, NotOwner, UnsafeTree, UsageError
from agent_harness.kernel import files
from agent_harness.protocols.tasklist.attempts import recover, verbs
from agent_harness.protocols.tasklist.claims import claim
from agent_harness.protocols.tasklist.claims.caller import Caller
from agent_harness.testing.task_list_project import TASK, TaskListProject

PAST = "2020-01-01T00:00:00Z"
STEP = [{"step": 1, "total": 3, "description": "half", "timestamp": PAST, "attempt": 1}]


def interrupted(tmp_path: Path, *, passes: bool = True, **members: Any) -> tuple[TaskListProject, Caller]:
    """A claim whose lease has ended, in a repository with a person's own changes."""
    project = TaskListProject.with_sources(tmp_path).add(validation="true" if passes else "echo red; false")
    project.repo.write("lib/b.py", "my edit\n").write("notes.txt", "mine\n").write("staged.py", "s\n").stage(
        "staged.py"
    )
    caller = project.hold()
    project.edit(TASK, lease_expires_at=PAST, **members)
    return project, caller


def one(project: TaskListProject, **words: Any) -> dict[str, Any]:
    [found] = recover.recover(project.caller("next"), TASK, **words)
    return found


def test_no_progress_is_a_failure(tmp_path: Path) -> None:
    project, _ = interrupted(tmp_path)
    before = project.seen()
    found = one(project)
    assert (found["action"], found["row"], project.seen()) == ("failed", "fail", before)
    assert found["reason"] == "No progress detected"  # why it was failed, not why nothing was rolled back
    assert (project.task().status, project.task().attempts) == ("failed", 1)
    assert project.task().error_log == ["[SESSION_TIMEOUT] No progress detected"]
    assert project.log()[:2] == [
        '[SESSION-1] RECOVERY [task-001] action="failed" reason="No progress detected"',
        "[SESSION-1] ERROR [task-001] [SESSION_TIMEOUT] No progress detected",
    ]


def test_claimed_progress_without_any_is_for_the_agent_to_judge(tmp_path: Path) -> None:
    project, _ = interrupted(tmp_path, checkpoints=STEP)
    state = Path(project.layout.tasks).read_bytes()
    found = one(project)
    assert (found["action"], found["decided"], found["evidence"]["checkpoints"]) == ("resume", False, STEP)
    assert Path(project.layout.tasks).read_bytes() == state


def test_the_agent_decides_to_resume(tmp_path: Path) -> None:
    project, old = interrupted(tmp_path, checkpoints=STEP)
    found = one(project, decide="resume")
    assert (found["action"], found["decided"]) == ("resume", True)
    with pytest.raises(LeaseLost):
        verbs.complete(old, TASK)
    project.repo.write("new", "x")
    assert verbs.complete(project.caller("next", token=found["token"]), TASK)["status"] == "completed"
    assert 'RECOVERY [task-001] action="resumed"' in project.log()[0]


def test_the_agent_decides_that_the_work_is_lost(tmp_path: Path) -> None:
    project, _ = interrupted(tmp_path, checkpoints=STEP)
    found = one(project, decide="fail")
    assert (found["action"], project.task().status, project.task().attempts) == ("failed", "failed", 1)


@pytest.mark.parametrize(("committed", "uncommitted"), [(True, False), (False, True), (True, True)])
def test_work_that_passes_is_completed(tmp_path: Path, committed: bool, uncommitted: bool) -> None:
    project, _ = interrupted(tmp_path)
    status, base = project.status(), project.repo.head
    if committed:
        project.repo.write("first", "x").stage("first").git("commit", "-q", "-m", "[task-001] first", "--", "first")
    if uncommitted:
        project.repo.write("second", "y")
    found = one(project)
    assert (found["action"], found["commit"]) == ("completed", project.repo.head)
    names = [name for name, there in (("first", committed), ("second", uncommitted)) if there]
    assert project.repo.git("diff", "--name-only", base, "HEAD").split() == names
    assert (project.status(), project.task().status, project.task().attempts) == (status, "completed", 1)
    assert any('action="completed"' in line for line in project.log())
    assert project.log()[-1] == f"[SESSION-1] Completed [task-001] (commit {project.repo.head[:7]})"


@pytest.mark.parametrize("committed", [False, True])
def test_work_that_does_not_pass_goes_back(tmp_path: Path, committed: bool) -> None:
    project, _ = interrupted(tmp_path, passes=False)
    before = project.seen()
    project.repo.write("first", "x").write("lib/b.py", "overwritten\n")
    if committed:
        project.repo.stage("first").git("commit", "-q", "-m", "wip", "--", "first")
    found = one(project)
    assert (found["action"], found["rolled_back"], project.seen()) == ("failed", True, before)
    assert project.task().error_log == ["[TEST_FAIL] Interrupted; validation: exit code 1"]
    assert project.repo.git("show", f"{found['rescue']}:first") == "x"
    assert project.repo.git("show", f"{found['rescue']}:lib/b.py") == "overwritten"


def test_commits_of_others_stop_everything(tmp_path: Path) -> None:
    project, _ = interrupted(tmp_path)
    project.repo.write("new", "x").git(
        "commit", "-q", "--allow-empty", "-m", "hello", "--author=Eve <e@x>", "--", "lib"
    )
    before = project.seen()
    with pytest.raises(UnsafeTree, match="Eve <e@x> committed"):
        one(project)
    assert (project.seen(), project.task().status) == (before, "in_progress")
    assert "Eve" in (project.state.halt or {})["message"]
    assert one(project, decide="resume")["token"] == project.task().claim_token


def test_a_list_that_cannot_prove_is_left_to_a_person(tmp_path: Path) -> None:
    project, _ = interrupted(tmp_path, validation={"command": ""})
    project.repo.write("new", "x")
    found = one(project)
    assert (found["action"], project.task().status, project.repo.read("new")) == ("blocked", "in_progress", b"x")
    assert (project.state.halt or {})["category"] == "CONFIG"


# ---- who may -------------------------------------------------------------------------------------------------------


def test_somebody_at_work_is_left_alone(tmp_path: Path) -> None:
    project = TaskListProject.with_sources(tmp_path).add()
    project.hold()
    with pytest.raises(NotOwner, match="who is working on the task"):
        recover.recover(project.caller("next"), TASK)
    assert recover.recover(project.caller("next")) == []


def test_ones_own_living_claim_is_recovered_by_name_only(tmp_path: Path) -> None:
    project = TaskListProject.with_sources(tmp_path).add()
    caller = project.hold()
    project.repo.write("new", "x")
    assert recover.recover(caller) == []
    found = recover.recover(caller, TASK)[0]
    assert (found["action"], found["grade"]) == ("completed", "checked")
    assert found["basis"] and "validation passed: checked" in "".join(project.log())


def test_every_task_that_was_left_is_recovered(tmp_path: Path) -> None:
    project, _ = interrupted(tmp_path)
    [found] = recover.recover(project.caller("next"))
    assert found["action"] == "failed"
    assert recover.recover(project.caller("next")) == []


def test_a_task_that_somebody_has_taken_over_is_not_recovered_again(tmp_path: Path) -> None:
    """Whoever recovers owns the claim first, so that two never do it (tasklist.md 12)."""
    project, _ = interrupted(tmp_path, checkpoints=STEP)
    token = one(project, decide="resume")["token"]
    assert recover.recover(project.caller("third")) == []
    with pytest.raises(NotOwner, match="who is working on the task"):
        recover.recover(project.caller("third"), TASK, "fail")
    assert (project.task().claim_token, project.task().attempts) == (token, 0)


def test_nothing_is_claimed_before_the_agent_has_judged_what_was_interrupted(tmp_path: Path) -> None:
    """The answer names the command by which it decides (tasklist.md 7.2, 12)."""
    project, _ = interrupted(tmp_path, checkpoints=STEP)
    with pytest.raises(Busy) as raised:
        claim.claim(project.caller("next"))
    assert (raised.value.code, raised.value.exit_code) == ("interrupted", 5)
    assert f"harness task recover {TASK} --decide resume" in (raised.value.hint or "")
    one(project, decide="fail")
    assert claim.claim(project.caller("next"))["attempt"] == 2


def test_a_task_of_another_work_tree_is_left(tmp_path: Path) -> None:
    project = TaskListProject.with_sources(tmp_path, mode="concurrent").add()
    second = tmp_path / "second"
    project.repo.git("worktree", "add", "-q", str(second), "-b", "second")
    project.hold(cwd=second)
    project.edit(TASK, lease_expires_at=PAST)
    assert recover.recover(project.caller("next")) == []
    with pytest.raises(UnsafeTree, match="claimed in another work tree"):
        recover.recover(project.caller("next"), TASK)
    assert recover.recover(project.caller("next", cwd=second))[0]["action"] == "failed"


def test_a_task_that_is_not_in_progress(tmp_path: Path) -> None:
    project = TaskListProject.with_sources(tmp_path).add()
    with pytest.raises(NotOwner, match="is pending"):
        recover.recover(project.caller(), TASK)
    with pytest.raises(UsageError, match="no task"):
        recover.recover(project.caller(), "task-999")
    with pytest.raises(UsageError, match="must be resume or fail, got"):
        recover.recover(project.caller(), TASK, "perhaps")


# ---- places --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("passes", [False, True])
def test_outside_of_git_the_proof_decides(tmp_path: Path, passes: bool) -> None:
    project = TaskListProject.with_sources(tmp_path, git=False).add(validation="true" if passes else "false")
    project.hold()
    project.edit(TASK, lease_expires_at=PAST)
    found = one(project)
    assert found["action"] == ("completed" if passes else "failed")
    assert project.task().attempts == 1


def test_a_claim_that_only_the_log_remembered(tmp_path: Path) -> None:
    """A restored backup and the log's `Starting` line know a short hash, and no baseline."""
    project, _ = interrupted(tmp_path, passes=False)
    before = project.seen()
    project.repo.write("lib/b.py", "overwritten\n")
    raw = files.read_json(project.layout.tasks)
    task = raw["tasks"][0]
    for name in ("base_ref", "started_branch", "worktree"):
        task.pop(name)
    task.update(started_at_commit=task["started_at_commit"][:7], claimed_by="unknown", claim_token="")
    files.write_json(project.layout.tasks, raw)
    assert one(project)["rolled_back"]
    assert project.seen() == before


def test_a_recovery_that_could_not_write_the_state_is_recovered(tmp_path: Path) -> None:
    project, _ = interrupted(tmp_path, passes=False)
    before = project.seen()
    project.repo.write("new", "x")
    flag, go = tmp_path / "in-cleanup", tmp_path / "go"
    project.edit(TASK, on_failure={"cleanup": f"touch {flag}; until [ -e {go} ]; do sleep 0.02; done"})
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(recover.recover, project.caller("next", lock_timeout_seconds=0.2), TASK)
        while not flag.exists():
            time.sleep(0.02)
        with project.caller().store.lock(), pytest.raises(LockBusy):
            go.touch()
            run.result()
    assert (project.seen(), project.task().status) == (before, "in_progress")
    project.edit(TASK, on_failure={}, lease_expires_at=PAST)
    [found] = recover.recover(project.caller("third"), TASK)
    assert (found["action"], found["row"], project.task().attempts) == ("failed", "finish", 1)
    assert project.task().rescues == ["refs/harness/rescue/task-001/1"]
