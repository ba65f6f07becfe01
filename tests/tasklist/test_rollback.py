"""Claim, work, and the way back: whatever was there before the claim survives, whatever the attempt did is rescued."""

import os
from pathlib import Path

import pytest

from agent_harness.errors import UnsafeTree
from agent_harness.protocols.tasklist.attempts import rollback

from .yard import TASK, Yard


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path).add()


def leave_own_work(yard: Yard) -> None:
    """A person's dirty, staged, deleted, untracked and ignored files."""
    repo = yard.repo
    repo.write("mine.py", "mine\n").write("lib/c.py", "c\n").write("gone.py", "gone\n")
    repo.stage("mine.py", "lib/c.py", "gone.py").commit("Second", stage=False)
    repo.write("app.py", "one\nmy edit\n").write("staged.py", "staged\n").stage("staged.py")
    repo.write("lib/c.py", "staged\n").stage("lib/c.py").write("lib/c.py", "staged\nand more\n")
    repo.write("notes.txt", "untracked\n").write("x.o", "ignored\n").write("build/out", "ignored\n").remove("gone.py")


def work(yard: Yard) -> None:
    """What an attempt does: edits, a commit, staged and untracked files, and damage to the person's."""
    repo = yard.repo
    repo.write("mine.py", "by the agent\n").stage("mine.py").git("commit", "-q", "-m", "agent: wip", "--", "mine.py")
    repo.write("new/file.py", "new\n").write("new/staged.py", "s\n").stage("new/staged.py")
    repo.write("app.py", "all overwritten\n").remove("notes.txt").write("gone.py", "back again\n")


def test_a_baseline_changes_nothing_that_a_person_sees(yard: Yard) -> None:
    leave_own_work(yard)
    before = yard.seen()
    worker = yard.claim()
    assert yard.seen() == before
    record = worker.claim_record(TASK)
    assert (record["task"], record["attempt"], record["tree"]) == (TASK, 1, str(yard.path))
    assert record["ref"] == yard.task().base_ref == "refs/harness/base/task-001/1"
    assert (record["head"], record["branch"]) == (yard.repo.head, "refs/heads/main")


def test_going_back_restores_everything_and_rescues_the_attempt(yard: Yard) -> None:
    leave_own_work(yard)
    before = yard.seen()
    worker = yard.claim()
    log = yard.layout.progress
    Path(log).write_text("a line written during the attempt\n")
    work(yard)
    done = rollback.roll_back(worker, yard.task())
    assert yard.seen() == before
    assert (done["rolled_back"], done["rescue"]) == (True, "refs/harness/rescue/task-001/1")
    assert [each["subject"] for each in done["commits"]] == ["agent: wip"]
    assert yard.repo.git("show", f"{done['rescue']}:new/file.py") == "new"
    assert yard.repo.git("show", f"{done['rescue']}:app.py") == "all overwritten"
    assert Path(log).read_text() == "a line written during the attempt\n"
    assert "harness-tasks.json" not in yard.repo.git("ls-tree", "-r", "--name-only", done["rescue"]).split()


def test_going_back_twice_makes_no_second_rescue(yard: Yard) -> None:
    worker = yard.claim()
    yard.repo.write("new", "x")
    assert rollback.roll_back(worker, yard.task())["rescue"]
    assert rollback.roll_back(worker, yard.task())["rescue"] is None
    yard.repo.write("new", "y")
    assert rollback.roll_back(worker, yard.task())["rescue"] == "refs/harness/rescue/task-001/2"


def test_the_way_back_needs_no_record(yard: Yard) -> None:
    leave_own_work(yard)
    before = yard.seen()
    worker = yard.claim()
    work(yard)
    os.unlink(yard.layout.claim(TASK))
    assert rollback.evidence(worker, yard.task())["commits"][0]["subject"] == "agent: wip"
    assert rollback.roll_back(worker, yard.task())["rolled_back"]
    assert yard.seen() == before


@pytest.mark.parametrize("record", ["[]", "{", '{"task":"task-001","attempt":1,"snapshot":7}'])
def test_a_forged_record_is_not_believed(yard: Yard, record: str) -> None:
    worker = yard.claim()
    yard.repo.write("new", "x")
    Path(yard.layout.claim(TASK)).write_text(record)
    assert rollback.roll_back(worker, yard.task())["rolled_back"]
    assert not (yard.path / "new").exists()


def test_a_missing_baseline_is_said(yard: Yard) -> None:
    worker = yard.claim()
    os.unlink(yard.layout.claim(TASK))
    yard.repo.git("update-ref", "-d", str(yard.task().base_ref))
    with pytest.raises(rollback.BaseMissing, match="is gone"):
        rollback.roll_back(worker, yard.task())


def test_a_left_ref_gets_no_second_snapshot(yard: Yard) -> None:
    worker = yard.worker()
    assert rollback.take_baseline(worker, TASK, 1)["ref"] == "refs/harness/base/task-001/1"  # type: ignore[index]
    assert rollback.take_baseline(worker, TASK, 1)["ref"] == "refs/harness/base/task-001/1-2"  # type: ignore[index]


def test_a_dirty_tree_is_refused_on_request(yard: Yard) -> None:
    assert rollback.take_baseline(yard.worker(), TASK, 1, dirty="refuse")
    yard.repo.write("app.py", "dirty")
    with pytest.raises(UnsafeTree, match="1 files are not committed, such as app"):
        rollback.take_baseline(yard.worker(), TASK, 2, dirty="refuse")


# ---- conditions ----------------------------------------------------------------------------------------------------


def refused(yard: Yard, match: str) -> None:
    before = yard.seen()
    with pytest.raises(UnsafeTree, match=match):
        rollback.roll_back(yard.worker(), yard.task())
    assert yard.seen() == before
    assert not rollback.plan(yard.worker(), yard.task())["possible"]


def test_another_branch_is_refused(yard: Yard) -> None:
    yard.claim()
    yard.repo.branch("other").commit("On it", stage=False)
    refused(yard, "refs/heads/other is checked out, and the task was claimed on refs/heads/main")


def test_a_rewritten_history_is_refused(yard: Yard) -> None:
    yard.repo.write("new", "x").stage("new").commit("Second", stage=False)
    yard.claim()
    yard.repo.git("reset", "-q", "--hard", "HEAD~1")
    refused(yard, "the history was rewritten")


def test_a_merge_under_way_is_refused(yard: Yard) -> None:
    yard.claim()
    (yard.path / ".git" / "MERGE_HEAD").write_text(yard.repo.head)
    refused(yard, "in the middle of a merge")


def test_pushed_commits_are_refused_unless_allowed(yard: Yard, tmp_path: Path) -> None:
    worker = yard.claim()
    base = yard.repo.head
    yard.repo.write("new", "x").stage("new").commit("Pushed", stage=False).remote(tmp_path / "server.git")
    refused(yard, "1 commits of the attempt were pushed")
    assert rollback.roll_back(worker, yard.task(), allow_pushed=True)["rolled_back"]
    assert yard.repo.head == base


def test_a_living_neighbour_is_respected(yard: Yard) -> None:
    yard.add("task-002")
    yard.claim()
    yard.claim("task-002", name="other")
    refused(yard, "task-002 is being worked on in this work tree")
    yard.edit("task-002", lease_expires_at="2020-01-01T00:00:00Z")
    assert rollback.roll_back(yard.worker(), yard.task())["rolled_back"]


def test_another_work_tree_is_refused(yard: Yard, tmp_path: Path) -> None:
    yard.claim()
    yard.repo.git("worktree", "add", "-q", str(tmp_path / "second"), "-b", "second")
    for do in (rollback.roll_back, rollback.evidence):
        with pytest.raises(UnsafeTree, match="claimed in the work tree"):
            do(yard.worker(cwd=tmp_path / "second"), yard.task())
    with pytest.raises(UnsafeTree, match="claimed in the work tree"):
        rollback.commit_work(yard.worker(cwd=tmp_path / "second"), yard.task(), "m")


# ---- places --------------------------------------------------------------------------------------------------------


def test_a_task_list_outside_of_the_work_tree(tmp_path: Path) -> None:
    yard = Yard(tmp_path, root=tmp_path / "lists").add()
    leave_own_work(yard)
    before = yard.seen()
    worker = yard.claim()
    work(yard)
    yard.repo.write("harness-init.sh", "belongs to the project here")
    done = rollback.roll_back(worker, yard.task())
    assert yard.seen() == before
    assert yard.repo.git("show", f"{done['rescue']}:harness-init.sh")


def test_a_task_list_below_the_top(tmp_path: Path) -> None:
    yard = Yard(tmp_path, root=tmp_path / "project" / "lib").add()
    before = yard.seen()
    worker = yard.claim(cwd=yard.root)
    state = Path(yard.layout.tasks).read_bytes()
    yard.repo.write("new", "x").write("lib/b.py", "changed").write("lib/new", "y")
    done = rollback.roll_back(worker, yard.task())
    assert yard.seen() == before
    assert Path(yard.layout.tasks).read_bytes() == state
    assert sorted(yard.repo.git("ls-tree", "-r", "--name-only", done["rescue"]).split()) == [
        ".gitignore",
        "app.py",
        "lib/b.py",
        "lib/new",
        "new",
    ]


def test_a_linked_work_tree(yard: Yard, tmp_path: Path) -> None:
    yard.repo.stage("harness-tasks.json").commit("With the state", stage=False)
    second = tmp_path / "second"
    yard.repo.git("worktree", "add", "-q", str(second), "-b", "second")
    worker = yard.claim(cwd=second)
    (second / "new").write_text("x")
    (second / "harness-tasks.json").write_text("a stale copy, not to be touched")
    head = yard.repo.git("rev-parse", "second")
    done = rollback.roll_back(worker, yard.task())
    assert done["rescue"] and not (second / "new").exists()
    assert (second / "harness-tasks.json").read_text() == "a stale copy, not to be touched"
    (second / "new").write_text("again")
    made = rollback.commit_work(worker, yard.task(), "[task-001] Title")
    assert yard.repo.git("rev-parse", "second", f"{made}~1").split() == [made, head]
    assert yard.repo.git("show", "--name-only", "--format=", str(made)) == "new"


def test_no_way_back_outside_of_git_and_before_the_first_commit(tmp_path: Path) -> None:
    plain = Yard(tmp_path / "plain", git=False).add()
    worker = plain.claim()
    assert plain.task().base_ref is None
    assert not rollback.roll_back(worker, plain.task())["rolled_back"]
    assert rollback.commit_work(worker, plain.task(), "m") is None
    assert not rollback.evidence(worker, plain.task())["known"]


def test_a_branch_without_a_commit(tmp_path: Path) -> None:
    yard = Yard(tmp_path, git=False).add()
    from agent_harness.testing.repo import Repo

    yard.repo = Repo(yard.path).write("mine", "x")
    worker = yard.claim()
    assert yard.task().base_ref is None
    assert rollback.commit_work(worker, yard.task(), "m") is None
    assert "no baseline" in rollback.roll_back(worker, yard.task())["reason"]
    yard.repo.git("commit", "-q", "--allow-empty", "-m", "The agent's first")
    assert rollback.commit_work(worker, yard.task(), "m") == yard.repo.head
    assert yard.repo.read("mine") == b"x"


def test_a_detached_head(yard: Yard) -> None:
    yard.repo.write("x", "x").stage("x").commit("Second", stage=False).git("checkout", "-q", "--detach", "HEAD~1")
    before = yard.seen()
    worker = yard.claim()
    yard.repo.write("new", "x").stage("new").commit("On no branch", stage=False)
    assert rollback.roll_back(worker, yard.task())["rolled_back"]
    assert yard.seen() == before
    yard.repo.write("new", "x")
    made = rollback.commit_work(worker, yard.task(), "m")
    assert yard.repo.head == made
    assert yard.repo.git("rev-parse", "--abbrev-ref", "HEAD") == "HEAD"


# ---- policies ------------------------------------------------------------------------------------------------------


def test_the_policy_none_leaves_everything(yard: Yard) -> None:
    worker = yard.claim()
    yard.repo.write("new", "x")
    before = yard.seen()
    assert not rollback.roll_back(worker, yard.task(), policy="none")["rolled_back"]
    assert yard.seen() == before


def test_the_policy_hard_clears_own_work_too_and_rescues_it(yard: Yard) -> None:
    leave_own_work(yard)
    worker = yard.claim()
    work(yard)
    done = rollback.roll_back(worker, yard.task(), policy="hard")
    ours, status, *_ = yard.seen()
    assert status == []
    assert ours["app.py"] == b"one\n"
    assert ours["x.o"] == b"ignored\n"
    assert (yard.root / "harness-tasks.json").exists()
    assert yard.repo.git("show", f"{done['rescue_of_own']}:notes.txt") == "untracked"
    assert yard.repo.git("show", f"{done['rescue_of_own']}:app.py") == "one\nmy edit"
    assert yard.repo.git("show", f"{done['rescue']}:app.py") == "all overwritten"


# ---- what happened -------------------------------------------------------------------------------------------------


def test_a_persons_earlier_edits_are_no_evidence(yard: Yard) -> None:
    leave_own_work(yard)
    worker = yard.claim()
    found = rollback.evidence(worker, yard.task())
    assert (found["known"], found["uncommitted"], found["commits"], found["foreign"]) == (True, [], [], [])


def test_evidence_names_files_commits_and_strangers(yard: Yard) -> None:
    leave_own_work(yard)
    worker = yard.claim()
    work(yard)
    yard.repo.git("-c", "user.name=X", "commit", "-q", "--allow-empty", "-m", "[task-001] y", "--author=X <x@y>")
    found = rollback.evidence(worker, yard.task())
    assert found["uncommitted"] == ["app.py", "gone.py", "new/file.py", "notes.txt"]
    assert [each["subject"] for each in found["commits"]] == ["[task-001] y", "agent: wip"]
    assert [each["author"] for each in found["foreign"]] == ["X <x@y>"]


def test_stashes_are_shown_and_never_applied(yard: Yard) -> None:
    """What an attempt stashed is for the agent to see (tasklist.md 12)."""
    worker = yard.claim()
    yard.repo.write("app.py", "half done\n").git("stash", "push", "-q", "-m", "of the attempt", "--", "app.py")
    found = rollback.evidence(worker, yard.task())
    assert (found["stashes"], found["uncommitted"]) == (["stash@{0}: On main: of the attempt"], [])


def test_a_plan_says_what_would_be_taken_back(yard: Yard) -> None:
    worker = yard.claim()
    yard.repo.write("new", "x")
    before = yard.seen()
    plan = rollback.plan(worker, yard.task())
    assert (plan["possible"], plan["files"], plan["commits"]) == (True, ["new"], [])
    assert yard.seen() == before
