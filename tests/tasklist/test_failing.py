"""Attempts that end without a proof: what comes back, what is counted, what is refused."""

import os
from pathlib import Path

import pytest

from agent_harness.errors import (
    UnsafeTree,
    UsageError,
)
from agent_harness.protocols.tasklist.attempts import verbs
from agent_harness.testing.task_list_project import TASK, TaskListProject


@pytest.fixture
def project(tmp_path: Path) -> TaskListProject:
    return TaskListProject.with_sources(tmp_path).add()


def test_a_failure_goes_back_cleans_up_and_counts(project: TaskListProject, tmp_path: Path) -> None:
    project.leave_own_work()
    before = project.seen()
    project.edit(TASK, on_failure={"cleanup": f"cat app.py > {tmp_path}/cleaned; echo swept"})
    caller = project.hold()
    base = project.repo.head
    project.repo.write("app.py", "broken\n").write("new", "x")
    done = verbs.fail(caller, TASK, "TEST_FAIL", "two tests\nstay red")
    assert project.seen() == before
    assert (done["attempts"], done["retryable"], done["rolled_back"], done["halted"]) == (1, True, True, False)
    assert done["rescue"] == "refs/harness/rescue/task-001/1"
    assert done["cleanup"] == {"ok": True, "exit": 0, "timed_out": False, "tail": ["swept"]}
    assert (tmp_path / "cleaned").read_text() == "one\n"
    assert project.log()[-3:] == [
        "[SESSION-1] ERROR [task-001] [TEST_FAIL] two tests stay red",
        f"[SESSION-1] ROLLBACK [task-001] git reset --hard {base[:7]} (rescue=refs/harness/rescue/task-001/1)",
        '[SESSION-1] ROLLBACK [task-001] cleanup exit=0 "swept"',
    ]
    task = project.task()
    assert (task.status, task.error_log, task.rescues) == (
        "failed",
        ["[TEST_FAIL] two tests stay red"],
        [done["rescue"]],
    )


def test_attempts_run_out_and_each_has_its_rescue(project: TaskListProject) -> None:
    for attempt in (1, 2, 3):
        caller = project.hold()
        project.repo.write("new", f"{attempt}")
        done = verbs.fail(caller, TASK, "TASK_EXEC", "no")
        assert (done["attempts"], done["retryable"]) == (attempt, attempt < 3)
        assert done["rescue"] == f"refs/harness/rescue/task-001/{attempt}"
    assert project.repo.git("show", "refs/harness/rescue/task-001/2:new") == "2"


def test_fail_again_says_so(project: TaskListProject) -> None:
    caller = project.hold()
    verbs.fail(caller, TASK, "TASK_EXEC", "no")
    again = verbs.fail(caller, TASK, "TASK_EXEC", "no")
    assert (again["already"], again["attempts"], project.task().attempts) == (True, 1, 1)


def test_a_refused_rollback_fails_the_task_and_halts(project: TaskListProject, tmp_path: Path) -> None:
    caller = project.hold()
    project.repo.write("new", "x").stage("new").commit("Pushed", stage=False).remote(tmp_path / "server.git")
    before = project.seen()
    with pytest.raises(UnsafeTree, match="were pushed") as raised:
        verbs.fail(caller, TASK, "TEST_FAIL", "no")
    assert raised.value.exit_code == 4
    assert raised.value.data["attempts"] == 1
    assert (project.seen(), project.task().status, project.task().attempts) == (before, "failed", 1)
    assert "were pushed" in (project.state.halt or {})["message"]
    assert "WARN [task-001] not rolled back: nothing was rolled back" in project.log()[-1]


def test_a_missing_baseline_gives_the_task_up(project: TaskListProject) -> None:
    caller = project.hold()
    os.unlink(project.layout.claim(TASK))
    project.repo.git("update-ref", "-d", str(project.task().base_ref))
    done = verbs.fail(caller, TASK, "TASK_EXEC", "no")
    assert (done["attempts"], done["retryable"], done["rolled_back"]) == (3, False, False)
    assert project.state.halt is None


def test_no_rollback_on_request(project: TaskListProject) -> None:
    caller = project.hold()
    project.repo.write("new", "x")
    assert not verbs.fail(caller, TASK, "TASK_EXEC", "no", rollback=False)["rolled_back"]
    assert project.repo.read("new") == b"x"


def test_settings_and_environments_halt(project: TaskListProject) -> None:
    assert verbs.fail(project.hold(), TASK, "CONFIG", "no such section")["halted"]
    project.add("task-002").edit(halt=None)
    assert not verbs.fail(project.hold("task-002"), "task-002", "ENV_SETUP", "no database")["halted"]
    assert verbs.fail(project.hold("task-002"), "task-002", "ENV_SETUP", "no database")["halted"]


def test_a_cleanup_that_fails_is_told_and_no_more(project: TaskListProject) -> None:
    project.edit(TASK, on_failure={"cleanup": "echo oh no; exit 7"})
    done = verbs.fail(project.hold(), TASK, "TASK_EXEC", "no")
    assert (done["cleanup"]["ok"], done["cleanup"]["exit"]) == (False, 7)
    assert project.log()[-1] == '[SESSION-1] WARN [task-001] cleanup exit=7 "oh no"'
    assert project.task().status == "failed"


def test_an_unknown_category(project: TaskListProject) -> None:
    with pytest.raises(UsageError, match="Unknown category: LAZINESS"):
        verbs.fail(project.hold(), TASK, "LAZINESS", "no")


def test_the_policy_of_the_list_decides(project: TaskListProject) -> None:
    from agent_harness.kernel import files

    raw = files.read_json(project.layout.tasks)
    raw["session_config"]["rollback"] = "none"
    files.write_json(project.layout.tasks, raw)
    caller = project.hold()
    project.repo.write("new", "x")
    assert not verbs.fail(caller, TASK, "TASK_EXEC", "no")["rolled_back"]
    assert project.repo.read("new") == b"x"


def test_outside_of_git_all_ends_work(tmp_path: Path) -> None:
    plain = TaskListProject.with_sources(tmp_path, git=False).add()
    assert verbs.release(plain.hold(), TASK, "later")["status"] == "pending"
    assert not verbs.fail(plain.hold(), TASK, "TASK_EXEC", "no")["rolled_back"]
    done = verbs.complete(plain.hold(), TASK)
    assert (done["status"], done["commit"], done["attempts"]) == ("completed", None, 2)
    assert plain.log()[-1] == "[SESSION-1] Completed [task-001] (commit none)"


# ---- release and rollback ---------------------------------------------------------------------------------------


def test_a_release_goes_back_and_counts_nothing(project: TaskListProject) -> None:
    project.leave_own_work()
    before = project.seen()
    caller = project.hold()
    project.repo.write("app.py", "broken\n").write("new", "x")
    done = verbs.release(caller, TASK, "out of time")
    assert project.seen() == before
    assert (done["status"], done["attempts"], done["rescue"]) == ("pending", 0, "refs/harness/rescue/task-001/1")
    assert verbs.release(caller, TASK, "out of time")["already"]
    assert project.log()[-2] == "[SESSION-1] WARN [task-001] released: out of time"


def test_a_refused_release_changes_nothing(project: TaskListProject) -> None:
    caller = project.hold()
    project.repo.branch("elsewhere").write("new", "x")
    before = project.seen()
    with pytest.raises(UnsafeTree, match="is checked out"):
        verbs.release(caller, TASK, "x")
    assert (project.seen(), project.task().status, project.state.halt) == (before, "in_progress", None)


def test_a_rollback_keeps_the_claim(project: TaskListProject) -> None:
    caller = project.hold()
    project.repo.write("new", "x")
    assert verbs.roll_back(caller, TASK, dry_run=True)["files"] == ["new"]
    assert project.repo.read("new") == b"x"
    done = verbs.roll_back(caller, TASK)
    assert (done["rolled_back"], project.task().status, project.task().rescues) == (
        True,
        "in_progress",
        [done["rescue"]],
    )
    project.repo.write("new", "better")
    assert verbs.complete(caller, TASK)["status"] == "completed"
