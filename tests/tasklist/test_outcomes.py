"""The ends of an attempt: what is committed, what comes back, what is counted; repeated, killed, refused."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agent_harness.errors import (
    ConfigurationError,
    LeaseLost,
    LockBusy,
    NotOwner,
    TimedOut,
    ToolMissing,
    UnsafeTree,
    UsageError,
    VerificationFailed,
)
from agent_harness.kernel import lease
from agent_harness.protocols.tasklist import outcomes, recover

from .yard import TASK, Yard


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path).add()


def leave_own_work(yard: Yard) -> None:
    """A person's staged, dirty, deleted, intended, untracked and ignored files."""
    repo = yard.repo
    repo.write("gone.py", "g\n").write("half.py", "h\n").stage("gone.py", "half.py").commit("Second", stage=False)
    repo.write("staged.py", "staged\n").stage("staged.py").write("half.py", "staged\n").stage("half.py")
    repo.write("half.py", "staged\nand more\n").write("lib/b.py", "my edit\n").remove("gone.py")
    repo.write("intended", "i\n").git("add", "--intent-to-add", "intended")
    repo.write("notes.txt", "untracked\n").write("x.o", "ignored\n")


# ---- complete ------------------------------------------------------------------------------------------------------


def test_a_commit_holds_the_attempts_work_and_nothing_else(yard: Yard) -> None:
    leave_own_work(yard)
    before = yard.status()
    staged = yard.repo.git("diff", "--cached")
    worker = yard.claim()
    yard.repo.write("new/file.py", "new\n").write("app.py", "done\n").write("x.o", "still ignored\n")
    done = outcomes.complete(worker, TASK)
    assert (done["status"], done["commit"], done["attempts"], done["remaining"]) == ("completed", yard.repo.head, 1, 0)
    assert yard.repo.git("show", "--name-only", "--format=%s|%an", "HEAD").split("\n\n") == [
        "[task-001] Title of task-001|Test Person",
        "app.py\nnew/file.py",
    ]
    assert yard.status() == before
    assert yard.repo.git("diff", "--cached") == staged
    assert yard.log()[-1] == f"[SESSION-1] Completed [task-001] (commit {yard.repo.head[:7]})"
    assert "claim_token" not in yard.task().raw


def test_a_file_of_a_persons_that_the_attempt_changed_goes_in(yard: Yard) -> None:
    leave_own_work(yard)
    worker = yard.claim()
    yard.repo.append("lib/b.py", "and the agent's\n").write("gone.py", "here again\n").append("notes.txt", "x\n")
    outcomes.complete(worker, TASK)
    names = yard.repo.git("show", "--name-only", "--format=", "HEAD").split()
    assert names == ["gone.py", "lib/b.py", "notes.txt"]
    assert yard.repo.read("lib/b.py") == b"my edit\nand the agent's\n"


def test_what_the_agent_staged_of_a_persons_is_not_committed(yard: Yard) -> None:
    leave_own_work(yard)
    before = yard.status()
    worker = yard.claim()
    yard.repo.write("new", "x").git("add", "--all", "--", ".", ":!harness*", ":!.harness*")
    outcomes.complete(worker, TASK)
    assert yard.repo.git("show", "--name-only", "--format=", "HEAD") == "new"
    assert [line for line in yard.status() if "intended" not in line] == [
        line for line in before if "intended" not in line
    ]


def test_commits_of_the_agent_are_kept(yard: Yard) -> None:
    leave_own_work(yard)
    worker = yard.claim()
    yard.repo.write("new", "x").stage("new").git("commit", "-q", "-m", "agent", "--", "new")
    head = yard.repo.head
    assert outcomes.complete(worker, TASK)["commit"] == head == yard.repo.head


def test_harness_files_that_the_agent_committed_are_left_alone(yard: Yard) -> None:
    worker = yard.claim()
    yard.repo.write("new", "x").git("add", "--all")
    yard.repo.git("commit", "-q", "-m", "everything")
    yard.repo.write("newer", "x")
    outcomes.complete(worker, TASK)
    assert yard.repo.git("show", "--name-only", "--format=", "HEAD") == "newer"
    assert yard.task().status == "completed"


def test_a_removal_and_a_rename_are_committed(yard: Yard) -> None:
    worker = yard.claim()
    yard.repo.remove("app.py").move("lib/b.py", "lib/c.py")
    outcomes.complete(worker, TASK)
    assert yard.repo.git("show", "--name-status", "--no-renames", "--format=", "HEAD").split() == [
        *("D", "app.py", "D", "lib/b.py", "A", "lib/c.py")
    ]
    assert yard.status() == []


def test_complete_again_says_so(yard: Yard) -> None:
    worker = yard.claim()
    yard.repo.write("new", "x")
    first = outcomes.complete(worker, TASK)
    again = outcomes.complete(worker, TASK)
    assert (first["already"], again["already"], again["commit"]) == (False, True, first["commit"])
    assert yard.task().attempts == 1
    with pytest.raises(NotOwner, match="is completed"):
        outcomes.complete(yard.worker(token=lease.new_token()), TASK)
    with pytest.raises(NotOwner, match="is completed"):
        outcomes.fail(worker, TASK, "TEST_FAIL", "after all")


def test_a_failing_validation_changes_nothing(yard: Yard) -> None:
    yard.edit(validation={"command": "echo no; exit 3"})
    worker = yard.claim()
    yard.repo.write("new", "x")
    before = yard.seen()
    with pytest.raises(VerificationFailed, match=r"says no: FAIL \(exit 3\)") as raised:
        outcomes.complete(worker, TASK)
    assert raised.value.data["tail"] == ["no"]
    assert (yard.seen(), yard.task().status, yard.task().attempts) == (before, "in_progress", 0)
    yard.edit(validation={"command": "sleep 100", "timeout_seconds": 0.2})
    with pytest.raises(TimedOut):
        outcomes.complete(worker, TASK)
    assert yard.task().status == "in_progress"


def test_a_recorded_pass_is_enough(yard: Yard, tmp_path: Path) -> None:
    yard.edit(validation={"command": f"echo x >> {tmp_path}/runs"})
    worker = yard.claim()
    yard.repo.write("new", "x")
    assert outcomes.validate(worker, TASK)["result"] == "PASS"
    assert outcomes.complete(worker, TASK)["validation"] is None
    assert (tmp_path / "runs").read_text() == "x\n"


def test_no_commit_on_request(yard: Yard) -> None:
    worker = yard.claim()
    head = yard.repo.head
    yard.repo.write("new", "x")
    assert outcomes.complete(worker, TASK, commit=False)["commit"] == head == yard.repo.head


def test_missing_command_halts(yard: Yard) -> None:
    yard.edit(validation={"command": None})
    worker = yard.claim()
    with pytest.raises(ConfigurationError):
        outcomes.complete(worker, TASK)
    assert yard.log()[-1] == "[SESSION-1] ERROR [task-001] [CONFIG] Missing validation.command"
    assert (yard.state.halt or {})["category"] == "CONFIG"
    assert (yard.task().status, yard.task().attempts) == ("in_progress", 0)


def test_a_missing_program_halts_the_second_time(yard: Yard) -> None:
    yard.edit(validation={"command": "no-such-program"})
    worker = yard.claim()
    for halted in (False, True):
        with pytest.raises(ToolMissing):
            outcomes.validate(worker, TASK)
        assert (yard.state.halt is not None) is halted
    assert "ERROR [task-001] [ENV_SETUP] the validation needs no-such-program" in yard.log()[-1]


def test_no_hook_of_git_runs(yard: Yard) -> None:
    yard.repo.write(".git/hooks/pre-commit", "#!/bin/sh\nexit 1\n", executable=True)
    worker = yard.claim()
    yard.repo.write("new", "x")
    assert outcomes.complete(worker, TASK)["commit"] == yard.repo.head
    assert yard.repo.git("show", "--name-only", "--format=", "HEAD") == "new"


def test_a_merge_under_way_is_no_commit(yard: Yard) -> None:
    worker = yard.claim()
    (yard.path / ".git" / "MERGE_HEAD").write_text(yard.repo.head)
    with pytest.raises(UnsafeTree, match="in the middle of a merge"):
        outcomes.complete(worker, TASK)
    assert yard.task().status == "in_progress"


def test_a_worker_that_lost_its_claim_can_do_nothing(yard: Yard) -> None:
    worker = yard.claim()
    yard.repo.write("new", "x")
    yard.edit(claim_token=lease.new_token(), claimed_by="other")
    before = yard.seen()
    for verb in (
        lambda: outcomes.complete(worker, TASK),
        lambda: outcomes.validate(worker, TASK),
        lambda: outcomes.fail(worker, TASK, "TEST_FAIL", "x"),
        lambda: outcomes.release(worker, TASK, "x"),
        lambda: outcomes.roll_back(worker, TASK),
    ):
        with pytest.raises(LeaseLost):
            verb()
    assert yard.seen() == before


def test_a_claim_lost_during_the_validation_commits_nothing(yard: Yard, tmp_path: Path) -> None:
    steal = f"""
path = {yard.layout.tasks!r}
text = open(path).read()
at = text.index('"claim_token": "') + 16
open(path, "w").write(text[:at] + "0" * 32 + text[at + 32 :])
"""
    (tmp_path / "steal.py").write_text(steal)
    yard.edit(validation={"command": f"{sys.executable} {tmp_path}/steal.py"})
    worker = yard.claim()
    yard.repo.write("new", "x")
    head = yard.repo.head
    with pytest.raises(LeaseLost):
        outcomes.complete(worker, TASK)
    assert yard.repo.head == head


def test_odd_ids_titles_and_file_names(tmp_path: Path) -> None:
    odd = "../täsk 1.lock\n~^:"
    yard = Yard(tmp_path).add(odd, title="nul \0 and\nnewline")
    name = os.fsdecode(b"odd \xff\n*name")
    yard.repo.write(name, "mine\n").write("odd zzname", "x").stage("odd zzname").commit("Second", stage=False)
    before = yard.seen()
    worker = yard.claim(odd)
    yard.repo.write("odd zzname", "changed").write(f"d/{name}", "new")
    outcomes.fail(worker, odd, "TEST_FAIL", os.fsdecode(b"no \xff"))
    assert yard.seen() == before
    worker = yard.claim(odd)
    yard.repo.write("odd zzname", "changed").write(f"d/{name}", "new")
    outcomes.complete(worker, odd, message=os.fsdecode(b"why \xff"))
    assert yard.repo.git("show", "-z", "--name-only", "--format=", "HEAD").split("\0")[:-1] == [
        f"d/{name}",
        "odd zzname",
    ]
    assert yard.status() == [line for line in before[1] if line.startswith("??")]


def test_line_endings_are_committed_as_git_would(yard: Yard) -> None:
    repo = yard.repo.write(".gitattributes", "*.txt text\n").write("a.txt", "one\n").write("b.txt", "one\n")
    repo.stage(".gitattributes", "a.txt", "b.txt").commit("Text", stage=False)
    repo.write("a.txt", "one\r\n").write("b.txt", "one\r\n").write("c.txt", "mine\r\n")
    worker = yard.claim()
    repo.write("b.txt", "one\r\ntwo\r\n")
    outcomes.complete(worker, TASK)
    assert repo.git("show", "--name-only", "--format=", "HEAD") == "b.txt"
    assert repo.git_bytes("show", "HEAD:b.txt") == b"one\ntwo\n"
    assert (repo.read("b.txt"), repo.read("a.txt")) == (b"one\r\ntwo\r\n", b"one\r\n")
    assert yard.status() == [" M a.txt", "?? c.txt"]  # git itself says so of a.txt, as its size is another one


def test_a_folder_in_the_place_of_a_persons_file(yard: Yard) -> None:
    yard.repo.write("spot", "mine\n").stage("spot")
    before = yard.seen()
    worker = yard.claim()
    yard.repo.remove("spot").write("spot/new", "x")
    outcomes.roll_back(worker, TASK)
    assert yard.seen() == before
    yard.repo.remove("spot").write("spot/new", "x")
    outcomes.complete(worker, TASK)
    assert yard.repo.git("show", "--name-only", "--format=", "HEAD") == "spot/new"
    assert yard.status() == []


def test_a_persons_link_in_the_place_of_a_folder(yard: Yard, tmp_path: Path) -> None:
    yard.repo.remove("lib/b.py")
    (yard.path / "lib").rmdir()
    (tmp_path / "b.py").write_text("elsewhere")
    yard.repo.link("lib", str(tmp_path))
    before = yard.status()
    worker = yard.claim()
    yard.repo.write("new", "x")
    outcomes.complete(worker, TASK)
    assert yard.repo.git("show", "--name-only", "--format=", "HEAD") == "new"
    assert yard.status() == before


# ---- fail ----------------------------------------------------------------------------------------------------------


def test_a_failure_goes_back_cleans_up_and_counts(yard: Yard, tmp_path: Path) -> None:
    leave_own_work(yard)
    before = yard.seen()
    yard.edit(on_failure={"cleanup": f"cat app.py > {tmp_path}/cleaned; echo swept"})
    worker = yard.claim()
    base = yard.repo.head
    yard.repo.write("app.py", "broken\n").write("new", "x")
    done = outcomes.fail(worker, TASK, "TEST_FAIL", "two tests\nstay red")
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
        done = outcomes.fail(worker, TASK, "TASK_EXEC", "no")
        assert (done["attempts"], done["retryable"]) == (attempt, attempt < 3)
        assert done["rescue"] == f"refs/harness/rescue/task-001/{attempt}"
    assert yard.repo.git("show", "refs/harness/rescue/task-001/2:new") == "2"


def test_fail_again_says_so(yard: Yard) -> None:
    worker = yard.claim()
    outcomes.fail(worker, TASK, "TASK_EXEC", "no")
    again = outcomes.fail(worker, TASK, "TASK_EXEC", "no")
    assert (again["already"], again["attempts"], yard.task().attempts) == (True, 1, 1)


def test_a_refused_rollback_fails_the_task_and_halts(yard: Yard, tmp_path: Path) -> None:
    worker = yard.claim()
    yard.repo.write("new", "x").stage("new").commit("Pushed", stage=False).remote(tmp_path / "server.git")
    before = yard.seen()
    with pytest.raises(UnsafeTree, match="were pushed") as raised:
        outcomes.fail(worker, TASK, "TEST_FAIL", "no")
    assert raised.value.exit_code == 4
    assert raised.value.data["attempts"] == 1
    assert (yard.seen(), yard.task().status, yard.task().attempts) == (before, "failed", 1)
    assert "were pushed" in (yard.state.halt or {})["message"]
    assert "WARN [task-001] not rolled back: nothing was rolled back" in yard.log()[-1]


def test_a_missing_baseline_gives_the_task_up(yard: Yard) -> None:
    worker = yard.claim()
    os.unlink(yard.layout.claim(TASK))
    yard.repo.git("update-ref", "-d", str(yard.task().base_ref))
    done = outcomes.fail(worker, TASK, "TASK_EXEC", "no")
    assert (done["attempts"], done["retryable"], done["rolled_back"]) == (3, False, False)
    assert yard.state.halt is None


def test_no_rollback_on_request(yard: Yard) -> None:
    worker = yard.claim()
    yard.repo.write("new", "x")
    assert not outcomes.fail(worker, TASK, "TASK_EXEC", "no", rollback=False)["rolled_back"]
    assert yard.repo.read("new") == b"x"


def test_settings_and_environments_halt(yard: Yard) -> None:
    assert outcomes.fail(yard.claim(), TASK, "CONFIG", "no such section")["halted"]
    yard.add("task-002")
    assert not outcomes.fail(yard.claim("task-002"), "task-002", "ENV_SETUP", "no database")["halted"]
    assert outcomes.fail(yard.claim("task-002"), "task-002", "ENV_SETUP", "no database")["halted"]


def test_a_cleanup_that_fails_is_told_and_no_more(yard: Yard) -> None:
    yard.edit(on_failure={"cleanup": "echo oh no; exit 7"})
    done = outcomes.fail(yard.claim(), TASK, "TASK_EXEC", "no")
    assert (done["cleanup"]["ok"], done["cleanup"]["exit"]) == (False, 7)
    assert yard.log()[-1] == '[SESSION-1] WARN [task-001] cleanup exit=7 "oh no"'
    assert yard.task().status == "failed"


def test_an_unknown_category(yard: Yard) -> None:
    with pytest.raises(UsageError, match="LAZINESS is no category"):
        outcomes.fail(yard.claim(), TASK, "LAZINESS", "no")


def test_the_policy_of_the_list_decides(yard: Yard) -> None:
    from agent_harness.kernel import files

    raw = files.read_json(yard.layout.tasks)
    raw["session_config"]["rollback"] = "none"
    files.write_json(yard.layout.tasks, raw)
    worker = yard.claim()
    yard.repo.write("new", "x")
    assert not outcomes.fail(worker, TASK, "TASK_EXEC", "no")["rolled_back"]
    assert yard.repo.read("new") == b"x"


def test_outside_of_git_all_ends_work(tmp_path: Path) -> None:
    plain = Yard(tmp_path, git=False).add()
    assert outcomes.release(plain.claim(), TASK, "later")["status"] == "pending"
    assert not outcomes.fail(plain.claim(), TASK, "TASK_EXEC", "no")["rolled_back"]
    done = outcomes.complete(plain.claim(), TASK)
    assert (done["status"], done["commit"], done["attempts"]) == ("completed", None, 2)
    assert plain.log()[-1] == "[SESSION-1] Completed [task-001] (commit none)"


# ---- release and rollback --------------------------------------------------------------------------------------------


def test_a_release_goes_back_and_counts_nothing(yard: Yard) -> None:
    leave_own_work(yard)
    before = yard.seen()
    worker = yard.claim()
    yard.repo.write("app.py", "broken\n").write("new", "x")
    done = outcomes.release(worker, TASK, "out of time")
    assert yard.seen() == before
    assert (done["status"], done["attempts"], done["rescue"]) == ("pending", 0, "refs/harness/rescue/task-001/1")
    assert outcomes.release(worker, TASK, "out of time")["already"]
    assert yard.log()[-2] == "[SESSION-1] WARN [task-001] released: out of time"


def test_a_refused_release_changes_nothing(yard: Yard) -> None:
    worker = yard.claim()
    yard.repo.branch("elsewhere").write("new", "x")
    before = yard.seen()
    with pytest.raises(UnsafeTree, match="is checked out"):
        outcomes.release(worker, TASK, "x")
    assert (yard.seen(), yard.task().status, yard.state.halt) == (before, "in_progress", None)


def test_a_rollback_keeps_the_claim(yard: Yard) -> None:
    worker = yard.claim()
    yard.repo.write("new", "x")
    assert outcomes.roll_back(worker, TASK, dry_run=True)["files"] == ["new"]
    assert yard.repo.read("new") == b"x"
    done = outcomes.roll_back(worker, TASK)
    assert (done["rolled_back"], yard.task().status, yard.task().rescues) == (True, "in_progress", [done["rescue"]])
    yard.repo.write("new", "better")
    assert outcomes.complete(worker, TASK)["status"] == "completed"


# ---- killed ----------------------------------------------------------------------------------------------------------

RUN = """
import sys
from agent_harness.protocols.tasklist import outcomes
from agent_harness.protocols.tasklist.layout import Layout
from agent_harness.protocols.tasklist.worker import Worker
root, tree, token, verb, *rest = sys.argv[1:]
worker = Worker.open(Layout(root), worker_id="me", token=token, cwd=tree, environ={}, lock_timeout_seconds=60.0)
getattr(outcomes, verb)(worker, *rest)
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
    leave_own_work(yard)
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
        outcomes.complete(worker, TASK)
    made = yard.repo.head
    done = outcomes.complete(worker, TASK)
    assert (done["commit"], done["attempts"], yard.repo.git("log", "--format=%s", "-1")) == (
        made,
        1,
        "[task-001] Title of task-001",
    )


@pytest.mark.parametrize("verb", ["fail", "release"])
def test_killed_between_the_way_back_and_the_state(yard: Yard, verb: str) -> None:
    leave_own_work(yard)
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
    leave_own_work(yard)
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
