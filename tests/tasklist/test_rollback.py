"""Claim, work, and the way back: whatever was there before the claim survives, whatever the attempt did is rescued."""

import os
from pathlib import Path

import pytest

from agent_harness.errors import UnsafeTree
from agent_harness.protocols.tasklist.attempts import commits, rollback
from agent_harness.testing.task_list_project import TASK, TaskListProject


@pytest.fixture
def project(tmp_path: Path) -> TaskListProject:
    return TaskListProject.with_sources(tmp_path).add()


def leave_own_work(project: TaskListProject) -> None:
    """A person's dirty, staged, deleted, untracked and ignored files."""
    repo = project.repo
    repo.write("mine.py", "mine\n").write("lib/c.py", "c\n").write("gone.py", "gone\n")
    repo.stage("mine.py", "lib/c.py", "gone.py").commit("Second", stage=False)
    repo.write("app.py", "one\nmy edit\n").write("staged.py", "staged\n").stage("staged.py")
    repo.write("lib/c.py", "staged\n").stage("lib/c.py").write("lib/c.py", "staged\nand more\n")
    repo.write("notes.txt", "untracked\n").write("x.o", "ignored\n").write("build/out", "ignored\n").remove("gone.py")


def work(project: TaskListProject) -> None:
    """Make the changes of an attempt: edits, a commit, staged and untracked files, and damage to the person's."""
    repo = project.repo
    repo.write("mine.py", "by the agent\n").stage("mine.py").git("commit", "-q", "-m", "agent: wip", "--", "mine.py")
    repo.write("new/file.py", "new\n").write("new/staged.py", "s\n").stage("new/staged.py")
    repo.write("app.py", "all overwritten\n").remove("notes.txt").write("gone.py", "back again\n")


def test_a_baseline_changes_nothing_that_a_person_sees(project: TaskListProject) -> None:
    leave_own_work(project)
    before = project.seen()
    caller = project.hold()
    assert project.seen() == before
    record = caller.claim_record(TASK)
    assert (record.task_id, record.attempt, record.tree) == (TASK, 1, str(project.path))
    assert record.ref == project.task().base_ref == "refs/harness/base/task-001/1"
    assert (record.head, record.branch) == (project.repo.head, "refs/heads/main")


def test_going_back_restores_everything_and_rescues_the_attempt(project: TaskListProject) -> None:
    leave_own_work(project)
    before = project.seen()
    caller = project.hold()
    log = project.layout.progress
    Path(log).write_text("a line written during the attempt\n")
    work(project)
    done = rollback.roll_back(caller, project.task())
    assert project.seen() == before
    assert (done.rolled_back, done.rescue) == (True, "refs/harness/rescue/task-001/1")
    assert [each["subject"] for each in done.commits] == ["agent: wip"]
    assert project.repo.git("show", f"{done.rescue}:new/file.py") == "new"
    assert project.repo.git("show", f"{done.rescue}:app.py") == "all overwritten"
    assert Path(log).read_text() == "a line written during the attempt\n"
    assert "harness-tasks.json" not in project.repo.git("ls-tree", "-r", "--name-only", str(done.rescue)).split()


def test_going_back_twice_makes_no_second_rescue(project: TaskListProject) -> None:
    caller = project.hold()
    project.repo.write("new", "x")
    assert rollback.roll_back(caller, project.task()).rescue
    assert rollback.roll_back(caller, project.task()).rescue is None
    project.repo.write("new", "y")
    assert rollback.roll_back(caller, project.task()).rescue == "refs/harness/rescue/task-001/2"


def test_the_way_back_needs_no_record(project: TaskListProject) -> None:
    leave_own_work(project)
    before = project.seen()
    caller = project.hold()
    work(project)
    os.unlink(project.layout.claim(TASK))
    assert rollback.evidence(caller, project.task()).commits[0]["subject"] == "agent: wip"
    assert rollback.roll_back(caller, project.task()).rolled_back
    assert project.seen() == before


@pytest.mark.parametrize("record", ["[]", "{", '{"task":"task-001","attempt":1,"snapshot":7}'])
def test_a_forged_record_is_not_believed(project: TaskListProject, record: str) -> None:
    caller = project.hold()
    project.repo.write("new", "x")
    Path(project.layout.claim(TASK)).write_text(record)
    assert rollback.roll_back(caller, project.task()).rolled_back
    assert not (project.path / "new").exists()


def test_a_missing_baseline_is_said(project: TaskListProject) -> None:
    caller = project.hold()
    os.unlink(project.layout.claim(TASK))
    project.repo.git("update-ref", "-d", str(project.task().base_ref))
    with pytest.raises(rollback.BaseMissing, match="no longer exists"):
        rollback.roll_back(caller, project.task())


def test_a_left_ref_gets_no_second_snapshot(project: TaskListProject) -> None:
    caller = project.caller()
    assert rollback.take_baseline(caller, TASK, 1).ref == "refs/harness/base/task-001/1"  # type: ignore[union-attr]
    assert rollback.take_baseline(caller, TASK, 1).ref == "refs/harness/base/task-001/1-2"  # type: ignore[union-attr]


def test_a_dirty_tree_is_refused_on_request(project: TaskListProject) -> None:
    assert rollback.take_baseline(project.caller(), TASK, 1, dirty="refuse")
    project.repo.write("app.py", "dirty")
    with pytest.raises(UnsafeTree, match="1 files are not committed, such as app"):
        rollback.take_baseline(project.caller(), TASK, 2, dirty="refuse")


# ---- conditions ----------------------------------------------------------------------------------------------------


def refused(project: TaskListProject, match: str) -> None:
    before = project.seen()
    with pytest.raises(UnsafeTree, match=match):
        rollback.roll_back(project.caller(), project.task())
    assert project.seen() == before
    assert not rollback.plan(project.caller(), project.task())["possible"]


def test_another_branch_is_refused(project: TaskListProject) -> None:
    project.hold()
    project.repo.branch("other").commit("On it", stage=False)
    refused(project, "refs/heads/other is checked out, but the task was claimed on refs/heads/main")


def test_a_rewritten_history_is_refused(project: TaskListProject) -> None:
    project.repo.write("new", "x").stage("new").commit("Second", stage=False)
    project.hold()
    project.repo.git("reset", "-q", "--hard", "HEAD~1")
    refused(project, "the history was rewritten")


def test_a_merge_under_way_is_refused(project: TaskListProject) -> None:
    project.hold()
    (project.path / ".git" / "MERGE_HEAD").write_text(project.repo.head)
    refused(project, "in the middle of a merge")


def test_pushed_commits_are_refused_unless_allowed(project: TaskListProject, tmp_path: Path) -> None:
    caller = project.hold()
    base = project.repo.head
    project.repo.write("new", "x").stage("new").commit("Pushed", stage=False).remote(tmp_path / "server.git")
    refused(project, "1 commits of the attempt were pushed")
    assert rollback.roll_back(caller, project.task(), allow_pushed=True).rolled_back
    assert project.repo.head == base


def test_a_living_neighbour_is_respected(project: TaskListProject) -> None:
    project.add("task-002")
    project.hold()
    project.hold("task-002", name="other")
    refused(project, "Another process is working on task-002 in this worktree")
    project.edit("task-002", lease_expires_at="2020-01-01T00:00:00Z")
    assert rollback.roll_back(project.caller(), project.task()).rolled_back


def test_another_work_tree_is_refused(project: TaskListProject, tmp_path: Path) -> None:
    project.hold()
    project.repo.git("worktree", "add", "-q", str(tmp_path / "second"), "-b", "second")
    for do in (rollback.roll_back, rollback.evidence):
        with pytest.raises(UnsafeTree, match="claimed in another work tree"):
            do(project.caller(cwd=tmp_path / "second"), project.task())
    with pytest.raises(UnsafeTree, match="claimed in another work tree"):
        commits.commit_work(project.caller(cwd=tmp_path / "second"), project.task(), "m")


# ---- places --------------------------------------------------------------------------------------------------------


def test_a_task_list_outside_of_the_work_tree(tmp_path: Path) -> None:
    project = TaskListProject.with_sources(tmp_path, root=tmp_path / "lists").add()
    leave_own_work(project)
    before = project.seen()
    caller = project.hold()
    work(project)
    project.repo.write("harness-init.sh", "belongs to the project here")
    done = rollback.roll_back(caller, project.task())
    assert project.seen() == before
    assert project.repo.git("show", f"{done.rescue}:harness-init.sh")


def test_a_task_list_below_the_top(tmp_path: Path) -> None:
    project = TaskListProject.with_sources(tmp_path, root=tmp_path / "project" / "lib").add()
    before = project.seen()
    caller = project.hold(cwd=project.root)
    state = Path(project.layout.tasks).read_bytes()
    project.repo.write("new", "x").write("lib/b.py", "changed").write("lib/new", "y")
    done = rollback.roll_back(caller, project.task())
    assert project.seen() == before
    assert Path(project.layout.tasks).read_bytes() == state
    assert sorted(project.repo.git("ls-tree", "-r", "--name-only", str(done.rescue)).split()) == [
        ".gitignore",
        "app.py",
        "lib/b.py",
        "lib/new",
        "new",
    ]


def test_a_linked_work_tree(project: TaskListProject, tmp_path: Path) -> None:
    project.repo.stage("harness-tasks.json").commit("With the state", stage=False)
    second = tmp_path / "second"
    project.repo.git("worktree", "add", "-q", str(second), "-b", "second")
    caller = project.hold(cwd=second)
    (second / "new").write_text("x")
    (second / "harness-tasks.json").write_text("a stale copy, not to be touched")
    head = project.repo.git("rev-parse", "second")
    done = rollback.roll_back(caller, project.task())
    assert done.rescue and not (second / "new").exists()
    assert (second / "harness-tasks.json").read_text() == "a stale copy, not to be touched"
    (second / "new").write_text("again")
    made = commits.commit_work(caller, project.task(), "[task-001] Title")
    assert project.repo.git("rev-parse", "second", f"{made}~1").split() == [made, head]
    assert project.repo.git("show", "--name-only", "--format=", str(made)) == "new"


def test_no_way_back_outside_of_git_and_before_the_first_commit(tmp_path: Path) -> None:
    plain = TaskListProject.with_sources(tmp_path / "plain", git=False).add()
    caller = plain.hold()
    assert plain.task().base_ref is None
    assert not rollback.roll_back(caller, plain.task()).rolled_back
    assert commits.commit_work(caller, plain.task(), "m") is None
    assert not rollback.evidence(caller, plain.task()).known


def test_a_branch_without_a_commit(tmp_path: Path) -> None:
    project = TaskListProject.with_sources(tmp_path, git=False).add()
    from agent_harness.testing.repo import Repo

    project.repo = Repo(project.path).write("mine", "x")
    caller = project.hold()
    assert project.task().base_ref is None
    assert commits.commit_work(caller, project.task(), "m") is None
    assert "no baseline" in str(rollback.roll_back(caller, project.task()).reason)
    project.repo.git("commit", "-q", "--allow-empty", "-m", "The agent's first")
    assert commits.commit_work(caller, project.task(), "m") == project.repo.head
    assert project.repo.read("mine") == b"x"


def test_a_detached_head(project: TaskListProject) -> None:
    project.repo.write("x", "x").stage("x").commit("Second", stage=False).git("checkout", "-q", "--detach", "HEAD~1")
    before = project.seen()
    caller = project.hold()
    project.repo.write("new", "x").stage("new").commit("On no branch", stage=False)
    assert rollback.roll_back(caller, project.task()).rolled_back
    assert project.seen() == before
    project.repo.write("new", "x")
    made = commits.commit_work(caller, project.task(), "m")
    assert project.repo.head == made
    assert project.repo.git("rev-parse", "--abbrev-ref", "HEAD") == "HEAD"


# ---- policies ------------------------------------------------------------------------------------------------------


def test_the_policy_none_leaves_everything(project: TaskListProject) -> None:
    caller = project.hold()
    project.repo.write("new", "x")
    before = project.seen()
    assert not rollback.roll_back(caller, project.task(), policy="none").rolled_back
    assert project.seen() == before


def test_the_policy_hard_clears_own_work_too_and_rescues_it(project: TaskListProject) -> None:
    leave_own_work(project)
    caller = project.hold()
    work(project)
    done = rollback.roll_back(caller, project.task(), policy="hard")
    ours, status, *_ = project.seen()
    assert status == []
    assert ours["app.py"] == b"one\n"
    assert ours["x.o"] == b"ignored\n"
    assert (project.root / "harness-tasks.json").exists()
    assert project.repo.git("show", f"{done.rescue_of_own}:notes.txt") == "untracked"
    assert project.repo.git("show", f"{done.rescue_of_own}:app.py") == "one\nmy edit"
    assert project.repo.git("show", f"{done.rescue}:app.py") == "all overwritten"


# ---- what happened -------------------------------------------------------------------------------------------------


def test_a_persons_earlier_edits_are_no_evidence(project: TaskListProject) -> None:
    leave_own_work(project)
    caller = project.hold()
    found = rollback.evidence(caller, project.task())
    assert (found.known, found.uncommitted, found.commits, found.foreign) == (True, (), (), ())


def test_evidence_names_files_commits_and_strangers(project: TaskListProject) -> None:
    leave_own_work(project)
    caller = project.hold()
    work(project)
    project.repo.git("-c", "user.name=X", "commit", "-q", "--allow-empty", "-m", "[task-001] y", "--author=X <x@y>")
    found = rollback.evidence(caller, project.task())
    assert found.uncommitted == ("app.py", "gone.py", "new/file.py", "notes.txt")
    assert [each["subject"] for each in found.commits] == ["[task-001] y", "agent: wip"]
    assert [each["author"] for each in found.foreign] == ["X <x@y>"]


def test_stashes_are_shown_and_never_applied(project: TaskListProject) -> None:
    """Stashes of an attempt are for the agent to see (tasklist.md 12)."""
    caller = project.hold()
    project.repo.write("app.py", "half done\n").git("stash", "push", "-q", "-m", "of the attempt", "--", "app.py")
    found = rollback.evidence(caller, project.task())
    assert (found.stashes, found.uncommitted) == (("stash@{0}: On main: of the attempt",), ())


def test_a_plan_says_what_would_be_taken_back(project: TaskListProject) -> None:
    caller = project.hold()
    project.repo.write("new", "x")
    before = project.seen()
    plan = rollback.plan(caller, project.task())
    assert (plan["possible"], plan["files"], plan["commits"]) == (True, ["new"], [])
    assert project.seen() == before
