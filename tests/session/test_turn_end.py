"""The end of a turn, on real repositories: the place of the work, git operations in progress, other refs, changes."""

from collections.abc import Callable
from pathlib import Path

import pytest

from agent_harness.errors import UnsafeTree
from agent_harness.kernel.git import DETACHED, Git, Head
from agent_harness.session import turn_end
from agent_harness.testing.repo import Repo

MAIN, OTHER = "refs/heads/main", "refs/heads/other"


def chain(*pairs: tuple[str, str]) -> Callable[[str, str], bool]:
    """Return True if the first is an ancestor of the second, by these pairs; each is its own ancestor."""
    return lambda older, newer: older == newer or (older, newer) in pairs


@pytest.mark.parametrize(
    ("head", "tip", "at", "kept"),
    [
        (Head("base", "t", MAIN), "base", None, ()),
        (Head("next", "t", MAIN), "next", None, ()),
        (Head("next", "t", OTHER), "base", "next", ()),
        (Head("next", "t", DETACHED), "base", "next", ()),
        (Head("next", "t", OTHER), None, "next", ()),
        (Head("strange", "t", MAIN), "strange", "base", ("strange",)),
        (Head("strange", "t", OTHER), "next", "base", ("strange", "next")),
        (Head(None, None, OTHER), "base", "base", ()),
    ],
)
def test_the_way_home_is_on_top_of_the_beginning(
    head: Head, tip: str | None, at: str | None, kept: tuple[str, ...]
) -> None:
    found = turn_end.way_home(MAIN, "base", head, tip, chain(("base", "next")))
    assert (found.at if found else None, found.kept if found else ()) == (at, kept)


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo(tmp_path).write("a", "one\n").stage("a").commit("First", stage=False)


def come_home(repo: Repo, base: str) -> turn_end.Returned | None:
    git = Git(repo.path)

    def keep(commit: str) -> str:
        git.update_ref(f"refs/harness/kept/{commit[:8]}", commit)
        return f"refs/harness/kept/{commit[:8]}"

    return turn_end.come_home(git, branch=MAIN, base=base, keep=keep)


TURNS = {
    "a branch": [("checkout", "-q", "-b", "x"), ("commit", "-q", "--allow-empty", "-m", "w")],
    "no branch": [("checkout", "-q", "--detach"), ("commit", "-q", "--allow-empty", "-m", "w")],
    "the branch is gone": [("checkout", "-q", "-b", "x"), ("branch", "-q", "-D", "main")],
    "the branch is renamed": [("branch", "-m", "main", "x")],
    "an orphan": [("checkout", "-q", "--orphan", "x")],
    "an amended commit": [("commit", "-q", "--amend", "--allow-empty", "-m", "mine")],
}


@pytest.mark.parametrize("words", TURNS.values(), ids=TURNS)
def test_head_comes_home_and_no_file_changes(repo: Repo, words: list[tuple[str, ...]]) -> None:
    base = repo.head
    for each in words:
        repo.git(*each)
    repo.write("new", "work\n")
    found = come_home(repo, base)
    assert found
    assert repo.git("symbolic-ref", "HEAD") == MAIN
    assert Git(repo.path).ancestor(base, MAIN)
    assert (repo.path / "new").read_text() == "work\n"
    assert come_home(repo, base) is None  # may be repeated
    for ref in found.refs:
        assert repo.git("rev-parse", ref) not in repo.git("rev-list", "main").split()


def test_what_a_rewritten_history_kept_of_the_beginning_is_not_a_conflict(repo: Repo) -> None:
    repo.write("b", "one\n").commit("Second")
    base = repo.head
    repo.write("b", "two\n").stage().git("commit", "-q", "--amend", "--no-edit")
    assert come_home(repo, base)
    assert (repo.path / "b").read_text() == "two\n"


def test_a_file_that_git_ignores_is_not_written_over(repo: Repo) -> None:
    repo.write("b", "one\n").commit("Second")
    base = repo.head
    repo.git("reset", "-q", "--hard", "HEAD~1")
    repo.write(".git/info/exclude", "b\n").write("b", "of the turn\n")
    assert come_home(repo, base) is None
    found = turn_end.apart(Git(repo.path), base)
    assert found
    assert found.reason.endswith("history: b")
    assert (repo.path / "b").read_text() == "of the turn\n"


def test_another_repository_in_its_place_is_refused(repo: Repo) -> None:
    before, base, folder = Git(repo.path), repo.head, repo.path / ".git"
    turn_end.refuse_replaced(before, base)
    with pytest.raises(UnsafeTree, match="replaced the repository"):
        turn_end.refuse_replaced(before, "1" * 40)
    elsewhere = folder.rename(repo.path.parent / f"{repo.path.name}-moved")
    folder.write_text(f"gitdir: {elsewhere}\n")
    with pytest.raises(UnsafeTree, match="moved the repository") as moved:
        turn_end.refuse_replaced(before, base)
    assert moved.value.hint == f"rm {folder} && mv {elsewhere} {folder}"
    folder.unlink()
    with pytest.raises(UnsafeTree, match="removed the repository"):
        turn_end.refuse_replaced(before, base)


def test_an_operation_is_named_and_set_aside_with_its_files_left(repo: Repo, tmp_path_factory: object) -> None:
    repo.git("checkout", "-q", "-b", "o")
    repo.write("a", "A\n").git("commit", "-q", "-a", "-m", "A")
    repo.git("checkout", "-q", "main")
    repo.write("a", "B\n").git("commit", "-q", "-a", "-m", "B")
    git = Git(repo.path)
    assert turn_end.unfinished(git) is None
    repo.git("merge", "-q", "o", check=False)
    found = turn_end.unfinished(git)
    assert found == turn_end.Block(reason="git is in the middle of a merge", command="git merge --abort")
    assert turn_end.block(git) == found
    text = (repo.path / "a").read_text()
    turn_end.set_operation_aside(git, str(repo.path / ".git" / "aside"))
    assert turn_end.unfinished(git) is None
    assert (repo.path / "a").read_text() == text


def test_conflicts_of_a_stash_are_named(repo: Repo) -> None:
    repo.write("a", "A\n").git("stash", "-q")
    repo.write("a", "B\n").git("commit", "-q", "-a", "-m", "B")
    git = Git(repo.path)
    assert turn_end.left_unfinished(git) is None
    repo.git("stash", "pop", check=False)
    assert turn_end.unfinished(git) == turn_end.Block(
        reason="a: git has an unresolved conflict in it", command="git checkout HEAD -- a"
    )
    assert turn_end.left_unfinished(git) == "The agent left a conflict unresolved: a."


def test_other_work_trees_and_repositories_are_named(repo: Repo) -> None:
    git = Git(repo.path)
    before = turn_end.elsewhere(git)
    assert before == ()
    assert turn_end.only_here(before, before) == turn_end.left_out(before) == ""
    repo.git("worktree", "add", "-q", ".claude/one", "-b", "side")
    repo.git("worktree", "add", "-q", "--detach", str(repo.path.parent / f"{repo.path.name}-beside"))
    repo.git("init", "-q", "web")
    now = turn_end.elsewhere(git)
    outside = f"{repo.path}-beside"
    assert {(each.path, each.branch) for each in now} == {(".claude/one/", "side"), (outside, ""), ("web/", None)}
    told = turn_end.only_here(before, now)
    assert "there is work in .claude/one/, another work tree (branch side)" in told
    assert "only work in this folder counts" in told
    assert turn_end.new_elsewhere(now, now) == ()
    assert turn_end.only_here(now, now) == ""
    repo.write(".claude/one/new", "x\n")
    later = turn_end.elsewhere(git)
    assert "there is work in .claude/one/" in turn_end.only_here(now, later)
    assert "web/" not in turn_end.only_here(now, later)


def test_settings_that_changed_are_told_with_the_way_back(repo: Repo) -> None:
    git = Git(repo.path)
    before = turn_end.settings_of(git)
    repo.git("branch", "x")
    repo.git("config", "branch.x.remote", "origin")
    assert turn_end.told_settings(git, before) == []
    repo.git("config", "core.hooksPath", "/tmp/hooks")
    repo.git("config", "core.bare", "true")
    repo.write(".git/hooks/post-checkout", "#!/bin/sh\n")
    told = turn_end.told_settings(git, before)
    config = repo.path / ".git" / "config"
    assert f"core.bare is true, and was false; to undo it: git config --file {config} core.bare false" in told
    assert any("core.hookspath is /tmp/hooks, and was not set" in each and "--unset-all" in each for each in told)
    assert any("hooks/post-checkout is new; to undo it: rm " in each for each in told)
    assert turn_end.block(git) == turn_end.Block(
        reason="the setting core.bare declares this repository bare",
        command=f"git config --file {config} core.bare false",
    )
    config.write_text("[core\n")
    assert "can no longer be read by git" in turn_end.told_settings(git, before)[0]
