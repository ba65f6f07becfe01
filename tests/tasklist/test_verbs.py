"""Completing a task: what proves it, what is committed, what stays the person's."""

import os
import sys
from pathlib import Path

import pytest

from agent_harness.errors import (
    ConfigurationError,
    LeaseLost,
    NotOwner,
    TimedOut,
    ToolMissing,
    UnsafeTree,
    VerificationFailed,
)
from agent_harness.kernel import lease
from agent_harness.protocols.tasklist.attempts import verbs
from agent_harness.testing.task_list_project import TASK, TaskListProject


@pytest.fixture
def project(tmp_path: Path) -> TaskListProject:
    return TaskListProject.with_sources(tmp_path).add()


def test_a_commit_holds_the_attempts_work_and_nothing_else(project: TaskListProject) -> None:
    project.leave_own_work()
    before = project.status()
    staged = project.repo.git("diff", "--cached")
    caller = project.hold()
    project.repo.write("new/file.py", "new\n").write("app.py", "done\n").write("x.o", "still ignored\n")
    done = verbs.complete(caller, TASK)
    assert (done["status"], done["commit"], done["attempts"], done["remaining"]) == (
        "completed",
        project.repo.head,
        1,
        0,
    )
    assert project.repo.git("show", "--name-only", "--format=%s|%an", "HEAD").split("\n\n") == [
        "[task-001] Title of task-001|Test Person",
        "app.py\nnew/file.py",
    ]
    assert project.status() == before
    assert project.repo.git("diff", "--cached") == staged
    assert project.log()[-1] == f"[SESSION-1] Completed [task-001] (commit {project.repo.head[:7]})"
    assert "claim_token" not in project.task().raw


def test_a_file_of_a_persons_that_the_attempt_changed_goes_in(project: TaskListProject) -> None:
    project.leave_own_work()
    caller = project.hold()
    project.repo.append("lib/b.py", "and the agent's\n").write("gone.py", "here again\n").append("notes.txt", "x\n")
    verbs.complete(caller, TASK)
    names = project.repo.git("show", "--name-only", "--format=", "HEAD").split()
    assert names == ["gone.py", "lib/b.py", "notes.txt"]
    assert project.repo.read("lib/b.py") == b"my edit\nand the agent's\n"


def test_what_the_agent_staged_of_a_persons_is_not_committed(project: TaskListProject) -> None:
    project.leave_own_work()
    before = project.status()
    caller = project.hold()
    project.repo.write("new", "x").git("add", "--all", "--", ".", ":!harness*", ":!.harness*")
    verbs.complete(caller, TASK)
    assert project.repo.git("show", "--name-only", "--format=", "HEAD") == "new"
    assert [line for line in project.status() if "intended" not in line] == [
        line for line in before if "intended" not in line
    ]


def test_commits_of_the_agent_are_kept(project: TaskListProject) -> None:
    project.leave_own_work()
    caller = project.hold()
    project.repo.write("new", "x").stage("new").git("commit", "-q", "-m", "agent", "--", "new")
    head = project.repo.head
    assert verbs.complete(caller, TASK)["commit"] == head == project.repo.head


def test_harness_files_that_the_agent_committed_go_out_with_the_commit_of_the_task(project: TaskListProject) -> None:
    caller = project.hold()
    project.repo.write("new", "x").git("add", "--all")
    project.repo.git("commit", "-q", "-m", "everything")
    project.repo.write("newer", "x")
    verbs.complete(caller, TASK)
    assert "newer" in project.repo.git("show", "--name-only", "--format=", "HEAD").split()
    assert not [name for name in project.repo.git("ls-files").split() if "harness" in name]
    assert project.task().status == "completed"


def test_a_removal_and_a_rename_are_committed(project: TaskListProject) -> None:
    caller = project.hold()
    project.repo.remove("app.py").move("lib/b.py", "lib/c.py")
    verbs.complete(caller, TASK)
    assert project.repo.git("show", "--name-status", "--no-renames", "--format=", "HEAD").split() == [
        *("D", "app.py", "D", "lib/b.py", "A", "lib/c.py")
    ]
    assert project.status() == []


def test_complete_again_says_so(project: TaskListProject) -> None:
    caller = project.hold()
    project.repo.write("new", "x")
    first = verbs.complete(caller, TASK)
    again = verbs.complete(caller, TASK)
    assert (first["already"], again["already"], again["commit"]) == (False, True, first["commit"])
    assert project.task().attempts == 1
    with pytest.raises(NotOwner, match="is completed"):
        verbs.complete(project.caller(token=lease.new_token()), TASK)
    with pytest.raises(NotOwner, match="is completed"):
        verbs.fail(caller, TASK, "TEST_FAIL", "after all")


def test_a_failing_validation_changes_nothing(project: TaskListProject) -> None:
    project.edit(TASK, validation={"command": "echo no; exit 3"})
    caller = project.hold()
    project.repo.write("new", "x")
    before = project.seen()
    with pytest.raises(VerificationFailed, match=r"the check of .* failed: exit code 3") as raised:
        verbs.complete(caller, TASK)
    assert raised.value.data["tail"] == ["no"]
    assert (project.seen(), project.task().status, project.task().attempts) == (before, "in_progress", 0)
    project.edit(TASK, validation={"command": "sleep 100", "timeout_seconds": 0.2})
    with pytest.raises(TimedOut):
        verbs.complete(caller, TASK)
    assert project.task().status == "in_progress"


def test_a_recorded_pass_is_enough(project: TaskListProject, tmp_path: Path) -> None:
    project.edit(TASK, validation={"command": f"test -e new && echo x >> {tmp_path}/runs"})
    caller = project.hold()
    project.repo.write("new", "x")
    assert verbs.validate(caller, TASK)["result"] == "PASS"
    assert verbs.complete(caller, TASK)["validation"] is None
    assert (tmp_path / "runs").read_text() == "x\n"


def test_a_message_takes_the_place_of_the_title(project: TaskListProject) -> None:
    """The id stays in front of it (tasklist.md 11.4)."""
    caller = project.hold()
    project.repo.write("new", "x")
    verbs.complete(caller, TASK, message="Another subject")
    assert project.repo.git("log", "-1", "--format=%s") == "[task-001] Another subject"


def test_no_commit_on_request(project: TaskListProject) -> None:
    caller = project.hold()
    head = project.repo.head
    project.repo.write("new", "x")
    assert verbs.complete(caller, TASK, commit=False)["commit"] == head == project.repo.head


def test_missing_command_halts(project: TaskListProject) -> None:
    project.edit(TASK, validation={"command": None})
    caller = project.hold()
    with pytest.raises(ConfigurationError):
        verbs.complete(caller, TASK)
    assert project.log()[-1] == "[SESSION-1] ERROR [task-001] [CONFIG] Missing validation.command"
    assert (project.state.halt or {})["category"] == "CONFIG"
    assert (project.task().status, project.task().attempts) == ("in_progress", 0)


def test_a_missing_program_halts_the_second_time(project: TaskListProject) -> None:
    project.edit(TASK, validation={"command": "no-such-program"})
    caller = project.hold()
    for halted in (False, True):
        with pytest.raises(ToolMissing):
            verbs.validate(caller, TASK)
        assert (project.state.halt is not None) is halted
    assert "ERROR [task-001] [ENV_SETUP] the validation needs no-such-program" in project.log()[-1]


def test_no_hook_of_git_runs(project: TaskListProject) -> None:
    project.repo.write(".git/hooks/pre-commit", "#!/bin/sh\nexit 1\n", executable=True)
    caller = project.hold()
    project.repo.write("new", "x")
    assert verbs.complete(caller, TASK)["commit"] == project.repo.head
    assert project.repo.git("show", "--name-only", "--format=", "HEAD") == "new"


def test_a_merge_under_way_is_no_commit(project: TaskListProject) -> None:
    caller = project.hold()
    (project.path / ".git" / "MERGE_HEAD").write_text(project.repo.head)
    with pytest.raises(UnsafeTree, match="in the middle of a merge"):
        verbs.complete(caller, TASK)
    assert project.task().status == "in_progress"


def test_a_worker_that_lost_its_claim_can_do_nothing(project: TaskListProject) -> None:
    caller = project.hold()
    project.repo.write("new", "x")
    project.edit(TASK, claim_token=lease.new_token(), claimed_by="other")
    before = project.seen()
    for verb in (
        lambda: verbs.complete(caller, TASK),
        lambda: verbs.validate(caller, TASK),
        lambda: verbs.fail(caller, TASK, "TEST_FAIL", "x"),
        lambda: verbs.release(caller, TASK, "x"),
        lambda: verbs.roll_back(caller, TASK),
    ):
        with pytest.raises(LeaseLost):
            verb()
    assert project.seen() == before


def test_a_claim_lost_during_the_validation_commits_nothing(
    project: TaskListProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_SANDBOX", "off")  # what somebody else does is done by the command
    steal = f"""
path = {project.layout.tasks!r}
text = open(path).read()
at = text.index('"claim_token": "') + 16
open(path, "w").write(text[:at] + "0" * 32 + text[at + 32 :])
"""
    (tmp_path / "steal.py").write_text(steal)
    project.edit(TASK, validation={"command": f"{sys.executable} {tmp_path}/steal.py"})
    caller = project.hold()
    project.repo.write("new", "x")
    head = project.repo.head
    with pytest.raises(LeaseLost):
        verbs.complete(caller, TASK)
    assert project.repo.head == head


def test_odd_ids_titles_and_file_names(tmp_path: Path) -> None:
    odd = "../täsk 1.lock\n~^:"
    project = TaskListProject.with_sources(tmp_path).add(odd, title="nul \0 and\nnewline")
    name = os.fsdecode(b"odd \xff\n*name")
    project.repo.write(name, "mine\n").write("odd zzname", "x").stage("odd zzname").commit("Second", stage=False)
    before = project.seen()
    caller = project.hold(odd)
    project.repo.write("odd zzname", "changed").write(f"d/{name}", "new")
    verbs.fail(caller, odd, "TEST_FAIL", os.fsdecode(b"no \xff"))
    assert project.seen() == before
    caller = project.hold(odd)
    project.repo.write("odd zzname", "changed").write(f"d/{name}", "new")
    verbs.complete(caller, odd, message=os.fsdecode(b"why \xff"))
    assert project.repo.git("show", "-z", "--name-only", "--format=", "HEAD").split("\0")[:-1] == [
        f"d/{name}",
        "odd zzname",
    ]
    assert project.status() == [line for line in before[1] if line.startswith("??")]


def test_line_endings_are_committed_as_git_would(project: TaskListProject) -> None:
    repo = project.repo.write(".gitattributes", "*.txt text\n").write("a.txt", "one\n").write("b.txt", "one\n")
    repo.stage(".gitattributes", "a.txt", "b.txt").commit("Text", stage=False)
    repo.write("a.txt", "one\r\n").write("b.txt", "one\r\n").write("c.txt", "mine\r\n")
    caller = project.hold()
    repo.write("b.txt", "one\r\ntwo\r\n")
    verbs.complete(caller, TASK)
    assert repo.git("show", "--name-only", "--format=", "HEAD") == "b.txt"
    assert repo.git_bytes("show", "HEAD:b.txt") == b"one\ntwo\n"
    assert (repo.read("b.txt"), repo.read("a.txt")) == (b"one\r\ntwo\r\n", b"one\r\n")
    assert project.status() == [" M a.txt", "?? c.txt"]  # git itself says so of a.txt, as its size is another one


def test_a_folder_in_the_place_of_a_persons_file(project: TaskListProject) -> None:
    project.repo.write("spot", "mine\n").stage("spot")
    before = project.seen()
    caller = project.hold()
    project.repo.remove("spot").write("spot/new", "x")
    verbs.roll_back(caller, TASK)
    assert project.seen() == before
    project.repo.remove("spot").write("spot/new", "x")
    verbs.complete(caller, TASK)
    assert project.repo.git("show", "--name-only", "--format=", "HEAD") == "spot/new"
    assert project.status() == []


def test_a_persons_link_in_the_place_of_a_folder(project: TaskListProject, tmp_path: Path) -> None:
    project.repo.remove("lib/b.py")
    (project.path / "lib").rmdir()
    (tmp_path / "b.py").write_text("elsewhere")
    project.repo.link("lib", str(tmp_path))
    before = project.status()
    caller = project.hold()
    project.repo.write("new", "x")
    verbs.complete(caller, TASK)
    assert project.repo.git("show", "--name-only", "--format=", "HEAD") == "new"
    assert project.status() == before
