"""Attempts that end without a proof: what comes back, what is counted, what is refused."""

import os
from pathlib import Path

import pytest

from agent_harness.errors import (
    UnsafeTree,
    UsageError,
)
from agent_harness.protocols.tasklist.attempts import verbs

from .yard import TASK, Yard


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path).add()


def test_a_failure_goes_back_cleans_up_and_counts(yard: Yard, tmp_path: Path) -> None:
    yard.leave_own_work()
    before = yard.seen()
    yard.edit(on_failure={"cleanup": f"cat app.py > {tmp_path}/cleaned; echo swept"})
    worker = yard.claim()
    base = yard.repo.head
    yard.repo.write("app.py", "broken\n").write("new", "x")
    done = verbs.fail(worker, TASK, "TEST_FAIL", "two tests\nstay red")
    assert yard.seen() == before
    assert (done["attempts"], done["retryable"], done["rolled_back"], done["halted"]) == (1, True, True, False)
    assert done["rescue"] == "refs/harness/rescue/task-001/1"
    assert done["cleanup"] == {"ok": True, "exit": 0, "timed_out": False, "tail": ["swept"]}
    assert (tmp_path / "cleaned").read_text() == "one\n"
    assert yard.log()[-3:] == [
        "[SESSION-1] ERROR [task-001] [TEST_FAIL] two tests stay red",
        f"[SESSION-1] ROLLBACK [task-001] git reset --hard {base[:7]} (rescue=refs/harness/rescue/task-001/1)",
        '[SESSION-1] ROLLBACK [task-001] cleanup exit=0 "swept"',
    ]
    task = yard.task()
    assert (task.status, task.error_log, task.rescues) == (
        "failed",
        ["[TEST_FAIL] two tests stay red"],
        [done["rescue"]],
    )


def test_attempts_run_out_and_each_has_its_rescue(yard: Yard) -> None:
    for attempt in (1, 2, 3):
        worker = yard.claim()
        yard.repo.write("new", f"{attempt}")
        done = verbs.fail(worker, TASK, "TASK_EXEC", "no")
        assert (done["attempts"], done["retryable"]) == (attempt, attempt < 3)
        assert done["rescue"] == f"refs/harness/rescue/task-001/{attempt}"
    assert yard.repo.git("show", "refs/harness/rescue/task-001/2:new") == "2"


def test_fail_again_says_so(yard: Yard) -> None:
    worker = yard.claim()
    verbs.fail(worker, TASK, "TASK_EXEC", "no")
    again = verbs.fail(worker, TASK, "TASK_EXEC", "no")
    assert (again["already"], again["attempts"], yard.task().attempts) == (True, 1, 1)


def test_a_refused_rollback_fails_the_task_and_halts(yard: Yard, tmp_path: Path) -> None:
    worker = yard.claim()
    yard.repo.write("new", "x").stage("new").commit("Pushed", stage=False).remote(tmp_path / "server.git")
    before = yard.seen()
    with pytest.raises(UnsafeTree, match="were pushed") as raised:
        verbs.fail(worker, TASK, "TEST_FAIL", "no")
    assert raised.value.exit_code == 4
    assert raised.value.data["attempts"] == 1
    assert (yard.seen(), yard.task().status, yard.task().attempts) == (before, "failed", 1)
    assert "were pushed" in (yard.state.halt or {})["message"]
    assert "WARN [task-001] not rolled back: nothing was rolled back" in yard.log()[-1]


def test_a_missing_baseline_gives_the_task_up(yard: Yard) -> None:
    worker = yard.claim()
    os.unlink(yard.layout.claim(TASK))
    yard.repo.git("update-ref", "-d", str(yard.task().base_ref))
    done = verbs.fail(worker, TASK, "TASK_EXEC", "no")
    assert (done["attempts"], done["retryable"], done["rolled_back"]) == (3, False, False)
    assert yard.state.halt is None


def test_no_rollback_on_request(yard: Yard) -> None:
    worker = yard.claim()
    yard.repo.write("new", "x")
    assert not verbs.fail(worker, TASK, "TASK_EXEC", "no", rollback=False)["rolled_back"]
    assert yard.repo.read("new") == b"x"


def test_settings_and_environments_halt(yard: Yard) -> None:
    assert verbs.fail(yard.claim(), TASK, "CONFIG", "no such section")["halted"]
    yard.add("task-002")
    assert not verbs.fail(yard.claim("task-002"), "task-002", "ENV_SETUP", "no database")["halted"]
    assert verbs.fail(yard.claim("task-002"), "task-002", "ENV_SETUP", "no database")["halted"]


def test_a_cleanup_that_fails_is_told_and_no_more(yard: Yard) -> None:
    yard.edit(on_failure={"cleanup": "echo oh no; exit 7"})
    done = verbs.fail(yard.claim(), TASK, "TASK_EXEC", "no")
    assert (done["cleanup"]["ok"], done["cleanup"]["exit"]) == (False, 7)
    assert yard.log()[-1] == '[SESSION-1] WARN [task-001] cleanup exit=7 "oh no"'
    assert yard.task().status == "failed"


def test_an_unknown_category(yard: Yard) -> None:
    with pytest.raises(UsageError, match="LAZINESS is no category"):
        verbs.fail(yard.claim(), TASK, "LAZINESS", "no")


def test_the_policy_of_the_list_decides(yard: Yard) -> None:
    from agent_harness.kernel import files

    raw = files.read_json(yard.layout.tasks)
    raw["session_config"]["rollback"] = "none"
    files.write_json(yard.layout.tasks, raw)
    worker = yard.claim()
    yard.repo.write("new", "x")
    assert not verbs.fail(worker, TASK, "TASK_EXEC", "no")["rolled_back"]
    assert yard.repo.read("new") == b"x"


def test_outside_of_git_all_ends_work(tmp_path: Path) -> None:
    plain = Yard(tmp_path, git=False).add()
    assert verbs.release(plain.claim(), TASK, "later")["status"] == "pending"
    assert not verbs.fail(plain.claim(), TASK, "TASK_EXEC", "no")["rolled_back"]
    done = verbs.complete(plain.claim(), TASK)
    assert (done["status"], done["commit"], done["attempts"]) == ("completed", None, 2)
    assert plain.log()[-1] == "[SESSION-1] Completed [task-001] (commit none)"


# ---- release and rollback ---------------------------------------------------------------------------------------


def test_a_release_goes_back_and_counts_nothing(yard: Yard) -> None:
    yard.leave_own_work()
    before = yard.seen()
    worker = yard.claim()
    yard.repo.write("app.py", "broken\n").write("new", "x")
    done = verbs.release(worker, TASK, "out of time")
    assert yard.seen() == before
    assert (done["status"], done["attempts"], done["rescue"]) == ("pending", 0, "refs/harness/rescue/task-001/1")
    assert verbs.release(worker, TASK, "out of time")["already"]
    assert yard.log()[-2] == "[SESSION-1] WARN [task-001] released: out of time"


def test_a_refused_release_changes_nothing(yard: Yard) -> None:
    worker = yard.claim()
    yard.repo.branch("elsewhere").write("new", "x")
    before = yard.seen()
    with pytest.raises(UnsafeTree, match="is checked out"):
        verbs.release(worker, TASK, "x")
    assert (yard.seen(), yard.task().status, yard.state.halt) == (before, "in_progress", None)


def test_a_rollback_keeps_the_claim(yard: Yard) -> None:
    worker = yard.claim()
    yard.repo.write("new", "x")
    assert verbs.roll_back(worker, TASK, dry_run=True)["files"] == ["new"]
    assert yard.repo.read("new") == b"x"
    done = verbs.roll_back(worker, TASK)
    assert (done["rolled_back"], yard.task().status, yard.task().rescues) == (True, "in_progress", [done["rescue"]])
    yard.repo.write("new", "better")
    assert verbs.complete(worker, TASK)["status"] == "completed"
