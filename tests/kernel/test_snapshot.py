"""Snapshots, candidates and the way back, case by case; random cases are in ``test_snapshot_property.py``."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from agent_harness.errors import LockBusy, StateDamaged, UnsafeTree
from agent_harness.kernel.git import Git
from agent_harness.kernel.snapshot import (
    Rescue,
    Snapshot,
    adopt,
    candidate,
    restore,
    take,
    tree_of_files,
)
from agent_harness.testing.repo import Repo

MAIN = "refs/heads/main"
BASE, RESCUE, CANDIDATE = "refs/harness/base/1/1", "refs/harness/rescue/1/1", "refs/harness/candidate/1"


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo(tmp_path / "project").write("a", "one\n").write("d/b", "two\n").ignore("*.o", "build/").commit("First")


@pytest.fixture
def back(repo: Repo, tmp_path: Path) -> Callable[..., Rescue]:
    """Goes back to a snapshot of the repository."""

    def go(snapshot: Snapshot, **words: object) -> Rescue:
        return restore(Git(repo.path), snapshot, RESCUE, rescue_files=tmp_path / "rescued", **words)  # type: ignore[arg-type]

    return go


def index_of(repo: Repo) -> tuple[str, str, str]:
    """Staged content, flags, and what is only intended to be added."""
    return repo.git("ls-files", "-s"), repo.git("ls-files", "-v"), repo.git("diff", "--name-only", "--diff-filter=A")


# ---- taking --------------------------------------------------------------------------------------------------------


def test_taking_changes_nothing_that_a_person_sees(repo: Repo) -> None:
    repo.write("a", "dirty").write("new", "x").write("staged", "s").stage("staged").write("x.o", "o")
    index = (repo.path / ".git" / "index").read_bytes()
    seen = repo.files(), repo.status(), repo.head, repo.git("log", "--format=%H"), repo.git("stash", "list")
    snapshot = take(Git(repo.path), BASE, message="Before feature 1")
    assert (repo.files(), repo.status(), repo.head, repo.git("log", "--format=%H"), repo.git("stash", "list")) == seen
    assert (repo.path / ".git" / "index").read_bytes() == index
    assert repo.git("log", "-1", "--format=%s|%an", snapshot.commit) == "Before feature 1|agent-harness"
    assert repo.git("ls-tree", "-r", "--name-only", snapshot.commit).split() == [
        ".gitignore",
        "a",
        "d/b",
        "new",
        "staged",
    ]
    assert repo.git("rev-parse", BASE) == snapshot.commit
    assert (snapshot.head, snapshot.branch) == (repo.head, MAIN)


def test_a_clean_tree_is_the_tree_of_head(repo: Repo) -> None:
    snapshot = take(Git(repo.path), BASE)
    assert (
        repo.git("rev-parse", f"{snapshot.commit}^{{tree}}")
        == repo.git("rev-parse", "HEAD^{tree}")
        == snapshot.index_tree
    )


def test_a_ref_is_made_once(repo: Repo) -> None:
    first = take(Git(repo.path), BASE)
    with pytest.raises(UnsafeTree, match="already exists"):
        take(Git(repo.path), BASE)
    assert repo.git("rev-parse", BASE) == first.commit


def test_an_unfinished_merge_is_refused(repo: Repo) -> None:
    repo.branch("other").write("a", "theirs").commit().git("checkout", "-q", "main")
    repo.write("a", "ours").commit()
    snapshot = take(Git(repo.path), BASE)
    repo.git("merge", "other", check=False)
    for action in (
        lambda: take(Git(repo.path), "refs/harness/base/2"),
        lambda: candidate(Git(repo.path), CANDIDATE, message="x"),
        lambda: adopt(Git(repo.path), repo.head, branch=MAIN, expected_head=repo.head),
        lambda: restore(Git(repo.path), snapshot, RESCUE, rescue_files=repo.path / "rescued"),
    ):
        with pytest.raises(UnsafeTree, match="in the middle of a merge") as error:
            action()
        assert "git merge --abort" in str(error.value.hint)
    (repo.path / ".git" / "MERGE_HEAD").unlink()
    with pytest.raises(UnsafeTree, match="a has an unresolved conflict"):
        take(Git(repo.path), "refs/harness/base/2")


def test_an_unfinished_merge_can_be_set_aside(repo: Repo, back: Callable[..., Rescue], tmp_path: Path) -> None:
    repo.branch("other").write("a", "theirs").commit().git("checkout", "-q", "main")
    repo.write("a", "ours").commit()
    files, index = repo.files(), index_of(repo)
    snapshot = take(Git(repo.path), BASE)
    repo.git("merge", "other", check=False)
    conflict = repo.read("a")
    rescue = back(snapshot, set_aside_operation=True)
    assert (repo.files(), index_of(repo), repo.status()) == (files, index, [])
    assert (tmp_path / "rescued" / "git-state" / "MERGE_HEAD").exists()
    assert repo.git_bytes("show", f"{rescue.ref}:a") == conflict
    assert Git(repo.path).operation_under_way() is None


def test_a_record_brings_the_snapshot_back(repo: Repo, back: Callable[..., Rescue]) -> None:
    snapshot = take(Git(repo.path), BASE)
    record = {**snapshot.as_record(), "added": "later"}
    assert Snapshot.from_record(record) == snapshot
    nothing: dict[str, object] = {}
    for wrong in ({**record, "commit": None}, {**record, "head": 7}, nothing):
        with pytest.raises(StateDamaged):
            Snapshot.from_record(wrong)
    repo.write("a", "agent")
    back(Snapshot.from_record(record))
    assert repo.read("a") == b"one\n"


# ---- going back ----------------------------------------------------------------------------------------------------


def test_the_user_s_work_is_back_and_the_attempt_is_rescued(repo: Repo, back: Callable[..., Rescue]) -> None:
    repo.write("a", "edited by the user").write("mine", "untracked").write("staged", "1").stage("staged").write(
        "staged", "2"
    )
    files, status, index, head = repo.files(), repo.status(), index_of(repo), repo.head
    snapshot = take(Git(repo.path), BASE)
    repo.write("a", "agent").commit("Agent's first").write("mine", "gone").remove("d/b").write("new", "x").stage("new")
    repo.write("d/c/e", "deep").commit("Agent's second").write("loose", "not committed")
    tip = repo.head
    rescue = back(snapshot)
    assert (repo.files(), repo.status(), index_of(repo), repo.head) == (files, status, index, head)
    assert [subject for _, subject in rescue.rolled_back_commits] == ["Agent's second", "Agent's first"]
    assert rescue.rolled_back_commits[0][0] == tip
    assert repo.git("rev-parse", f"{rescue.commit}^1") == tip
    assert repo.git("show", f"{RESCUE}:loose") == "not committed"
    assert (rescue.ref, rescue.left_in_place, rescue.moved) == (RESCUE, (), ())
    again = back(snapshot)
    assert again == Rescue(ref=None, commit=None, rolled_back_commits=(), left_in_place=(), moved=())


def test_empty_folders_are_back(repo: Repo, back: Callable[..., Rescue]) -> None:
    for name in ("tests", "src/empty", "build/none"):
        (repo.path / name).mkdir(parents=True)
    taken = take(Git(repo.path), BASE)
    shutil.rmtree(repo.path / "tests")
    shutil.rmtree(repo.path / "build")
    (repo.path / "src/empty").rmdir()
    repo.write("src/empty", "a file\n")
    back(taken)
    assert (repo.path / "tests").is_dir()
    assert (repo.path / "src/empty").is_dir()
    assert not (repo.path / "build").exists()


def test_each_rescue_has_a_ref_of_its_own(repo: Repo, back: Callable[..., Rescue]) -> None:
    snapshot = take(Git(repo.path), BASE)
    refs = [back(snapshot).ref for _ in range(3) if repo.write("a", os.urandom(4))]
    assert refs == [RESCUE, f"{RESCUE}-2", f"{RESCUE}-3"]


def switch(repo: Repo) -> None:
    repo.branch("agent").write("x").commit()


def amend(repo: Repo) -> None:
    repo.write("a", "amended").stage().git("commit", "-q", "--amend", "-m", "Amended")


def delete_branch(repo: Repo) -> None:
    repo.git("checkout", "-q", "--detach")
    repo.git("branch", "-q", "-D", "main")


def both(repo: Repo) -> None:
    repo.write("a", "on main").commit("On main").branch("agent").write("a", "on agent").commit("On agent")


def move_branch(repo: Repo) -> None:
    repo.write("a", "on main").commit("On main").git("checkout", "-q", "--detach", "HEAD~1")


def start_over(repo: Repo) -> None:
    repo.git("checkout", "-q", "--orphan", "fresh")
    repo.write("x").commit()


@pytest.mark.parametrize("attempt", [switch, amend, delete_branch, both, move_branch, start_over])
@pytest.mark.parametrize("detached", [False, True])
def test_head_goes_back_wherever_it_went(
    attempt: Callable[[Repo], None], detached: bool, repo: Repo, back: Callable[..., Rescue]
) -> None:
    if detached:
        repo.git("checkout", "-q", "--detach")
    head = repo.head
    snapshot = take(Git(repo.path), BASE)
    attempt(repo)
    commits = set(repo.git("rev-list", "--all", "HEAD").split())
    rescue = back(snapshot)
    assert repo.head == head
    assert Git(repo.path).branch() == (None if detached else MAIN)
    assert repo.status() == []
    assert commits <= set(repo.git("rev-list", "--all", "HEAD").split())
    assert rescue.commit or attempt in (delete_branch, move_branch)


def test_an_empty_repository_is_empty_again(tmp_path: Path) -> None:
    repo = Repo(tmp_path / "project").write("draft", "by the user").write("staged", "s").stage("staged")
    files, status, git = repo.files(), repo.status(), Git(repo.path)
    snapshot = take(git, BASE)
    assert snapshot.head is None
    repo.write("draft", "by the agent").commit("Root").write("more").commit("More")
    rescue = restore(git, snapshot, RESCUE, rescue_files=tmp_path / "rescued")
    assert (repo.files(), repo.status(), git.head(), git.branch()) == (files, status, None, MAIN)
    assert [subject for _, subject in rescue.rolled_back_commits] == ["More", "Root"]
    assert repo.git("show", f"{rescue.commit}:draft") == "by the agent"


@pytest.mark.parametrize("harm", ["collect", "forget", "forge"])
def test_the_way_back_needs_nothing_but_its_ref(harm: str, repo: Repo, back: Callable[..., Rescue]) -> None:
    repo.write("a", "user").write("staged", "1").stage("staged").write("staged", "2").write("later", "x")
    repo.git("add", "--intent-to-add", "later")
    repo.git("update-index", "--assume-unchanged", "d/b")
    repo.write("d/b", "hidden by the user")
    files, index = repo.files(), index_of(repo)
    snapshot = take(Git(repo.path), BASE)
    repo.write("a", "agent").write("d/b", "agent").commit()
    kept = repo.path / ".git" / "harness" / "index"
    if harm == "collect":
        repo.git("gc", "-q", "--prune=now")
        repo.git("reflog", "expire", "--expire=now", "--all")
    elif harm == "forget":
        shutil.rmtree(kept)
    else:
        for path in kept.iterdir():
            path.write_bytes(path.read_bytes()[:-1] + b"x")
    back(snapshot)
    assert (repo.files(), index_of(repo)) == (files, index)


def test_a_snapshot_that_is_gone_is_refused(repo: Repo, back: Callable[..., Rescue]) -> None:
    snapshot = take(Git(repo.path), BASE)
    repo.write("a", "agent").git("update-ref", "-d", BASE)
    repo.git("gc", "-q", "--prune=now")
    with pytest.raises(UnsafeTree, match="was deleted from the repository"):
        back(snapshot)
    assert repo.read("a") == b"agent"


def test_large_files_stay_or_are_moved(repo: Repo, back: Callable[..., Rescue], tmp_path: Path) -> None:
    snapshot = take(Git(repo.path), BASE)
    repo.write("a", "x" * 2000).write("new", "y" * 2000).write("small", "z")
    rescue = back(snapshot, rescue_max_bytes=1000)
    assert (rescue.left_in_place, rescue.moved) == (("new",), ("a",))
    assert (tmp_path / "rescued" / "a").read_text() == "x" * 2000
    assert (repo.read("a"), repo.read("new")) == (b"one\n", b"y" * 2000)
    assert repo.git("ls-tree", "-r", "--name-only", str(rescue.commit)).split() == [".gitignore", "d/b", "small"]


def test_what_no_commit_holds_gives_way(repo: Repo, back: Callable[..., Rescue], tmp_path: Path) -> None:
    repo.write("c", "c").write("e", "e").write("f/g/h", "h").commit()
    snapshot = take(Git(repo.path), BASE)
    repo.remove("a", "c", "e").write("a/x.o", "ignored").write("a/tracked", "x").write("a/build/deep", "ignored too")
    Repo(repo.path / "c" / "inner").write("precious", "other repository").commit()
    os.mkfifo(repo.path / "e")
    repo.remove("f/g/h")
    (repo.path / "f" / "g").rmdir()
    (repo.path / "f").rmdir()
    os.mkfifo(repo.path / "f")
    rescue = back(snapshot)
    assert repo.status() == []
    assert repo.files() == {
        ".gitignore": b"*.o\nbuild/\n",
        "a": b"one\n",
        "c": b"c",
        "d/b": b"two\n",
        "e": b"e",
        "f/g/h": b"h",
    }
    assert set(rescue.moved) == {"a/build", "a/x.o", "c/inner", "e", "f"}
    assert (tmp_path / "rescued" / "a" / "x.o").read_text() == "ignored"
    assert (tmp_path / "rescued" / "c" / "inner" / ".git" / "HEAD").exists()
    assert repo.git("show", f"{rescue.commit}:a/tracked") == "x"


def test_rescued_files_never_replace_one_another(repo: Repo, back: Callable[..., Rescue], tmp_path: Path) -> None:
    snapshot = take(Git(repo.path), BASE)
    for number in range(2):
        repo.remove("a").write("a/x.o", f"{number}")
        back(snapshot)
    names = sorted(path.name for path in (tmp_path / "rescued" / "a").iterdir())
    assert names == ["x.o", "x.o.1"]


def test_a_link_in_place_of_the_rescued_files_is_refused(
    repo: Repo, back: Callable[..., Rescue], tmp_path: Path
) -> None:
    snapshot = take(Git(repo.path), BASE)
    repo.remove("a").write("a/x.o", "ignored")
    (tmp_path / "away").mkdir()
    (tmp_path / "rescued").symlink_to(tmp_path / "away")
    with pytest.raises(UnsafeTree, match="rescued files would be written elsewhere"):
        back(snapshot)
    assert repo.read("a/x.o") == b"ignored"


def test_permissions_of_private_files_come_back(repo: Repo, back: Callable[..., Rescue]) -> None:
    (repo.write("secret", "s").path / "secret").chmod(0o600)
    snapshot = take(Git(repo.path), BASE)
    repo.remove("secret")
    back(snapshot)
    assert (repo.path / "secret").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("known", [False, True])
def test_bytes_come_back_whatever_git_would_make_of_them(known: bool, repo: Repo, back: Callable[..., Rescue]) -> None:
    """Also those of files that git knows to be unchanged by their times, so that it does not read them again."""
    repo.config("core.autocrlf", "true").config("filter.far.smudge", "false").config("filter.far.required", "true")
    repo.write(".gitattributes", "*.txt text\n*.id ident\n*.big filter=far\n*.u16 working-tree-encoding=UTF-16\n")
    repo.config("filter.far.clean", "echo pointer")
    repo.write("w.txt", "windows\r\n").write("k.id", "$Id: kept$\n").write("l.big", "large").write(
        "e.u16", "é".encode("utf-16")
    )
    repo.commit()
    if known:
        for name in ("w.txt", "k.id", "l.big", "e.u16"):
            os.utime(repo.path / name, (1, 1))
        repo.git("update-index", "--refresh")
    repo.write("m.txt", "mixed\r\nends\n")
    files = repo.files()
    snapshot = take(Git(repo.path), BASE)
    repo.write("w.txt", "a").write("k.id", "a").write("l.big", "a").write("e.u16", b"\xff").remove("m.txt")
    rescue = back(snapshot)
    assert repo.files() == files
    assert repo.git_bytes("cat-file", "blob", f"{rescue.commit}:e.u16") == b"\xff"


def test_files_that_keep_changing_are_left_alone(repo: Repo, back: Callable[..., Rescue]) -> None:
    snapshot = take(Git(repo.path), BASE)
    program = "import sys\nwhile True:\n  open(sys.argv[1], 'w').write('x' * 50)\n  open(sys.argv[1], 'w').write('y')\n"
    writer = subprocess.Popen([sys.executable, "-c", program, str(repo.path / "a")])
    try:
        for _ in range(3):
            try:
                back(snapshot)
            except UnsafeTree as error:
                assert "cannot be restored" in error.message
    finally:
        writer.kill()
        writer.wait()
    back(snapshot)
    assert repo.status() == []


# ---- ignored files -------------------------------------------------------------------------------------------------


def test_what_was_ignored_is_never_touched(repo: Repo, back: Callable[..., Rescue]) -> None:
    repo.write("x.o", "user's").write("build/out", "user's").write(".venv/.gitignore", "*").write(".venv/lib/x", "y")
    snapshot = take(Git(repo.path), BASE)
    repo.remove(".gitignore", ".venv/.gitignore").write("x.o", "agent's").write("build/more", "agent's").write(
        "y.o", "new"
    )
    repo.stage().commit()
    rescue = back(snapshot)
    assert (repo.read("x.o"), repo.read("build/more")) == (b"agent's", b"agent's")
    assert repo.read(".venv/lib/x") == b"y"
    assert "x.o" not in repo.git("ls-tree", "-r", "--name-only", str(rescue.commit))


def test_files_that_only_new_rules_ignore_are_rescued_and_removed(repo: Repo, back: Callable[..., Rescue]) -> None:
    repo.write("mine", "user's, not ignored").write("nested/.gitignore", "*.tmp\n").write("nested/k", "k")
    snapshot = take(Git(repo.path), BASE)
    repo.ignore("hidden*", "mine", "dist/").write("hidden.py", "x").write("dist/a/b", "y").write("dist/c.o", "old rule")
    repo.write("nested/z.tmp", "old rule").write(".cache/.gitignore", "*").write(".cache/deep/x", "tool's")
    (repo.path / ".git" / "info" / "exclude").write_text("sly\n")
    repo.write("sly", "z")
    made = candidate(Git(repo.path), CANDIDATE, message="x", base=snapshot)
    assert repo.git("ls-tree", "-r", "--name-only", made).split() == [
        *(".gitignore", "a", "d/b", "mine", "nested/.gitignore", "nested/k", "sly")
    ]
    rescue = back(snapshot)
    taken = repo.git("ls-tree", "-r", "--name-only", str(rescue.commit)).split()
    assert {"hidden.py", "dist/a/b", "sly"} <= set(taken)
    assert rescue.left_in_place == (".cache/",)
    assert set(repo.files()) == {
        *(".gitignore", "a", "d/b", "mine", "nested/.gitignore", "nested/k", "nested/z.tmp", "dist/c.o"),
        *(".cache/.gitignore", ".cache/deep/x"),
    }
    (repo.path / ".git" / "info" / "exclude").write_text("")
    assert repo.status() == ["?? mine", "?? nested/.gitignore", "?? nested/k"]


# ---- the harness's own files ---------------------------------------------------------------------------------------

OWN = (".harness/", "harness-tasks.json*", "**/*.lock.d")


def test_own_files_are_no_part_of_anything(tmp_path: Path) -> None:
    repo = (
        Repo(tmp_path / "whole")
        .write("sub/code", "1")
        .write("sub/harness-tasks.json", "{}")
        .write("other/.harness/x", "not ours")
    )
    repo.commit()
    git = Git(repo.path / "sub")
    repo.write("sub/.harness/state", "1").write("sub/harness-tasks.json.bak", "{}").write("sub/deep/x.lock.d/pid", "7")
    snapshot = take(git, BASE, exclude=OWN)
    assert repo.git("ls-tree", "-r", "--name-only", snapshot.commit).split() == ["other/.harness/x", "sub/code"]
    repo.write("sub/.harness/state", "2").write("sub/harness-tasks.json", "[]").write("sub/code", "2")
    repo.write("other/.harness/x", "agent").stage().git("add", "-f", "sub/.harness")
    repo.commit()
    made = candidate(git, CANDIDATE, exclude=OWN, message="Work", base=snapshot)
    assert repo.git("ls-tree", "-r", "--name-only", made).split() == [
        "other/.harness/x",
        "sub/code",
        "sub/harness-tasks.json",
    ]
    assert git.show(made, "sub/harness-tasks.json") == b"{}"
    restore(git, snapshot, RESCUE, exclude=OWN, rescue_files=repo.path / "sub" / ".harness" / "rescued")
    assert (repo.read("sub/.harness/state"), repo.read("sub/harness-tasks.json")) == (b"2", b"[]")
    assert (repo.read("sub/code"), repo.read("other/.harness/x"), repo.read("sub/deep/x.lock.d/pid")) == (
        b"1",
        b"not ours",
        b"7",
    )


# ---- judging and adopting ------------------------------------------------------------------------------------------


def test_a_file_in_the_place_of_the_harness_s_folder_is_left_out_only_where_the_commit_holds_it(tmp_path: Path) -> None:
    repo = (
        Repo(tmp_path / "project").write("held/h.json", "{}").write("hidden/deep/h.json", "{}").write("a", "1").commit()
    )
    repo.write("staged/h.json", "{}").stage().git("update-index", "--assume-unchanged", "hidden/deep/h.json")
    git = Git(repo.path)
    base = take(git, BASE, exclude=["**/h.json"])
    for folder in ("held", "hidden", "staged"):
        shutil.rmtree(repo.path / folder)
        repo.write(folder, "a file now")
    made = candidate(git, CANDIDATE, exclude=["**/h.json"], message="x", base=base)
    assert repo.git("ls-tree", "-r", "--name-only", made).split() == [
        "a",
        "held/h.json",
        "hidden/deep/h.json",
        "staged",
    ]
    assert tree_of_files(git, exclude=["**/h.json"], base=base) == git.tree_of(made)


def test_what_a_person_had_staged_of_the_harness_s_files_is_not_in_a_candidate(repo: Repo) -> None:
    repo.write("h.json", "{}").commit().write("h.json", "staged").write("h.json.bak", "x").stage()
    git = Git(repo.path)
    base = take(git, BASE, exclude=["h.json*"])
    repo.write("h.json", "now").write("a", "work").git("rm", "-q", "--cached", "d/b")
    made = candidate(git, CANDIDATE, exclude=["h.json*"], message="x", base=base)
    assert [tuple(change) for change in git.changed_paths("HEAD", made)] == [("M", "a")]


def test_a_tree_of_files_makes_no_commit_and_no_ref(repo: Repo) -> None:
    git = Git(repo.path)
    base = take(git, BASE)
    repo.write("a", "changed\n").write("new", "x").remove("d/b")
    refs, objects = repo.git("for-each-ref"), repo.git("cat-file", "--batch-all-objects", "--batch-check=%(objecttype)")
    tree = tree_of_files(git, base=base)
    assert repo.git("ls-tree", "-r", "--name-only", tree).split() == [".gitignore", "a", "new"]
    assert repo.git("for-each-ref") == refs
    now = repo.git("cat-file", "--batch-all-objects", "--batch-check=%(objecttype)")
    assert now.split().count("commit") == objects.split().count("commit")
    assert git.tree_of(candidate(git, CANDIDATE, message="x", base=base)) == tree


def test_a_candidate_is_head_when_nothing_differs(repo: Repo) -> None:
    base = take(Git(repo.path), BASE)
    assert candidate(Git(repo.path), CANDIDATE, message="x", base=base) == repo.head
    repo.write("a", "agent").commit("By the agent").write("x.o", "ignored")
    for known in (base, None):
        assert (
            candidate(Git(repo.path), CANDIDATE, message="x", base=known)
            == repo.head
            == repo.git("rev-parse", CANDIDATE)
        )


def test_a_candidate_is_a_commit_of_the_user_on_top_of_head(repo: Repo, _own_home: Path) -> None:
    base = take(Git(repo.path), BASE)
    repo.write("a", "agent").commit("By the agent").write("new", "left over").config("user.name", "Forged")
    made = candidate(Git(repo.path), CANDIDATE, message="Finish\n\nbody", base=base)
    said = repo.git("log", "-1", "--format=%P|%B|%an|%ce", made)
    assert said == f"{repo.head}|Finish\n\nbody\n|Test Person|person@localhost"
    assert repo.status() == ["?? new"]


def test_a_candidate_holds_ignored_files_that_were_added_by_force(repo: Repo) -> None:
    base = take(Git(repo.path), BASE)
    repo.write("build/out", "wanted").git("add", "-f", "build/out")
    for known in (base, None):
        made = candidate(Git(repo.path), CANDIDATE, message="x", base=known)
        assert Git(repo.path).show(made, "build/out") == b"wanted"


def test_what_the_user_hides_stays_hidden_until_somebody_changes_it(repo: Repo, back: Callable[..., Rescue]) -> None:
    repo.git("update-index", "--skip-worktree", "a", "d/b")
    repo.write("a", "private").write("d/b", "private too")
    base = take(Git(repo.path), BASE)
    repo.write("d/b", "agent")
    made = candidate(Git(repo.path), CANDIDATE, message="x", base=base)
    assert (Git(repo.path).show(made, "a"), Git(repo.path).show(made, "d/b")) == (b"one\n", b"agent")
    adopt(Git(repo.path), made, branch=MAIN, expected_head=repo.head, base=base)
    assert repo.git("ls-files", "-v").split("\n") == ["H .gitignore", "S a", "S d/b"]
    assert (repo.status(), repo.read("a")) == ([], b"private")
    back(base)
    assert (repo.read("a"), repo.read("d/b")) == (b"private", b"private too")


@pytest.mark.parametrize("cold", [False, True])
def test_adopting_writes_no_file(cold: bool, repo: Repo) -> None:
    repo.write("mine", "untracked")
    git, head = Git(repo.path), repo.head
    base = take(git, BASE)
    repo.write("a", "agent").remove("d/b").write("new", "x").stage("new")
    times = {path: (repo.path / path).stat().st_mtime_ns for path in repo.files()}
    made = candidate(git, CANDIDATE, message="Work", base=base)
    with pytest.raises(UnsafeTree, match=f"is at {head}, not at {made}"):
        adopt(git, "1" * 40, branch=MAIN, expected_head=made)
    for _ in range(2):
        adopt(Git(repo.path) if cold else git, made, branch=MAIN, expected_head=head)
        assert (repo.head, git.branch(), repo.status()) == (made, MAIN, [])
    assert times == {path: (repo.path / path).stat().st_mtime_ns for path in repo.files()}


def test_adopting_another_commit_of_the_same_files(repo: Repo) -> None:
    git, head = Git(repo.path), repo.head
    repo.write("a", "agent").branch("agent").commit("By the agent").write("new", "x")
    made = candidate(git, CANDIDATE, message="Work")
    one = git.commit_tree(git.tree_of(made), [head], "All in one")
    adopt(git, one, branch=MAIN, expected_head=head)
    assert (repo.head, git.branch(), repo.status()) == (one, MAIN, [])
    assert git.commits_between(head, one)[0].subject == "All in one"


def test_a_branch_is_born_by_adopting(tmp_path: Path) -> None:
    repo = Repo(tmp_path / "project").write("a", "x")
    git = Git(repo.path)
    made = candidate(git, CANDIDATE, message="Root", base=take(git, BASE))
    adopt(git, made, branch=MAIN, expected_head=None)
    assert (repo.head, repo.status()) == (made, [])


def test_a_lock_that_a_git_command_holds_is_respected(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    git = Git(repo.path)
    base = take(git, BASE)
    repo.write("a", "agent")
    hold = (
        "import os, sys, time; os.open(sys.argv[1], os.O_CREAT | os.O_EXCL); print('held', flush=True); time.sleep(600)"
    )
    lock = repo.path / ".git" / "index.lock"
    holder = subprocess.Popen([sys.executable, "-c", hold, str(lock)], stdout=subprocess.PIPE)
    assert holder.stdout
    with holder, holder.stdout as said:
        said.readline()
        os.utime(lock, (0, 0))
        monkeypatch.setenv("HARNESS_TIME_SCALE", "0.01")
        with pytest.raises(UnsafeTree, match="another git command holds") as error:
            restore(git, base, RESCUE, rescue_files=repo.path / "rescued")
        assert "index.lock" in str(error.value.hint)
        holder.kill()
    lock.unlink()
    restore(git, base, RESCUE, rescue_files=repo.path / "rescued")
    assert repo.status() == []


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no list of processes to prove it by")
def test_locks_that_a_killed_command_left_are_taken_away(repo: Repo, back: Callable[..., Rescue]) -> None:
    base = take(Git(repo.path), BASE)
    repo.write("a", "agent").commit("Agent").write("a", "more")
    for name in ("index.lock", "HEAD.lock", "refs/heads/main.lock", f"{RESCUE}.lock"):
        lock = repo.path / ".git" / name
        lock.parent.mkdir(parents=True, exist_ok=True)
        lock.touch()
        os.utime(lock, (0, 0))
    back(base)
    assert (repo.head, repo.status()) == (base.head, [])


def test_one_operation_at_a_time(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    take(Git(repo.path), BASE)
    monkeypatch.setenv("HARNESS_TIME_SCALE", "0.001")
    with (repo.path / ".git" / "harness" / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(LockBusy):
            take(Git(repo.path), "refs/harness/base/2")


# ---- repositories of other kinds -----------------------------------------------------------------------------------


@pytest.mark.parametrize("sparse_index", ["--no-sparse-index", "--sparse-index"])
@pytest.mark.parametrize("forget", [False, True])
def test_a_sparse_checkout_stays_sparse(
    sparse_index: str, forget: bool, repo: Repo, back: Callable[..., Rescue]
) -> None:
    repo.write("e/f", "elsewhere").write("g/h/i", "elsewhere").commit()
    repo.git("sparse-checkout", "init", "--cone", sparse_index)
    repo.git("sparse-checkout", "set", "d")
    files = repo.files()
    assert set(files) == {".gitignore", "a", "d/b"}
    git = Git(repo.path)
    base = take(git, BASE)
    repo.write("a", "agent").write("d/new", "x")
    if forget:
        shutil.rmtree(repo.path / ".git" / "harness" / "index")
    for known in (base, None):
        made = candidate(git, CANDIDATE, message="x", base=known)
        assert git.changed_paths(base.commit, made) == [("M", "a"), ("A", "d/new")]
    back(base)
    assert (repo.files(), repo.status()) == (files, [])
    assert "S e/f" in repo.git("ls-files", "-v")


def test_a_repository_with_longer_ids(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    subprocess.run(["git", "init", "-q", "-b", "main", "--object-format=sha256", str(tmp_path / "project")], check=True)
    repo = Repo(tmp_path / "project").write("a", "one").write("flagged", "x").commit()
    repo.git("update-index", "--assume-unchanged", "flagged")
    repo.write("flagged", "hidden").write("mine", "x")
    git, files = Git(repo.path), repo.files()
    base = take(git, BASE, exclude=[".harness/"])
    repo.write("a", "agent").remove("mine").write(".harness/x", "y")
    made = candidate(git, CANDIDATE, exclude=[".harness/"], message="x", base=base)
    assert len(made) == 64
    assert git.show(made, "flagged") == b"x"
    restore(git, base, RESCUE, exclude=[".harness/"], rescue_files=tmp_path / "rescued")
    assert {**files, ".harness/x": b"y"} == repo.files()


def test_a_submodule_s_files_are_left_alone(repo: Repo, back: Callable[..., Rescue]) -> None:
    inner = Repo(repo.path / "inner").write("x", "1").commit("One")
    repo.commit("With a submodule")
    base = take(Git(repo.path), BASE)
    inner.write("x", "2").commit("Two").write("loose", "y")
    made = candidate(Git(repo.path), CANDIDATE, message="x", base=base)
    assert repo.git("rev-parse", f"{made}:inner") == inner.head
    rescue = back(base)
    assert repo.git("rev-parse", f"{rescue.commit}:inner") == inner.head
    assert inner.files() == {"x": b"2", "loose": b"y"}


def test_a_file_that_changed_with_its_index_is_not_believed(tmp_path: Path) -> None:
    """A copy of an index must not look younger than the original: git trusts files that are older than it."""
    repo = Repo(tmp_path / "project").write("a", "one\n").commit()
    index = repo.path / ".git" / "index"
    repo.write("a", "two\n")
    moment = (repo.path / "a").stat().st_mtime_ns
    repo.git("update-index", "--cacheinfo", "100644", repo.git("rev-parse", "HEAD:a"), "a")
    os.utime(index, ns=(moment, moment))
    snapshot = take(Git(repo.path), BASE)
    assert repo.git("show", f"{snapshot.commit}:a") == "two"


# ---- crashes -------------------------------------------------------------------------------------------------------

PROGRAM = """\
import json, sys
from agent_harness.kernel.git import Git
from agent_harness.kernel.snapshot import *
git, rescued, base = Git(sys.argv[1]), sys.argv[2], Snapshot.from_record(json.loads(sys.argv[3]))
made, main = git.commit_of("refs/harness/candidate/1"), "refs/heads/main"
verbs = {
    "take": lambda: take(git, "refs/harness/base/2"),
    "candidate": lambda: candidate(git, "refs/harness/candidate/1", message="Work", base=base),
    "adopt": lambda: adopt(git, made, branch=main, expected_head=git.head()),
    "restore": lambda: restore(git, base, "refs/harness/rescue/1", rescue_files=rescued),
}
print("ready", flush=True)
sys.stdin.readline()
verbs[sys.argv[4]]()
"""


def crash(repo: Repo, folder: Path, base: Snapshot, verb: str, seconds: float, *, with_children: bool) -> bool:
    """Runs an operation and kills it after so many seconds, with its git processes or without; False if it was over."""
    words = [sys.executable, "-c", PROGRAM, str(repo.path), str(folder / "rescued"), json.dumps(base.as_record()), verb]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin
    assert process.stdout
    with process:
        process.stdout.readline()
        process.stdin.write(b"\n")
        process.stdin.flush()
        time.sleep(seconds)
        running = process.poll() is None
        if running:
            process.send_signal(signal.SIGSTOP)
            for child in children(process.pid) if with_children else ():
                os.kill(child, signal.SIGKILL)
            process.kill()
    return running


def children(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(word) for word in path.read_text().split()] if path.exists() else []


def prepared(folder: Path) -> tuple[Repo, Snapshot, dict[str, bytes], dict[str, bytes]]:
    """A dirty repository, its snapshot, its files, and what an attempt made of them."""
    repo = Repo(folder / "project").write("file", "x").ignore("*.o")
    for number in range(30):
        repo.write(f"d{number % 5}/f{number}", f"{number}\n" * 200)
    repo.commit().write("d0/f0", "dirty").write("mine", "untracked").write("staged", "s").stage("staged").write(
        "y.o", "o"
    )
    files = repo.files()
    base = take(Git(repo.path), "refs/harness/base/1")
    for number in range(0, 30, 2):
        repo.write(f"d{number % 5}/f{number}", f"agent {number}\n" * 300)
    repo.commit("Agent").remove("d1/f1", "file", "mine").write("file/x", "was a file").write(
        "file/z.o", "ignored"
    ).write("new", "n")
    return repo, base, files, repo.files()


KILLS = int(os.environ.get("HARNESS_PROPERTY_EXAMPLES", "200"))
MOMENTS = [0.002, 0.01, 0.02, 0.03, 0.04, 0.06, 0.09]


@pytest.mark.kill
@pytest.mark.parametrize("with_children", [False, True])
@pytest.mark.parametrize("seconds", MOMENTS)
def test_a_killed_rollback_is_finished_by_the_next(seconds: float, with_children: bool, tmp_path: Path) -> None:
    rollback_survives(seconds, tmp_path, with_children=with_children)


@pytest.mark.slow
@pytest.mark.kill
@pytest.mark.timeout(1800)
def test_a_rollback_killed_at_any_moment_is_finished_by_the_next(tmp_path: Path) -> None:
    random = Random(0)
    for number in range(KILLS):
        folder = tmp_path / str(number)
        rollback_survives(random.uniform(0, 0.15), folder, with_children=random.random() < 0.5)
        shutil.rmtree(folder)


def rollback_survives(seconds: float, folder: Path, *, with_children: bool) -> None:
    repo, base, files, attempt = prepared(folder)
    tip = repo.head
    crash(repo, folder, base, "restore", seconds, with_children=with_children)
    rescue = restore(Git(repo.path), base, "refs/harness/rescue/1", rescue_files=folder / "rescued")
    assert repo.files() == files
    assert (repo.head, repo.git("write-tree")) == (base.head, base.index_tree)
    refs = repo.git("for-each-ref", "--format=%(refname)", "refs/harness/rescue").split()
    held = {entry for ref in refs for entry in files_of(repo, ref)}
    held |= set(Repo(folder / "rescued").files().items()) if (folder / "rescued").exists() else set()
    for path, content in attempt.items():
        assert files.get(path) == content or (path, content) in held, f"{path} is lost"
    assert any(Git(repo.path).ancestor(tip, ref) for ref in refs)
    assert rescue.ref is None or rescue.ref in refs
    assert leftovers(repo) == []


def files_of(repo: Repo, commit: str) -> list[tuple[str, bytes]]:
    names = repo.git("ls-tree", "-r", "--name-only", commit).split()
    return [(name, repo.git_bytes("cat-file", "blob", f"{commit}:{name}")) for name in names]


def leftovers(repo: Repo) -> list[str]:
    """Temporary folders of ours, and locks, that nobody needs any more."""
    own = [path.name for path in (repo.path / ".git" / "harness").iterdir() if path.name not in ("lock", "index")]
    return own + [str(path) for path in (repo.path / ".git").rglob("*.lock")]


@pytest.mark.kill
@pytest.mark.parametrize("verb", ["take", "candidate", "adopt"])
@pytest.mark.parametrize("seconds", [0.002, 0.01, 0.03])
def test_a_killed_operation_changes_no_file_and_can_be_repeated(verb: str, seconds: float, tmp_path: Path) -> None:
    repo, base, files, attempt = prepared(tmp_path)
    git = Git(repo.path)
    head = repo.head
    made = candidate(git, CANDIDATE, message="Work", base=base)
    crash(repo, tmp_path, base, verb, seconds, with_children=True)
    assert repo.files() == attempt
    assert candidate(git, CANDIDATE, message="Work", base=base)
    take(git, "refs/harness/base/3")
    assert repo.head in (made, head)
    adopt(git, made, branch=MAIN, expected_head=head)
    assert (repo.head, [line for line in repo.status() if "y.o" not in line]) == (made, [])
    assert repo.files() == attempt
    restore(git, base, "refs/harness/rescue/1", rescue_files=tmp_path / "rescued")
    assert repo.files() == files
    assert leftovers(repo) == []


# ---- permissions ---------------------------------------------------------------------------------------------------

CLOSING = """\
import os, sys
from pathlib import Path
from agent_harness.kernel.git import Git
from agent_harness.kernel.snapshot import restore, take
from agent_harness.testing.repo import Repo
if os.geteuid() == 0:
    os.setegid(65534)
    os.seteuid(65534)
folder = Path(sys.argv[1])
repo = Repo(folder / "project").write("a", "1").write("d/b", "2").write("e/f", "3").commit()
files, base = repo.files(), take(Git(repo.path), "refs/harness/base/1")
repo.write("a", "agent").write("d/b", "agent").write("e/f", "agent").write("e/new", "agent")
for name, mode in (("a", 0), ("d", 0), ("e", 0o555), (".", 0o555)):
    (repo.path / name).chmod(mode)
rescue = restore(Git(repo.path), base, "refs/harness/rescue/1", rescue_files=folder / "rescued")
assert (repo.files(), repo.status(), rescue.moved) == (files, [], ("a",)), (repo.files(), rescue)
assert repo.git("show", f"{rescue.commit}:d/b") == "agent"
"""


def test_what_an_attempt_closed_is_opened_again() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # that of the test is closed to other users
        Path(folder).chmod(0o777)
        words = [sys.executable, "-c", CLOSING, folder]
        done = subprocess.run(words, env={**os.environ, "HOME": folder}, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
